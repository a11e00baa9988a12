package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// taken is a door that takes everything, as new or as known.
type taken struct{ duplicate bool }

func (d taken) Accept(_ context.Context, in channels.Incoming) (channels.Accepted, error) {
	return channels.Accepted{ID: in.ID, Duplicate: d.duplicate}, nil
}

func answerIn(chat, id, inReplyTo string) corebot.Message {
	return corebot.Message{ID: id, Key: corebot.Key{Agent: "main", Channel: channelName, Chat: chat}, InReplyTo: inReplyTo, Parts: corebot.TextPart(id)}
}

func TestOneMessageEndsWithItsAnswerAndShowsEarlierOnesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shown := map[string]bool{}
		o := NewOneShot(channels.Incoming{ID: "question", Chat: "open"}, func(m corebot.Message, own bool) error {
			shown[m.ID] = own
			return nil
		})
		ended := make(chan error, 1)
		go func() { ended <- o.Run(t.Context(), taken{}) }()
		send := func(m corebot.Message) error { return o.Send(t.Context(), m) }
		if err := errors.Join(send(answerIn("open", "old", "before")), send(answerIn("open", "answer", "question"))); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil || !o.Answered() {
			t.Errorf("it ended with %v, answered: %v", err, o.Answered())
		}
		for _, m := range []corebot.Message{answerIn("closed", "other", "before"), answerIn("open", "late", "later")} {
			var failure *corebot.Failure
			if err := send(m); !errors.As(err, &failure) || failure.Class != corebot.Cancelled || failure.RetryAfter <= 0 {
				t.Errorf("%s was not left in the queue: %v", m.ID, err)
			}
		}
		if own, ok := shown["old"]; !ok || own || !shown["answer"] || len(shown) != 2 {
			t.Errorf("shown: %v", shown)
		}
	})
}

func TestAMessageThatWasAcceptedBeforeIsNotWaitedFor(t *testing.T) {
	o := NewOneShot(channels.Incoming{ID: "question", Chat: "open"}, func(corebot.Message, bool) error { return nil })
	var final *channels.Final
	if err := o.Run(t.Context(), taken{duplicate: true}); !errors.As(err, &final) || corebot.HintOf(err) == "" {
		t.Errorf("it ended with %v", err)
	}
	if err := NewOneShot(channels.Incoming{ID: "question", Chat: "open"}, nil).Run(t.Context(), taken{duplicate: true}); err != nil {
		t.Errorf("a publish that was repeated is success, not %v", err)
	}
}

func TestAnAnswerThatCannotBePrintedIsNotSent(t *testing.T) {
	o := NewOneShot(channels.Incoming{ID: "question", Chat: "open"}, func(corebot.Message, bool) error { return errors.New("closed pipe") })
	if err := o.Send(t.Context(), answerIn("open", "answer", "question")); err == nil || o.Answered() {
		t.Errorf("a broken pipe counted as sent: %v", err)
	}
}
