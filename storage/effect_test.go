package storage

import (
	"errors"
	"testing"

	"github.com/corebot/corebot"
)

// applied is a tool call that ended, with its audit event.
func applied() (corebot.Step, corebot.AuditEvent) {
	s := corebot.Step{
		Kind: corebot.StepTool, State: corebot.StepDone, Call: &corebot.ToolCall{
			ID:   "c1",
			Tool: "bus.dead_letter.replay", Args: []byte(`{}`),
		},
		Result: &corebot.ToolResult{Outcome: corebot.OutcomeSuccess},
	}
	return s, corebot.AuditEvent{
		Event: "tool.result", Tool: "bus.dead_letter.replay", Key: chatKey("admins"),
		Principal: corebot.Principal{ID: "root"}, Args: "{}", StepID: "m/1/0",
	}
}

// atWork is a claim of another chat, in whose turn the tool runs.
func atWork(t *testing.T, db *DB) corebot.Delivery {
	t.Helper()
	m := corebot.Message{
		ID: "m", Direction: corebot.Inbound, Kind: corebot.KindPrompt, Key: chatKey("admins"),
		Parts: corebot.TextPart("replay it"),
	}
	_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, err)
	return take(t, db, corebot.InboundPool)
}

func TestAnEffectThatARuleForbidsIsRefusedAndLeavesNothing(t *testing.T) {
	db := limited(t, corebot.Limits{TotalDepth: 1})
	id := deadLetter(t, db, "a", "1", "poison")
	d := atWork(t, db) // it takes all the room there is
	step, event := applied()
	for letter, want := range map[int64]error{4711: corebot.ErrNotFound, id: corebot.ErrOverloaded} {
		err := NewLedger(db).Apply(t.Context(), d, step, corebot.ReplayDeadLetter{ID: letter}, event)
		var refused *corebot.Refused
		if !errors.As(err, &refused) || !errors.Is(err, want) {
			t.Errorf("replay of %d: %v", letter, err)
		}
	}
	if steps := lifeOf(t, db, d.Life).Steps; len(steps) != 0 || len(notes(t, db)) != 0 ||
		lifeOf(t, db, id).End != corebot.EndDead {
		t.Errorf("a refused effect left %+v and %+v", steps, notes(t, db))
	}
}
