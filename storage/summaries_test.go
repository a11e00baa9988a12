package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// longTurn ends a turn whose history has n entries.
func longTurn(t *testing.T, db *DB, id string, n int, begins bool) {
	t.Helper()
	publishTest(t, db, "a", id)
	r := corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}, BeginsSession: begins}
	for i := range n {
		r.History = append(r.History, corebot.HistoryEntry{Speaker: corebot.SpeakerUser, Text: fmt.Sprint(id, "-", i), MessageID: id, At: time.Now()})
	}
	must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), r))
}

// recalled gives the entries that a turn finds, newest first.
func recalled(ctx context.Context, t *testing.T, db *DB) iter.Seq2[corebot.HistoryEntry, error] {
	t.Helper()
	_, entries, err := NewHistory(db).Recall(ctx, corebot.Delivery{Message: corebot.Message{Key: testKey("a")}}, 1)
	must(t, err)
	return entries
}

// newestTexts gives the texts of at most n entries, newest first.
func newestTexts(t *testing.T, db *DB, n int) (texts []string) {
	t.Helper()
	for e, err := range recalled(t.Context(), t, db) {
		must(t, err)
		texts = append(texts, e.Text)
		if len(texts) == n {
			break
		}
	}
	return texts
}

func TestHistoryIsReadFromItsNewestEntryBackAcrossPages(t *testing.T) {
	db := openTest(t, t.TempDir())
	sizes := []int{pageRows - 1, 2*pageRows + 2, 1, pageRows} // some pages end within a turn, and the last is full
	var want []string                                         // newest first
	for i, n := range sizes {
		longTurn(t, db, fmt.Sprint(i+1), n, false)
		for j := range n {
			want = append([]string{fmt.Sprint(i+1, "-", j)}, want...)
		}
	}
	if got := newestTexts(t, db, -1); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	if got := newestTexts(t, db, 3); strings.Join(got, " ") != strings.Join(want[:3], " ") {
		t.Errorf("whoever stops gets %q", got)
	}
	publishTest(t, db, "a", "5")
	d := claimTest(t, db)
	for i, c := range []struct {
		through int64
		want    []string
	}{{2, want[:pageRows+1]}, {4, nil}} {
		must(t, summarize(t, db, d, i, corebot.Summary{Session: 1, Through: c.through, Text: "s"}))
		if got := newestTexts(t, db, -1); !slices.Equal(got, c.want) {
			t.Errorf("behind the summary of %d turns are %q", c.through, got)
		}
	}
}

func TestReadingHistoryEndsWithItsContext(t *testing.T) {
	db := openTest(t, t.TempDir())
	longTurn(t, db, "1", pageRows+1, false)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	entries := recalled(ctx, t, db)
	cancel(gone)
	var errs []error
	for _, err := range entries {
		errs = append(errs, err)
	}
	if len(errs) != pageRows+1 || errs[pageRows-1] != nil || !errors.Is(errs[pageRows], gone) {
		t.Errorf("behind the page that was read already came %v", errs[min(pageRows, len(errs)):])
	}
}

func TestATurnThatBeginsASessionIsItsFirst(t *testing.T) {
	db := openTest(t, t.TempDir())
	longTurn(t, db, "1", 2, false)
	longTurn(t, db, "2", 1, true)
	longTurn(t, db, "3", 1, false)
	if got := strings.Join(newestTexts(t, db, -1), " "); got != "3-0 2-0" {
		t.Errorf("the session has %s", got)
	}
	chat, err := NewChats(db).Chat(t.Context(), testKey("a"))
	if err != nil || chat.Session != 2 {
		t.Errorf("the chat is %+v, %v", chat, err)
	}
}

// summarize stores a summary on behalf of a claim.
func summarize(t *testing.T, db *DB, d corebot.Delivery, position int, s corebot.Summary) error {
	t.Helper()
	answer := &corebot.Answer{Model: "m", Usage: corebot.Usage{InputTokens: 100, OutputTokens: 10}}
	return NewLedger(db).Summarize(t.Context(), d, corebot.Step{Position: position, Kind: corebot.StepSummary, State: corebot.StepDone, Answer: answer, StartedAt: time.Now()}, s)
}

func wantSummary(t *testing.T, db *DB, text string, through int64) {
	t.Helper()
	s, err := NewHistory(db).Summary(t.Context(), testKey("a"))
	if err != nil || s.Text != text || s.Through != through {
		t.Errorf("the summary is %+v, %v; want %q through %d", s, err, text, through)
	}
}

