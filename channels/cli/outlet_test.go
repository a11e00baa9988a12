package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// fullPipe takes nothing until it is drained.
type fullPipe struct {
	syncBuffer
	drained chan struct{}
}

func (f *fullPipe) Write(p []byte) (int, error) {
	<-f.drained
	return f.syncBuffer.Write(p)
}

// sendFor is a Send that has a second.
func sendFor(t *testing.T, c sender, m channels.Outbound) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	_, err := c.Send(ctx, m)
	if d := time.Since(begun); d > time.Second {
		t.Errorf("Send outlived its context: %v", d)
	}
	return err
}

func TestAReaderThatPausesSeesEachReplyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &fullPipe{drained: make(chan struct{})}
		r, w := io.Pipe()
		c, err := New(Options{In: r, Out: out, Err: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan error, 1)
		go func() { end <- c.Run(t.Context(), &fakeDoor{}) }()
		for _, id := range []string{"one", "one", "two"} {
			if class := classOf(t, sendFor(t, c, reply(id, "", id))); class != corebot.Cancelled {
				t.Errorf("reply %s, which nobody takes, is %s", id, class)
			}
		}
		joined := make(chan error, 1)
		go func() { joined <- sendOnly(t.Context(), c, reply("one", "", "one")) }()
		synctest.Wait()
		close(out.drained)
		if err := errors.Join(<-joined, sendFor(t, c, reply("one", "", "one")),
			sendFor(t, c, reply("two", "", "two"))); err != nil {
			t.Error(err)
		}
		if got := out.String(); got != "one\ntwo\n" {
			t.Errorf("printed %q", got)
		}
		_ = w.Close()
		<-end
	})
}

func TestAFullPipeDoesNotKeepAPlainSessionFromEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &fullPipe{drained: make(chan struct{})}
		defer close(out.drained)
		r, w := io.Pipe()
		defer func() { _ = w.Close() }()
		c, err := New(Options{In: r, Out: out, Err: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- c.Run(ctx, &fakeDoor{}) }()
		_ = sendFor(t, c, reply("one", "", "one"))
		cancel()
		synctest.Wait()
		select {
		case err := <-end:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("Run waits for a write that is held up")
		}
	})
}

func TestASessionLastsUntilASendKnowsThatTheAnswerWasPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, door := &fullPipe{drained: make(chan struct{})}, &fakeDoor{}
		c, err := New(Options{In: strings.NewReader("question\n"), Out: out, Err: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan error, 1)
		go func() { end <- c.Run(t.Context(), door) }()
		synctest.Wait()
		answer := reply("answer", door.seen()[0].ID, "yes")
		if class := classOf(t, sendFor(t, c, answer)); class != corebot.Cancelled {
			t.Errorf("an answer that nobody takes is %s", class)
		}
		close(out.drained)
		synctest.Wait()
		if got := out.String(); got != "yes\n" {
			t.Errorf("printed %q", got)
		}
		if err := sendFor(t, c, answer); err != nil {
			t.Errorf("what was printed is left in the queue: %v", err)
		}
		if err := <-end; err != nil {
			t.Error(err)
		}
	})
}

func TestAnAnswerThatIsSentAgainWhileItIsPrintedIsShownOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drained := make(chan struct{})
		shown := make(chan string, 100)
		o := NewOneShot(channels.Incoming{ID: "question", Chat: "open"},
			OneShotOptions{Show: func(m channels.Outbound, _ ShowAs) error {
				<-drained
				shown <- m.ID
				return nil
			}})
		answer := answerIn("open", "answer", "question")
		if class := classOf(t, sendFor(t, o, answer)); class != corebot.Cancelled || o.End() != "" {
			t.Errorf("an answer that nobody takes is %s, ended: %q", class, o.End())
		}
		results := make(chan error, 2)
		for range cap(results) {
			go func() { results <- sendOnly(t.Context(), o, answer) }()
		}
		synctest.Wait()
		close(drained) // both learn of the one write
		if err := errors.Join(<-results, <-results, sendFor(t, o, answer)); err != nil ||
			o.End() != corebot.EndAnswered {
			t.Errorf("sent again it is %v, ended: %q", err, o.End())
		}
		if n := len(shown); n != 1 {
			t.Errorf("it was shown %d times", n)
		}
	})
}

func TestAPanicOfAWriteIsItsError(t *testing.T) {
	var w writes
	err := w.do(t.Context(), "1", func() error { panic("a bug") })
	if err == nil || !strings.Contains(err.Error(), "a bug") {
		t.Errorf("the error is %v", err)
	}
	if err := w.do(t.Context(), "1", func() error { return nil }); err != nil {
		t.Errorf("the next write failed with %v", err)
	}
}
