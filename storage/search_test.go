package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/terms"
)

// dialogue ends a turn in a chat in which a user and the agent said something.
func dialogue(t testing.TB, db *DB, chat, id, user, agent string) {
	t.Helper()
	publishTest(t, db, chat, id)
	at := time.Now()
	must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{
			{Speaker: corebot.SpeakerUser, Sender: corebot.Principal{ID: "ada"}, Parts: corebot.TextPart(user), At: at},
			{Speaker: corebot.SpeakerAssistant, Calls: []corebot.ToolCall{{
				ID: "1", Tool: "fs.read",
				Args: []byte(`{}`),
			}}, At: at},
			{Speaker: corebot.SpeakerTool, Parts: corebot.TextPart("the tool said xylophone"), CallID: "1", At: at},
			{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart(agent), At: at},
		},
	}))
}

func indexAll(t testing.TB, db *DB) {
	t.Helper()
	s, err := NewSearchIndex(db, SearchIndexOptions{})
	must(t, err)
	must(t, s.CatchUp(t.Context()))
}

// searchIn searches a chat and gives what was found, and whether it has the whole query.
func searchIn(t testing.TB, db *DB, chat, query string, limit int) ([]string, bool) {
	t.Helper()
	found, whole, err := NewHistory(db).Search(t.Context(), testKey(chat), terms.Parse(query), limit)
	if err != nil {
		t.Fatalf("search %q: %v", query, err)
	}
	var out []string
	for _, e := range found {
		out = append(out, e.Text())
	}
	return out, whole
}

// spoken is one line in each of many scripts, with queries that find it and no other line.
var spoken = []struct {
	text    string
	queries []string
}{
	{"Der Flug nach Malmö geht um 7:45 ab Gate B12.", []string{"flug malmo", "MALMÖ", `"gate b12"`, "7:45"}},
	{"Tôi thích uống cà phê sữa đá mỗi sáng.", []string{"ca phe", `"sữa đá"`}},
	{"Позвони маме, у неё день рождения в четверг.", []string{"маме", `"день рождения"`, "четв"}},
	{"Η πτήση για την Αθήνα ακυρώθηκε", []string{"ΑΘΗΝΑ", "πτηση"}},
	{"الاجتماع يوم الثلاثاء في المكتب الجديد", []string{"الثُّلاثاء", "مكتب المكتب"}},
	{"הפגישה נדחתה ליום ראשון", []string{"רִאשׁוֹן"}},
	{"मुझे कल सुबह डॉक्टर के पास जाना है", []string{"डॉक्टर", "कल सुबह"}},
	{"நாளை காலை சந்திப்போம்", []string{"சந்தி"}},
	{"ฉันอยากกินข้าวผัดกุ้งที่กรุงเทพ", []string{"กรุงเทพ", "ข้าว"}},
	{"明天下午三点在北京大学开会，请带上护照。", []string{"北京大学", "北京", "护照", "照", "大学 护照"}},
	{"来週の月曜日に東京タワーで会いましょう。", []string{"東京", "ﾀﾜｰ", "曜", "月曜"}},
	{"서울대학교에서 만나요", []string{"대학교", "학교", "울"}},
	{"Երևանում անձրև է", []string{"երևան"}},
	{"თბილისში ვცხოვრობ", []string{"თბილის"}},
	{"አዲስ አበባ ውስጥ እኖራለሁ", []string{"አበባ"}},
	{"Launch is on 🚀🎉 with 👩‍🚀 and 🇩🇪!", []string{"🎉", "👩‍🚀", "🇩🇪"}},
}

func TestASearchFindsWhatWasSaidInAnyScriptIndexedOrNot(t *testing.T) {
	db := openTest(t, t.TempDir())
	for i, s := range spoken {
		dialogue(t, db, "a", fmt.Sprint(i), s.text, fmt.Sprintf("answer %d", i))
	}
	for _, state := range []string{"unindexed", "indexed"} {
		for _, s := range spoken {
			for _, query := range s.queries {
				got, whole := searchIn(t, db, "a", query, 10)
				if strings.HasPrefix(query, "مكتب") { // its first word is of no entry
					whole = !whole
				}
				if !slices.Equal(got, []string{s.text}) || !whole {
					t.Errorf("%s: %q finds %q (whole: %v), want %q", state, query, got, whole, s.text)
				}
			}
		}
		indexAll(t, db)
	}
	if n := count(t, db.path, "history_terms_docsize"); n != 2*len(spoken) {
		t.Errorf("the index has %d entries", n)
	}
}

