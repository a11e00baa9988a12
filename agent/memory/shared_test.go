package memory_test

import (
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
)

// TestEachScopeHasAPageOfItsOwn writes the page of a chat, of two accounts of a channel, of another channel and of two
// agents. Names are chosen so that a sloppy spelling would make one of two.
func TestEachScopeHasAPageOfItsOwn(t *testing.T) {
	keys := []corebot.Key{
		{Agent: "main"},
		{Agent: "main", Channel: "x"},
		{Agent: "main", Channel: "x", Account: "a"},
		{Agent: "main", Channel: "x", Account: "A"},
		{Agent: "main", Channel: "x:a"},
		{Agent: "main", Channel: "x%3Aa"},
		{Agent: "main:x"},
		{Agent: "main", Channel: "x", Chat: "a"},
		{Agent: "main", Channel: "x", Account: "a", Chat: "MEMORY.md"},
		{Agent: "main", Channel: "x", Account: "a", Chat: ":"},
	}
	pages := map[memory.Page]corebot.Key{}
	for _, k := range keys {
		page := memory.Of(k)
		if other, taken := pages[page]; taken && page != memory.Global {
			t.Errorf("%+v and %+v share %s", k, other, page)
		}
		pages[page] = k
	}
	s := newShelf(t)
	for _, k := range keys[1:6] {
		from := corebot.MemoryNote{Sender: person("ann"), MessageID: "1", Chat: room("a").String(), Trusted: true}
		if _, err := s.Remember(t.Context(), k, memory.Edit{Text: k.String()}, from, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range keys[1:6] {
		pieces, _, err := s.Pieces(t.Context(), k)
		if err != nil || len(pieces) != 1 || pieces[0].Text != k.String()+"\n" || !pieces[0].CleanFor(person("bob")) ||
			pieces[0].Chat != room("a").String() {
			t.Errorf("the page of %s is %+v, %v", k, pieces, err)
		}
	}
}

// TestWhatAChatWroteForOthersGoesWithTheChat forgets one of two chats in the page that they share.
func TestWhatAChatWroteForOthersGoesWithTheChat(t *testing.T) {
	s := newShelf(t)
	page := room("a").InChannel()
	for i, chat := range []string{"a", "b", "a"} {
		from := corebot.MemoryNote{
			Sender: person("ann"), MessageID: string(rune('1' + i)), Chat: room(chat).String(), Trusted: true,
		}
		if _, err := s.Remember(t.Context(), page, memory.Edit{Text: "of " + chat}, from, nil); err != nil {
			t.Fatal(err)
		}
	}
	n, err := s.ForgetChat(t.Context(), page, room("a"))
	pieces, _, _ := s.Pieces(t.Context(), page)
	if err != nil || n != 2 || len(pieces) != 1 || pieces[0].Text != "of b\n" || pieces[0].Chat != room("b").String() {
		t.Errorf("%d lines went, %v; left is %+v", n, err, pieces)
	}
	if n, err := s.ForgetChat(t.Context(), room("c").OfAgent(), room("a")); n != 0 || err != nil {
		t.Errorf("of no page went %d lines, %v", n, err)
	}
}

// TestTheAgentsPageIsReplacedWhole: the operator stands for it, whoever wrote a line.
func TestTheAgentsPageIsReplacedWhole(t *testing.T) {
	s := newShelf(t)
	page := room("a").OfAgent()
	for i, e := range []memory.Edit{{Text: "one"}, {Text: "two"}, {Text: "three", Replaces: true}} {
		from := turnOf("ann", []string{"1", "read 2", "3"}[i])
		if _, err := s.Remember(t.Context(), page, e, from, nil); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := s.Read(memory.Global); err != nil || text != "three\n" {
		t.Errorf("the page is %q, %v", text, err)
	}
	if pieces, _, err := s.Pieces(t.Context(), page); err != nil || len(pieces) != 1 || pieces[0].MessageID != "3" {
		t.Errorf("its pieces are %+v, %v", pieces, err)
	}
}
