package storagetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent"
)

// Journal is what a turn writes while it goes on. It guarantees:
//
//   - Steps come back whole, once each and in the order of their positions, also after a restart.
//   - A step that is recorded again advances, and is there once.
//   - Another step in a place that is taken is refused, and nothing of it is stored.
//   - The use of an answer is booked once, however often its step is recorded.
//   - A run that goes on after a failure, a crash or a replay books nothing of its journal again.
//   - An effect, its step and its audit event are one commit.
//   - An effect that a rule of the data forbids is refused and leaves nothing.
//   - A role is taken away where it holds.
//   - An effect that the caller may not make ends its call as denied, and the denial is stored.
type Journal interface {
	agent.Journal
	Learn(ctx context.Context, d corebot.Delivery, step corebot.Step, facts []corebot.Fact) error
}

func journalSpecs() []spec {
	return []spec{
		{"Steps come back whole, once each and in the order of their positions, also after a restart.", stepsComeBack},
		{"A step that is recorded again advances, and is there once.", stepAdvances},
		{"Another step in a place that is taken is refused, and nothing of it is stored.", otherStepIsRefused},
		{"The use of an answer is booked once, however often its step is recorded.", useIsBookedOnce},
		{
			"A run that goes on after a failure, a crash or a replay books nothing of its journal again.",
			resumedRunBooksNothing,
		},
		{"An effect, its step and its audit event are one commit.", effectIsOneCommit},
		{"An effect that a rule of the data forbids is refused and leaves nothing.", refusedEffectLeavesNothing},
		{"A role is taken away where it holds.", roleIsTakenWhereItHolds},
		{
			"An effect that the caller may not make ends its call as denied, and the denial is stored.",
			deniedEffectIsStored,
		},
	}
}

// record writes a step of a claim.
func (s *suite) record(d corebot.Delivery, step corebot.Step, events ...corebot.AuditEvent) {
	s.t.Helper()
	s.must(s.Journal.Record(s.ctx(), d, step, events...))
}

// toolStep is a call with an argument.
func toolStep(position int, arg string, state corebot.StepState) corebot.Step {
	s := corebot.Step{
		Position: position, Kind: corebot.StepTool, State: state,
		Call: &corebot.ToolCall{ID: "c", Tool: "a.tool", Args: fmt.Appendf(nil, `{"arg":%q}`, arg)},
	}
	if state == corebot.StepDone {
		s.Result = &corebot.ToolResult{Outcome: corebot.OutcomeSuccess, Content: "result of " + arg, Outside: true}
	}
	return s
}

// modelStep is an answer and what it used.
func modelStep(position int, u corebot.ModelUsage) corebot.Step {
	return corebot.Step{
		Position: position, Kind: corebot.StepModel, State: corebot.StepDone,
		Answer: &corebot.Answer{
			Model: u.Model, Usage: u.Usage, Calls: []corebot.ToolCall{{
				ID: "c", Tool: "a.tool",
				Args: []byte("no JSON"),
			}},
		},
	}
}

func summaryStep(position int) corebot.Step {
	s := modelStep(position, spent("m", 100, 10))
	s.Kind = corebot.StepSummary
	s.Answer.Calls = nil
	return s
}

func stepsComeBack(s *suite) {
	want := []corebot.Step{
		modelStep(0, spent("m", 1, 1)),
		toolStep(1, "x", corebot.StepDone),
		toolStep(2, "y", corebot.StepIntended),
		summaryStep(3),
		{Position: 4, Kind: corebot.StepPart, State: corebot.StepDone, Sent: &corebot.Sent{From: 1, To: 9}},
	}
	d := s.begin(key("a"), "1")
	for _, i := range []int{0, 2, 1, 4, 3} {
		s.record(d, want[i])
	}
	if err := s.Journal.Record(s.ctx(), d, corebot.Step{Position: 5, Kind: "no such kind"}); err == nil {
		s.t.Error("a step of no kind was recorded")
	}
	s.reopen()
	d = s.claim()
	for i := range d.Journal {
		d.Journal[i].StartedAt, d.Journal[i].EndedAt = want[i].StartedAt, want[i].EndedAt
	}
	s.equal("the journal", d.Journal, want)
}

