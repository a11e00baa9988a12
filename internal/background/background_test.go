package background

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

var (
	here  = corebot.Key{Agent: "main", Channel: "cli", Chat: "here"}
	there = corebot.Key{Agent: "main", Channel: "cli", Chat: "there"}
	ann   = corebot.Principal{Channel: "cli", ID: "ann"}
	bob   = corebot.Principal{Channel: "cli", ID: "bob"}
)

func newSet(t *testing.T, l Limits) *Set {
	t.Helper()
	if l.PerChat == 0 {
		l.PerChat = 2
	}
	if l.Total == 0 {
		l.Total = 3
	}
	if l.Life == 0 {
		l.Life = time.Hour
	}
	if l.Output == 0 {
		l.Output = 10
	}
	s, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// untilStopped is a program that ends when it is told to.
func untilStopped(ctx context.Context, _ *Output) string {
	<-ctx.Done()
	return "killed"
}

func start(t *testing.T, s *Set, k corebot.Key, owner corebot.Principal, run Run) string {
	t.Helper()
	id, err := s.Start(k, owner, "sleep", run)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAReaderGetsWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, Limits{})
		id := start(t, s, here, ann, func(ctx context.Context, out *Output) string {
			for _, text := range []string{"one", "two"} {
				time.Sleep(10 * time.Second)
				_, _ = out.Write([]byte(text))
			}
			time.Sleep(10 * time.Second)
			return "exit code 0"
		})
		began := time.Now()
		for _, c := range []struct {
			from int64
			wait time.Duration
			text string
			at   time.Duration
			over bool
		}{
			{-1, 0, "", 0, false},
			{-1, 4 * time.Second, "", 4 * time.Second, false},
			{-1, time.Minute, "one", 10 * time.Second, false},
			{-1, time.Minute, "two", 20 * time.Second, false},
			{0, time.Minute, "onetwo", 20 * time.Second, false},
			{5, 0, "o", 20 * time.Second, false},
			{-1, time.Minute, "", 30 * time.Second, true},
			{99, time.Minute, "", 30 * time.Second, true},
		} {
			state, text, err := s.Read(t.Context(), here, id, c.from, c.wait)
			if err != nil || text.Text != c.text || time.Since(began) != c.at || !state.Ended.IsZero() != c.over ||
				c.over && state.How != "exit code 0" {
				t.Errorf("%+v: %+v, %+v, %v after %v", c, state, text, err, time.Since(began))
			}
		}
	})
}

func TestOfALongOutputTheEndIsKeptAndTheLossIsTold(t *testing.T) {
	o := &Output{limit: 10}
	for range 1000 {
		_, _ = o.Write([]byte("0123456789abc"))
	}
	_, _ = o.Write([]byte(strings.Repeat("x", 1000) + "the newest"))
	got := o.read(-1)
	if !strings.HasSuffix(got.Text, "the newest") || len(got.Text) > 20 || got.Dropped+int64(len(got.Text)) != 14_010 ||
		got.Next != 14_010 || cap(o.kept) > 100 {
		t.Errorf("%+v, room for %d", got, cap(o.kept))
	}
}

func TestTooManyProgramsAreRefused(t *testing.T) {
	s := newSet(t, Limits{PerChat: 2, Total: 3})
	first := start(t, s, here, ann, untilStopped)
	start(t, s, here, ann, untilStopped)
	if _, err := s.Start(here, ann, "one too many", untilStopped); !errors.Is(err, ErrTooMany) {
		t.Errorf("a third one of a chat: %v", err)
	}
	start(t, s, there, ann, untilStopped)
	if _, err := s.Start(there, ann, "one too many", untilStopped); !errors.Is(err, ErrTooMany) {
		t.Errorf("a fourth one of all: %v", err)
	}
	if state, err := s.Stop(here, first); err != nil || state.How != "it was stopped" || state.Ended.IsZero() {
		t.Errorf("%+v, %v", state, err)
	}
	start(t, s, there, ann, untilStopped)
}

func TestAProgramIsItsChatsAlone(t *testing.T) {
	s := newSet(t, Limits{})
	id := start(t, s, here, ann, untilStopped)
	if _, _, err := s.Read(t.Context(), there, id, 0, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("another chat reads it: %v", err)
	}
	if _, err := s.Stop(there, id); !errors.Is(err, ErrUnknown) {
		t.Errorf("another chat stops it: %v", err)
	}
	if n := s.StopOf(there, ann, true); n != 0 || len(s.List(there)) != 0 || len(s.List(here)) != 1 {
		t.Errorf("another chat stops %d and lists %v", n, s.List(there))
	}
	other := start(t, s, here, bob, untilStopped)
	if n := s.StopOf(here, bob, false); n != 1 {
		t.Errorf("%d programs of bob were stopped", n)
	}
	if state, err := s.Wait(t.Context(), here, other, time.Minute); err != nil || state.Ended.IsZero() {
		t.Errorf("%+v, %v", state, err)
	}
	if n := s.StopOf(here, bob, true); n != 1 {
		t.Errorf("%d programs of the chat were stopped", n)
	}
}

func TestAProgramEndsWithItsLifeTimeAndWithTheSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, Limits{Life: time.Hour})
		id := start(t, s, here, ann, untilStopped)
		time.Sleep(time.Hour - time.Second)
		if state, _, err := s.Read(t.Context(), here, id, 0, 0); err != nil || !state.Ended.IsZero() {
			t.Errorf("before: %+v, %v", state, err)
		}
		time.Sleep(2 * time.Second)
		if state, _, err := s.Read(t.Context(), here, id, 0, 0); err != nil || state.How != "its life time is over" {
			t.Errorf("after: %+v, %v", state, err)
		}
		id = start(t, s, here, ann, untilStopped)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if state, _, err := s.Read(t.Context(), here, id, 0, 0); err != nil || state.How != "this Corebot stops" {
			t.Errorf("after the end: %+v, %v", state, err)
		}
		if _, err := s.Start(here, ann, "late", untilStopped); err == nil {
			t.Error("a program starts after the end")
		}
	})
}

func TestTheOldestEndedProgramsAreForgotten(t *testing.T) {
	s := newSet(t, Limits{})
	var ids []string
	for i := range 3 * keptEnded {
		k := here
		if i%2 == 1 {
			k.Thread = strings.Repeat("x", i)
		}
		id := start(t, s, k, ann, func(context.Context, *Output) string { return "exit code 0" })
		if _, err := s.Wait(t.Context(), k, id, time.Minute); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	kept := 0
	for _, ps := range s.chats {
		kept += len(ps)
	}
	if _, _, err := s.Read(t.Context(), here, ids[0], 0, 0); !errors.Is(err, ErrUnknown) || kept > keptEnded+1 ||
		len(s.chats) > keptEnded+1 {
		t.Errorf("%d of %d are kept, of %d chats; the first: %v", kept, len(ids), len(s.chats), err)
	}
}
