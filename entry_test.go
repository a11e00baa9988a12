package corebot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/corebot/corebot"
)

var (
	itsChat    = corebot.Key{Agent: "main", Channel: "test", Chat: "chat", Thread: "7"}
	itsMaker   = corebot.Key{Agent: "main", Channel: "test", Chat: "maker"}
	adminsChat = corebot.Key{Agent: "main", Channel: "test", Chat: "admins"}
	whoActs    = corebot.Principal{Channel: "test", ID: "ann"}
)

// Every entry, and every question that is asked of one.
func TestWhatAnEntryAnswers(t *testing.T) {
	word := func(k corebot.EntryKind) corebot.Entry { return corebot.Entry{Kind: k, From: itsMaker} }
	became := func(k corebot.EntryKind) corebot.Entry { return corebot.Entry{Since: k} }
	again := func(k corebot.EntryKind) corebot.Entry {
		return corebot.Entry{Kind: k, Since: corebot.EntryReplay, From: itsMaker}
	}
	makerOnly := []corebot.Key{itsMaker, adminsChat}
	alone, withMaker := []corebot.Key{itsChat, adminsChat}, []corebot.Key{itsChat, itsMaker, adminsChat}
	for _, c := range []struct {
		name        string
		entry       corebot.Entry
		word        corebot.EntryKind
		interactive bool // if its message says that a person wrote it
		results     corebot.Key
		approvals   []corebot.Key
	}{
		{"direct", corebot.Entry{}, "direct", true, itsChat, alone},
		{"direct, by its word", corebot.Entry{Kind: corebot.EntryDirect}, "direct", true, itsChat, alone},
		{"replay", became(corebot.EntryReplay), "replay", false, itsChat, alone},
		{"steer", became(corebot.EntrySteer), "steer", false, itsChat, alone},
		{"task", word(corebot.EntryTask), "task", false, itsChat, withMaker},
		{"task of its own chat", corebot.Entry{Kind: corebot.EntryTask, From: itsChat}, "task", false, itsChat, alone},
		{"replayed task", again(corebot.EntryTask), "replay", false, itsChat, withMaker},
		{"event", word(corebot.EntryEvent), "event", false, itsChat, withMaker},
		{"event of nobody", corebot.Entry{Kind: corebot.EntryEvent}, "event", false, itsChat, alone},
		{"agent", word(corebot.EntryAgent), "agent", false, itsMaker, makerOnly},
		{"replayed agent", again(corebot.EntryAgent), "replay", false, itsMaker, makerOnly},
		{"client", corebot.Entry{Kind: corebot.EntryClient}, "mcp.serve", false, itsChat, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			person := c.entry
			person.Person = true
			if c.entry.Interactive() || person.Interactive() != c.interactive {
				t.Errorf("interactive %v, of a person %v", c.entry.Interactive(), person.Interactive())
			}
			m := corebot.Message{ID: "m", Key: itsChat, Sender: whoActs, Entry: person}
			who := corebot.Delivery{Message: m, Run: 1}.Caller()
			if who.Entry.AuditName() != c.word || who.Principal != whoActs || who.Key != itsChat ||
				who.MessageID != "m" {
				t.Errorf("the caller is %+v", who)
			}
			if who.Entry.Interactive() {
				t.Error("a turn is taken for what a person does at this moment")
			}
			if got := who.Results(); got != c.results {
				t.Errorf("its results go to %s, want %s", got, c.results)
			}
			if got := who.Approvals(adminsChat); !slices.Equal(got, c.approvals) {
				t.Errorf("%v are asked for approvals, want %v", got, c.approvals)
			}
			if got := who.Approvals(corebot.Key{}); slices.Contains(got, corebot.Key{}) ||
				slices.Contains(got, adminsChat) {
				t.Errorf("without a chat of admins %v are asked", got)
			}
		})
	}
}

func TestARunThatIsNotTheFirstIsAReplayAndKeepsItsPlaces(t *testing.T) {
	asked := corebot.Entry{Kind: corebot.EntryAgent, From: itsMaker}
	m := corebot.Message{ID: "m", Key: itsChat, Sender: whoActs, Entry: asked}
	for run, want := range map[int]corebot.EntryKind{0: "agent", 1: "agent", 2: "replay", 7: "replay"} {
		who := corebot.Delivery{Message: m, Run: run}.Caller()
		if who.Entry.AuditName() != want || who.Results() != itsMaker {
			t.Errorf("run %d is %q with results to %s", run, who.Entry.AuditName(), who.Results())
		}
	}
}

// The kinds are read from the source, so that a new kind is held to the same rule.
func TestOnlyADirectEntryIsEverInteractive(t *testing.T) {
	kinds := entryKinds(t)
	for _, kind := range []corebot.EntryKind{
		corebot.EntryTask, corebot.EntryAgent, corebot.EntryEvent,
		corebot.EntryClient,
	} {
		if !slices.Contains(kinds, kind) {
			t.Fatalf("the kinds that were read are %v", kinds)
		}
	}
	for _, kind := range kinds {
		for _, since := range []corebot.EntryKind{"", corebot.EntryReplay, corebot.EntrySteer} {
			e := corebot.Entry{Kind: kind, Since: since, Person: true}
			if want := kind == corebot.EntryDirect && since == ""; e.Interactive() != want {
				t.Errorf("%+v is interactive: %v", e, !want)
			}
		}
	}
}

func TestWhoeverElseSpeaksToATurnMakesItASteer(t *testing.T) {
	bob := corebot.Principal{Channel: "test", ID: "bob"}
	for began, run := range map[corebot.EntryKind]int{"direct": 1, "replay": 2} {
		who := corebot.Delivery{Message: corebot.Message{ID: "m", Key: itsChat, Sender: whoActs}, Run: run}.Caller()
		if who.AddSpeaker(whoActs) || len(who.Others) != 0 || who.Entry.AuditName() != began {
			t.Errorf("its own sender made it %+v", who)
		}
		if !who.AddSpeaker(bob) || who.AddSpeaker(bob) || !slices.Equal(who.Others, []corebot.Principal{bob}) ||
			who.Entry.AuditName() != "steer" {
			t.Errorf("somebody else made it %+v", who)
		}
	}
}

// entryKinds are the words that entry.go declares.
func entryKinds(t *testing.T) (kinds []corebot.EntryKind) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "entry.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			literal, ok := v.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			word, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, corebot.EntryKind(word))
		}
		return true
	})
	return kinds
}
