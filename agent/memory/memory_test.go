package memory_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/rootfs"
)

func newStore(t testing.TB, o memory.Options) (*memory.Store, *rootfs.Root) {
	t.Helper()
	root, err := rootfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	s, err := memory.New(root, o)
	if err != nil {
		t.Fatal(err)
	}
	return s, root
}

func requirePage(t *testing.T, s *memory.Store, p memory.Page, want string) {
	t.Helper()
	if got, err := s.Read(p); err != nil || got != want {
		t.Errorf("%s: got %q, %v; want %q", p, got, err, want)
	}
}

func TestEachChatHasAPageOfItsOwn(t *testing.T) {
	s, _ := newStore(t, memory.Options{})
	a := memory.Chat(corebot.Key{Agent: "main", Channel: "cli", Chat: "a"})
	b := memory.Chat(corebot.Key{Agent: "main", Channel: "cli", Chat: "b"})
	requirePage(t, s, a, "")
	for page, text := range map[memory.Page]string{memory.Global: "all", a: "only a"} {
		if err := s.Append(page, text); err != nil {
			t.Fatal(err)
		}
	}
	requirePage(t, s, memory.Global, "all\n")
	requirePage(t, s, a, "only a\n")
	requirePage(t, s, b, "")
}

func TestAppendStartsALineAndReplaceStartsOver(t *testing.T) {
	s, root := newStore(t, memory.Options{})
	if err := root.Write(string(memory.Global), []byte("by hand")); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(memory.Global, "by agent"); err != nil {
		t.Fatal(err)
	}
	requirePage(t, s, memory.Global, "by hand\nby agent\n")
	if err := s.Replace(memory.Global, "new"); err != nil {
		t.Fatal(err)
	}
	requirePage(t, s, memory.Global, "new\n")
}

func TestAPageOverItsCapStaysAsItIs(t *testing.T) {
	s, _ := newStore(t, memory.Options{MaxBytes: 10})
	if err := s.Append(memory.Global, "12345"); err != nil {
		t.Fatal(err)
	}
	err := s.Append(memory.Global, "6789")
	if !errors.Is(err, rootfs.ErrTooLarge) || corebot.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	requirePage(t, s, memory.Global, "12345\n")
}

func TestAPageOverItsCapIsReplacedByAShorterOne(t *testing.T) {
	s, root := newStore(t, memory.Options{MaxBytes: 10})
	if err := root.Write(string(memory.Global), []byte("by hand, and too long")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(memory.Global); !errors.Is(err, rootfs.ErrTooLarge) || corebot.HintOf(err) == "" {
		t.Errorf("it is read with %v", err)
	}
	if err := s.Replace(memory.Global, "longer than it"); !errors.Is(err, rootfs.ErrTooLarge) ||
		corebot.HintOf(err) == "" {
		t.Errorf("a text over the cap ends with %v", err)
	}
	if err := s.Replace(memory.Global, "short"); err != nil {
		t.Fatal(err)
	}
	requirePage(t, s, memory.Global, "short\n")
}

func TestTextThatIsNotUTF8IsRefused(t *testing.T) {
	s, _ := newStore(t, memory.Options{})
	if err := s.Append(memory.Global, "\xff"); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestConcurrentAppendsAreAllKept(t *testing.T) {
	s, _ := newStore(t, memory.Options{})
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := s.Append(memory.Global, "x"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	requirePage(t, s, memory.Global, strings.Repeat("x\n", 10))
}

func TestAStoreWantsADirectory(t *testing.T) {
	if _, err := memory.New(nil, memory.Options{}); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
