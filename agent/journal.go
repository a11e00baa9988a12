package agent

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
)

// nextRecorded gives the step at the turn's position from the journal of earlier attempts, and moves on, if the step is
// of this kind. Otherwise the position stays: the caller tries another kind, or does the step anew. A resumed turn
// repeats the steps of the first attempt. If it does not, the journal refuses the new step with [corebot.ErrDiverged].
func (t *turn) nextRecorded(kind corebot.StepKind) (corebot.Step, bool) {
	if t.position >= len(t.delivery.Journal) {
		return corebot.Step{}, false
	}
	s := t.delivery.Journal[t.position]
	if s.Kind != kind || s.Position != t.position {
		return corebot.Step{}, false
	}
	t.position++
	return s, true
}

// skipSummaries skips the steps in which earlier attempts found facts and made summaries. Summaries are stored beside
// the history, where this attempt has already found the newest one.
func (t *turn) skipSummaries() {
	for {
		if _, ok := t.nextRecorded(corebot.StepFacts); ok {
			t.learned = true
		} else if _, ok := t.nextRecorded(corebot.StepSummary); ok {
			t.learned = false
		} else {
			return
		}
	}
}

// step implements [Step] for one tool call at one position.
type step struct {
	*turn
	position  int
	call      corebot.ToolCall
	behind    []corebot.ToolCall // the later calls of the same answer
	state     corebot.StepState  // as an earlier attempt left it
	startedAt time.Time
}

func (s *step) ID() string               { return s.delivery.StepID(s.position) }
func (s *step) State() corebot.StepState { return s.state }

func (s *step) Intend(ctx context.Context, decision corebot.AuditEvent) error {
	s.startedAt = time.Now()
	err := s.journal.Record(ctx, s.delivery, corebot.Step{
		Position: s.position, Kind: corebot.StepTool, State: corebot.StepIntended, Call: &s.call,
		Awaited:   s.state == corebot.StepAwaiting,
		StartedAt: s.startedAt,
	}, decision)
	fault.Point("tool", "before")
	return err
}

func (s *step) Finish(ctx context.Context, result corebot.ToolResult, event corebot.AuditEvent) error {
	fault.Point("tool", "after")
	return s.journal.Record(ctx, s.delivery, s.done(result), event)
}

func (s *step) Apply(ctx context.Context, effect corebot.Effect, result corebot.ToolResult,
	event corebot.AuditEvent,
) error {
	return s.journal.Apply(ctx, s.delivery, s.done(result), effect, event)
}

func (s *step) InAnswer() corebot.InAnswer {
	return corebot.InAnswer{
		Behind: s.behind, Asked: s.calls.asked, Denied: s.calls.denied, Addresses: &s.addresses,
		Attaches: s.attaches(),
	}
}

func (s *step) Ask(ctx context.Context, asks []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	for i := range asks {
		a := &asks[i].Approval
		a.Position, a.Answer = s.position+a.Position, s.calls.first
		asks[i].Event.StepID = s.delivery.StepID(a.Position)
	}
	a, err := s.journal.Ask(ctx, s.delivery, corebot.Step{
		Position: s.position, Kind: corebot.StepTool, State: corebot.StepAwaiting, Call: &s.call, StartedAt: time.Now(),
	}, asks)
	if err == nil {
		s.state, s.calls.asked = corebot.StepAwaiting, true
	}
	return a, err
}

func (s *step) Wait(ctx context.Context, w corebot.Pending, e corebot.AuditEvent) (corebot.Pending, error) {
	stands, err := s.journal.Wait(ctx, s.delivery, corebot.Step{
		Position: s.position, Kind: corebot.StepTool, State: corebot.StepWaiting, Call: &s.call,
		Awaited:   s.state == corebot.StepAwaiting,
		StartedAt: time.Now(),
	}, w, e)
	if err == nil && stands.ID != 0 {
		s.state = corebot.StepWaiting
	}
	return stands, err
}

// done gives the step of the call with its result.
func (s *step) done(result corebot.ToolResult) corebot.Step {
	if s.startedAt.IsZero() {
		s.startedAt = time.Now()
	}
	return corebot.Step{
		Position: s.position, Kind: corebot.StepTool, State: corebot.StepDone, Call: &s.call, Result: &result,
		Awaited:   s.state == corebot.StepAwaiting,
		StartedAt: s.startedAt, EndedAt: time.Now(),
	}
}

// maxRepeats is how often the same call can have the same result before the turn counts as stuck.
const maxRepeats = 3

// repeats counts how often the same call had the same result: a model can repeat itself without end.
type repeats struct {
	seen map[[sha256.Size]byte]int
	most int
}

func (r *repeats) note(c corebot.ToolCall, result corebot.ToolResult) {
	if r.seen == nil {
		r.seen = map[[sha256.Size]byte]int{}
	}
	h := sha256.New()
	for _, s := range []string{c.Tool, string(c.Args), string(result.Outcome), result.Content} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	key := [sha256.Size]byte(h.Sum(nil))
	r.seen[key]++
	r.most = max(r.most, r.seen[key])
}

func (r *repeats) stuck() bool { return r.most >= maxRepeats }
