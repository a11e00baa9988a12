package router_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/router"
	"github.com/corebot/corebot/storage"
)

// sends takes what the chats are told, as an outbox does, and keeps the texts of the notices about dead letters.
type sends struct {
	*apptest.Kit
	texts []string
}

func (s *sends) gaveUp(t *testing.T) []string {
	t.Helper()
	queue := storage.NewQueue(s.DB)
	for {
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		ds, err := queue.Claim(ctx, corebot.OutboundPool(apptest.Channel), 10, corebot.ClaimOptions{Lease: time.Minute})
		stop()
		if err != nil || len(ds) == 0 {
			return s.texts
		}
		sent := corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}
		for _, d := range ds {
			if n := d.Message.Notice; n != nil && n.Kind == corebot.NoticeGaveUp {
				s.texts = append(s.texts, d.Message.Text())
			}
			if err := queue.Settle(t.Context(), d, sent); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// refusing is a kit whose model refuses every message, in chats where notices are grouped.
func refusing(t *testing.T, dir string, groups bool) *sends {
	t.Helper()
	k := apptest.New(t, apptest.Options{
		Dir: dir, Model: apptest.Always(apptest.Fails(broke())),
		Router: router.Options{Groups: func(string) bool { return groups }},
	})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = storage.NewDeadLetters(k.DB).RunNotices(ctx, router.ToldTogether) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return &sends{Kit: k.Start()}
}

func TestAFloodOfDeadLettersOfOneCauseIsToldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := refusing(t, "", true)
		for i := range 15 {
			k.Say("a", fmt.Sprintf("m%02d", i), "hello")
		}
		k.Say("b", "other", "in another chat")
		pass(2 * time.Second)
		if got := k.gaveUp(t); len(got) != 3+1 {
			t.Fatalf("at once the chats are told %d times: %q", len(got), got)
		}
		pass(time.Minute)
		got := k.gaveUp(t)
		want := `12 more messages could not be answered: Something failed inside Corebot. /dead lists them. Send ` +
			`"/retry all" to have them tried again.`
		if len(got) != 3+1+1 || got[4] != want {
			t.Fatalf("after a minute they are told %q", got)
		}
		for i := range 100 { // the flood goes on for an hour and a half
			k.Say("a", fmt.Sprintf("n%03d", i), "hello")
			pass(54 * time.Second)
		}
		pass(20 * time.Minute)
		got = k.gaveUp(t)[5:]
		sum := 0
		for _, text := range got {
			var n int
			if _, err := fmt.Sscanf(text, "%d more message", &n); err != nil {
				t.Errorf("told %q: %v", text, err)
			}
			sum += n
		}
		if sum != 100 || len(got) > 13 {
			t.Errorf("of 100 messages %d were told, in %d notices", sum, len(got))
		}
		// Once it is quiet, a message that fails is told of by itself again.
		before := len(k.gaveUp(t))
		k.Say("a", "late", "hello")
		pass(time.Second)
		if got := k.gaveUp(t); len(got) != before+1 || !strings.Contains(got[before], "/retry late") {
			t.Errorf("the late one is told as %q", got[before:])
		}
	})
}

func TestWhatIsToldTogetherOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		k := refusing(t, dir, true)
		for i := range 10 {
			k.Say("a", fmt.Sprintf("m%02d", i), "hello")
		}
		pass(2 * time.Second)
		k.Crash()
		pass(time.Hour)
		k = refusing(t, dir, true)
		pass(time.Second)
		if got := k.gaveUp(t); len(got) != 4 || !strings.HasPrefix(got[3], "7 more messages") {
			t.Errorf("the chat is told %q", got)
		}
	})
}

func TestAProgramIsToldOfEachMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := refusing(t, "", false)
		for i := range 10 {
			k.Say("a", fmt.Sprintf("m%02d", i), "hello")
		}
		pass(time.Hour)
		if got := k.gaveUp(t); len(got) != 10 {
			t.Errorf("it is told %d times", len(got))
		}
	})
}
