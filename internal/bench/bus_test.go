package bench

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
)

// tiny is a workload of a few milliseconds.
func tiny(t *testing.T) BusOptions {
	return BusOptions{
		Messages: 10, Chats: 4, Publishers: 4, Consumers: 4, Bytes: 16, Backlog: 60, Rounds: 2,
		Dir: t.TempDir(),
	}
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestABusReportHasTheKeysThatScriptsReadAndLeavesNothingBehind(t *testing.T) {
	o := tiny(t)
	var told []string
	o.Progress = func(line string) { told = append(told, line) }
	r, err := Bus(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	requireEmpty(t, o.Dir)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		"publish_per_s", "drain_per_s", "both_per_s", "pickup_p50_ms", "pickup_p99_ms", "backlog_publish_per_s",
		"backlog_claim_p50_ms", "empty_claim_p50_ms", "raw_insert_per_s", "fsync_p50_ms",
		"publish_cpu_ms", "drain_cpu_ms", "both_cpu_ms", "publish_of_raw", "drain_of_raw", "both_of_raw",
		"backlog_publish_of_publish", "backlog_claim_of_empty",
	} {
		if v, ok := got[key].(float64); !ok || v <= 0 {
			t.Errorf("%s is %v of %v", key, got[key], slices.Sorted(maps.Keys(got)))
		}
	}
	if got["synchronous"] != "FULL" || got["backlog"] != 60.0 || got["rounds"] != 2.0 {
		t.Errorf("the settings are %v, %v, %v", got["synchronous"], got["backlog"], got["rounds"])
	}
	if len(told) != fillSteps+2*len(phases) || !strings.Contains(told[fillSteps-1], "60 of 60") {
		t.Errorf("the progress was %q", told)
	}
	for _, f := range r.Figures {
		if want := 2; f.Unit != Bytes && len(f.Series) != want {
			t.Errorf("%s was measured %d times", f.Name, len(f.Series))
		}
	}
}

func TestAnInterruptedBusBenchSaysSoAndLeavesNothingBehind(t *testing.T) {
	interrupted := errors.New("interrupted")
	for _, at := range []string{
		"backlog: 6 of", "round 1 of 1: publish", "round 1 of 1: pick-up",
		"round 1 of 1: with",
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		o := tiny(t)
		o.Rounds, o.Progress = 1, func(line string) {
			if strings.HasPrefix(line, at) {
				cancel(interrupted)
			}
		}
		if _, err := Bus(ctx, o); !errors.Is(err, interrupted) {
			t.Errorf("at %q: got %v", at, err)
		}
		cancel(nil)
		requireEmpty(t, o.Dir)
	}
}

func TestTheHotChatHoldsHalfOfTheBacklogAndIsNeverHeldBack(t *testing.T) {
	b := filledBacklog(t)
	pools := stats(t, b.backlog)
	if pools.Lanes != 4 || pools.Leased != 1 || pools.Waiting != 1 {
		t.Errorf("%d lanes, %d leased, %d waiting", pools.Lanes, pools.Leased, pools.Waiting)
	}
	perChat := map[string]int{}
	for range 20 {
		d, err := b.backlog.claimOne(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		perChat[d.Message.Key.Chat]++
		if err := b.backlog.settle(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	// those that fall due in the same millisecond do not come by turns
	if len(perChat) != 2 || perChat[chatName(hot)] < 5 {
		t.Errorf("20 claims met %v", perChat)
	}
	messages := b.load.lopsided(0, 1_000)
	inHot := 0
	for _, m := range messages {
		if m.Key.Chat == chatName(hot) {
			inHot++
		}
	}
	if inHot != 500 {
		t.Errorf("%d of 1,000 messages go to the hot chat", inHot)
	}
}

func filledBacklog(t *testing.T) *busBench {
	t.Helper()
	o := tiny(t)
	b := &busBench{opts: o, load: newWorkload(o.Chats, o.Bytes), backlog: emptyRig(t)}
	if err := b.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

type poolFigures struct{ Depth, Lanes, Leased, Waiting int64 }

func stats(t *testing.T, r *rig) poolFigures {
	t.Helper()
	s, err := r.queue.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := s.Pools[corebot.InboundPool]
	return poolFigures{p.Depth, p.Lanes, p.Leased, p.Waiting}
}

func emptyRig(t *testing.T) *rig {
	t.Helper()
	r, err := openRig(t.Context(), t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestWhatIsPublishedIsSettledAndNothingElse(t *testing.T) {
	r, messages := emptyRig(t), newWorkload(4, 16).spread(30)
	if err := r.publish(t.Context(), messages, 3); err != nil {
		t.Fatal(err)
	}
	if got := stats(t, r).Depth; got != 30 {
		t.Errorf("%d messages were published", got)
	}
	if err := r.consume(t.Context(), 30, 3); err != nil {
		t.Fatal(err)
	}
	if got := stats(t, r).Depth; got != 0 {
		t.Errorf("%d messages are left", got)
	}
	err := r.publish(t.Context(), messages, 3)
	if err == nil || !strings.Contains(err.Error(), "duplicate") {
		t.Errorf("publishing the same messages again: %v", err)
	}
}

func TestAnErrorOfOneSideEndsTheOther(t *testing.T) {
	r, messages := emptyRig(t), newWorkload(2, 16).spread(3)
	messages[2] = messages[0] // its publisher fails, and one settle less than wanted comes
	err := r.exchange(t.Context(), messages, 1, 2)
	if err == nil || !strings.Contains(err.Error(), "duplicate") {
		t.Errorf("got %v", err)
	}
}

func TestOneChatMayHoldMoreThanTheDefaultLimit(t *testing.T) {
	const n = bus.DefaultLaneDepth + 1
	if err := emptyRig(t).publish(t.Context(), newWorkload(1, 1).spread(n), 256); err != nil {
		t.Error(err)
	}
}

func TestAConsumerThatCannotClaimEndsTheOthers(t *testing.T) {
	r, gone := emptyRig(t), errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Millisecond, func() { cancel(gone) })
	if err := r.consume(ctx, 1, 3); !errors.Is(err, gone) { // nothing waits: only the context can end it
		t.Errorf("got %v", err)
	}
}

func TestAPickUpIsTimedFromThePublishCallToTheHandler(t *testing.T) {
	began := time.Now()
	times, err := emptyRig(t).pickups(t.Context(), newWorkload(2, 16).spread(20), 3)
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, d := range times {
		if d <= 0 {
			t.Errorf("a pick-up took %v", d)
		}
		sum += d
	}
	if len(times) != 20 || sum > took {
		t.Errorf("%d pick-ups of %v together, in %v", len(times), sum, took)
	}
}

func TestIdsGrowInTheOrderOfPublishing(t *testing.T) {
	messages := newWorkload(3, 16).spread(1_000)
	ids := make([]string, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 1_000 {
		t.Error("the ids are not in order, or not different")
	}
}

func TestABacklogThatDoesNotFitIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	free := func(n int64) func(string) (int64, error) { return func(string) (int64, error) { return n, nil } }
	o := DefaultBusOptions()
	err := requireSpace("/somewhere", o.backlogBytes(), free(1<<30))
	if !errors.Is(err, corebot.ErrDiskFull) || !strings.Contains(corebot.HintOf(err), "--backlog") {
		t.Fatalf("got %v, hint %q", err, corebot.HintOf(err))
	}
	if err := requireSpace("/somewhere", o.backlogBytes(), free(o.backlogBytes())); err != nil {
		t.Errorf("just enough: %v", err)
	}
	big := tiny(t)
	big.Backlog, big.Bytes = maxMessages, 1<<20 // a hundred terabytes
	if _, err := Bus(t.Context(), big); !errors.Is(err, corebot.ErrDiskFull) {
		t.Errorf("got %v", err)
	}
	requireEmpty(t, big.Dir)
}

func TestTheSpaceForABacklogIsNotUnderestimated(t *testing.T) {
	r, o := emptyRig(t), BusOptions{Chats: 10, Bytes: 512, Backlog: 1_000}
	b := &busBench{opts: o, load: newWorkload(o.Chats, o.Bytes), backlog: r}
	if err := b.fillPart(t.Context(), 0, o.Backlog); err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, name := range []string{"corebot.db", "corebot.db-wal"} {
		if info, err := os.Stat(filepath.Join(r.dir, name)); err == nil {
			size = max(size, info.Size()) // the log is cut back; the database has each page once
		}
	}
	if estimate := o.backlogBytes() - spareBytes; size > estimate {
		t.Errorf("the database has %d bytes, the estimate is %d", size, estimate)
	}
}

func TestOptionsThatCannotBeMeasuredAreNamedAsFlags(t *testing.T) {
	if err := DefaultBusOptions().Validate(); err != nil {
		t.Error(err)
	}
	for flag, change := range map[string]func(*BusOptions){
		"--messages 0":   func(o *BusOptions) { o.Messages = 0 },
		"--chats 1":      func(o *BusOptions) { o.Chats = 1 },
		"--publishers 0": func(o *BusOptions) { o.Publishers = 0 },
		"--consumers -1": func(o *BusOptions) { o.Consumers = -1 },
		"--bytes 0":      func(o *BusOptions) { o.Bytes = 0 },
		"--bytes 104857": func(o *BusOptions) { o.Bytes = 1_048_577 },
		"--backlog 1999": func(o *BusOptions) { o.Backlog = 1_999 },
		"--rounds 0":     func(o *BusOptions) { o.Rounds = 0 },
	} {
		o := DefaultBusOptions()
		change(&o)
		_, err := Bus(t.Context(), o)
		if err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: got %v", flag, err)
		}
	}
}

func TestADirectoryThatIsNotThereIsAnErrorWithAHint(t *testing.T) {
	o := tiny(t)
	o.Dir += "/missing"
	if _, err := Bus(t.Context(), o); !errors.Is(err, os.ErrNotExist) || corebot.HintOf(err) == "" {
		t.Errorf("got %v, hint %q", err, corebot.HintOf(err))
	}
}
