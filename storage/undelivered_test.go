package storage

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// turnOf publishes a message of a chat, claims it, and gives what the turn hears of.
func turnOf(t *testing.T, db *DB, chat, id string) (corebot.Delivery, []string) {
	t.Helper()
	time.Sleep(time.Millisecond) // claims and deaths of one millisecond count as the claim first
	m := corebot.Message{ID: id, Direction: corebot.Inbound, Kind: corebot.KindPrompt, Key: chatKey(chat), Parts: corebot.TextPart("x")}
	_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, err)
	d := take(t, db, corebot.InboundPool)
	return d, heard(t, db, d)
}

func heard(t *testing.T, db *DB, d corebot.Delivery) []string {
	t.Helper()
	found, _, err := NewHistory(db).Recall(t.Context(), d, 3)
	must(t, err)
	var ids []string
	for _, l := range found.Undelivered {
		ids = append(ids, l.MessageID)
		if l.Reason != "permanent" || l.LastError != "no such chat" || l.Message == nil || l.Message.Text() != "text of "+l.MessageID {
			t.Errorf("told of %+v", l)
		}
	}
	return ids
}

// ends commits a turn; one that was answered leaves history.
func ends(t *testing.T, db *DB, d corebot.Delivery, o corebot.Outcome) {
	t.Helper()
	r := corebot.Result{Outcome: o}
	if o.Verb == corebot.Done {
		r.History = []corebot.HistoryEntry{{Speaker: corebot.SpeakerUser, Text: "x", MessageID: d.Message.ID}}
	}
	must(t, NewLedger(db).Commit(t.Context(), d, r))
}

func TestATurnHearsOnceOfRepliesThatDidNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		done := corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}
		d, told := turnOf(t, db, "a", "1")
		if len(told) != 0 {
			t.Errorf("the first turn hears of %q", told)
		}
		during := deadReply(t, db, "a", "r1") // while the turn runs: it has begun without it
		if told = heard(t, db, d); len(told) != 0 {
			t.Errorf("a turn that has begun hears of %q, and the next would again", told)
		}
		ends(t, db, d, done)
		deadReply(t, db, "b", "of another chat")

		d, told = turnOf(t, db, "a", "2")
		if !slices.Equal(told, []string{"r1"}) {
			t.Errorf("the next turn hears of %q", told)
		}
		ends(t, db, d, corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"})
		d, told = turnOf(t, db, "a", "3")
		if !slices.Equal(told, []string{"r1"}) {
			t.Errorf("after a turn that failed the next one hears of %q", told)
		}
		ends(t, db, d, done)
		d, told = turnOf(t, db, "a", "4")
		if len(told) != 0 {
			t.Errorf("it is told again: %q", told)
		}
		ends(t, db, d, done)

		must(t, NewChats(db).Reset(t.Context(), chatKey("a")))
		d, told = turnOf(t, db, "a", "5")
		if len(told) != 0 {
			t.Errorf("a new session hears of %q again", told)
		}
		ends(t, db, d, done)

		time.Sleep(time.Millisecond)
		must(t, NewDeadLetters(db).Replay(t.Context(), during, false))
		again := take(t, db, corebot.OutboundPool("test"))
		must(t, NewQueue(db).Settle(t.Context(), again, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
		if _, told = turnOf(t, db, "a", "6"); len(told) != 0 {
			t.Errorf("told of what has arrived: %q", told)
		}
	})
}

func TestATurnHearsOfTheNewestAndNeverOfNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		for i := range 5 {
			time.Sleep(time.Millisecond)
			deadReply(t, db, "a", fmt.Sprint("r", i))
		}
		m := corebot.Message{ID: "n", Direction: corebot.Outbound, Key: chatKey("a"), Kind: corebot.KindNotice, Parts: corebot.TextPart("x")}
		_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
		must(t, err)
		must(t, NewQueue(db).Settle(t.Context(), take(t, db, corebot.OutboundPool("test")), corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
		if _, told := turnOf(t, db, "a", "1"); !slices.Equal(told, []string{"r4", "r3", "r2"}) {
			t.Errorf("told of %q", told)
		}
	})
}
