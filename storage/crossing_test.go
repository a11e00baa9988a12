package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/terms"
)

// lookAlikes are keys that differ in one field, or that look like one another when their fields are joined, folded or
// escaped.
func lookAlikes() []corebot.Key {
	k := corebot.Key{Agent: "main", Channel: "test", Chat: "c"}
	with := func(change func(*corebot.Key)) corebot.Key {
		other := k
		change(&other)
		return other
	}
	return []corebot.Key{
		k,
		with(func(k *corebot.Key) { k.Agent = "helper" }),
		with(func(k *corebot.Key) { k.Channel = "test2" }),
		with(func(k *corebot.Key) { k.Channel = "Test" }),
		with(func(k *corebot.Key) { k.Account = "c" }),
		with(func(k *corebot.Key) { k.Account = ":" }),
		with(func(k *corebot.Key) { k.Chat = "C" }),
		with(func(k *corebot.Key) { k.Chat = "c " }),
		with(func(k *corebot.Key) { k.Chat = "с" }), // Cyrillic
		with(func(k *corebot.Key) { k.Chat = "c:7" }),
		with(func(k *corebot.Key) { k.Chat = "c%3A7" }),
		with(func(k *corebot.Key) { k.Chat = ":c" }),
		with(func(k *corebot.Key) { k.Chat = "main:test::c" }),
		with(func(k *corebot.Key) { k.Thread = "7" }),
		with(func(k *corebot.Key) { k.Thread = "c" }),
		with(func(k *corebot.Key) { k.Thread = ":7" }),
		with(func(k *corebot.Key) { k.Chat, k.Thread = "'; DROP TABLE chats; --", "%" }),
		with(func(k *corebot.Key) { k.Chat = "_" }), // one letter, where LIKE is used
		with(func(k *corebot.Key) { k.Chat = "%" }),
	}
}

// In each of the chats the same sender id says, under the same message id, what only that chat may recall, and quotes
// the keys of the others. Entries, summaries and facts are asked for in words that stand in all of them.
func TestNothingThatIsRecalledCrossesChatsThatLookAlike(t *testing.T) {
	db := openTest(t, t.TempDir())
	all := lookAlikes()
	secret := func(i int) string { return fmt.Sprintf("secret%dend", i) }
	for i, k := range all {
		m := testMessage(k.Chat, "m0")
		m.Key, m.Sender = k, corebot.Principal{Channel: k.Channel, Account: k.Account, ID: "ann"}
		r, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
		must(t, errors.Join(err, r[0].Err))
		text := "the password is " + secret(i)
		for _, other := range all {
			text += "\n> " + other.String() + " said: the password is"
		}
		must(t, NewLedger(db).Commit(t.Context(), claimTest(t, db), corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
			History: []corebot.HistoryEntry{{
				Speaker: corebot.SpeakerUser, Sender: m.Sender, Parts: corebot.TextPart(text), At: time.Now(),
			}},
		}))
		must(t, NewFacts(db).Learn(t.Context(), corebot.Fact{
			Key: k, Scope: corebot.FactsOfChat, Subject: "ann", Relation: "has the password", Object: secret(i),
			Sender: m.Sender, MessageID: "m0",
		}))
		sideQuery(t, db.path, `INSERT INTO summaries (chat_id, session, through, text, model, at)
			SELECT id, 1, 0, ?1, '', 1 FROM chats WHERE agent = ?2 AND channel = ?3 AND account = ?4 AND chat = ?5
			AND thread = ?6`, secret(i), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	}
	index, err := NewSearchIndex(db, SearchIndexOptions{})
	must(t, err)
	for _, indexed := range []bool{false, true} {
		if indexed {
			must(t, index.CatchUp(t.Context()))
		}
		for i, k := range all {
			found, _, err := NewHistory(db).Search(t.Context(), k, terms.Parse("password"), 100)
			must(t, err)
			facts, err := NewFacts(db).Recall(t.Context(), k, "the password of ann", 100)
			must(t, err)
			summaries, err := NewHistory(db).Summaries(t.Context(), k, corebot.SummaryRange{}, 100)
			must(t, err)
			_, texts := inPlay(t, db, k)
			for _, e := range found {
				texts = append(texts, e.Text())
			}
			for _, f := range facts {
				texts = append(texts, f.Object)
			}
			for _, s := range summaries {
				texts = append(texts, s.Text)
			}
			stray := slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(s, secret(i)) })
			if stray || len(found) != 1 || len(facts) != 1 || len(summaries) != 1 {
				t.Errorf("indexed %v: %s recalls %d entries, %d facts, %d summaries, and %q", indexed, k, len(found),
					len(facts), len(summaries), texts)
			}
		}
	}
}
