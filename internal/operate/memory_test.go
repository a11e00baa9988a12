package operate

import (
	"context"
	"fmt"
	"testing"

	"github.com/corebot/corebot"
)

// manyChats are chats of one agent, some of which have a page of memory. Each look for a page is counted.
type manyChats struct {
	Chats
	Memories
	chats []corebot.Chat
	pages map[corebot.Key]string
	looks int
}

// oneAgent is the only agent of the settings.
type oneAgent struct{ others }

// others are the methods that nobody calls here.
type others struct{ Agents }

func (oneAgent) Agents(context.Context) ([]Agent, error) { return []Agent{{ID: "main"}}, nil }

func (m *manyChats) Page(_ context.Context, _, after string, limit int) ([]corebot.Chat, string, error) {
	from := 0
	if after != "" {
		_, _ = fmt.Sscan(after, &from)
	}
	to := min(from+limit, len(m.chats))
	if to == len(m.chats) {
		return m.chats[from:], "", nil
	}
	return m.chats[from:to], fmt.Sprint(to), nil
}

func (m *manyChats) GlobalMemory(context.Context, string) (text, path string, err error) {
	return "tea for all\n", "", nil
}

func (m *manyChats) Remembering(context.Context, string) (func(corebot.Key) bool, error) {
	return func(k corebot.Key) bool { return m.pages[k] != "" }, nil
}

func (m *manyChats) Memory(_ context.Context, k corebot.Key) (MemoryPage, error) {
	m.looks++
	return MemoryPage{Chat: k.String(), Pieces: []MemoryPiece{{Line: 1, Text: m.pages[k]}}}, nil
}

// A search of memories looks for the pages that can be there, and not once for each of ten thousand chats.
func TestASearchOfMemoriesLooksForNoPageThatCannotBeThere(t *testing.T) {
	const chats = 10_000
	m := &manyChats{pages: map[corebot.Key]string{}}
	for i := range chats {
		m.chats = append(m.chats, corebot.Chat{
			Key: corebot.Key{Agent: "main", Channel: "test", Account: fmt.Sprint(i % 10), Chat: fmt.Sprint(i)},
		})
	}
	for _, k := range []corebot.Key{m.chats[1].Key, m.chats[1].Key.InChannel(), m.chats[chats-1].Key} {
		m.pages[k] = "one\ntea here\n"
	}
	s := New(Stores{Chats: m, Agents: oneAgent{}, Memories: m})
	found, err := s.SearchMemory(t.Context(), MemorySearch{Text: "tea"})
	last := m.chats[chats-1].Key.String()
	if err != nil || len(found.Rows) != 4 || found.Rows[0].Chat != "" || found.Rows[3].Chat != last {
		t.Errorf("it finds %+v: %v", found, err)
	}
	if m.looks != 3 {
		t.Errorf("it looks for %d pages, of which 3 are there", m.looks)
	}
}
