package channels_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// numbering is a platform that gives what it shows an id, and shows at most so much of a text at once.
type numbering struct {
	*platform
	most int
	last error // beside the receipt of a text that was longer; nil: none
}

func (n numbering) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	text := o.Text()
	cut := len(text) > n.most
	if cut {
		o.Parts = corebot.TextPart(text[:n.most])
	}
	if _, err := n.platform.Send(ctx, o); err != nil {
		return channels.Receipt{}, err
	}
	r := channels.Receipt{IDs: []string{"p" + o.Text()[:1]}}
	if cut {
		r.Reached = n.most
		return r, n.last
	}
	return r, nil
}

// receipts are what the journal keeps of the sends of a message.
func (o *outbox) receipts(t *testing.T, id string) (sent []corebot.Sent) {
	t.Helper()
	for _, s := range o.life(t, id).Steps {
		if s.Kind == corebot.StepPart {
			sent = append(sent, *s.Sent)
		}
	}
	return sent
}

func sameReceipts(a, b []corebot.Sent) bool {
	return slices.EqualFunc(a, b, func(a, b corebot.Sent) bool {
		return a.From == b.From && a.To == b.To && slices.Equal(a.IDs, b.IDs)
	})
}

func TestTheReceiptOfEverySendIsStoredWithTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := &platform{}
		o.run(t, numbering{p, 4, nil})
		o.enqueue(t, "a", "1", "abc")
		o.enqueue(t, "a", "2", "abcdefghij")
		pass(time.Minute)
		if got, want := o.receipts(t, "1"), []corebot.Sent{{From: 0, To: 3, IDs: []string{"pa"}}}; !sameReceipts(got,
			want) {
			t.Errorf("of one send is stored %+v", got)
		}
		want := []corebot.Sent{
			{From: 0, To: 4, IDs: []string{"pa"}},
			{From: 4, To: 8, IDs: []string{"pe"}},
			{From: 8, To: 10, IDs: []string{"pi"}},
		}
		if got := o.receipts(t, "2"); !sameReceipts(got, want) || o.life(t, "2").End != corebot.EndSent {
			t.Errorf("of three sends is stored %+v", got)
		}
	})
}

func TestWhatWasShownBeforeASendFailedIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := &platform{}
		o.run(t, numbering{p, 4, errors.New("the connection is gone")})
		o.enqueue(t, "a", "1", "abcdefghij")
		pass(time.Hour)
		if got := p.texts("a"); !slices.Equal(got, []string{"abcd", "efgh", "ij"}) {
			t.Errorf("the chat has %q", got)
		}
		if life := o.life(t, "1"); life.End != corebot.EndSent || life.Attempts != 3 {
			t.Errorf("it ended %q after %d attempts", life.End, life.Attempts)
		}
	})
}

func TestAnAttachmentIsALineOnAChannelThatShowsTextsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		p := &platform{}
		o.run(t, p)
		m := corebot.Message{
			ID: "1", Direction: corebot.Outbound, Key: corebot.Key{Agent: "main", Channel: "test", Chat: "a"},
			Kind:  corebot.KindReply,
			Parts: append(corebot.TextPart("here"), photo),
		}
		if _, err := o.Bus.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if got := p.texts("a"); !slices.Equal(got,
			[]string{"here\n[image \"cat.png\" (image/png) cannot be shown here]"}) {
			t.Errorf("the chat has %q", got)
		}
	})
}
