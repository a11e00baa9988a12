package slo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/observability/slo"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
)

// bench is a Corebot whose answers a test can slow down, and a monitor of them.
type bench struct {
	*apptest.Kit
	t        *testing.T
	messages int
	registry *prometheus.Registry
	stop     func()

	mu     sync.Mutex
	posts  []post
	refuse error // what the operator's program answers
	hangs  time.Duration
}

type post struct{ id, state, text string }

const (
	within   = time.Minute
	coolDown = 5 * time.Minute
)

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, stop: func() {}}
	model := apptest.Always(func(ctx context.Context, r llm.Request, on func(string)) (corebot.Answer, error) {
		if strings.Contains(r.Messages[len(r.Messages)-1].Text, "slow") {
			return apptest.After(2*within, apptest.Text("late"))(ctx, r, on)
		}
		return apptest.Text("here")(ctx, r, on)
	})
	b.Kit = apptest.New(t, apptest.Options{Model: model, Router: router.Options{Workers: 16}}).Start()
	b.watch(coolDown)
	return b
}

// watch begins to watch, as after a start of the program.
func (b *bench) watch(rest time.Duration) *slo.Monitor {
	b.t.Helper()
	b.stop()
	b.registry = prometheus.NewRegistry()
	m, err := slo.New(storage.NewObjectives(b.DB, storage.ObjectiveOptions{Answered: within}), slo.Options{
		Goals:    []slo.Goal{{Objective: corebot.ObjectiveAnswered, Share: 0.99, Within: within}},
		LeastBad: 3, CoolDown: rest, Chat: apptest.Key("admins"), Post: b.post, Log: zerolog.Nop(),
		Metrics: b.registry,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = m.Run(ctx) }()
	b.stop = sync.OnceFunc(func() { cancel(); <-done })
	b.t.Cleanup(b.stop)
	return m
}

func (b *bench) post(ctx context.Context, id string, body []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var p struct{ ID, State, Text string }
	if err := json.Unmarshal(body, &p); err != nil || p.ID != id {
		b.t.Errorf("posted %s as %s: %v", body, id, err)
	}
	if p.State == "firing" && !b.sounds(slo.Ticket) {
		b.t.Errorf("%s is posted, and the metrics do not show it yet", id)
	}
	b.posts = append(b.posts, post{id, p.State, p.Text})
	refuse, hangs := b.refuse, b.hangs
	b.mu.Unlock()
	select {
	case <-time.After(hangs):
	case <-ctx.Done():
	}
	b.mu.Lock()
	return refuse
}

// say has messages sent for some minutes, three a minute, each in a chat of its own.
func (b *bench) say(minutes int, text string) {
	b.t.Helper()
	for range 3 * minutes {
		b.messages++
		id := fmt.Sprint("m", b.messages)
		b.Say(id, id, text)
		time.Sleep(20 * time.Second)
	}
}

// told are the notices in the chat of the admins, oldest first.
func (b *bench) told() (texts []string) {
	b.t.Helper()
	k := apptest.Key("admins")
	queue := storage.NewQueue(b.DB)
	for {
		ctx, stop := context.WithTimeout(b.t.Context(), time.Millisecond)
		ds, err := queue.Claim(ctx, corebot.OutboundPool(k.Channel), 100, corebot.ClaimOptions{Lease: time.Minute})
		stop()
		if err != nil || len(ds) == 0 {
			return texts
		}
		for _, d := range ds {
			if d.Message.Key == k {
				texts = append(texts, d.Message.Text())
			}
			err := queue.Settle(b.t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent})
			if err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

func (b *bench) states() (states []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.posts {
		states = append(states, p.state)
	}
	return states
}

// sounds says whether the page or the ticket sounds, as the metrics show it.
func (b *bench) sounds(severity slo.Severity) bool {
	b.t.Helper()
	got, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range got {
		if f.GetName() == "corebot_slo_alarm" {
			value := f.GetMetric()[0].GetGauge().GetValue()
			return value == 2 || severity == slo.Ticket && value == 1
		}
	}
	b.t.Fatal("there is no alarm")
	return false
}

// TestAnObjectiveThatIsMissedIsToldOnceAndSoIsItsRecovery lets answers be late for twelve minutes.
func TestAnObjectiveThatIsMissedIsToldOnceAndSoIsItsRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.say(10, "quick")
		if b.sounds(slo.Page) || b.sounds(slo.Ticket) || len(b.told()) > 0 {
			t.Fatal("an alarm sounds while everything is answered")
		}
		b.say(12, "slow")
		if !b.sounds(slo.Page) || !b.sounds(slo.Ticket) {
			t.Fatal("no alarm sounds")
		}
		told := b.told()
		if len(told) != 2 || !strings.Contains(told[0], "answered too late or not at all: ") ||
			!strings.Contains(told[0]+told[1], "in the last hour (objective: 99 % within 1m0s)") ||
			!strings.Contains(told[0]+told[1], "in the last 6 hours") {
			t.Errorf("the admins were told %q", told)
		}
		b.watch(coolDown) // a restart says nothing twice
		time.Sleep(2 * time.Minute)
		if !b.sounds(slo.Page) {
			t.Error("a restart ends the alarm")
		}
		b.say(20, "quick")
		if b.sounds(slo.Page) {
			t.Error("the alarm sounds after twenty minutes of answers in time")
		}
		b.say(40, "quick")
		if told = b.told(); len(told) != 2 || !strings.Contains(told[0], "answered in time again") ||
			!strings.Contains(told[0], "minutes") {
			t.Errorf("the admins were told %q", told)
		}
		want := []string{"firing", "firing", "resolved", "resolved"}
		if got := b.states(); !slices.Equal(got, want) {
			t.Errorf("posted %v, want %v", got, want)
		}
	})
}

