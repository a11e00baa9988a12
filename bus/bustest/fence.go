package bustest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
)

func fenceSpecs() []spec {
	return []spec{
		{"of many claims at once one owns a lane", oneOwner},
		{"a stale owner can neither extend nor settle, whatever the outcome", staleOwnerIsRefused},
		{"nothing that travels with a stale lease is written", staleTurnVanishes},
		{"a claim settles once", settlesOnce},
		{"a lost owner is stale after a restart too", staleAfterRestart},
		{"a turn's commit leaves all of it", commitLeavesAll},
	}
}

func oneOwner(s *suite) {
	s.publish("a", "1")
	s.publish("a", "2")
	var claims []*pending
	for range 8 {
		claims = append(claims, s.claimLater(corebot.InboundPool, 4))
	}
	owners := 0
	for _, c := range claims {
		if c.over() {
			owners += len(c.got)
		}
		c.cancel()
	}
	if owners != 1 {
		s.t.Fatalf("%d claims own the lane", owners)
	}
}

// stale returns a claim whose lease has passed to another claim.
func (s *suite) stale() (old, current corebot.Delivery) {
	s.t.Helper()
	s.publish("a", "1")
	old = s.claim("1")
	time.Sleep(lease)
	current = s.claim("1")
	if current.Epoch <= old.Epoch {
		s.t.Fatalf("the epoch went from %d to %d", old.Epoch, current.Epoch)
	}
	return old, current
}

// everyOutcome is one outcome of each verb.
func everyOutcome() []corebot.Outcome {
	return []corebot.Outcome{answered(), retryIn(0), limitedFor(0), waitFor(0), given("permanent"), deferFor(0)}
}

func staleOwnerIsRefused(s *suite) {
	old, current := s.stale()
	before := s.census()
	for _, o := range everyOutcome() {
		s.wantErr(s.bus.Settle(s.t.Context(), old, o), corebot.ErrLeaseLost)
	}
	lost, err := s.bus.Extend(s.t.Context(), []corebot.Lease{old.Lease, current.Lease})
	s.must(err)
	if len(lost) != 1 || lost[0] != old.Lease {
		s.t.Fatalf("lost %v, want %v", lost, old.Lease)
	}
	s.unchanged(before)
	s.nothingReady()
	s.settle(current, answered())
}

// turn is a result in which every part is set.
func turn(o corebot.Outcome) corebot.Result {
	return corebot.Result{
		Outcome: o, NewSession: true,
		History: []corebot.HistoryEntry{
			{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart("hello"), MessageID: "1"},
			{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart("hi"), MessageID: "1"},
		},
		Replies: []corebot.Message{reply("a", "1/1/0")},
		Spent:   []corebot.ModelUsage{{Model: "m", Usage: corebot.Usage{InputTokens: 3, OutputTokens: 4}}},
	}
}

func staleTurnVanishes(s *suite) {
	old, current := s.stale()
	s.record(current, 0)
	before, life := s.census(), s.life(current.Life)
	for _, o := range everyOutcome() {
		s.wantErr(s.Ledger.Commit(s.t.Context(), old, turn(o)), corebot.ErrLeaseLost)
	}
	event := corebot.AuditEvent{Event: "tool.result", Tool: "fs.read", Key: old.Message.Key, At: time.Now()}
	for position := range 2 { // a position with a step, and a new position
		s.wantErr(s.Ledger.Record(s.t.Context(), old, step(position), event), corebot.ErrLeaseLost)
	}
	s.unchanged(before)
	if now := s.life(current.Life); now.Usage != life.Usage || now.State != life.State || len(now.Steps) != 1 {
		s.t.Fatalf("the life changed: %+v, was %+v", now, life)
	}
}

func settlesOnce(s *suite) {
	s.publish("a", "1")
	s.publish("a", "2")
	d := s.claim("1")
	var ok atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if s.bus.Settle(s.t.Context(), d, answered()) == nil {
				ok.Add(1)
			}
		})
	}
	wg.Wait()
	if ok.Load() != 1 {
		s.t.Fatalf("the claim settled %d times", ok.Load())
	}
	s.wantErr(s.Ledger.Commit(s.t.Context(), d, turn(answered())), corebot.ErrLeaseLost)
	s.wantErr(s.Ledger.Record(s.t.Context(), d, step(0)), corebot.ErrLeaseLost)
	s.settle(s.claim("2"), answered())
}

func staleAfterRestart(s *suite) {
	s.publish("a", "1")
	old := s.claim("1")
	s.reopen()
	s.wantErr(s.bus.Settle(s.t.Context(), old, answered()), corebot.ErrLeaseLost) // nobody has claimed the lane since
	lost, err := s.bus.Extend(s.t.Context(), []corebot.Lease{old.Lease})
	s.must(err)
	if len(lost) != 1 {
		s.t.Fatal("a lease of an earlier process was extended")
	}
	d := s.claim("1")
	s.wantErr(s.bus.Settle(s.t.Context(), old, answered()), corebot.ErrLeaseLost)
	s.settle(d, answered())
}

func commitLeavesAll(s *suite) {
	s.publish("a", "1")
	d := s.claim("1")
	s.record(d, 0)
	s.must(s.Ledger.Commit(s.t.Context(), d, turn(answered())))
	if got, want := s.census(), (Census{Lanes: 2, Lives: 2, Waiting: 1, Steps: 1, History: 2}); got != want {
		s.t.Fatalf("the store has %+v, want %+v", got, want)
	}
	life := s.life(d.Life)
	if life.End != corebot.EndAnswered || life.Usage.InputTokens != 3 || life.Usage.OutputTokens != 4 ||
		life.Attempts != 1 || len(life.Replies) != 1 {
		s.t.Fatalf("the life says %+v", life)
	}
	got := s.ready(corebot.OutboundPool("test"), 1)
	if len(got) != 1 || got[0].Message.ID != "1/1/0" || got[0].Damaged != nil {
		s.t.Fatalf("the reply is %+v", got)
	}
	// The same reply, from a repeated turn, is a duplicate.
	s.publish("a", "1 again")
	again := s.claim("1 again")
	s.must(s.Ledger.Commit(s.t.Context(), again, corebot.Result{
		Outcome: answered(),
		Replies: turn(answered()).Replies,
	}))
	if c := s.census(); c.Waiting != 1 {
		s.t.Fatalf("%d messages wait, want the one reply", c.Waiting)
	}
}