func stepAdvances(s *suite) {
	d := s.begin(key("a"), "1")
	s.record(d, toolStep(0, "x", corebot.StepIntended))
	for range 2 {
		s.record(d, toolStep(0, "x", corebot.StepDone))
	}
	steps := s.life(d.Life).Steps
	if len(steps) != 1 || steps[0].State != corebot.StepDone || steps[0].Result == nil {
		s.t.Fatalf("the journal is %+v", steps)
	}
}

func otherStepIsRefused(s *suite) {
	d := s.begin(key("a"), "1")
	s.record(d, toolStep(0, "x", corebot.StepIntended))
	before := s.seen(d)
	event := corebot.AuditEvent{Event: "tool.result", Tool: "a.tool", Key: key("a")}
	for what, other := range map[string]corebot.Step{
		"another argument": toolStep(0, "y", corebot.StepDone), "another kind": modelStep(0, spent("m", 1, 1)),
	} {
		if err := s.Journal.Record(s.ctx(), d, other, event); !errors.Is(err, corebot.ErrDiverged) {
			s.t.Errorf("%s: %v", what, err)
		}
	}
	if after := s.seen(d); after != before {
		s.t.Fatalf("the refused steps left something:\n got %s\nwas %s", after, before)
	}
	s.record(d, toolStep(0, "x", corebot.StepDone))
}

func useIsBookedOnce(s *suite) {
	d := s.begin(key("a"), "1")
	answer := modelStep(0, spent("m", 100, 10))
	answer.Answer.Failed = []corebot.ModelUsage{spent("free", 3, 4)}
	for range 3 {
		s.record(d, answer)
		s.must(s.Journal.Summarize(s.ctx(), d, summaryStep(1), corebot.Summary{Session: 1, Through: 1}))
	}
	want := corebot.UsageTotals{InputTokens: 203, OutputTokens: 24, Cost: 240, UnpricedTokens: 7}
	s.equal("the use of the day", s.use(corebot.UsageFilter{}), want)
	if life := s.life(d.Life); life.Usage.InputTokens != 203 || life.Usage.OutputTokens != 24 || life.Cost != 240 ||
		life.UnpricedTokens != 7 {
		s.t.Errorf("the life has %+v, cost %d, unpriced %d", life.Usage, life.Cost, life.UnpricedTokens)
	}
}

func resumedRunBooksNothing(s *suite) {
	d := s.begin(key("a"), "1")
	s.record(d, modelStep(0, spent("m", 100, 10)))
	s.commit(d, corebot.Result{Outcome: retry(), Spent: []corebot.ModelUsage{spent("m", 1, 0)}})
	s.resume()
	s.reopen()
	s.commit(s.resume(), corebot.Result{Outcome: deadLettered()})
	s.must(s.Letters.Replay(s.ctx(), d.Life, false))
	s.commit(s.resume(), corebot.Result{Outcome: answered(), Spent: []corebot.ModelUsage{spent("m", 20, 0)}})
	s.equal("the use of the day", s.use(corebot.UsageFilter{}),
		corebot.UsageTotals{Turns: 1, InputTokens: 121, OutputTokens: 10, Cost: 141})
	if life := s.life(d.Life); life.Usage.InputTokens != 121 || life.Usage.OutputTokens != 10 {
		s.t.Errorf("the life has %+v", life.Usage)
	}
}

// resume claims a message whose journal has one step, and records that step again.
func (s *suite) resume() corebot.Delivery {
	s.t.Helper()
	d := s.claim()
	if len(d.Journal) != 1 {
		s.t.Fatalf("the journal is %+v", d.Journal)
	}
	s.record(d, d.Journal[0])
	return d
}

func effectIsOneCommit(s *suite) {
	d := s.begin(key("a"), "1")
	event := callBy(person("ann"))
	event.Event, event.Outcome = "tool.result", corebot.OutcomeSuccess
	s.must(s.Journal.Apply(s.ctx(), d, toolStep(0, "x", corebot.StepDone), corebot.RegisterChat{Chat: key("b")}, event))
	s.reopen()
	if chat, err := s.Chats(operator()).Chat(s.ctx(), key("b")); err != nil || !chat.Registered {
		s.t.Errorf("the chat is %+v, %v", chat, err)
	}
	if steps := s.claim().Journal; len(steps) != 1 || steps[0].State != corebot.StepDone {
		s.t.Errorf("the journal is %+v", steps)
	}
	s.wantEvents("chat.register", "tool.result")
}

