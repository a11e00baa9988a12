package storage

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// posting is a call of message.send that ended, at a position of its turn.
func posting(position int) (corebot.Step, corebot.AuditEvent) {
	s := corebot.Step{
		Position: position, Kind: corebot.StepTool, State: corebot.StepDone,
		Call:   &corebot.ToolCall{ID: "c", Tool: "message.send", Args: []byte(`{}`)},
		Result: &corebot.ToolResult{Outcome: corebot.OutcomeSuccess},
	}
	return s, corebot.AuditEvent{Event: "tool.result", Tool: "message.send", Args: "{}"}
}

func post(t *testing.T, db *DB, d corebot.Delivery, position int, p corebot.SendMessage) error {
	t.Helper()
	step, event := posting(position)
	return NewLedger(db).Apply(t.Context(), d, step, p, event)
}

// claimOf claims what is ready until it has the head of a chat.
func claimOf(t *testing.T, db *DB, chat string) corebot.Delivery {
	t.Helper()
	for {
		if d := claimTest(t, db); d.Message.Key == testKey(chat) {
			return d
		}
	}
}

// outboundOf are the texts that wait for a chat, in order.
func outboundOf(t *testing.T, db *DB, life int64) (out []corebot.Message) {
	t.Helper()
	for _, r := range lifeOf(t, db, life).Replies {
		if r.Message != nil {
			out = append(out, *r.Message)
		}
	}
	return out
}

func TestAPostIsEnqueuedAndEnteredIntoTheHistoryOfItsChatOnce(t *testing.T) {
	db := openTest(t, t.TempDir())
	dialogue(t, db, "there", "t1", "hello", "hi")
	publishTest(t, db, "here", "h1")
	d := claimOf(t, db, "here")
	publishTest(t, db, "there", "t2") // waits
	must(t, post(t, db, d, 3, corebot.SendMessage{To: testKey("there"), Text: "news", Known: true}))
	got := outboundOf(t, db, d.Life)
	if len(got) != 1 || got[0].Text() != "news" || got[0].ID != d.PostID(3) || got[0].Key != testKey("there") ||
		got[0].InReplyTo != "" || got[0].Kind != corebot.KindReply {
		t.Fatalf("enqueued is %+v", got)
	}
	if lives, err := NewLives(db).Find(t.Context(), d.PostID(3)); err != nil || len(lives) != 1 ||
		lives[0].Cause == nil || lives[0].Cause.MessageID != "h1" {
		t.Errorf("why tells %+v, %v", lives, err)
	}
	// as after a crash that lost the answer
	must(t, post(t, db, d, 3, corebot.SendMessage{To: testKey("there"), Text: "news", Known: true}))
	if again := outboundOf(t, db, d.Life); len(again) != 1 {
		t.Errorf("enqueued are %+v", again)
	}
	entries, err := NewHistory(db).Recent(t.Context(), testKey("there"), 10)
	must(t, err)
	if n := len(entries); n != 5 || !entries[4].Posted() || entries[4].Text() != "news" || entries[4].At.IsZero() {
		t.Fatalf("the history is %+v", entries)
	}
	must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{
		Verb: corebot.Done,
		End:  corebot.EndAnswered,
	}}))
	dialogue(t, db, "there", "t3", "and now", "well") // of t2, which was there before
	entries, err = NewHistory(db).Recent(t.Context(), testKey("there"), 10)
	must(t, err)
	if n := len(entries); n != 9 || entries[8].Text() != "news" || entries[4].Text() != "and now" {
		t.Fatalf("the history is %+v", entries)
	}
	dialogue(t, db, "there", "t4", "then", "so") // of t3, which came after it: its place is another
	if entries, err = NewHistory(db).Recent(t.Context(), testKey("there"), 20); err != nil || len(entries) != 13 ||
		entries[8].Text() != "news" || entries[9].Text() != "then" {
		t.Fatalf("the history is %+v, %v", entries, err)
	}
	healthy(t, db)
}

