package storage

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
)

// recallMessage has 16 different words, and most facts of learnFacts have ten of them.
const recallMessage = "Tell me please where person 77 lives now, and since when in which town and district of " +
	"the country"

// learnFacts has a chat learn n facts.
func learnFacts(t testing.TB, facts *Facts, k corebot.Key, n int) {
	t.Helper()
	var all []corebot.Fact
	for i := range n {
		all = append(all, corebot.Fact{
			Key: k, Scope: corebot.FactsOfChat, Subject: fmt.Sprint("Person ", i%500),
			Relation: "lives since the summer in", Object: fmt.Sprintf("town %d of district %d", i, i%50),
			Sender: corebot.Principal{Channel: "test", ID: "ada"}, MessageID: "m",
		})
		if len(all) == 1000 || i == n-1 {
			must(t, facts.Learn(t.Context(), all...))
			all = nil
		}
	}
}

// A recall reads so much of the database and no more, however many facts there are and however long the message is. Its
// cost is counted in steps of SQLite's machine, which no other program on the computer changes.
func TestTheCostOfARecallDoesNotGrowWithTheFacts(t *testing.T) {
	const most = 5_000   // it takes 4,548 at most
	var numbers []string // each is in many facts
	for i := range 50 {
		numbers = append(numbers, fmt.Sprint(i))
	}
	for _, n := range long.Or([]int{100, 2_000}, []int{100, 1_000, corebot.MaxFacts}) {
		db := openTest(t, t.TempDir())
		facts := NewFacts(db)
		learnFacts(t, facts, testKey("c"), n)
		for name, message := range map[string]string{
			"a message": recallMessage,
			"one word":  strings.Repeat("town ", 100),
			"a page":    "person " + strings.Join(numbers, " "),
			"a prefix":  "summ pers dist live towns",
		} {
			before := readerSteps(db)
			found, err := facts.Recall(t.Context(), testKey("c"), message, 12)
			must(t, err)
			if len(found) != 12 {
				t.Errorf("%s finds %d of %d facts", name, len(found), n)
			}
			steps := readerSteps(db) - before
			t.Logf("%s of %d facts: %d steps", name, n, steps)
			if steps > most {
				t.Errorf("%s takes %d steps with %d facts, at most %d are meant", name, steps, n, most)
			}
		}
	}
}

// Half of the places of a recall are for the one who asks. To find what he said costs no more when others have said
// very much with the same words, and 10,000 facts of one person cost what a hundred cost.
func TestTheCostOfARecallForSomebodyDoesNotGrowWithWhatOthersSaid(t *testing.T) {
	const most = 5_000 // it takes 4,580 at most
	for _, n := range long.Or([]int{100, 2_000}, []int{100, corebot.MaxFacts}) {
		db := openTest(t, t.TempDir())
		facts := NewFacts(db)
		learnFacts(t, facts, testKey("c"), n)
		for _, who := range []string{"ada", "bob"} {
			before := readerSteps(db)
			found, err := facts.RecallFor(t.Context(), testKey("c"), corebot.Principal{Channel: "test", ID: who},
				recallMessage, 12)
			must(t, err)
			if len(found) != 12 {
				t.Errorf("%s is shown %d of %d facts", who, len(found), n)
			}
			steps := readerSteps(db) - before
			t.Logf("for %s, of %d facts: %d steps", who, n, steps)
			if steps > most {
				t.Errorf("a recall for %s takes %d steps with %d facts, at most %d are meant", who, steps, n, most)
			}
		}
	}
}

// readerSteps is what the free connections have done until now.
func readerSteps(db *DB) (n int64) {
	db.reader.mu.Lock()
	defer db.reader.mu.Unlock()
	for _, c := range db.reader.idle {
		for _, s := range c.stmt {
			n += s.Steps()
		}
	}
	return n
}

// BenchmarkRecall recalls facts for one message, of 100,000 facts in ten chats. In one of the chats every fact has the
// words of the message. It is for the one who said them all, for somebody else, and for nobody. Other programs on the
// computer change its processor time little.
func BenchmarkRecall(b *testing.B) {
	db := openTest(b, b.TempDir())
	facts := NewFacts(db)
	for chat := range 10 {
		learnFacts(b, facts, testKey(fmt.Sprint(chat)), corebot.MaxFacts)
	}
	spent := func() time.Duration {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for name, who := range map[string]string{"who said all of it": "ada", "who said nothing": "bob", "nobody": ""} {
		b.Run(name, func(b *testing.B) {
			begun := spent()
			for b.Loop() {
				found, err := facts.RecallFor(b.Context(), testKey("3"), corebot.Principal{Channel: "test", ID: who},
					recallMessage, 12)
				if err != nil || len(found) != 12 {
					b.Fatal(len(found), err)
				}
			}
			b.ReportMetric(float64(spent()-begun)/float64(b.N), "cpu-ns/op")
		})
	}
}