func TestASummaryReachesEverFurtherAndNeverBack(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	wantSummary(t, db, "", 0)
	for i := range 3 {
		longTurn(t, db, fmt.Sprint(i+1), 2, false)
	}
	publishTest(t, db, "a", "4")
	d := claimTest(t, db)
	for i, s := range []struct {
		through int64
		text    string
		want    string
	}{{1, "one", "one"}, {1, "another of the same", "one"}, {2, "two", "two"}, {1, "one", "two"}} {
		must(t, summarize(t, db, d, i, corebot.Summary{Session: 1, Through: s.through, Text: s.text, Model: "m"}))
		wantSummary(t, db, s.want, max(s.through, map[string]int64{"one": 1, "two": 2}[s.want]))
	}
	if kept, err := NewHistory(db).Recent(t.Context(), testKey("a"), 10); err != nil || len(kept) != 6 {
		t.Errorf("%d entries are left of 6, %v", len(kept), err)
	}
	if n := count(t, dir, "summaries"); n != 1 {
		t.Errorf("the chat has %d rows", n)
	}
}

func TestASummaryIsOfItsSession(t *testing.T) {
	db := openTest(t, t.TempDir())
	longTurn(t, db, "1", 2, false)
	publishTest(t, db, "a", "2")
	d := claimTest(t, db)
	must(t, summarize(t, db, d, 0, corebot.Summary{Session: 1, Through: 1, Text: "first"}))
	must(t, NewChats(db).Reset(t.Context(), testKey("a")))
	wantSummary(t, db, "", 0)
	must(t, summarize(t, db, d, 1, corebot.Summary{Session: 2, Through: 1, Text: "second"}))
	wantSummary(t, db, "second", 1)
	must(t, summarize(t, db, d, 2, corebot.Summary{Session: 1, Through: 9, Text: "late"}))
	wantSummary(t, db, "second", 1)
}

func TestAStaleWorkerStoresNeitherASummaryNorItsStep(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	longTurn(t, db, "1", 2, false)
	publishTest(t, db, "a", "2")
	d := claimTest(t, db)
	d.Epoch--
	if err := summarize(t, db, d, 0, corebot.Summary{Session: 1, Through: 1, Text: "stale"}); !errors.Is(err, corebot.ErrLeaseLost) {
		t.Errorf("it is told %v", err)
	}
	wantSummary(t, db, "", 0)
	if steps, rows := count(t, dir, "execution_steps"), count(t, dir, "summaries"); steps+rows != 0 {
		t.Errorf("%d steps and %d summaries are stored", steps, rows)
	}
}

// A replay resumes the journal: what its summary cost was booked when the step was recorded, once.
func TestTheTokensOfASummaryAreCountedOnceHoweverOftenItsTurnRuns(t *testing.T) {
	db := openTest(t, t.TempDir())
	longTurn(t, db, "1", 2, false)
	publishTest(t, db, "a", "2")
	d := claimTest(t, db)
	for range 2 { // the second time as if the first commit had been in doubt
		must(t, summarize(t, db, d, 0, corebot.Summary{Session: 1, Through: 1, Text: "one"}))
	}
	must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
	must(t, NewDeadLetters(db).Replay(t.Context(), d.Life, false))
	d = claimTest(t, db)
	if len(d.Journal) != 1 || d.Journal[0].Kind != corebot.StepSummary || d.Journal[0].Answer.Usage.InputTokens != 100 {
		t.Fatalf("the journal is %+v", d.Journal)
	}
	must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}}))
	life, err := NewLives(db).Get(t.Context(), d.Life)
	if err != nil || life.Usage.InputTokens != 100 || life.Usage.OutputTokens != 10 {
		t.Errorf("the life counts %+v, %v", life.Usage, err)
	}
}

func TestASummaryOfASessionThatIsOverGoesWithItsHistory(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	old := time.Now().Add(-2 * day)
	chronicle(t, dir, 1, 1, 10, old)
	chronicle(t, dir, 1, 2, 10, time.Now()) // its first session is over
	chronicle(t, dir, 2, 1, 600, old)       // its session is in play, though parts of it are old
	chronicle(t, dir, 2, 1, 1, time.Now())  // it is in use
	chronicle(t, dir, 3, 1, 10, old)        // nothing was said here for long
	for chat := 1; chat <= 3; chat++ {
		sideQuery(t, dir, `INSERT INTO summaries (chat_id, session, through, text, model, at) VALUES (?, 1, 5, 'x', '', 0)`, chat)
	}
	must(t, keeping(t, db, RetentionOptions{History: day}).Sweep(t.Context()))
	if got := fmt.Sprint(sideQuery(t, dir, `SELECT chat_id FROM summaries`)); got != "[2]" {
		t.Errorf("left are the summaries of %s", got)
	}
	if got := remaining(t, dir, 2); got != "[1|500]" {
		t.Errorf("of the second chat are left %s: nothing was swept", got)
	}
}
