package storage

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// questioned is a turn of the chat "here" that has asked the helper, and the claim of the question.
func questioned(t *testing.T, db *DB) (asks, asked corebot.Delivery) {
	t.Helper()
	publishTest(t, db, "here", "m")
	asks = claimOf(t, db, "here")
	must(t, askHelper(t, db, asks, 0))
	return asks, take(t, db, corebot.InboundPool)
}

func askHelper(t *testing.T, db *DB, d corebot.Delivery, position int) error {
	t.Helper()
	step, event := applied()
	step.Position = position
	event.Principal = d.Message.Sender
	caller := d.Caller()
	caller.Taint = "a page"
	return NewLedger(db).Apply(t.Context(), d, step, corebot.AskAgent{Agent: "helper", Text: "x", Asks: caller}, event)
}

func TestOneQuestionToAnAgentIsUnderWayInAChat(t *testing.T) {
	db := openTest(t, t.TempDir())
	asks, asked := questioned(t, db)
	refused := (*corebot.Refused)(nil)
	if err := askHelper(t, db, asks, 1); !errors.As(err, &refused) || !errors.Is(err, errStillAsked) {
		t.Errorf("while the question runs: %v", err)
	}
	m, ok := asked.Answer(asked.Caller(), "y")
	if !ok {
		t.Fatal("nobody waits for the answer")
	}
	must(t, NewLedger(db).Commit(t.Context(), asked, corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}, Replies: []corebot.Message{m},
	}))
	must(t, askHelper(t, db, asks, 1))
	healthy(t, db)
}

func TestAQuestionKeepsItsTaintAndItsWayBackThroughARestartAReplayAndAnEdit(t *testing.T) {
	dir := t.TempDir()
	var relay *corebot.Relay
	earlier(t, dir, func(db *DB) {
		_, asked := questioned(t, db)
		relay = asked.Message.Relay
		must(t, NewQueue(db).Settle(t.Context(), asked, corebot.Outcome{Verb: corebot.Dead, Reason: "poison"}))
	})
	db := openTest(t, dir)
	if relay == nil || relay.Taint != "a page" || !reflect.DeepEqual(relay.Back, []corebot.Key{testKey("here")}) {
		t.Fatalf("the question has %+v", relay)
	}
	letters, err := NewDeadLetters(db).List(t.Context(), corebot.DeadLetterFilter{Agent: "helper", Limit: 10})
	must(t, err)
	if len(letters) != 1 || letters[0].Sender != testMessage("here", "m").Sender {
		t.Fatalf("the dead letters are %+v", letters)
	}
	must(t, NewDeadLetters(db).Edit(t.Context(), letters[0].ID, "edited", "z"))
	for {
		d := claimTest(t, db)
		if d.Message.Key.Agent != "helper" {
			continue
		}
		if !reflect.DeepEqual(d.Message.Relay, relay) || d.Message.Text() != "z" ||
			d.Caller().Principal != letters[0].Sender {
			t.Errorf("the edited question has %+v", d.Message.Relay)
		}
		return
	}
}

// TestAnAnswerToAnAgentIsNeverRefusedAndCountsForItsSender: the turn that gave it was paid for.
func TestAnAnswerToAnAgentIsNeverRefusedAndCountsForItsSender(t *testing.T) {
	lim := corebot.Limits{LaneDepth: 1, SenderDepth: 2} // the message "here" was accepted without limits
	db, err := Open(t.Context(), seeded(t), Options{Limits: lim})
	must(t, err)
	runTest(t, db)
	_, asked := questioned(t, db)
	offer := func(id string) error {
		r, err := NewQueue(db).Publish(t.Context(), []corebot.Message{testMessage("elsewhere "+id, id)}, lim)
		must(t, err)
		return r[0].Err
	}
	must(t, offer("1"))
	if err := offer("over"); !errors.Is(err, corebot.ErrSenderFull) {
		t.Errorf("a message beside another and the question of the turn: %v", err)
	}
	m, _ := asked.Answer(asked.Caller(), "y")
	must(t, NewLedger(db).Commit(t.Context(), asked, corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}, Replies: []corebot.Message{m},
	}))
	if err := offer("2"); !errors.Is(err, corebot.ErrSenderFull) {
		t.Errorf("a message over the limit: %v", err)
	}
}

func TestASenderOfAConversationOfAgentsIsShownAsWhoHeIs(t *testing.T) {
	db := openTest(t, t.TempDir())
	_, asked := questioned(t, db)
	must(t, NewLedger(db).Commit(t.Context(), asked, corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{{
			Speaker: corebot.SpeakerUser, Sender: asked.Message.Sender,
			Parts: corebot.TextPart("x"), Outside: true, At: time.Now(),
		}},
	}))
	for _, entry := range []corebot.EntryKind{corebot.EntryAgent, corebot.EntryOperator, corebot.EntryItself} {
		e := corebot.AuditEvent{
			Event: "tool.result", Key: asked.Message.Key, Principal: asked.Message.Sender,
			Entry: entry, Args: "{}",
		}
		must(t, db.write(t.Context(), "test", func(t *tx) error { return auditTx(t, []corebot.AuditEvent{e}) }))
	}
	events, err := NewAudit(db).List(t.Context(), corebot.AuditFilter{})
	must(t, err)
	if len(events) < 3 || events[2].Principal != asked.Message.Sender {
		t.Errorf("the audit has %+v", events)
	}
	if _, err := NewAudit(db).Verify(t.Context(), corebot.AuditProof{}); err != nil {
		t.Error(err)
	}
	said, err := NewHistory(db).Recent(t.Context(), asked.Message.Key, 10)
	must(t, err)
	if len(said) != 1 || said[0].Sender != asked.Message.Sender || !said[0].Outside {
		t.Errorf("said was %+v", said)
	}
	if life := lifeOf(t, db, asked.Life); life.Sender != asked.Message.Sender ||
		!strings.HasPrefix(life.MessageID, corebot.OwnIDs) {
		t.Errorf("the life is %+v", life)
	}
	if _, found, err := NewLedger(db).Another(t.Context(), asked.Message.Key, asked.Message.Sender); found ||
		err != nil {
		t.Errorf("somebody else spoke: %v, %v", found, err)
	}
}