func TestWhatIsTakenAwayIsNotFoundAndItsNumberMayComeAgain(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	dialogue(t, db, "a", "1", "mango one", "-")
	dialogue(t, db, "b", "2", "mango two", "-")
	indexAll(t, db)
	must(t, NewChats(db).Reset(t.Context(), testKey("b"))) // its session is over: nothing of it needs to stay
	sideQuery(t, dir, `UPDATE history SET at = at - 7200000 WHERE message_id = '2'`)
	// of a chat that is silent for as long all would go
	must(t, keeping(t, db, RetentionOptions{History: time.Hour}).Sweep(t.Context()))
	if n := count(t, dir, "history_terms_docsize"); n != 1 {
		t.Errorf("the index has %d entries", n)
	}
	if got, _ := searchIn(t, db, "b", "mango", 5); len(got) != 0 {
		t.Errorf("found %q", got)
	}
	dialogue(t, db, "c", "3", "mango three", "-") // gets the numbers of what was taken away
	for range 2 {
		for chat, want := range map[string]string{"a": "mango one", "c": "mango three"} {
			if got, _ := searchIn(t, db, chat, "mango", 5); strings.Join(got, "|") != want {
				t.Errorf("in %s is found %q", chat, got)
			}
		}
		indexAll(t, db)
	}
	healthy(t, db)
}

func TestRowsThatVanishWhileTheyAreIndexedStayOut(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	dialogue(t, db, "a", "1", "mango one", "-")
	dialogue(t, db, "b", "2", "mango two", "-")
	s, err := NewSearchIndex(db, SearchIndexOptions{})
	must(t, err)
	through, rows, err := s.next(t.Context())
	must(t, err)
	sideQuery(t, dir, `DELETE FROM history WHERE seq = 1 AND chat_id = 1`)
	if taken, err := s.put(t.Context(), through, rows); err != nil || !taken {
		t.Fatalf("it was taken: %v, %v", taken, err)
	}
	if n := count(t, dir, "history_terms_docsize"); n != 1 {
		t.Errorf("the index has %d entries", n)
	}
	if taken, err := s.put(t.Context(), through, rows); err != nil || taken {
		t.Errorf("what another has indexed was taken again: %v, %v", taken, err)
	}
}

// The numbers of deleted rows are used again. Rows that take them while others are indexed are not passed over.
func TestRowsThatTakeTheNumbersOfRowsThatVanishAreIndexed(t *testing.T) {
	db := openTest(t, t.TempDir())
	dialogue(t, db, "a", "1", "mango one", "-")
	s, err := NewSearchIndex(db, SearchIndexOptions{})
	must(t, err)
	through, rows, err := s.next(t.Context())
	must(t, err)
	_, err = NewForgetting(db).Chat(t.Context(), testKey("a"), nil)
	must(t, err)
	dialogue(t, db, "b", "1", "mango two", "-")
	if taken, err := s.put(t.Context(), through, rows); err != nil || taken {
		t.Errorf("rows that are gone were taken: %v, %v", taken, err)
	}
	must(t, s.CatchUp(t.Context()))
	if n := count(t, db.path, "history_terms_docsize"); n != 1 {
		t.Errorf("the index has %d entries, want 1", n)
	}
}

func TestTheIndexSurvivesAVacuum(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	for i := range 20 {
		dialogue(t, db, "a", fmt.Sprint(i), fmt.Sprintf("word%02d", i), "-")
	}
	indexAll(t, db)
	sideQuery(t, dir, `DELETE FROM history WHERE seq < 10`)
	sideQuery(t, dir, `VACUUM`)
	for i := range 20 {
		got, _ := searchIn(t, db, "a", fmt.Sprintf("word%02d", i), 5)
		if found := len(got) == 1; found != (i >= 9) {
			t.Errorf("word%02d: %q", i, got)
		}
	}
}

