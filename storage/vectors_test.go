package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/terms"
	"github.com/corebot/corebot/internal/vector"
)

// topics are words of one meaning: their place is the dimension that they point to.
var topics = [][]string{
	{"dog", "puppy", "hound", "собака"},
	{"town", "city", "malmö", "moved", "live"},
	{"money", "salary", "paid"},
	{"song", "music", "violin"},
}

// embedderTest gives texts of one topic the same vector.
type embedderTest struct {
	mu     sync.Mutex
	asked  []string // every text that it was sent, once for each time
	fails  func(texts []string) error
	longer int // dimensions beyond those of the topics
}

func (e *embedderTest) Embed(ctx context.Context, texts []string) ([][]float32, corebot.Usage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, texts...)
	if e.fails != nil {
		if err := e.fails(texts); err != nil {
			return nil, corebot.Usage{}, err
		}
	}
	if ctx.Err() != nil {
		return nil, corebot.Usage{}, context.Cause(ctx)
	}
	used := corebot.Usage{}
	var all [][]float32
	for _, text := range texts {
		v := make([]float32, len(topics)+1+e.longer)
		v[len(topics)] = 0.1
		for i, words := range topics {
			for _, word := range words {
				v[i] += float32(strings.Count(strings.ToLower(text), word))
			}
		}
		all = append(all, v)
		used.InputTokens += int64(len(strings.Fields(text)))
	}
	return all, used, nil
}

func (e *embedderTest) times(text string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, asked := range e.asked {
		if strings.Contains(asked, text) {
			n++
		}
	}
	return n
}

func vectorsTest(db *DB, e Embedder, model string) *Vectors {
	return NewVectors(db, VectorOptions{Embedder: e, Model: model, Batch: 4})
}

func meaningOf(t *testing.T, v *Vectors, k corebot.Key, query string, limit int) (texts []string, m corebot.Match) {
	t.Helper()
	found, m, err := v.Search(t.Context(), k, terms.Parse(query), limit)
	must(t, err)
	for _, e := range found {
		texts = append(texts, e.Text())
	}
	return texts, m
}

func TestWhatWasSaidIsFoundByItsMeaning(t *testing.T) {
	db := openTest(t, t.TempDir())
	dialogue(t, db, "c", "1", "We moved to Malmö in May", "noted")
	dialogue(t, db, "c", "2", "My hound eats shoes", "oh no")
	dialogue(t, db, "c", "3", "I play the violin", "nice")
	e := &embedderTest{}
	v := vectorsTest(db, e, "m")
	must(t, v.CatchUp(t.Context()))
	for query, want := range map[string]string{
		"which city": "We moved to Malmö in May", "puppy": "My hound eats shoes",
		"собака":     "My hound eats shoes",
		"what music": "I play the violin",
	} {
		found, m := meaningOf(t, v, testKey("c"), query, 3)
		if len(found) == 0 || found[0] != want || !m.Meaning || m.Without != "" {
			t.Errorf("%q finds %q, %+v", query, found, m)
		}
	}
	if found, m := meaningOf(t, v, testKey("c"), `"puppy"`, 3); len(found) != 0 || m.Meaning {
		t.Errorf("the word itself finds %q, %+v", found, m)
	}
	if n := e.times("xylophone"); n != 0 {
		t.Error("the result of a tool was embedded")
	}
	// A later message is found by its words at once.
	dialogue(t, db, "c", "4", "The zeppelin is late", "so it is")
	if found, _ := meaningOf(t, v, testKey("c"), "zeppelin", 2); len(found) == 0 || found[0] != "The zeppelin is late" {
		t.Errorf("the newest is not found: %q", found)
	}
}

func TestATextIsPaidForOnceThoughTheEndpointFails(t *testing.T) {
	dir := t.TempDir()
	db := openTest(t, dir)
	for i := range 10 {
		dialogue(t, db, "c", fmt.Sprint(i), fmt.Sprintf("question %d.", i), fmt.Sprintf("answer %d.", i))
	}
	calls := 0
	down := &corebot.Failure{Class: corebot.Transient, Err: errors.New("it is down")}
	e := &embedderTest{fails: func([]string) error {
		if calls++; calls == 3 {
			return down
		}
		return nil
	}}
	if err := vectorsTest(db, e, "m").CatchUp(t.Context()); !errors.Is(err, down) {
		t.Fatalf("it is %v", err)
	}
	if n := count(t, db.path, "vectors"); n != 8 {
		t.Errorf("%d vectors are stored, want 8", n)
	}
	must(t, vectorsTest(db, e, "m").CatchUp(t.Context()))
	if n := count(t, db.path, "vectors"); n != 20 {
		t.Errorf("%d vectors are stored, want 20", n)
	}
	for i := range 10 {
		if n := e.times(fmt.Sprintf("question %d.", i)); n != 1 && (i < 4 || i > 5 || n != 2) {
			t.Errorf("question %d was sent %d times", i, n)
		}
	}
	before := len(e.asked)
	must(t, vectorsTest(db, e, "m").CatchUp(t.Context()))
	if len(e.asked) != before {
		t.Error("texts with vectors were sent again")
	}
}