func TestAPostIntoItsOwnChatComesBeforeTheReplyAndLeavesTheHistoryToTheTurn(t *testing.T) {
	db := openTest(t, t.TempDir())
	publishTest(t, db, "here", "h1")
	d := claimTest(t, db)
	must(t, post(t, db, d, 1, corebot.SendMessage{To: testKey("here"), Text: "first", Known: true}))
	must(t, post(t, db, d, 2, corebot.SendMessage{To: testKey("here"), Text: "second"}))
	reply := corebot.Message{
		ID: d.RunID() + "/0", Direction: corebot.Outbound, Key: testKey("here"), Kind: corebot.KindReply,
		InReplyTo: "h1", Parts: corebot.TextPart("last"),
	}
	must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{
		Verb: corebot.Done,
		End:  corebot.EndAnswered,
	}, Replies: []corebot.Message{reply}}))
	for _, want := range []string{"first", "second", "last"} {
		m := take(t, db, corebot.OutboundPool("test"))
		if m.Message.Text() != want {
			t.Fatalf("sent is %q, want %q", m.Message.Text(), want)
		}
		must(t, NewQueue(db).Settle(t.Context(), m, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
	}
	if entries, err := NewHistory(db).Recent(t.Context(), testKey("here"), 10); err != nil || len(entries) != 0 {
		t.Errorf("the history is %+v, %v", entries, err)
	}
}

func TestAPostThatCannotBeTakenIsRefusedAndLeavesNothing(t *testing.T) {
	db := limited(t, corebot.Limits{LaneDepth: 2})
	publishTest(t, db, "here", "h1")
	publishTest(t, db, "waits", "w1") // no turn of it has ended, and still somebody has written
	d := claimOf(t, db, "here")
	must(t, post(t, db, d, 0, corebot.SendMessage{To: testKey("waits"), Text: "a", Known: true}))
	must(t, post(t, db, d, 1, corebot.SendMessage{To: testKey("any"), Text: "a"}))
	must(t, post(t, db, d, 2, corebot.SendMessage{To: testKey("any"), Text: "b", Known: true}))
	rows := count(t, db.path, "history")
	for want, p := range map[error]corebot.SendMessage{
		corebot.ErrNotFound: {To: testKey("nobody"), Text: "x", Known: true},
		corebot.ErrLaneFull: {To: testKey("any"), Text: "c"},
	} {
		err := post(t, db, d, 3, p)
		if refused := (*corebot.Refused)(nil); !errors.As(err, &refused) || !errors.Is(err, want) {
			t.Errorf("%+v: %v, want %v", p, err, want)
		}
	}
	d.Epoch--
	if err := post(t, db, d, 3, corebot.SendMessage{To: testKey("waits"), Text: "x"}); !errors.Is(err,
		corebot.ErrLeaseLost) {
		t.Errorf("a stale worker: %v", err)
	}
	d.Epoch++
	if got := count(t, db.path, "history"); got != rows || len(outboundOf(t, db, d.Life)) != 3 {
		t.Errorf("%d rows of history have become %d; enqueued are %d", rows, got, len(outboundOf(t, db, d.Life)))
	}
	healthy(t, db)
}

// Only a turn of the chat itself tells the chat about undelivered replies. A message that another turn sends there does
// not.
func TestAPostHasNobodyToldTwiceOfWhatWasNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		dialogue(t, db, "there", "t1", "hello", "hi")
		dead := deadReply(t, db, "there", "lost")
		send := func(id string) {
			publishTest(t, db, "here", id)
			d := claimOf(t, db, "here")
			must(t, post(t, db, d, 0, corebot.SendMessage{To: testKey("there"), Text: "news"}))
			ends(t, db, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered})
			time.Sleep(time.Millisecond) // claims and deaths of one millisecond count as the claim first
		}
		for id, want := range []int{1, 0} {
			send(fmt.Sprint("h", id))
			publishTest(t, db, "there", fmt.Sprint("u", id))
			d := claimOf(t, db, "there")
			found, _, err := NewHistory(db).Recall(t.Context(), d, 5)
			if err != nil || len(found.Undelivered) != want || want > 0 && found.Undelivered[0].ID != dead {
				t.Errorf("turn %d is told of %+v, %v", id, found.Undelivered, err)
			}
			ends(t, db, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered})
		}
	})
}
