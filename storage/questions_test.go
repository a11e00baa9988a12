package storage

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/openai"
	"github.com/corebot/corebot/internal/terms"
)

// conversation is a line of a question set: see scripts/testdata/recall/sets.mjs.
type conversation struct {
	Name  string
	Texts []struct{ ID, Text string }
	// Of each question the texts that answer it are known.
	Questions []struct {
		Text    string
		Answers []string
	}
}

// found is how much of the answers searches found among their first five and ten results.
type found struct {
	at5, at10 float64
	n         int
}

func (f *found) add(got, want []string) {
	share := func(k int) (hits float64) {
		for _, id := range want {
			if slices.Contains(got[:min(k, len(got))], id) {
				hits++
			}
		}
		return hits / float64(len(want))
	}
	f.at5, f.at10, f.n = f.at5+share(5), f.at10+share(10), f.n+1
}

func (f *found) String() string {
	n := float64(max(f.n, 1))
	return fmt.Sprintf("recall@5 %.3f  recall@10 %.3f  of %d questions", f.at5/n, f.at10/n, f.n)
}

// TestSearchesFindTheAnswersOfAQuestionSet measures searches by words, by meaning, and by both. scripts/recall plays it
// with a real model.
func TestSearchesFindTheAnswersOfAQuestionSet(t *testing.T) {
	set, endpoint := os.Getenv("RECALL_SET"), os.Getenv("RECALL_ENDPOINT")
	if set == "" || endpoint == "" {
		t.Skip("scripts/recall makes a question set and starts a model")
	}
	e, err := openai.NewEmbedder(endpoint, openai.Options{Model: "m", Timeout: 5 * time.Minute})
	must(t, err)
	var words, meaning, both found
	for _, c := range readConversations(t, set) {
		one := remember(t, e, c)
		for _, q := range c.Questions {
			query := terms.Query{Text: q.Text, Phrases: terms.Parse(q.Text).Phrases}
			entries, _, err := one.history.Search(t.Context(), one.key, query, 10)
			must(t, err)
			words.add(one.ids(entries), q.Answers)
			entries, how, err := one.vectors.Search(t.Context(), one.key, query, 10)
			must(t, err)
			if !how.Meaning {
				t.Fatalf("%q was searched by words alone: %s", q.Text, how.Without)
			}
			both.add(one.ids(entries), q.Answers)
			entries, _, err = one.vectors.Search(t.Context(), one.key, terms.Query{Text: q.Text}, 10)
			must(t, err)
			meaning.add(one.ids(entries), q.Answers)
		}
	}
	fmt.Printf("words    %v\nmeaning  %v\nboth     %v\n", &words, &meaning, &both)
	if both.at10 < words.at10 || both.at10 < meaning.at10 {
		t.Error("both find less than one of them alone")
	}
}

func readConversations(t *testing.T, path string) (all []conversation) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c conversation
		must(t, json.Unmarshal(lines.Bytes(), &c))
		all = append(all, c)
	}
	must(t, lines.Err())
	return all
}

// remembered is a conversation in a database of its own.
type remembered struct {
	key     corebot.Key
	history *History
	vectors *Vectors
	byText  map[string]string
}

func (r remembered) ids(entries []corebot.HistoryEntry) (ids []string) {
	for _, e := range entries {
		ids = append(ids, r.byText[e.Text()])
	}
	return ids
}

// remember stores the texts of a conversation, and indexes them by words and by meaning.
func remember(t *testing.T, e Embedder, c conversation) remembered {
	t.Helper()
	db, ctx := openTest(t, t.TempDir()), t.Context()
	k := testKey(c.Name)
	r := remembered{k, NewHistory(db), NewVectors(db, VectorOptions{
		Embedder: e, Model: "m", Patience: time.Minute,
	}), map[string]string{}}
	for i, text := range c.Texts {
		r.byText[text.Text] = text.ID
		publishTest(t, db, c.Name, fmt.Sprint("m", i))
		must(t, NewLedger(db).Commit(ctx, claimTest(t, db), corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
			History: []corebot.HistoryEntry{{
				Speaker: corebot.SpeakerUser, Parts: corebot.TextPart(text.Text), At: time.Now(),
			}},
		}))
	}
	index, err := NewSearchIndex(db, SearchIndexOptions{})
	must(t, err)
	must(t, index.CatchUp(ctx))
	must(t, r.vectors.CatchUp(ctx))
	return r
}