// TestAnAlarmThatComesAndGoesIsToldOncePerCoolDown: the metrics show it at once all the same.
func TestAnAlarmThatComesAndGoesIsToldOncePerCoolDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.watch(3 * time.Hour)
		for range 3 {
			b.say(12, "slow")
			if !b.sounds(slo.Page) {
				t.Error("the alarm does not sound")
			}
			b.say(20, "quick")
		}
		pages := 0
		for _, text := range b.told() {
			if strings.Contains(text, "last hour") {
				pages++
			}
		}
		if pages != 1 {
			t.Errorf("told %d times", pages)
		}
		b.say(100, "slow") // still too slow when the cool-down is over
		told := b.told()
		if !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, "last hour") }) {
			t.Errorf("an alarm that goes on was never told: %q", told)
		}
	})
}

// TestAFewLateAnswersOfABotThatNobodyTalksToWakeNobody: two of three are a large share.
func TestAFewLateAnswersOfABotThatNobodyTalksToWakeNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		time.Sleep(2 * time.Minute) // older messages are not counted
		for _, text := range []string{"quick", "slow", "slow"} {
			b.messages++
			b.Say(text, fmt.Sprint("few", b.messages), text)
		}
		time.Sleep(3 * time.Minute)
		if b.sounds(slo.Page) || b.sounds(slo.Ticket) {
			t.Error("an alarm sounds")
		}
	})
}

// TestAPostThatFailsIsMadeAgainUnderItsID until it is taken, or a later one takes its place.
func TestAPostThatFailsIsMadeAgainUnderItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.refuse = &corebot.Failure{Class: corebot.Transient, Err: errors.New("not now")}
		b.say(12, "slow")
		b.watch(time.Hour)
		time.Sleep(3 * time.Minute)
		b.mu.Lock()
		tries := map[string]int{}
		for _, p := range b.posts {
			tries[p.id]++
		}
		b.refuse = nil
		b.mu.Unlock()
		if len(tries) != 2 {
			t.Fatalf("%v were posted, want two alarms", tries)
		}
		time.Sleep(5 * time.Minute)
		b.mu.Lock()
		defer b.mu.Unlock()
		again := map[string]int{}
		for _, p := range b.posts {
			again[p.id]++
		}
		for id, n := range tries {
			if n < 3 || again[id] != n+1 {
				t.Errorf("%s was posted %d times, and %d times in all", id, n, again[id])
			}
		}
	})
}

// TestAPostThatIsRefusedForGoodIsNotMadeAgain: the address is wrong, and the log says so.
func TestAPostThatIsRefusedForGoodIsNotMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.refuse = &corebot.Failure{Class: corebot.Permanent, Err: errors.New("no such page")}
		b.say(15, "slow")
		if got := b.states(); len(got) != 2 {
			t.Errorf("posted %v", got)
		}
	})
}