func TestARefusedTextHoldsUpNoOther(t *testing.T) {
	db := openTest(t, t.TempDir())
	long := "poison dog " + strings.Repeat("x", embedded)
	for i, text := range []string{"a dog", "poison", "a town", long, "a song"} {
		dialogue(t, db, "c", fmt.Sprint(i), text, "ok")
	}
	invalid := fmt.Errorf("%w: 400", corebot.ErrInvalid)
	e := &embedderTest{fails: func(texts []string) error {
		for _, text := range texts {
			if text == "poison" || len(text) > 2*embeddedAgain {
				return invalid
			}
		}
		return nil
	}}
	v := vectorsTest(db, e, "m")
	must(t, v.CatchUp(t.Context()))
	if empty := sideQuery(t, db.path, `SELECT h.text FROM vectors v JOIN history h ON h.id = v.id & 274877906943
		WHERE v.vector = x''`); !slices.Equal(empty, []string{"poison"}) {
		t.Errorf("without a vector are %q", empty)
	}
	if n := count(t, db.path, "vectors"); n != 10 {
		t.Errorf("%d vectors are stored, want 10", n)
	}
	if found, _ := meaningOf(t, v, testKey("c"), "puppy", 2); !slices.Contains(found, long) {
		t.Error("a text that was shortened is not found")
	}
	if found, _ := meaningOf(t, v, testKey("c"), "poison", 1); !slices.Contains([]string{"poison", long}, found[0]) {
		t.Errorf("a text without a vector is not found by its words: %q", found)
	}
}

// An endpoint that refuses every text has something else against it.
func TestAnEndpointThatRefusesEverythingLeavesTheTextsInTheQueue(t *testing.T) {
	for name, single := range map[string]bool{"refused": false, "failed, one by one": true} {
		t.Run(name, func(t *testing.T) {
			db := openTest(t, t.TempDir())
			dialogue(t, db, "c", "1", "a dog", "ok")
			failure := fmt.Errorf("%w: 400 no such model", corebot.ErrInvalid)
			if single {
				failure = errors.New("500")
			}
			e := &embedderTest{fails: func([]string) error { return failure }}
			if err := vectorsTest(db, e, "m").catchUp(t.Context(), single); !errors.Is(err, failure) {
				t.Errorf("it is %v", err)
			}
			if n := count(t, db.path, "vectors"); n != 0 {
				t.Errorf("%d vectors are stored", n)
			}
		})
	}
}

func TestAnotherModelIsNotComparedWithTheLast(t *testing.T) {
	db := openTest(t, t.TempDir())
	for i := range 6 {
		dialogue(t, db, "c", fmt.Sprint(i), "a hound", "ok")
	}
	must(t, vectorsTest(db, &embedderTest{}, "old").CatchUp(t.Context()))
	calls := 0
	e := &embedderTest{fails: func([]string) error {
		if calls++; calls == 2 {
			return errors.New("down")
		}
		return nil
	}}
	v := vectorsTest(db, e, "new")
	if found, m := meaningOf(t, v, testKey("c"), "puppy", 50); len(found) != 0 || m.Meaning || m.Without == "" {
		t.Errorf("vectors of the old model find %q, %+v", found, m)
	}
	if err := v.CatchUp(t.Context()); err == nil {
		t.Fatal("nothing failed")
	}
	if found, _ := meaningOf(t, v, testKey("c"), "puppy", 50); len(found) != 4 { // one call: two turns
		t.Errorf("found are %q", found)
	}
	must(t, v.CatchUp(t.Context()))
	if found, _ := meaningOf(t, v, testKey("c"), "puppy", 50); len(found) != 12 {
		t.Errorf("found are %d", len(found))
	}
	e.mu.Lock()
	e.longer = 3 // the endpoint has another model under the same name
	e.mu.Unlock()
	dialogue(t, db, "c", "last", "a hound", "ok")
	must(t, v.CatchUp(t.Context()))
	if found, _ := meaningOf(t, v, testKey("c"), "puppy", 50); len(found) != 14 {
		t.Errorf("with longer vectors found are %d", len(found))
	}
}

