package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/router"
)

// Approvals are the calls that wait for an admin. They are asked for by the [Journal]. They guarantee:
//
//   - A call is asked for once, with its step and its audit event, and its binding comes back exactly.
//   - An answer has one request, and no call can be added to it.
//   - The calls of a request are resolved together, by the number of any of them.
//   - A request is resolved once, and whoever comes later is told how.
//   - A resolution wakes the lane of its message, also one that comes before the lane waits.
//   - A request expires as a whole when its time is over, and not before.
//   - A call that has changed since it was approved is asked for anew, and its approval is void.
//   - An approval says that its call was begun, or is void and says why the call is never made.
//   - A message that ends leaves no call waiting, and a replay of it asks anew.
//   - A request is detached when its answer has waited long enough; its approval begins the turn of its calls.
//   - A lane has one detached request, and the next message of its sender gives it up.
//   - A command decides once, in one commit with its notice.
//   - A command that is denied resolves nothing and leaves its audit event.
//   - A number that is not known, and a decision that contradicts itself, resolve nothing.
type Approvals interface {
	router.Approvals
	operate.Approvals
	Awaited(ctx context.Context, limit int) ([]corebot.Approval, error)
}

func approvalSpecs() []spec {
	return []spec{
		{
			"A call is asked for once, with its step and its audit event, and its binding comes back exactly.",
			callIsAskedOnce,
		},
		{"An answer has one request, and no call can be added to it.", answerHasOneRequest},
		{"The calls of a request are resolved together, by the number of any of them.", requestIsResolvedWhole},
		{"A request is resolved once, and whoever comes later is told how.", requestIsResolvedOnce},
		{"A resolution wakes the lane of its message, also one that comes before the lane waits.", resolutionWakes},
		{"A request expires as a whole when its time is over, and not before.", requestExpires},
		{
			"A call that has changed since it was approved is asked for anew, and its approval is void.",
			changedCallAsksAnew,
		},
		{
			"An approval says that its call was begun, or is void and says why the call is never made.",
			approvalEndsWithCall,
		},
		{"A message that ends leaves no call waiting, and a replay of it asks anew.", endLeavesNothingWaiting},
		{
			"A request is detached when its answer has waited long enough; its approval begins the turn of its calls.",
			requestIsDetached,
		},
		{
			"A lane has one detached request, and the next message of its sender gives it up.",
			laneHasOneDetachedRequest,
		},
		{"A command decides once, in one commit with its notice.", commandDecidesOnce},
		{"A command that is denied resolves nothing and leaves its audit event.", deniedCommandResolvesNothing},
		{
			"A number that is not known, and a decision that contradicts itself, resolve nothing.",
			nonsenseResolvesNothing,
		},
	}
}

// patience is how long the suite's requests wait.
const patience = time.Minute

// ask is the wish to have a call approved.
func (s *suite) ask(position, answer int, arg string) corebot.NewApproval {
	s.t.Helper()
	call := toolStep(position, arg, corebot.StepAwaiting).Call
	b, err := corebot.NewBound(*call, "chats/a/files",
		[]corebot.NamedFile{{Path: "chats/a/files/x", Content: corebot.NoFile}})
	s.must(err)
	b.Definition = "fingerprint"
	return corebot.NewApproval{
		Approval: corebot.Approval{
			Bound: b, Position: position, Answer: answer, Rule: "approval-tainted", Taint: "a page",
			ExpiresAt: time.Now().Add(patience), Change: corebot.FileChange{Path: "x", Added: 1},
		},
		Event: corebot.AuditEvent{
			Event: "approval.request", Tool: call.Tool, Key: key("a"),
			Outcome: corebot.OutcomeSuccess,
		},
	}
}

// askFrom has a turn ask for the calls of an answer from a position on: x at 0, y at 2, z at 4.
func (s *suite) askFrom(d corebot.Delivery, position int, round int) (corebot.ApprovalRequest, error) {
	s.t.Helper()
	var asks []corebot.NewApproval
	for i, arg := range []string{"x", "y", "z"} {
		if 2*i >= position {
			a := s.ask(2*i, 0, arg)
			a.Approval.Round, a.Approval.Because = round, map[bool]string{true: "x has changed"}[round > 0]
			asks = append(asks, a)
		}
	}
	at := asks[0].Approval.Position
	return s.Journal.Ask(s.ctx(), d, toolStep(at, []string{"x", "y", "z"}[at/2], corebot.StepAwaiting), asks)
}

