package main

import (
	"context"
	"errors"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// recorder is a channel that keeps what it is sent.
type recorder struct {
	sent []string
	err  error // of Run
}

func (*recorder) Name() string                               { return "cli" }
func (r *recorder) Run(context.Context, channels.Door) error { return r.err }
func (r *recorder) Send(_ context.Context, m corebot.Message) error {
	r.sent = append(r.sent, m.ID)
	return nil
}

func replyIn(chat, id, inReplyTo string) corebot.Message {
	return corebot.Message{ID: id, Key: corebot.Key{Chat: chat}, InReplyTo: inReplyTo, Parts: corebot.TextPart(id)}
}

func TestAReplyOfAChatThatIsNotOpenIsKeptAndNotCounted(t *testing.T) {
	r := &recorder{}
	term := &terminal{Channel: r, chat: "open"}
	err := term.Send(t.Context(), replyIn("closed", "a", ""))
	var failure *corebot.Failure
	if !errors.As(err, &failure) || failure.Class != corebot.Cancelled || failure.RetryAfter <= 0 || len(r.sent) != 0 {
		t.Errorf("got %v, sent %v", err, r.sent)
	}
	if err := term.Send(t.Context(), replyIn("open", "b", "")); err != nil || len(r.sent) != 1 {
		t.Errorf("the open chat: %v, sent %v", err, r.sent)
	}
}

func TestATerminalIsRunOnceAndItsErrorIsTheCommands(t *testing.T) {
	broken := errors.New("no more input")
	term := &terminal{Channel: &recorder{err: broken}}
	if err := term.Run(t.Context(), nil); err != nil {
		t.Errorf("the supervisor would log it and run it again: %v", err)
	}
	if !errors.Is(term.err, broken) {
		t.Errorf("the command gets %v", term.err)
	}
}

func TestAnAskerShowsEarlierAnswersApartFromItsOwn(t *testing.T) {
	r := &recorder{}
	var earlier []string
	a := &asker{&terminal{Channel: r, chat: "open"}, "question", func(m corebot.Message) error {
		earlier = append(earlier, m.ID)
		return nil
	}}
	for _, m := range []corebot.Message{replyIn("open", "old", "before"), replyIn("open", "answer", "question")} {
		if err := a.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Send(t.Context(), replyIn("closed", "other", "before")); err == nil {
		t.Error("it took the reply of another chat")
	}
	if len(earlier) != 1 || earlier[0] != "old" || len(r.sent) != 1 || r.sent[0] != "answer" {
		t.Errorf("earlier %v, own %v", earlier, r.sent)
	}
}