func refusedEffectLeavesNothing(s *suite) {
	s.grant(corebot.Grant{Principal: person("bob"), Role: corebot.RoleAdmin, Chat: key("a")})
	d := s.begin(key("a"), "1")
	before := s.seen(d)
	for _, e := range []corebot.Effect{
		corebot.ReplayDeadLetter{ID: d.Life + 1000},
		corebot.SendMessage{To: key("nobody"), Text: "hi", Known: true},
		corebot.GrantRole{Principal: person("ann"), Role: "root"},
		corebot.GrantRole{Principal: person("nobody"), Role: corebot.RoleNormal},
		corebot.GrantRole{Principal: person("bob"), Role: corebot.RoleNormal},
		corebot.GrantRole{Principal: person("bob"), Role: corebot.RoleNormal, Chat: key("elsewhere")},
	} {
		err := s.Journal.Apply(s.ctx(), d, toolStep(0, "x", corebot.StepDone), e, callBy(person("ann")))
		if refused := (*corebot.Refused)(nil); !errors.As(err, &refused) {
			s.t.Errorf("%T: %v", e, err)
		}
	}
	if after := s.seen(d); after != before {
		s.t.Fatalf("the refused effects left something:\n got %s\nwas %s", after, before)
	}
}

// roleIsTakenWhereItHolds: an admin everywhere becomes normal in one chat, and an admin of one chat there. Each can be
// told twice.
func roleIsTakenWhereItHolds(s *suite) {
	ann, bob := person("ann"), person("bob")
	s.grant(corebot.Grant{Principal: person("other"), Role: corebot.RoleAdmin})
	s.grant(corebot.Grant{Principal: ann, Role: corebot.RoleAdmin})
	s.grant(corebot.Grant{Principal: bob, Role: corebot.RoleAdmin, Chat: key("a")})
	d := s.begin(key("a"), "1")
	thread := key("a")
	thread.Thread = "t"
	for i, e := range []corebot.GrantRole{
		{Principal: ann, Role: corebot.RoleNormal, Chat: key("a")},
		{Principal: bob, Role: corebot.RoleNormal, Chat: thread},
		{Principal: bob, Role: corebot.RoleNormal, Chat: key("a")},
		{Principal: bob, Role: corebot.RoleNormal, Chat: key("a")},
	} {
		s.must(s.Journal.Apply(s.ctx(), d, toolStep(i, "x", corebot.StepDone), e, callBy(person("other"))))
	}
	s.wantRole(ann, key("a"), corebot.RoleNormal)
	s.wantRole(ann, corebot.Key{}, corebot.RoleAdmin)
	s.wantRole(bob, key("a"), corebot.RoleNormal)
}

func deniedEffectIsStored(s *suite) {
	ann := person("ann")
	s.grant(corebot.Grant{Principal: ann, Role: corebot.RoleAdmin})
	d := s.begin(key("a"), "1")
	event := callBy(ann)
	event.Event, event.Outcome = "tool.result", corebot.OutcomeSuccess
	err := s.Journal.Apply(s.ctx(), d, toolStep(0, "x", corebot.StepDone),
		corebot.GrantRole{Principal: ann, Role: corebot.RoleNormal}, event)
	denied := (*corebot.Denied)(nil)
	if !errors.As(err, &denied) || denied.Rule != "last-admin" {
		s.t.Fatalf("the error is %v", err)
	}
	if steps := s.life(d.Life).Steps; len(steps) != 1 || steps[0].Result == nil ||
		steps[0].Result.Outcome != corebot.OutcomeDenied {
		s.t.Errorf("the journal is %s", s.spell(steps))
	}
	all := s.events()
	if last := all[len(all)-1]; last.Event != "tool.result" || last.Outcome != corebot.OutcomeDenied ||
		last.Rule != "last-admin" {
		s.t.Errorf("the audit is %+v", all)
	}
	s.wantRole(ann, corebot.Key{}, corebot.RoleAdmin)
}