// asks has a new turn ask for three calls.
func (s *suite) asks(id string) (corebot.Delivery, corebot.ApprovalRequest) {
	s.t.Helper()
	d := s.begin(key("a"), id)
	a, err := s.askFrom(d, 0, 0)
	s.must(err)
	return d, a
}

func (s *suite) waits(d corebot.Delivery, a corebot.ApprovalRequest) {
	s.t.Helper()
	s.commit(d, corebot.Result{Outcome: corebot.Outcome{
		Verb: corebot.Wait, At: a.ExpiresAt, Reason: corebot.AwaitingApproval,
	}})
}

func (s *suite) resolve(id int64, state corebot.ApprovalState) {
	s.t.Helper()
	s.must(s.Approvals(operator()).Resolve(s.ctx(), id, corebot.Decision{Approve: state == corebot.ApprovalApproved}))
}

// wantStates compares how the calls of a request stand.
func (s *suite) wantStates(a corebot.ApprovalRequest, want ...corebot.ApprovalState) {
	s.t.Helper()
	calls, err := s.Approvals(operator()).Request(s.ctx(), a.ID)
	s.must(err)
	var got []corebot.ApprovalState
	for _, c := range calls {
		got = append(got, c.State)
	}
	s.equal("the request", got, want)
}

func callIsAskedOnce(s *suite) {
	d, first := s.asks("1")
	for range 2 {
		again, err := s.askFrom(d, 0, 0)
		s.must(err)
		s.equal("asked again", again, first)
		s.reopen()
		d = s.claim()
	}
	if first.State != corebot.ApprovalAwaited || first.MessageID != "1" || first.Key != key("a") ||
		first.Principal != person("ann") || first.Calls != 3 {
		s.t.Errorf("it is %+v", first.Approval)
	}
	want := s.ask(0, 0, "x").Approval
	s.equal("what it is bound to", first.Bound, want.Bound)
	s.equal("the change", first.Change, want.Change)
	if first.Rule != want.Rule || first.Taint != want.Taint {
		s.t.Errorf("it is %+v", first.Approval)
	}
	if len(d.Journal) != 1 || d.Journal[0].State != corebot.StepAwaiting {
		s.t.Errorf("the journal is %+v", d.Journal)
	}
	s.wantEvents("approval.request", "approval.request", "approval.request")
}

func answerHasOneRequest(s *suite) {
	d, asked := s.asks("1")
	added := s.ask(1, 0, "w")
	_, err := s.Journal.Ask(s.ctx(), d, toolStep(1, "w", corebot.StepAwaiting), []corebot.NewApproval{added})
	s.wantErr(err, corebot.ErrNotAsked)
	awaited, err := s.Approvals(operator()).Awaited(s.ctx(), 10)
	s.must(err)
	s.equal("what is awaited", awaited, asked.All)
}

func requestIsResolvedWhole(s *suite) {
	for i, state := range []corebot.ApprovalState{
		corebot.ApprovalApproved, corebot.ApprovalDenied, corebot.ApprovalApproved,
	} {
		d, asked := s.asks(fmt.Sprint(i))
		s.resolve(asked.All[i].ID, state)
		s.wantStates(asked, state, state, state)
		second, err := s.askFrom(d, 2, 0)
		if err != nil || second.State != state || second.Request != asked.Request || second.ID != asked.All[1].ID ||
			second.By != "operator" {
			s.t.Errorf("the second call is %+v, %v", second.Approval, err)
		}
		s.commit(d, corebot.Result{Outcome: answered()})
	}
}