func TestWhileTextsAreEmbeddedAnewEachHasItsOldVectorOrItsNewOne(t *testing.T) {
	db := openTest(t, t.TempDir())
	for i := range 6 {
		dialogue(t, db, "c", fmt.Sprint(i), "a hound", "ok")
	}
	calls := 0
	e := &embedderTest{}
	v := vectorsTest(db, e, "m")
	must(t, v.CatchUp(t.Context()))
	e.fails = func([]string) error {
		if calls++; calls > 1 {
			return errors.New("down")
		}
		return nil
	}
	must(t, v.Renew(t.Context()))
	if err := v.CatchUp(t.Context()); err == nil {
		t.Fatal("nothing failed")
	}
	e.fails = nil
	if found, _ := meaningOf(t, v, testKey("c"), "puppy", 50); len(found) != 12 {
		t.Errorf("in the middle found are %d", len(found))
	}
	must(t, v.CatchUp(t.Context()))
	if n := sideQuery(t, db.path, `SELECT COUNT(*) FROM vectors v, vector_state s
		WHERE v.generation = s.generation`); n[0] != "12" {
		t.Errorf("%s vectors are new", n[0])
	}
}

func TestAVectorGoesWithItsText(t *testing.T) {
	db := openTest(t, t.TempDir())
	dialogue(t, db, "c", "1", "a dog", "ok")
	k := testKey("c")
	who := corebot.Principal{Channel: "test", ID: "ada"}
	fact := corebot.Fact{
		Key: k, Scope: corebot.FactsOfChat, Subject: "ada", Relation: "has", Object: "a dog", Sender: who,
		MessageID: "m",
		Replaces:  true,
	}
	must(t, NewFacts(db).Learn(t.Context(), fact))
	sideQuery(t, db.path, `INSERT INTO summaries (chat_id, session, through, text, model, at)
		SELECT id, 1, 1, 'of a dog', '', 1 FROM chats`)
	v := vectorsTest(db, &embedderTest{}, "m")
	kinds := func(when, want string) {
		t.Helper()
		must(t, v.CatchUp(t.Context()))
		if got := strings.Join(sideQuery(t, db.path, `SELECT (id >> 61) || ':' || COUNT(*) FROM vectors
			GROUP BY id >> 61`),
			" "); got != want {
			t.Errorf("%s: vectors are %s, want %s", when, got, want)
		}
	}
	kinds("all", "1:2 2:1 3:1")
	fact.Object = "a cat"
	must(t, NewFacts(db).Learn(t.Context(), fact))
	if n := sideQuery(t, db.path, `SELECT id FROM vectors WHERE id >> 61 = 2`); len(n) != 0 {
		t.Errorf("the superseded fact has a vector: %v", n)
	}
	kinds("superseded", "1:2 2:1 3:1")
	sideQuery(t, db.path, `UPDATE summaries SET text = 'of a cat', through = 2`)
	if n := sideQuery(t, db.path, `SELECT id FROM vectors WHERE id >> 61 = 3`); len(n) != 0 {
		t.Error("the old summary has a vector")
	}
	kinds("summarised again", "1:2 2:1 3:1")
	found, err := NewFacts(db).Page(t.Context(), k, false, 1)
	must(t, err)
	_, err = NewFacts(db).Forget(t.Context(), k, []int64{found[0].ID}, func(corebot.Fact) bool { return true })
	must(t, err)
	kinds("forgotten", "1:2 3:1")
	if _, err := NewForgetting(db).Chat(t.Context(), k, nil); err != nil {
		t.Fatal(err)
	}
	kinds("deleted", "")
}

// Between the call and its commit a text can be deleted, and another can take its number.
func TestAVectorIsStoredForTheTextThatWasRead(t *testing.T) {
	db := openTest(t, t.TempDir())
	dialogue(t, db, "a", "1", "a dog", "ok")
	e := &embedderTest{}
	e.fails = func([]string) error {
		e.fails = nil
		_, err := NewForgetting(db).Chat(context.Background(), testKey("a"), nil)
		dialogue(t, db, "b", "1", "some money", "ok")
		return err
	}
	v := vectorsTest(db, e, "m")
	must(t, v.CatchUp(t.Context()))
	if found, _ := meaningOf(t, v, testKey("b"), "salary", 1); len(found) != 1 || found[0] != "some money" {
		t.Errorf("found is %q", found)
	}
	if got := sideQuery(t, db.path, `SELECT COUNT(*) FROM vectors v JOIN history h
		ON v.id = (1 << 61) | (h.chat_id << 38) | h.id`); got[0] != "2" || count(t, db.path, "vectors") != 2 {
		t.Errorf("%s vectors of %d have their text", got[0], count(t, db.path, "vectors"))
	}
}

