package storage

import (
	"errors"
	"testing"

	"github.com/corebot/corebot"
)

// applied is a tool call that ended, with its audit event.
func applied() (corebot.Step, corebot.AuditEvent) {
	s := corebot.Step{
		Kind: corebot.StepTool, State: corebot.StepDone, Call: &corebot.ToolCall{ID: "c1", Tool: "bus.dead_letter.replay", Args: []byte(`{}`)},
		Result: &corebot.ToolResult{Outcome: corebot.OutcomeSuccess},
	}
	return s, corebot.AuditEvent{Event: "tool.result", Tool: "bus.dead_letter.replay", Key: chatKey("admins"), Principal: corebot.Principal{ID: "root"}, Args: "{}", StepID: "m/1/0"}
}

// atWork is a claim of another chat, in whose turn the tool runs.
func atWork(t *testing.T, db *DB) corebot.Delivery {
	t.Helper()
	m := corebot.Message{ID: "m", Direction: corebot.Inbound, Kind: corebot.KindPrompt, Key: chatKey("admins"), Parts: corebot.TextPart("replay it")}
	_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, err)
	return take(t, db, corebot.InboundPool)
}

func TestAnEffectAndItsStepAreOneCommit(t *testing.T) {
	db := openTest(t, t.TempDir())
	id := deadLetter(t, db, "a", "1", "poison")
	d := atWork(t, db)
	step, event := applied()
	must(t, NewLedger(db).Apply(t.Context(), d, step, corebot.ReplayDeadLetter{ID: id}, event))
	if life := lifeOf(t, db, id); life.End != "" || life.Run != 2 {
		t.Errorf("the letter is %+v", life)
	}
	if steps := lifeOf(t, db, d.Life).Steps; len(steps) != 1 || steps[0].State != corebot.StepDone {
		t.Errorf("the journal is %+v", steps)
	}
	got := notes(t, db)
	if len(got) != 2 || got[0].Event != "dead_letter.replay" || got[0].Principal.ID != "root" || got[0].StepID != "m/1/0" || got[1].Event != "tool.result" {
		t.Errorf("the audit is %+v", got)
	}
	healthy(t, db)
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
	if steps := lifeOf(t, db, d.Life).Steps; len(steps) != 0 || len(notes(t, db)) != 0 || lifeOf(t, db, id).End != corebot.EndDead {
		t.Errorf("a refused effect left %+v and %+v", steps, notes(t, db))
	}
}

func TestAStaleWorkerMakesNoEffect(t *testing.T) {
	db := openTest(t, t.TempDir())
	id := deadLetter(t, db, "a", "1", "poison")
	d := atWork(t, db)
	d.Epoch--
	step, event := applied()
	err := NewLedger(db).Apply(t.Context(), d, step, corebot.ReplayDeadLetter{ID: id}, event)
	if !errors.Is(err, corebot.ErrLeaseLost) || lifeOf(t, db, id).End != corebot.EndDead || len(notes(t, db)) != 0 {
		t.Errorf("a stale worker replayed it: %v", err)
	}
}