func requestIsResolvedOnce(s *suite) {
	_, asked := s.asks("1")
	var won atomic.Int32
	var all sync.WaitGroup
	for i, decision := range []corebot.Decision{{Approve: true}, {}} {
		for range 4 {
			all.Go(func() {
				err := s.Approvals(callBy(person(fmt.Sprint(i)))).Resolve(s.ctx(), asked.ID, decision)
				if told := (*corebot.Resolved)(nil); err == nil {
					won.Add(1)
				} else if !errors.As(err, &told) || told.Approval.State == corebot.ApprovalAwaited ||
					told.Approval.By == "" {
					s.t.Errorf("the second is told %v", err)
				}
			})
		}
	}
	all.Wait()
	if won.Load() != 1 {
		s.t.Fatalf("it was resolved %d times", won.Load())
	}
	if all := s.events(); len(all) != 4 {
		s.t.Errorf("the audit is %+v", all)
	}
}

func resolutionWakes(s *suite) {
	for i, early := range []bool{true, false} {
		d, asked := s.asks(fmt.Sprint(i))
		if early {
			s.resolve(asked.ID, corebot.ApprovalApproved)
		}
		s.waits(d, asked)
		if !early {
			s.nothingDue()
			s.resolve(asked.ID, corebot.ApprovalApproved)
		}
		if d = s.claim(); d.Attempt != 1 || d.Life != asked.Life {
			s.t.Fatalf("claimed %+v", d)
		}
		s.commit(d, corebot.Result{Outcome: answered()})
	}
}

func requestExpires(s *suite) {
	d, asked := s.asks("1")
	s.waits(d, asked)
	time.Sleep(time.Until(asked.ExpiresAt) - 2*moment)
	s.nothingDue() // takes a moment
	s.wantStates(asked, corebot.ApprovalAwaited, corebot.ApprovalAwaited, corebot.ApprovalAwaited)
	time.Sleep(moment)
	late := (*corebot.Resolved)(nil)
	if err := s.Approvals(operator()).Resolve(s.ctx(), asked.ID, corebot.Decision{Approve: true}); !errors.As(err,
		&late) ||
		late.Approval.State != corebot.ApprovalExpired {
		s.t.Errorf("approved when its time was over: %v", err)
	}
	if left, err := s.Approvals(operator()).Awaited(s.ctx(), 10); err != nil || len(left) != 0 {
		s.t.Errorf("awaited are %+v, %v", left, err)
	}
	now, err := s.askFrom(s.claim(), 0, 0)
	s.must(err)
	if now.State != corebot.ApprovalExpired {
		s.t.Errorf("it is %s", now.State)
	}
	s.wantStates(asked, corebot.ApprovalExpired, corebot.ApprovalExpired, corebot.ApprovalExpired)
	s.wantEvents("approval.request", "approval.request", "approval.request", "approval.expire")
}

func changedCallAsksAnew(s *suite) {
	d, asked := s.asks("1")
	s.resolve(asked.ID, corebot.ApprovalApproved)
	anew, err := s.askFrom(d, 0, 1)
	s.must(err)
	if anew.State != corebot.ApprovalAwaited || anew.Request == asked.Request || anew.Round != 1 ||
		anew.Instead != asked.Request || anew.Because == "" {
		s.t.Errorf("asked anew it is %+v", anew.Approval)
	}
	s.wantStates(asked, corebot.ApprovalVoid, corebot.ApprovalVoid, corebot.ApprovalVoid)
}

func approvalEndsWithCall(s *suite) {
	begun, ran, denied := toolStep(0, "x", corebot.StepIntended), toolStep(0, "x", corebot.StepDone),
		toolStep(0, "x", corebot.StepDone)
	begun.Awaited, ran.Awaited, denied.Awaited = true, true, true
	ran.Result.Ran, denied.Result.Outcome = true, corebot.OutcomeDenied
	for name, c := range map[string]struct {
		steps []corebot.Step
		first corebot.ApprovalState
	}{
		"the call was begun":          {[]corebot.Step{begun}, corebot.ApprovalApproved},
		"the call ran":                {[]corebot.Step{ran}, corebot.ApprovalApproved},
		"the call was begun, and ran": {[]corebot.Step{begun, ran}, corebot.ApprovalApproved},
		"the call was denied":         {[]corebot.Step{denied}, corebot.ApprovalVoid},
		"the turn ended":              {nil, corebot.ApprovalVoid},
	} {
		d, asked := s.asks(name)
		s.resolve(asked.ID, corebot.ApprovalApproved)
		s.waits(d, asked)
		d = s.claim()
		for _, step := range c.steps {
			s.record(d, step)
		}
		s.commit(d, corebot.Result{Outcome: answered()})
		s.wantStates(asked, c.first, corebot.ApprovalVoid, corebot.ApprovalVoid)
		for _, a := range asked.All {
			now, err := s.Approvals(operator()).Approval(s.ctx(), a.ID)
			if void := now.State == corebot.ApprovalVoid; err != nil || now.Ran == void || (now.Reason != "") != void {
				s.t.Errorf("%s: the approval is %+v, %v", name, now, err)
			}
		}
	}
}

