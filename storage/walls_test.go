package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/terms"
)

// neighbours are chats whose keys look alike. They have the same ids in other channels, accounts, threads and agents,
// ids that spell other keys, and letters that fold to the same.
func neighbours() []corebot.Key {
	return []corebot.Key{
		{Agent: "main", Channel: "test", Account: "", Chat: "7"},
		{Agent: "main", Channel: "test", Account: "", Chat: "7", Thread: "7"},
		{Agent: "main", Channel: "test", Account: "7", Chat: "7"},
		{Agent: "main", Channel: "test2", Account: "", Chat: "7"},
		{Agent: "main2", Channel: "test", Account: "", Chat: "7"},
		{Agent: "main", Channel: "test", Account: "", Chat: "7:7"},
		{Agent: "main", Channel: "test", Account: "", Chat: "main:test::7"},
		{Agent: "main", Channel: "test", Account: "", Chat: "7 "},
		{Agent: "main", Channel: "test", Account: "", Chat: "７"},
		{Agent: "main", Channel: "test", Account: "", Chat: "7%"},
		{Agent: "main", Channel: "test", Account: "", Chat: "7' OR '1'='1"},
		{Agent: "MAIN", Channel: "test", Account: "", Chat: "7"},
	}
}

// quotes are what one chat says of another: its texts, its key, and queries against the index.
var quotes = []string{
	`You said: "secret %d of the dog"`, `1·secret %d OR 2·dog`, `main:test::7 secret %d`,
	"chat_id = 1 -- secret %d dog",
	"secret %d* dog", "puppy", "secret %d dog town money song",
}

func TestNoSearchCrossesChatsPrincipalsOrAgents(t *testing.T) {
	db := openTest(t, t.TempDir())
	all := neighbours()
	facts := NewFacts(db)
	for i, k := range all {
		said := fmt.Sprintf("secret %d of the dog", i)
		m := testMessage("", fmt.Sprint("m", i))
		m.Key = k
		r, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
		must(t, err)
		must(t, r[0].Err)
		must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
			History: []corebot.HistoryEntry{{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart(said)}},
		}))
		for _, scope := range []corebot.FactScope{
			corebot.FactsOfChat, corebot.FactsOfChannel, corebot.FactsOfAgent,
		} {
			must(t, facts.Learn(t.Context(), corebot.Fact{
				Key: k, Scope: scope, Subject: "the dog", Relation: "keeps", Object: fmt.Sprintf("secret %d", i),
				Sender: corebot.Principal{Channel: k.Channel, Account: k.Account, ID: "ada"}, MessageID: m.ID,
			}))
		}
	}
	indexAll(t, db)
	v := vectorsTest(db, &embedderTest{}, "m")
	must(t, v.CatchUp(t.Context()))
	for i, k := range all {
		for j := range all {
			if (len(all)+j-i)%long.Or(5, 1) != 0 {
				continue
			}
			for _, quote := range quotes {
				query := strings.ReplaceAll(quote, "%d", fmt.Sprint(j))
				unquoted := terms.Query{Text: query, Phrases: terms.Parse(query).Phrases}
				for _, q := range []terms.Query{terms.Parse(query), unquoted} {
					found, _, err := v.Search(t.Context(), k, q, 50)
					must(t, err)
					for _, e := range found {
						if want := fmt.Sprintf("secret %d of the dog", i); e.Text() != want {
							t.Fatalf("%s finds %q by %q", k, e.Text(), query)
						}
					}
				}
				recalled, _, err := v.Recall(t.Context(), k, corebot.Principal{}, query, 50)
				must(t, err)
				for _, f := range recalled {
					if !f.SeenIn(k) {
						t.Fatalf("%s recalls %s of %s by %q", k, f, f.Key, query)
					}
				}
			}
		}
		found, m, err := v.Search(t.Context(), k, terms.Parse("puppy"), 50)
		if err != nil || len(found) != 1 || !m.Meaning {
			t.Errorf("%s finds %d by meaning, %+v: %v", k, len(found), m, err)
		}
		recalled, _, err := v.Recall(t.Context(), k, corebot.Principal{}, "puppy", 50)
		must(t, err)
		seen := slices.DeleteFunc(slices.Clone(all), func(o corebot.Key) bool {
			return o != k && o.InChannel() != k.InChannel() && o.Agent != k.Agent
		})
		if len(recalled) < 3 || len(recalled) > 3*len(seen) {
			t.Errorf("%s recalls %d facts", k, len(recalled))
		}
	}
}