// TestAnAddressThatHangsHoldsUpNoJudgement: all posts hang at the same time, after every alarm was judged.
func TestAnAddressThatHangsHoldsUpNoJudgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.stop()
		time.Sleep(time.Second)
		b.mu.Lock()
		b.refuse, b.hangs = &corebot.Failure{Class: corebot.Transient, Err: errors.New("not now")}, 15*time.Second
		b.mu.Unlock()
		store := storage.NewObjectives(b.DB, storage.ObjectiveOptions{Answered: within})
		bad := map[corebot.Objective]corebot.Kept{}
		goals := []slo.Goal{}
		for _, o := range corebot.Objectives() {
			bad[o], goals = corebot.Kept{Bad: 9}, append(goals, slo.Goal{Objective: o, Share: 0.99, Within: within})
		}
		if err := store.Add(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		b.registry = prometheus.NewRegistry()
		m, err := slo.New(store, slo.Options{
			Goals: goals, LeastBad: 3, Post: b.post, Log: zerolog.Nop(), Metrics: b.registry,
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = m.Run(t.Context()) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, s := range m.Standings() {
			if len(s.Alarms) != 2 {
				t.Errorf("%s: %v sound while the address hangs", s.Objective, s.Alarms)
			}
		}
		if got := b.states(); len(got) != 8 {
			t.Errorf("%d of 8 alarms are being posted", len(got))
		}
	})
}

// uncounted is a store in which messages cannot be counted.
type uncounted struct{ *storage.Objectives }

func (uncounted) Count(context.Context) error { return errors.New("damaged") }

// TestAnObjectiveThatCannotBeCountedHoldsUpNoOther: its table is damaged, and messages are refused all the same.
func TestAnObjectiveThatCannotBeCountedHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{})
		m, err := slo.New(uncounted{storage.NewObjectives(k.DB, storage.ObjectiveOptions{})}, slo.Options{
			Goals:    []slo.Goal{{Objective: corebot.ObjectiveAccepted, Share: 0.999, Within: time.Second}},
			LeastBad: 1, Log: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = m.Run(t.Context()) }()
		m.Accepted(0, true)
		time.Sleep(time.Minute + 1)
		synctest.Wait()
		if s := m.Standings(); len(s) != 1 || len(s[0].Alarms) != 2 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestTheAlarmOfAnObjectiveThatIsSwitchedOffEnds, also if nothing else is watched. Otherwise it would sound for ever
// at its readers.
func TestTheAlarmOfAnObjectiveThatIsSwitchedOffEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.say(12, "slow")
		b.told()
		b.stop()
		store := storage.NewObjectives(b.DB, storage.ObjectiveOptions{})
		off, err := slo.New(store, slo.Options{Chat: apptest.Key("admins"), Post: b.post, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = off.Run(t.Context()) }()
		time.Sleep(5 * time.Minute)
		const want = "The objective answered is not watched any more, because slo.answered is 0. Its alarm (page) ends."
		if told := b.told(); len(told) != 2 || !slices.Contains(told, want) {
			t.Errorf("the admins were told %q", told)
		}
		if got := b.states(); !slices.Equal(got, []string{"firing", "firing", "resolved", "resolved"}) {
			t.Errorf("posted %v", got)
		}
		alarms, err := store.Alarms(t.Context())
		if err != nil || len(alarms) != 2 {
			t.Fatal(alarms, err)
		}
		for _, a := range alarms {
			if a.Told || !a.Since.IsZero() || a.Post != "" {
				t.Errorf("left is %+v", a)
			}
		}
	})
}

func TestWhatIsOfferedIsCountedByItsTimeAndItsRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := apptest.New(t, apptest.Options{})
		store := storage.NewObjectives(k.DB, storage.ObjectiveOptions{})
		m, err := slo.New(store, slo.Options{
			Goals: []slo.Goal{{Objective: corebot.ObjectiveAccepted, Share: 0.999, Within: time.Second}},
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = m.Run(t.Context()) }()
		m.Accepted(time.Second, false)
		m.Accepted(time.Second+1, false)
		m.Accepted(0, true)
		time.Sleep(time.Minute + 1)
		synctest.Wait()
		if s := m.Standings(); len(s) != 1 || s[0].Good != 1 || s[0].Bad != 2 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestAnObjectiveThatCannotBeJudgedIsRefused(t *testing.T) {
	for _, g := range []slo.Goal{
		{Objective: "other", Share: 0.99, Within: 1},
		{Objective: corebot.ObjectiveTasks, Share: 1, Within: 1},
		{Objective: corebot.ObjectiveTasks, Share: 0.5, Within: 1},
		{Objective: corebot.ObjectiveTasks, Share: 0.99},
	} {
		if _, err := slo.New(nil, slo.Options{Goals: []slo.Goal{g}}); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

func TestTheGaugesAreWellFormed(t *testing.T) {
	r := prometheus.NewRegistry()
	_, err := slo.New(nil, slo.Options{
		Goals:   []slo.Goal{{Objective: corebot.ObjectiveTasks, Share: 0.99, Within: 1}},
		Metrics: r,
	})
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if n, err := testutil.GatherAndCount(r); err != nil || n != 3 {
		t.Errorf("%d series, %v", n, err)
	}
}
