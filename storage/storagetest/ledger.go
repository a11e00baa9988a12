package storagetest

import (
	"context"
	"errors"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/router"
)

// Ledger is how turns end. It guarantees:
//
//   - A commit leaves all of a turn: the outcome, the history, the replies, the use and the refusal.
//   - A commit that fails leaves nothing of its turn, and the claim is still held.
//   - A worker that lost its lease changes nothing anywhere.
//   - A second commit of a claim is told that the claim was settled, and changes nothing.
//   - An answered message gives no worker anything to run, also after a restart.
//   - Somebody else who has spoken in the session is found, and nobody who spoke only before.
type Ledger interface {
	router.Ledger
	Commit(ctx context.Context, d corebot.Delivery, r corebot.Result) error
}

func ledgerSpecs() []spec {
	return []spec{
		{
			"A commit leaves all of a turn: the outcome, the history, the replies, the use and the refusal.",
			commitLeavesAll,
		},
		{"A commit that fails leaves nothing of its turn, and the claim is still held.", commitIsAllOrNothing},
		{"A worker that lost its lease changes nothing anywhere.", staleWorkerChangesNothing},
		{"A second commit of a claim is told that the claim was settled, and changes nothing.", secondCommitIsTold},
		{"An answered message gives no worker anything to run, also after a restart.", answeredIsOver},
		{"Somebody else who has spoken in the session is found, and nobody who spoke only before.", anotherIsFound},
	}
}

// everything is a result that leaves something of each kind.
func everything(k corebot.Key) corebot.Result {
	return corebot.Result{
		Outcome: answered(), Model: "m", History: said("hello"),
		Replies: []corebot.Message{
			outbound(k, corebot.KindReply, "first", "one"), outbound(k, corebot.KindReply, "second", "two"),
		},
		Spent:   []corebot.ModelUsage{spent("m", 100, 10)},
		Command: corebot.AuditEvent{Event: "tool.result", Tool: "/command", Key: k, Outcome: corebot.OutcomeDenied},
	}
}

func commitLeavesAll(s *suite) {
	d := s.begin(key("a"), "1")
	s.commit(d, everything(key("a")))
	life := s.life(d.Life)
	if life.End != corebot.EndAnswered || life.Model != "m" || life.Usage.InputTokens != 100 || len(life.Replies) != 2 {
		s.t.Errorf("the life is %+v", life)
	}
	for _, want := range []string{"one", "two"} {
		out, found := s.due(corebot.OutboundPool("test"))
		if !found || out.Message.Text() != want {
			s.t.Fatalf("outbound is %+v, want %s", out.Message, want)
		}
		s.must(s.Queue.Settle(s.ctx(), out, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
	}
	s.equal("the history", s.recalled(key("a")), []string{"hello"})
	want := corebot.UsageTotals{Turns: 1, InputTokens: 100, OutputTokens: 10, Cost: 120}
	s.equal("the use", s.use(corebot.UsageFilter{}), want)
	s.wantEvents("tool.result")
}

func commitIsAllOrNothing(s *suite) {
	s.publish(outbound(key("a"), corebot.KindReply, "second", "another text under the same id"))
	d := s.begin(key("a"), "1")
	before := s.seen(d)
	s.wantErr(s.Ledger.Commit(s.ctx(), d, everything(key("a"))), corebot.ErrConflict)
	if after := s.seen(d); after != before {
		s.t.Fatalf("the commit that failed left something:\n got %s\nwas %s", after, before)
	}
	s.commit(d, corebot.Result{Outcome: answered()})
}

func staleWorkerChangesNothing(s *suite) {
	k := key("a")
	s.turn(k, "0", corebot.Result{History: said("before")})
	stale := s.begin(k, "1")
	s.record(stale, toolStep(0, "x", corebot.StepIntended))
	_, err := s.Ledger.Steer(s.ctx(), prompt(k, "2"), stale.Life, corebot.AuditEvent{},
		func(bool) *corebot.Message { return nil })
	s.must(err)
	current := s.steal(stale)
	before := s.seen(current)
	done, event := toolStep(0, "x", corebot.StepDone),
		corebot.AuditEvent{Event: "tool.result", Tool: "a.tool", Key: k, Principal: person("ann")}
	awaiting := toolStep(1, "y", corebot.StepAwaiting)
	_, asked := s.Journal.Ask(s.ctx(), stale, awaiting, []corebot.NewApproval{s.ask(1, 1, "y")})
	_, merged := s.Journal.Merge(s.ctx(), stale, 1)
	_, waited := s.waitAt(stale, 1, pending(corebot.WaitWord, corebot.WaitAwaited))
	for what, err := range map[string]error{
		"Record":  s.Journal.Record(s.ctx(), stale, done, event),
		"a model": s.Journal.Record(s.ctx(), stale, modelStep(1, spent("m", 1, 1))),
		"Apply":   s.Journal.Apply(s.ctx(), stale, done, corebot.RegisterChat{Chat: k}, event),
		"Summarize": s.Journal.Summarize(s.ctx(), stale, summaryStep(1),
			corebot.Summary{Session: 1, Through: 1, Text: "stale"}),
		"Commit": s.Ledger.Commit(s.ctx(), stale, everything(k)),
		"Ask":    asked,
		"Wait":   waited,
		"Merge":  merged,
	} {
		if !errors.Is(err, corebot.ErrLeaseLost) {
			s.t.Errorf("%s: %v", what, err)
		}
	}
	if after := s.seen(current); after != before {
		s.t.Fatalf("the stale worker left something:\n got %s\nwas %s", after, before)
	}
	s.commit(current, everything(k))
}

func secondCommitIsTold(s *suite) {
	d := s.turn(key("a"), "1", everything(key("a")))
	before := s.seen(d)
	s.wantErr(s.Ledger.Commit(s.ctx(), d, everything(key("a"))), corebot.ErrSettled)
	s.wantErr(s.Journal.Record(s.ctx(), d, toolStep(0, "x", corebot.StepDone)), corebot.ErrSettled)
	if after := s.seen(d); after != before {
		s.t.Fatalf("the second commit left something:\n got %s\nwas %s", after, before)
	}
}

func answeredIsOver(s *suite) {
	d := s.begin(key("a"), "1")
	s.record(d, toolStep(0, "x", corebot.StepDone))
	s.commit(d, corebot.Result{Outcome: answered()})
	s.nothingDue()
	s.reopen()
	s.nothingDue()
	r, err := s.Queue.Publish(s.ctx(), []corebot.Message{prompt(key("a"), "1")}, corebot.Limits{})
	s.must(err)
	if !r[0].Duplicate || r[0].Life != d.Life {
		s.t.Fatalf("published again it is %+v", r[0])
	}
	s.nothingDue()
}

func anotherIsFound(s *suite) {
	bob := said("hi")
	bob[0].Sender = person("bob")
	s.turn(key("a"), "1", corebot.Result{History: bob})
	s.turn(key("b"), "2", corebot.Result{History: said("hello")})
	want := func(p corebot.Principal, found bool) {
		s.t.Helper()
		other, is, err := s.Ledger.Another(s.ctx(), key("a"), p)
		if err != nil || is != found || found && other != person("bob") {
			s.t.Errorf("beside %s there is %s (%v), %v", p.ID, other, is, err)
		}
	}
	want(person("ann"), true)
	want(person("bob"), false)
	s.turn(key("a"), "3", corebot.Result{History: said("hello"), BeginsSession: true})
	want(person("ann"), false)
}
