package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// chronicle adds turns of two entries each to a chat's session, behind the store's back.
func chronicle(t *testing.T, dir string, chat, session, turns int, at time.Time) {
	t.Helper()
	sideQuery(t, dir, `INSERT INTO chats (id, agent, channel, account, chat, thread, session, created_at)
		VALUES (?1, 'main', 'test', '', printf('%d', ?1), '', ?2, 0)
		ON CONFLICT DO UPDATE SET session = excluded.session`, chat, session)
	grow(t, dir, 2*turns, `INSERT INTO history (chat_id, session, seq, ordinal, speaker, text, message_id, at)
		SELECT ?, ?, (SELECT COALESCE(MAX(seq), 0) FROM history) + 1 + (i - 1) / 2, i % 2, 'user', 'x', 'm', ?
		FROM n`, chat, session, at.UnixMilli())
}

// remaining is how many entries are left in each session of a chat.
func remaining(t *testing.T, dir string, chat int) string {
	t.Helper()
	return fmt.Sprint(sideQuery(t, dir, `SELECT session, COUNT(*) FROM history WHERE chat_id = ? GROUP BY session`,
		chat))
}

func TestHistoryIsKeptForEverUnlessSomebodySaysOtherwise(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	chronicle(t, dir, 1, 1, 600, time.Unix(0, 0))
	must(t, keeping(t, db, RetentionOptions{Messages: day, Audit: day, Mailbox: day}).Sweep(t.Context()))
	if got := remaining(t, dir, 1); got != "[1|1200]" {
		t.Errorf("left are %s", got)
	}
}

func TestOldHistoryGoesButForTheRecentEntriesOfASessionThatIsInUse(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	old := time.Now().Add(-2 * day)
	chronicle(t, dir, 1, 1, 700, old) // an earlier session: all of it goes
	chronicle(t, dir, 1, 2, 400, old) // this session has 800: the newest stay
	chronicle(t, dir, 1, 2, 1, time.Now())
	chronicle(t, dir, 2, 1, 10, old) // a short session stays whole
	chronicle(t, dir, 2, 1, 1, time.Now())
	chronicle(t, dir, 3, 1, 300, old)
	chronicle(t, dir, 3, 1, 400, time.Now())
	chronicle(t, dir, 4, 1, 10, old) // nothing was said here for as long: all of it goes
	must(t, keeping(t, db, RetentionOptions{History: day}).Sweep(t.Context()))
	for chat, want := range map[int]string{1: "[2|500]", 2: "[1|22]", 3: "[1|800]", 4: "[]"} {
		if got := remaining(t, dir, chat); got != want {
			t.Errorf("of chat %d are left %s, want %s", chat, got, want)
		}
	}
}

func TestTooMuchHistoryGoesWhateverItsAge(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	chronicle(t, dir, 1, 1, 700, time.Now())
	chronicle(t, dir, 1, 2, 100, time.Now())
	chronicle(t, dir, 2, 1, 700, time.Now())
	chronicle(t, dir, 3, 1, 30, time.Now())
	must(t, keeping(t, db, RetentionOptions{HistoryEntries: 601}).Sweep(t.Context()))
	// Turns are taken whole: of the one that has the 601st entry both are left.
	for chat, want := range map[int]string{1: "[1|402 2|200]", 2: "[1|602]", 3: "[1|60]"} {
		if got := remaining(t, dir, chat); got != want {
			t.Errorf("of chat %d are left %s, want %s", chat, got, want)
		}
	}
	must(t, keeping(t, db, RetentionOptions{HistoryEntries: 1}).Sweep(t.Context()))
	// the recent ones of the session all the same
	for chat, want := range map[int]string{1: "[2|200]", 2: "[1|500]", 3: "[1|60]"} {
		if got := remaining(t, dir, chat); got != want {
			t.Errorf("with a cap of one, of chat %d are left %s, want %s", chat, got, want)
		}
	}
}

