package agent

import (
	"context"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
)

// recorded takes the step at the turn's position from the journal of earlier attempts. The walk of a resumed turn is the walk
// of the first one, so the kinds agree; if they did not, the journal would be of another turn, and nothing of it is used.
func (t *turn) recorded(kind corebot.StepKind) (corebot.Step, bool) {
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

// step implements [Step] for one tool call at one position.
type step struct {
	*turn
	position  int
	call      corebot.ToolCall
	intended  bool
	startedAt time.Time
}

func (s *step) ID() string     { return s.delivery.StepID(s.position) }
func (s *step) Intended() bool { return s.intended }

func (s *step) Intend(ctx context.Context, decision corebot.AuditEvent) error {
	s.startedAt = time.Now()
	err := s.journal.Record(ctx, s.delivery, corebot.Step{
		Position: s.position, Kind: corebot.StepTool, State: corebot.StepIntended, Call: &s.call, StartedAt: s.startedAt,
	}, decision)
	fault.Point("tool", "before")
	return err
}

func (s *step) Finish(ctx context.Context, result corebot.ToolResult, event corebot.AuditEvent) error {
	fault.Point("tool", "after")
	if s.startedAt.IsZero() {
		s.startedAt = time.Now()
	}
	return s.journal.Record(ctx, s.delivery, corebot.Step{
		Position: s.position, Kind: corebot.StepTool, State: corebot.StepDone, Call: &s.call, Result: &result,
		StartedAt: s.startedAt, EndedAt: time.Now(),
	}, event)
}
