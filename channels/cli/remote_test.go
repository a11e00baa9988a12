package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

// remoteBench is a daemon's terminal channel with one message that is to be sent to the chat "open".
type remoteBench struct {
	t      *testing.T
	hub    live.Hub
	woken  int
	remote *Remote
	sent   chan error
}

func newRemoteBench(t *testing.T) *remoteBench {
	b := &remoteBench{t: t, sent: make(chan error, 1)}
	b.remote = NewRemote(b.hub.Watch, func(context.Context, corebot.Key) error { b.woken++; return nil }, nil)
	return b
}

func (b *remoteBench) attach(session string) {
	b.t.Helper()
	if err := b.remote.Attach(b.t.Context(), TerminalKey("main", "open"), session, false); err != nil {
		b.t.Fatal(err)
	}
}

func (b *remoteBench) send(id string) {
	go func() {
		m := answerIn("open", id, "question")
		m.Key.Account = DefaultAccount
		b.sent <- sendOnly(b.t.Context(), b.remote, m)
	}()
}

func (b *remoteBench) fetch(session, shown string) (Fetched, error) {
	return b.remote.Fetch(b.t.Context(), TerminalKey("main", "open"), session, shown)
}

func TestAReplyIsSentWhenItsTerminalSaysThatItIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t)
		if class := classOf(t, sendOnly(t.Context(), b.remote, answerIn("open", "early",
			"q"))); class != corebot.Cancelled {
			t.Errorf("with no terminal it is %s", class)
		}
		b.attach("one")
		if b.woken != 1 {
			t.Errorf("replies that waited were woken %d times", b.woken)
		}
		b.send("answer")
		f, err := b.fetch("one", "")
		if err != nil || f.Message == nil || f.Message.ID != "answer" {
			t.Fatalf("fetched %+v: %v", f, err)
		}
		select {
		case err := <-b.sent:
			t.Fatalf("it counted as sent before it was shown: %v", err)
		case <-time.After(time.Second):
		}
		b.remote.Detach(TerminalKey("main", "open"), "one", "answer") // shown while it leaves
		if err := <-b.sent; err != nil {
			t.Errorf("it was shown: %v", err)
		}
	})
}

func TestATerminalThatGoesSilentGivesItsMessageBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t)
		b.attach("one")
		b.send("answer")
		if _, err := b.fetch("one", ""); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if class := classOf(t, <-b.sent); class != corebot.Cancelled || time.Since(begun) != silence {
			t.Errorf("after %v it is %s", time.Since(begun), class)
		}
		if _, err := b.fetch("one", "answer"); !errors.Is(err, ErrDetached) {
			t.Errorf("the silent terminal is still attached: %v", err)
		}
	})
}

func TestEveryTerminalOfAChatIsShownAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t)
		b.attach("one")
		b.attach("two")
		b.send("answer")
		for _, session := range []string{"one", "two"} {
			if f, err := b.fetch(session, ""); err != nil || f.Message == nil || f.Message.ID != "answer" {
				t.Fatalf("%s fetched %+v: %v", session, f, err)
			}
		}
		b.remote.Detach(TerminalKey("main", "open"), "one", "answer")
		synctest.Wait()
		select {
		case err := <-b.sent:
			t.Fatalf("it counted as sent before the second terminal had shown it: %v", err)
		default:
		}
		b.remote.Detach(TerminalKey("main", "open"), "two", "answer")
		if err := <-b.sent; err != nil {
			t.Error(err)
		}
	})
}

