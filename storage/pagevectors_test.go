package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/terms"
)

// book has the pages of memory of a test.
type book map[corebot.Key]string

func (b book) page(_ context.Context, k corebot.Key, read func() error) (string, error) {
	return b[k], read()
}

func (b book) vectors(db *DB, e Embedder) *Vectors {
	return NewVectors(db, VectorOptions{Embedder: e, Model: "m", Batch: 2, Page: b.page})
}

// write changes a page as Corebot does.
func (b book) write(t *testing.T, db *DB, k corebot.Key, text string, gone ...string) {
	t.Helper()
	must(t, NewChats(db).SetMemoryNotes(t.Context(), k, []corebot.MemoryNote{{Ends: len(text), Sum: "x"}}, gone, ""))
	b[k] = text
}

// lines finds lines of some pages, for their first chat.
func (b book) lines(t *testing.T, v *Vectors, query string, pages ...corebot.Key) (texts []string, m corebot.Match) {
	t.Helper()
	var all []corebot.MemoryLines
	for _, k := range pages {
		all = append(all, corebot.MemoryLines{Key: k, Lines: strings.Split(strings.TrimSpace(b[k]), "\n")})
	}
	found, m, err := v.Lines(t.Context(), pages[0], terms.Parse(query), all, 3)
	must(t, err)
	for _, at := range found {
		texts = append(texts, all[at.Page].Lines[at.Line])
	}
	return texts, m
}

func lineVectors(t *testing.T, db *DB) string {
	t.Helper()
	return sideQuery(t, db.path, `SELECT COUNT(*) FROM vectors WHERE id < 0`)[0]
}

func TestALineOfAPageIsFoundByItsMeaning(t *testing.T) {
	db, e, b := openTest(t, t.TempDir()), &embedderTest{}, book{}
	v, k := b.vectors(db, e), testKey("c")
	b.write(t, db, k, "# Ann\n\nHer hound eats shoes\nShe plays the violin\nShe moved to Malmö\n")
	if found, m := b.lines(t, v, "puppy", k); len(found) != 0 || m.Meaning || m.Without == "" {
		t.Errorf("before any vector it finds %q, %+v", found, m)
	}
	must(t, v.CatchUp(t.Context()))
	for query, want := range map[string]string{
		"puppy": "Her hound eats shoes", "which city": "She moved to Malmö", "what music": "She plays the violin",
	} {
		if found, m := b.lines(t, v, query, k); len(found) == 0 || found[0] != want || !m.Meaning {
			t.Errorf("%q finds %q, %+v", query, found, m)
		}
	}
	if found, m := b.lines(t, v, `"hound eats"`, k); len(found) != 1 || m.Meaning {
		t.Errorf("the words themselves find %q, %+v", found, m)
	}
	if n := e.times("Her hound"); n != 1 {
		t.Errorf("a line was sent %d times", n)
	}
	must(t, v.Renew(t.Context()))
	if found, _ := b.lines(t, v, "puppy", k); len(found) == 0 || found[0] != "Her hound eats shoes" {
		t.Errorf("the old vectors are not used: %q", found)
	}
	must(t, v.CatchUp(t.Context()))
	if n := e.times("Her hound"); n != 2 {
		t.Errorf("with a reindex a line was sent %d times", n)
	}
	if n := e.times("puppy"); n == 0 {
		t.Error("the test counts nothing")
	}
}

func TestTheVectorOfALineGoesWithTheLine(t *testing.T) {
	db, e, b := openTest(t, t.TempDir()), &embedderTest{}, book{}
	v, k := b.vectors(db, e), testKey("c")
	b.write(t, db, k, "a hound\na violin\na town\n")
	must(t, v.CatchUp(t.Context()))
	if n := lineVectors(t, db); n != "3" {
		t.Fatalf("%s lines have vectors", n)
	}
	// Corebot takes a line away: its vector goes in that commit.
	b.write(t, db, k, "a violin\na town\n", "a hound")
	if n := lineVectors(t, db); n != "2" {
		t.Errorf("a forgotten line keeps its vector: %s", n)
	}
	must(t, v.CatchUp(t.Context()))
	// An editor takes a line away, and writes another one: the next search has the page looked at.
	b[k] = "a violin\na puppy\n"
	b.lines(t, v, "dog", k)
	must(t, v.CatchUp(t.Context()))
	if found, _ := b.lines(t, v, "hound", k); len(found) == 0 || found[0] != "a puppy" {
		t.Errorf("a line by an editor is not found: %q", found)
	}
	if n := lineVectors(t, db); n != "2" {
		t.Errorf("a line that an editor took away keeps its vector: %s", n)
	}
	if n := e.times("a violin"); n != 1 {
		t.Errorf("a line that stayed was sent %d times", n)
	}
	before := count(t, db.path, "sqlite_sequence")
	if _, err := NewForgetting(db).Chat(t.Context(), k, nil); err != nil {
		t.Fatal(err)
	}
	if n := lineVectors(t, db); n != "0" || before == 0 {
		t.Errorf("a deleted chat keeps the vectors of its page: %s", n)
	}
}