// The lane of a chat may go with the last of its history, and its places begin anew in a session that has none.
func TestALaneGoesWithTheLastOfItsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		say := func(id string) {
			publishTest(t, db, "a", id)
			must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
				Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
				History: []corebot.HistoryEntry{{
					Speaker: corebot.SpeakerUser, Parts: corebot.TextPart(id),
					At: time.Now(),
				}},
			}))
		}
		say("1")
		must(t, NewChats(db).Reset(t.Context(), testKey("a")))
		time.Sleep(2 * day)
		r := keeping(t, db, RetentionOptions{Messages: day, History: day})
		for range 2 { // lanes are looked at before history
			must(t, r.Sweep(t.Context()))
		}
		if lanes, rows := count(t, dir, "lanes"), count(t, dir, "history"); lanes != 0 || rows != 0 {
			t.Errorf("%d lanes and %d entries are left", lanes, rows)
		}
		say("2")
		entries, err := NewHistory(db).Recent(t.Context(), testKey("a"), 10)
		if err != nil || len(entries) != 1 || entries[0].Text() != "2" {
			t.Errorf("the history is %+v, %v", entries, err)
		}
	})
}

// Neither a turn from a clock that was ahead nor a young turn before copies of a link keeps older turns in a chat with
// a time of its own. A chat that is to keep nothing loses the turn of the future too.
func TestAStrictTimeIsForEachTurnWhereverItStands(t *testing.T) {
	db := openTest(t, t.TempDir())
	rule := &corebot.Keeper{Rules: []corebot.KeepRule{{Chat: "b", Keeping: corebot.Keeping{For: day}}}}
	saidAt(t, db, testKey("b"), "m0", "numbat", time.Now().Add(365*day))
	for _, id := range []string{"m1", "m2"} {
		saidAt(t, db, testKey("b"), id, "wombat", time.Now().Add(-30*day))
	}
	saidAt(t, db, testKey("b"), "m3", "dingo", time.Now())
	saidAt(t, db, testKey("a"), "m4", "quokka", time.Now().Add(-60*day))
	_, err := NewLinks(db).Put(t.Context(), testKey("a"), testKey("b"))
	must(t, err)
	left := func() string {
		return strings.Join(sideQuery(t, db.path, `SELECT h.text FROM history h JOIN chats c ON c.id = h.chat_id
			WHERE c.chat = 'b' ORDER BY h.session, h.seq, h.ordinal`), " ")
	}
	must(t, keeping(t, db, RetentionOptions{Keeper: rule}).Sweep(t.Context()))
	if got := left(); got != "numbat numbat dingo dingo" {
		t.Errorf("left are %q", got)
	}
	if tables := tablesWith(t, db, "wombat"); len(tables) > 0 {
		t.Errorf("%q still have what was said", tables)
	}
	none := &corebot.Keeper{Store: corebot.StoreNone}
	must(t, keeping(t, db, RetentionOptions{Keeper: none}).Sweep(t.Context()))
	if got := left(); got != "" {
		t.Errorf("a chat that keeps nothing has %q", got)
	}
}

// A question without its answer, or an answer without its question, would mislead the model.
func TestAStrictTimeTakesWholeTurns(t *testing.T) {
	for _, young := range []string{"user", "assistant"} {
		t.Run(young, func(t *testing.T) {
			db := openTest(t, t.TempDir())
			rule := &corebot.Keeper{Rules: []corebot.KeepRule{{Chat: "b", Keeping: corebot.Keeping{For: day}}}}
			saidAt(t, db, testKey("b"), "m1", "wombat", time.Now().Add(-30*day))
			saidAt(t, db, testKey("b"), "m2", "dingo", time.Now())
			sideQuery(t, db.path, `UPDATE history SET at = ? WHERE message_id = 'm1' AND speaker = ?`,
				time.Now().UnixMilli(), young)
			must(t, keeping(t, db, RetentionOptions{Keeper: rule}).Sweep(t.Context()))
			got := sideQuery(t, db.path, `SELECT text FROM history`)
			if !slices.Equal(got, []string{"dingo", "dingo"}) {
				t.Errorf("left are %q", got)
			}
		})
	}
}