func endLeavesNothingWaiting(s *suite) {
	for i, o := range []corebot.Outcome{
		{Verb: corebot.Done, End: corebot.EndRefused},
		{Verb: corebot.Done, End: corebot.EndStopped},
		deadLettered(), deadLettered(),
	} {
		d, asked := s.asks(fmt.Sprint(i))
		want := corebot.ApprovalDenied
		if i == 3 {
			s.resolve(asked.ID, corebot.ApprovalApproved)
			want = corebot.ApprovalVoid
		}
		s.commit(d, corebot.Result{Outcome: o})
		s.wantStates(asked, want, want, want)
		if o.Verb != corebot.Dead {
			continue
		}
		s.must(s.Letters.Replay(s.ctx(), d.Life, false))
		d = s.claim()
		anew, err := s.askFrom(d, 0, 0)
		if err != nil || anew.State != corebot.ApprovalAwaited || anew.Request == asked.Request {
			s.t.Errorf("a replay asks %+v, %v", anew.Approval, err)
		}
		s.commit(d, corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped}})
	}
}

// decide sends a command about an approval, and gives what its notice was told.
func (s *suite) decide(id int64, by corebot.AuditEvent) (r corebot.Receipt, told error) {
	s.t.Helper()
	m := prompt(key("admins"), "/approve")
	m.Direction, m.Kind = corebot.Control, corebot.KindControl
	r, err := s.Approvals(operator()).Decide(s.ctx(), m, id, corebot.Decision{Approve: true}, by,
		func(err error) corebot.Message {
			told = err
			return outbound(m.Key, corebot.KindNotice, "told", "so be it")
		})
	s.must(err)
	return r, told
}

func commandDecidesOnce(s *suite) {
	_, asked := s.asks("1")
	for n := range 2 {
		r, told := s.decide(asked.ID, callBy(person("root")))
		if r.Duplicate != (n == 1) || told != nil {
			s.t.Fatalf("time %d: %+v, told %v", n, r, told)
		}
	}
	s.wantStates(asked, corebot.ApprovalApproved, corebot.ApprovalApproved, corebot.ApprovalApproved)
	s.wantEvents("approval.request", "approval.request", "approval.request", "approval.approve")
	out, found := s.due(corebot.OutboundPool("test"))
	if !found || out.Message.ID != "told" {
		s.t.Errorf("the chat is told %+v", out.Message)
	}
}

func deniedCommandResolvesNothing(s *suite) {
	_, asked := s.asks("1")
	by := callBy(person("eve"))
	by.Event, by.Outcome = "tool.result", corebot.OutcomeDenied
	s.decide(asked.ID, by)
	s.wantStates(asked, corebot.ApprovalAwaited, corebot.ApprovalAwaited, corebot.ApprovalAwaited)
	s.wantEvents("approval.request", "approval.request", "approval.request", "tool.result")
}

func nonsenseResolvesNothing(s *suite) {
	_, asked := s.asks("1")
	unknown := asked.ID + 1000
	a := s.Approvals(operator())
	_, err := a.Approval(s.ctx(), unknown)
	s.wantErr(err, corebot.ErrNotFound)
	s.wantErr(a.Resolve(s.ctx(), unknown, corebot.Decision{Approve: true}), corebot.ErrNotFound)
	for _, d := range []corebot.Decision{
		{Approve: true, Stop: true}, {For: corebot.ForAlways}, {Approve: true, For: "ever"},
	} {
		s.wantErr(a.Resolve(s.ctx(), asked.ID, d), corebot.ErrInvalid)
	}
	_, told := s.decide(unknown, callBy(person("root")))
	s.wantErr(told, corebot.ErrNotFound)
	s.wantStates(asked, corebot.ApprovalAwaited, corebot.ApprovalAwaited, corebot.ApprovalAwaited)
}