// A line that was forgotten, or that another one has replaced, leaves no byte of its vector behind the overwriting. Its
// text is in the file of the page alone.
func TestOfAForgottenLineNoByteIsLeft(t *testing.T) {
	for name, overwrite := range map[string]func(*DB, string){
		"overwritten": func(db *DB, _ string) { must(t, overwriter(t, db).overwrite(t.Context())) },
		"vacuum":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir, b, k := t.TempDir(), book{}, testKey("c")
			must(t, Seed(dir))
			earlier(t, dir, func(db *DB) {
				var gone []string
				for i := range 300 { // so many that whole pages become free
					gone = append(gone, fmt.Sprint("a wombat ", i))
				}
				b.write(t, db, k, strings.Join(gone, "\n")+"\na quokka\n")
				must(t, b.vectors(db, marks{}).CatchUp(t.Context()))
				if n := lineVectors(t, db); n != "301" {
					t.Fatalf("%s lines have vectors", n)
				}
				b.write(t, db, k, "a numbat\na quokka\n", gone...)
				must(t, b.vectors(db, marks{}).CatchUp(t.Context()))
				if overwrite != nil {
					overwrite(db, dir)
				} else if len(holds(t, dir, string(markVector("wombat")))) == 0 {
					t.Error("no free page has a vector: the vacuum would prove nothing")
				}
			})
			if overwrite == nil {
				_, err := Vacuum(t.Context(), dir)
				must(t, err)
			}
			for _, gone := range []string{"wombat", string(markVector("wombat"))} {
				if left := holds(t, dir, gone); len(left) > 0 {
					t.Errorf("%q is left: %v", gone, left)
				}
			}
			if len(holds(t, dir, string(markVector("quokka")))) == 0 {
				t.Error("the vector of a line that stays is gone, too")
			}
		})
	}
}

// A line is forgotten while its text is at the endpoint.
func TestALineThatIsForgottenMeanwhileGetsNoVector(t *testing.T) {
	db, b := openTest(t, t.TempDir()), book{}
	k, forgot := testKey("c"), false
	e := &embedderTest{}
	e.fails = func(texts []string) error {
		if !forgot && strings.Contains(texts[0], "hound") {
			forgot = true
			b.write(t, db, k, "a violin\n", "a hound")
		}
		return nil
	}
	v := b.vectors(db, e)
	b.write(t, db, k, "a hound\na violin\n")
	must(t, v.adopt(t.Context()))
	if _, err := v.step(t.Context(), false); err != nil || !forgot {
		t.Fatal(err)
	}
	if n := lineVectors(t, db); n != "0" {
		t.Errorf("behind the commit %s lines have vectors", n)
	}
	must(t, v.CatchUp(t.Context()))
	if n := lineVectors(t, db); n != "1" {
		t.Errorf("%s lines have vectors, want 1", n)
	}
}

// Pages of chats whose keys look alike hold the same words of a secret, each with its own.
func TestNoSearchOfLinesCrossesPages(t *testing.T) {
	db, e, b := openTest(t, t.TempDir()), &embedderTest{}, book{}
	v := b.vectors(db, e)
	all := neighbours()
	for i, k := range all {
		b.write(t, db, k, fmt.Sprintf("my hound number %d\nthe hound of %s\n", i, k))
	}
	b.write(t, db, all[0].InChannel(), "the hound of the channel\n")
	b.write(t, db, all[0].OfAgent(), "the hound of the agent\n")
	must(t, v.CatchUp(t.Context()))
	for i, k := range all {
		found, m := b.lines(t, v, "puppy", k)
		if want := []string{fmt.Sprintf("my hound number %d", i), "the hound of " + k.String()}; !m.Meaning ||
			len(found) != 2 || !slices.Contains(found, want[0]) || !slices.Contains(found, want[1]) {
			t.Errorf("%s finds %q, want %q", k, found, want)
		}
	}
	found, _ := b.lines(t, v, "puppy", all[0], all[0].InChannel(), all[0].OfAgent())
	if len(found) != 3 {
		t.Errorf("three pages give %q", found)
	}
}

func TestAPageThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	db, e, b := openTest(t, t.TempDir()), &embedderTest{}, book{}
	v, k := b.vectors(db, e), testKey("c")
	b.write(t, db, testKey("broken"), "a town\n")
	b.write(t, db, k, "a hound\n")
	v.opts.Page = func(ctx context.Context, k corebot.Key, read func() error) (string, error) {
		if k == testKey("broken") {
			return "", corebot.ErrInvalid
		}
		return b.page(ctx, k, read)
	}
	must(t, v.CatchUp(t.Context()))
	if n := lineVectors(t, db); n != "1" {
		t.Errorf("%s lines have vectors, want 1", n)
	}
}

// Of a page of many short lines the first have vectors, and the others are found by their words.
func TestALongPageIsEmbeddedUpToItsLimit(t *testing.T) {
	db, e, b := openTest(t, t.TempDir()), &embedderTest{}, book{}
	v, k := b.vectors(db, e), testKey("c")
	v.opts.Batch = 500
	var text strings.Builder
	for i := range maxPageLines + 100 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	b.write(t, db, k, text.String())
	must(t, v.CatchUp(t.Context()))
	if n := lineVectors(t, db); n != fmt.Sprint(maxPageLines) {
		t.Errorf("%s lines have vectors", n)
	}
	if found, _ := b.lines(t, v, "line 2099", k); len(found) == 0 || found[0] != "line 2099" {
		t.Errorf("a line behind the limit: %q", found)
	}
}
