package storage

import (
	"errors"
	"testing"

	"github.com/corebot/corebot"
)

func TestAStepThatIsNotTheOneOfItsPlaceIsRefused(t *testing.T) {
	call := func(id, args string, state corebot.StepState) corebot.Step {
		s := corebot.Step{Kind: corebot.StepTool, State: state, Call: &corebot.ToolCall{ID: id, Tool: "web.fetch", Args: []byte(args)}}
		if state == corebot.StepDone {
			s.Result = &corebot.ToolResult{Outcome: corebot.OutcomeSuccess, Content: "a page"}
		}
		return s
	}
	db := openTest(t, t.TempDir())
	publishTest(t, db, "a", "1")
	d := claimTest(t, db)
	ledger := NewLedger(db)
	must(t, ledger.Record(t.Context(), d, call("c1", `{"url":"x"}`, corebot.StepIntended)))
	for name, other := range map[string]corebot.Step{
		"another call": call("c1", `{"url":"y"}`, corebot.StepDone),
		"another kind": {Kind: corebot.StepModel, State: corebot.StepDone, Answer: &corebot.Answer{}},
	} {
		event := corebot.AuditEvent{Event: "tool.result", Tool: "web.fetch", Key: d.Message.Key}
		if err := ledger.Record(t.Context(), d, other, event); !errors.Is(err, corebot.ErrDiverged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if events := sideQuery(t, db.path, `SELECT COUNT(*) FROM audit_events`)[0]; events != "0" {
		t.Errorf("the refused steps left %s audit events", events)
	}
	must(t, ledger.Record(t.Context(), d, call("c1", `{"url":"x"}`, corebot.StepDone)))
	if steps := sideQuery(t, db.path, `SELECT kind, state FROM execution_steps`); len(steps) != 1 || steps[0] != "tool|done" {
		t.Errorf("the journal is %q", steps)
	}
}