// goesOn has a turn that asks look at its request again, which is then detached if nothing forbids it.
func (s *suite) goesOn(d corebot.Delivery, answer int) corebot.ApprovalRequest {
	s.t.Helper()
	ask := s.ask(0, answer, "x")
	ask.AnswerAfter = patience / 2
	now, err := s.Journal.Ask(s.ctx(), d, toolStep(0, "x", corebot.StepAwaiting), []corebot.NewApproval{ask})
	s.must(err)
	return now
}

func requestIsDetached(s *suite) {
	d, asked := s.asks("1")
	time.Sleep(patience/2 - moment)
	if now := s.goesOn(d, 0); now.Detached() || !now.Until.Equal(now.CreatedAt.Add(patience/2)) {
		s.t.Fatalf("before its time it is %+v", now)
	}
	time.Sleep(moment)
	now := s.goesOn(d, 0)
	if !now.Detached() || now.AskedBy != d.Life || now.State != corebot.ApprovalAwaited {
		s.t.Fatalf("it is %+v", now)
	}
	again := s.goesOn(d, 0) // as after a crash
	if again.ID != now.ID || again.Life != now.Life {
		s.t.Errorf("asked again it is %+v", again)
	}
	_, err := s.Journal.Ask(s.ctx(), d, toolStep(6, "w", corebot.StepAwaiting), []corebot.NewApproval{s.ask(6, 6, "w")})
	s.wantErr(err, corebot.ErrAskedBefore)
	s.commit(d, corebot.Result{Outcome: answered(), Detached: now.Request})
	s.nothingDue()
	s.reopen()
	s.wantStates(asked, corebot.ApprovalAwaited, corebot.ApprovalAwaited, corebot.ApprovalAwaited)
	s.resolve(asked.ID, corebot.ApprovalApproved)
	runs := s.claim()
	x := runs.Message.Detached
	if runs.Life != now.Life || x == nil || x.Request != asked.ID || len(x.Calls) != 3 || x.Taint != "a page" ||
		runs.Message.Sender != d.Message.Sender {
		s.t.Fatalf("claimed %+v with %+v", runs.Message, x)
	}
	for i := range x.Calls {
		stands, err := s.Journal.Ask(s.ctx(), runs, corebot.Step{
			Position: i, Kind: corebot.StepTool, State: corebot.StepAwaiting, Call: &x.Calls[i],
		}, []corebot.NewApproval{{}})
		s.must(err)
		if stands.State != corebot.ApprovalApproved || stands.Bound.Digest() != asked.All[i].Bound.Digest() {
			s.t.Errorf("call %d is %+v", i, stands)
		}
	}
	s.commit(runs, corebot.Result{Outcome: answered()})
	s.wantStates(asked, corebot.ApprovalVoid, corebot.ApprovalVoid, corebot.ApprovalVoid) // its turn made none of them
	s.nothingDue()
}

func laneHasOneDetachedRequest(s *suite) {
	d, first := s.asks("1")
	time.Sleep(patience / 2)
	s.commit(d, corebot.Result{Outcome: answered(), Detached: s.goesOn(d, 0).Request})
	m := prompt(key("a"), "2")
	m.Sender = person("bob")
	s.publish(m)
	d = s.claim()
	second, err := s.askFrom(d, 0, 0)
	s.must(err)
	time.Sleep(patience/2 - 4*moment)
	s.wantStates(first, corebot.ApprovalAwaited, corebot.ApprovalAwaited, corebot.ApprovalAwaited)
	if now := s.goesOn(d, 0); now.Detached() || now.ID != second.ID {
		s.t.Errorf("a second one is %+v", now)
	}
	s.publish(prompt(key("a"), "3"))
	s.wantStates(first, corebot.ApprovalExpired, corebot.ApprovalExpired, corebot.ApprovalExpired)
	s.wantStates(second, corebot.ApprovalAwaited, corebot.ApprovalAwaited, corebot.ApprovalAwaited)
	time.Sleep(4 * moment)
	if now := s.goesOn(d, 0); !now.Detached() {
		s.t.Errorf("behind the first one the second is %+v", now)
	}
}