func TestVectorsAreBookedOnTheirChats(t *testing.T) {
	db := openTest(t, t.TempDir())
	prices, err := corebot.ParsePrices("m=1000/0")
	must(t, err)
	db.SetPrices(prices)
	dialogue(t, db, "a", "1", "one two three four", "five six")
	dialogue(t, db, "b", "1", "one two", "three")
	paused := 0
	pause := func(context.Context) (time.Duration, error) {
		if paused++; paused == 1 {
			return time.Millisecond, nil
		}
		return 0, nil
	}
	v := NewVectors(db, VectorOptions{Embedder: &embedderTest{}, Model: "m", Pause: pause})
	must(t, v.CatchUp(t.Context()))
	use := func(k corebot.Key) corebot.UsageTotals {
		u, err := NewBooks(db).Use(t.Context(), corebot.UsageFilter{From: "2000", To: "3000", Chat: k})
		must(t, err)
		return u
	}
	a, b := use(testKey("a")), use(testKey("b"))
	if a.InputTokens+b.InputTokens != 9 || a.InputTokens <= b.InputTokens || b.InputTokens < 1 || a.Cost == 0 {
		t.Errorf("booked are %+v and %+v", a, b)
	}
	if paused < 2 {
		t.Error("nobody asked whether the budget is used up")
	}
	before := use(testKey("b"))
	meaningOf(t, v, testKey("b"), "what is it", 1)
	if after := use(testKey("b")); after.InputTokens != before.InputTokens+3 {
		t.Errorf("a question was booked as %+v, before %+v", after, before)
	}
}

func TestWithoutTheEndpointTheWordsDecide(t *testing.T) {
	db := openTest(t, t.TempDir())
	dialogue(t, db, "c", "1", "a hound of ours", "ok")
	e := &embedderTest{}
	v := vectorsTest(db, e, "m")
	must(t, v.CatchUp(t.Context()))
	must(t, NewFacts(db).Learn(t.Context(), corebot.Fact{
		Key: testKey("c"), Scope: corebot.FactsOfChat, Subject: "ada", Relation: "has", Object: "a hound",
		Sender: corebot.Principal{Channel: "test", ID: "ada"}, MessageID: "m",
	}))
	e.fails = func([]string) error { return errors.New("down") }
	found, m := meaningOf(t, v, testKey("c"), "hound", 5)
	if len(found) != 1 || m.Meaning || m.Without == "" || !m.Whole {
		t.Errorf("found is %q, %+v", found, m)
	}
	facts, m, err := v.Recall(t.Context(), testKey("c"), corebot.Principal{}, "hound", 5)
	if err != nil || len(facts) != 1 || m.Without == "" {
		t.Errorf("recalled are %v, %+v: %v", facts, m, err)
	}
	if found, m := meaningOf(t, NewVectors(db, VectorOptions{}), testKey("c"), "hound", 5); len(found) != 1 ||
		m.Without != "" {
		t.Errorf("without vectors found is %q, %+v", found, m)
	}
}

// stuck never answers.
type stuck struct{}

func (stuck) Embed(ctx context.Context, _ []string) ([][]float32, corebot.Usage, error) {
	<-ctx.Done()
	return nil, corebot.Usage{}, context.Cause(ctx)
}