func TestATerminalThatIsGoneDoesNotKeepAReplyFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t)
		b.attach("dead")
		b.attach("alive")
		b.send("answer")
		if _, err := b.fetch("alive", ""); err != nil {
			t.Fatal(err)
		}
		b.remote.Detach(TerminalKey("main", "open"), "alive", "answer")
		begun := time.Now()
		if err := <-b.sent; err != nil || time.Since(begun) > silence {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

func TestATerminalThatAttachesAgainIsShownWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t)
		b.attach("one")
		b.send("answer")
		if _, err := b.fetch("one", ""); err != nil {
			t.Fatal(err)
		}
		b.remote.Detach(TerminalKey("main", "open"), "one", "answer")
		if err := <-b.sent; err != nil {
			t.Fatal(err)
		}
		if err := b.remote.Attach(t.Context(), TerminalKey("main", "open"), "two", true); err != nil {
			t.Fatal(err)
		}
		if f, err := b.fetch("two", ""); err != nil || f.Message == nil || f.Message.ID != "answer" {
			t.Errorf("the terminal that was away fetched %+v: %v", f, err)
		}
		b.attach("new")
		b.send("next")
		for _, session := range []string{"two", "new"} {
			if f, err := b.fetch(session, "answer"); err != nil || f.Message == nil || f.Message.ID != "next" {
				t.Errorf("%s fetched %+v: %v", session, f, err)
			}
			b.remote.Detach(TerminalKey("main", "open"), session, "next")
		}
		if err := <-b.sent; err != nil {
			t.Error(err)
		}
		time.Sleep(latelyTime + time.Second)
		if err := b.remote.Attach(t.Context(), TerminalKey("main", "open"), "late", true); err != nil {
			t.Fatal(err)
		}
		if f, err := b.fetch("late", ""); err != nil || f.Message != nil {
			t.Errorf("after a long time it fetched %+v: %v", f, err)
		}
		b.remote.Detach(TerminalKey("main", "open"), "late", "")
	})
}

// TestATerminalThatAttachesAgainDuringASendIsShownTheReply: one terminal of the chat is slow, another comes back.
func TestATerminalThatAttachesAgainDuringASendIsShownTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t)
		b.attach("slow")
		b.send("answer")
		if _, err := b.fetch("slow", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := b.remote.Attach(t.Context(), TerminalKey("main", "open"), "back", true); err != nil {
			t.Fatal(err)
		}
		b.remote.Detach(TerminalKey("main", "open"), "slow", "answer")
		if err := <-b.sent; err != nil {
			t.Fatal(err)
		}
		if f, err := b.fetch("back", ""); err != nil || f.Message == nil || f.Message.ID != "answer" {
			t.Errorf("the terminal that came back fetched %+v: %v", f, err)
		}
		b.remote.Detach(TerminalKey("main", "open"), "back", "answer")
	})
}

// TestAReplyThatNobodyWasShownIsNotTakenForSent: Send is given it again.
func TestAReplyThatNobodyWasShownIsNotTakenForSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t)
		b.attach("gone")
		b.send("answer")
		synctest.Wait()
		b.remote.Detach(TerminalKey("main", "open"), "gone", "")
		if err := <-b.sent; err == nil {
			t.Fatal("it counts as sent")
		}
		if err := b.remote.Attach(t.Context(), TerminalKey("main", "open"), "back", true); err != nil {
			t.Fatal(err)
		}
		if f, err := b.fetch("back", ""); err != nil || f.Message != nil {
			t.Errorf("the terminal that came back fetched %+v: %v", f, err)
		}
		b.remote.Detach(TerminalKey("main", "open"), "back", "")
	})
}

func TestATerminalFetchesWhatHappensInItsChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRemoteBench(t)
		b.attach("one")
		key := corebot.Key{Agent: "main", Channel: Channel, Account: DefaultAccount, Chat: "open"}
		b.hub.Publish(live.Event{Kind: live.Text, Key: key, Text: "a"})
		b.hub.Publish(live.Event{Kind: live.Text, Key: key, Text: "b"})
		if f, err := b.fetch("one", ""); err != nil || len(f.Events) != 2 || f.Events[1].Text != "b" {
			t.Errorf("fetched %+v: %v", f, err)
		}
		begun := time.Now()
		if f, err := b.fetch("one", ""); err != nil || f.Message != nil || len(f.Events) != 0 ||
			time.Since(begun) != fetchTime {
			t.Errorf("with nothing to show it fetched %+v after %v: %v", f, time.Since(begun), err)
		}
		b.remote.Detach(TerminalKey("main", "open"), "one", "")
	})
}
