package storage

import (
	"fmt"
	"testing"

	"github.com/corebot/corebot"
)

// BenchmarkRecall recalls facts for one message, of 100,000 facts in ten chats. In one of the chats every fact has the
// words of the message.
func BenchmarkRecall(b *testing.B) {
	db := openTest(b, b.TempDir())
	facts := NewFacts(db)
	for chat := range 10 {
		var all []corebot.Fact
		for i := range corebot.MaxFacts {
			f := corebot.Fact{
				Key: testKey(fmt.Sprint(chat)), Scope: corebot.FactsOfChat, Subject: fmt.Sprint("Person ", i%500),
				Relation: "lives since the summer in", Object: fmt.Sprintf("town %d of district %d", i, i%50),
				Sender: corebot.Principal{Channel: "test", ID: "ada"}, MessageID: "m",
			}
			if all = append(all, f); len(all) == 1000 {
				must(b, facts.Learn(b.Context(), all...))
				all = nil
			}
		}
	}
	const message = "Tell me please where person 77 lives now, and since when in which town and district of the country"
	for b.Loop() {
		found, err := facts.Recall(b.Context(), testKey("3"), message, 12)
		if err != nil || len(found) != 12 {
			b.Fatal(len(found), err)
		}
	}
}
