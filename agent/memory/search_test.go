package memory_test

import (
	"context"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/terms"
)

func search(pages *memory.Store, q terms.Query) ([]memory.Line, error) {
	global := corebot.Key{Agent: "main"}
	found, _, err := pages.Search(context.Background(), global, q, []corebot.Key{global}, 50)
	return found, err
}

func TestASearchGivesTheLinesOfAPageThatHaveTheWholeQuery(t *testing.T) {
	pages, _ := newStore(t, memory.Options{})
	if found, err := search(pages, terms.Parse("x")); err != nil || len(found) != 0 {
		t.Errorf("a page that is not there: %+v, %v", found, err)
	}
	if err := pages.Replace(memory.Global,
		"# Tea\r\n\ngreen tea, \xe4\xb8\x9c\xe4\xba\xac\ntea\nlast green TEA"); err != nil {
		t.Fatal(err)
	}
	found, err := search(pages, terms.Parse("tea green"))
	if err != nil || len(found) != 2 || found[0].Number != 3 || found[0].Text != "green tea, 东京" ||
		found[1].Number != 5 {
		t.Errorf("got %+v, %v", found, err)
	}
	if found, err := search(pages, terms.Query{}); err != nil || len(found) != 0 {
		t.Errorf("nothing finds %+v, %v", found, err)
	}
}

// A search of many conversations skips those that have no directory, and none that has a page.
func TestTheDirectoriesOfConversationsSayWhereAPageCanBe(t *testing.T) {
	pages, _ := newStore(t, memory.Options{})
	a := corebot.Key{Agent: "main", Channel: "test", Account: "x", Chat: "a"}
	upper, long, never := a, a, a
	upper.Chat, long.Chat, never.Chat = "Ä/..%Z", strings.Repeat("long", 100), "never"
	known := func(k corebot.Key) bool {
		can, err := pages.Written()
		if err != nil {
			t.Fatal(err)
		}
		return can(k)
	}
	if known(a) {
		t.Error("without a directory there is a page")
	}
	for _, k := range []corebot.Key{a, upper, long, a.InChannel()} {
		if err := pages.Append(memory.Of(k), "x"); err != nil {
			t.Fatal(err)
		}
		if !known(k) || known(never) {
			t.Errorf("the page of %s is known: %v, one that was never written: %v", k, known(k), known(never))
		}
	}
}

// BenchmarkSearch is a search of one page of the largest size: why memory has no index.
func BenchmarkSearch(b *testing.B) {
	pages, _ := newStore(b, memory.Options{})
	line := "- Ada drinks tea at five, and lives in Malmö with two cats.\n"
	if err := pages.Replace(memory.Global, strings.Repeat(line, memory.DefaultMaxBytes/len(line))); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := search(pages, terms.Parse("cats paris")); err != nil {
			b.Fatal(err)
		}
	}
}