func TestASearchDoesNotWaitLongForAnEndpoint(t *testing.T) {
	db := openTest(t, t.TempDir())
	dialogue(t, db, "c", "1", "a hound", "ok")
	must(t, vectorsTest(db, &embedderTest{}, "m").CatchUp(t.Context()))
	v := NewVectors(db, VectorOptions{Embedder: stuck{}, Model: "m", Patience: 10 * time.Millisecond})
	if found, m := meaningOf(t, v, testKey("c"), "hound", 5); len(found) != 1 || m.Without == "" {
		t.Errorf("found is %q, %+v", found, m)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(corebot.ErrStopped)
	if _, _, err := v.Search(ctx, testKey("c"), terms.Parse("hound"), 5); !errors.Is(err, corebot.ErrStopped) {
		t.Errorf("a search that was stopped is %v", err)
	}
}

func TestVectorsAreMadeBehindTheTurnsAndNothingPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		down := true
		calls := 0
		e := &embedderTest{fails: func([]string) error {
			if calls++; down {
				return errors.New("down")
			}
			return nil
		}}
		v := NewVectors(db, VectorOptions{Embedder: e, Model: "m"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- v.Run(ctx) }()
		time.Sleep(time.Hour)
		if calls != 0 {
			t.Errorf("without a text there were %d calls", calls)
		}
		dialogue(t, db, "c", "1", "a hound", "ok")
		time.Sleep(2 * time.Hour)
		e.mu.Lock()
		tried := calls
		down = false
		e.mu.Unlock()
		if tried < 5 || tried > 60 {
			t.Errorf("in two hours a failing endpoint was asked %d times", tried)
		}
		time.Sleep(time.Hour)
		if n, err := v.count(t.Context()); err != nil || n != 2 {
			t.Errorf("there are %d vectors: %v", n, err)
		}
		e.mu.Lock()
		tried = calls
		e.mu.Unlock()
		time.Sleep(24 * time.Hour)
		if calls != tried {
			t.Errorf("without a new text there were %d calls", calls-tried)
		}
		cancel()
		must(t, <-ended)
	})
}

// A text that a start finds has waited long enough.
func TestTextsFromBeforeAStartWaitForTheStartAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		dialogue(t, db, "c", "1", "a hound", "ok")
		v := NewVectors(db, VectorOptions{Embedder: &embedderTest{}, Model: "m"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- v.Run(ctx) }()
		for _, c := range []struct {
			after time.Duration
			want  int64
		}{{time.Second / 2, 0}, {time.Second, 2}, {5 * time.Second, 2}, {10 * time.Second, 4}} {
			time.Sleep(c.after)
			if n, err := v.count(t.Context()); err != nil || n != c.want {
				t.Errorf("after another %v there are %d vectors, want %d: %v", c.after, n, c.want, err)
			}
			if c.after == time.Second {
				dialogue(t, db, "c", "2", "a cat", "ok") // a new text waits for more
			}
		}
		cancel()
		must(t, <-ended)
	})
}

// count counts the vectors.
func (v *Vectors) count(ctx context.Context) (n int64, err error) {
	_, err = v.db.reader.one(ctx, &query{`SELECT COUNT(*) FROM vectors`}, []any{&n})
	return n, err
}

func TestFusionPrefersWhatSeveralListsHave(t *testing.T) {
	got := fuse(4, []int64{1, 2, 3}, []int64{9, 3, 8}, nil)
	if !slices.Equal(got, []int64{3, 1, 9, 2}) {
		t.Errorf("fused is %v", got)
	}
	if got := fuse(3); len(got) != 0 {
		t.Errorf("of nothing comes %v", got)
	}
}

// The last item of one scope and the first of the next are neighbours in the table.
func TestThePlacesOfScopesDoNotOverlap(t *testing.T) {
	last, ok := spot(ofHistory, 7, 1<<itemBits-1)
	next, _ := spot(ofHistory, 8, 0)
	if !ok || next != last+1 {
		t.Errorf("places are %d and %d, %v", last, next, ok)
	}
	if top, ok := spot(ofSummaries, 1<<scopeBits-1, 1<<itemBits-1); !ok || top < 0 {
		t.Errorf("the last place is %d, %v", top, ok)
	}
	for _, beyond := range [][2]int64{{7, 1 << itemBits}, {1 << scopeBits, 0}, {-1, 0}, {0, -1}} {
		if id, ok := spot(ofHistory, beyond[0], beyond[1]); ok {
			t.Errorf("%v has the place %d", beyond, id)
		}
	}
	db := openTest(t, t.TempDir())
	packed, err := vector.Pack([]float32{1, 2})
	must(t, err)
	sideQuery(t, db.path, `INSERT INTO vectors VALUES (?, 1, ?), (?, 1, ?)`, last, packed, next, packed)
	v := NewVectors(db, VectorOptions{})
	for scope, want := range map[int64]int64{7: 1<<itemBits - 1, 8: 0} {
		if ids, err := v.nearest(t.Context(), ofHistory, []int64{scope}, question{packed, 1}); err != nil ||
			len(ids) != 1 || ids[0] != want {
			t.Errorf("in scope %d are %v: %v", scope, ids, err)
		}
	}
}