func TestALongEntryIsFoundByItsBeginning(t *testing.T) {
	db := openTest(t, t.TempDir())
	dialogue(t, db, "a", "1", "early "+strings.Repeat("x ", 40<<10)+" late", "-")
	for range 2 {
		for query, want := range map[string]int{"early": 1, "late": 0} {
			if got, _ := searchIn(t, db, "a", query, 5); len(got) != want {
				t.Errorf("%q finds %d entries", query, len(got))
			}
		}
		indexAll(t, db)
	}
}

// The index finds the same entries as reading does, for every query.
func FuzzTheIndexFindsWhatReadingFinds(f *testing.F) {
	db := openTest(f, f.TempDir())
	for i, s := range spoken {
		dialogue(f, db, "read", fmt.Sprintf("%d.1", i), s.text, s.text+" "+spoken[(i+1)%len(spoken)].text)
		dialogue(f, db, "indexed", fmt.Sprintf("%d.2", i), s.text, s.text+" "+spoken[(i+1)%len(spoken)].text)
		for _, q := range s.queries {
			f.Add(q)
		}
	}
	f.Add(`" OR terms:* NEAR(a b) -x ^y {z} AND NOT ") ; DROP`)
	f.Add("\x00\xff'\"*")
	indexAll(f, db)
	// The entries of one chat are put back behind the index.
	sideQuery(f, db.path,
		`DELETE FROM history_terms WHERE rowid IN (SELECT h.id FROM history h JOIN chats c ON c.id = h.chat_id WHERE
			c.chat = 'read')`)
	sideQuery(f, db.path,
		`UPDATE history SET id = id + 100000 WHERE chat_id = (SELECT id FROM chats WHERE chat = 'read')`)
	f.Fuzz(func(t *testing.T, query string) {
		read, wholeRead := searchIn(t, db, "read", query, 7)
		indexed, wholeIndexed := searchIn(t, db, "indexed", query, 7)
		if wholeRead != wholeIndexed || wholeRead && !slices.Equal(read, indexed) || len(read) != len(indexed) {
			t.Fatalf("%q: reading finds %q (%v), the index %q (%v)", query, read, wholeRead, indexed, wholeIndexed)
		}
	})
}

func TestTheIndexFollowsWhatIsSaidAndRestsWhenNothingIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		dialogue(t, db, "a", "1", "before the index ran", "so it was")
		<-db.said // by a process that is gone
		s, err := NewSearchIndex(db, SearchIndexOptions{})
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()

		wantIndexed := func(after time.Duration, rows int) {
			t.Helper()
			time.Sleep(after)
			if n := count(t, dir, "history_terms_docsize"); n != rows {
				t.Errorf("%d rows are indexed, want %d", n, rows)
			}
		}
		wantIndexed(time.Minute, 2)
		sideQuery(t, dir, `INSERT INTO history (chat_id, session, seq, ordinal, speaker, text, message_id, at)
			SELECT chat_id, session, seq + 100, ordinal, speaker, text, message_id, at FROM history WHERE ordinal = 0`)
		wantIndexed(time.Hour, 2) // of what came without the writer's knowledge nobody looked for
		dialogue(t, db, "a", "2", "after an hour", "so it is")
		wantIndexed(time.Minute, 5)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestTheEntriesOfOneStepAreOneSegment: a savepoint between two of them would have FTS5 write a segment for each.
func TestTheEntriesOfOneStepAreOneSegment(t *testing.T) {
	db := openTest(t, t.TempDir())
	for i := range indexRows / 4 {
		dialogue(t, db, "a", fmt.Sprint(i), "Where is the parcel?", "At the office.")
	}
	indexAll(t, db)
	var segments int
	count := &query{`SELECT COUNT(DISTINCT segid) FROM history_terms_idx`}
	_, err := db.reader.one(t.Context(), count, []any{&segments})
	must(t, err)
	if segments != 1 {
		t.Errorf("the index has %d segments", segments)
	}
}
