package channels_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
)

// fetched is a platform whose callers fetch their messages, unless it pushes.
type fetched struct {
	*platform
	*channels.Replies
	pushes bool
}

func (f fetched) Send(ctx context.Context, m channels.Outbound) (channels.Receipt, error) {
	if err := f.Replies.Send(ctx, m); err != nil {
		return channels.Receipt{}, err
	}
	return f.platform.Send(ctx, m)
}

func (f fetched) Pulled() bool { return !f.pushes }

// fetching is an outbox whose channel has callers that fetch their messages.
func fetching(t *testing.T, o *outbox, pushes bool) (fetched, *channels.Supervisor) {
	t.Helper()
	c := fetched{&platform{}, channels.NewReplies(storage.NewMailbox(o.DB)), pushes}
	s, err := channels.NewSupervisor(o.Door, o.Outbox, zerolog.Nop(), entry("", c))
	if err != nil {
		t.Fatal(err)
	}
	o.DB.MailFor(s)
	return c, s
}

// ids are the messages of a chat's mailbox.
func (f fetched) ids(t *testing.T, chat string) (ids []string) {
	t.Helper()
	page, err := f.Page(t.Context(), apptest.Key(chat), 0, 100, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range page {
		ids = append(ids, p.ID)
	}
	return ids
}

func TestAReplyThatIsFetchedIsSentWithItsCommitAndWakesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		c, s := fetching(t, o, false)
		wake, stop := c.Watch(apptest.Key("a"))
		defer stop()
		other, stopOther := c.Watch(apptest.Key("b"))
		defer stopOther()
		o.enqueue(t, "a", "1", "hello")
		select {
		case <-wake:
		default:
			t.Error("nobody was woken when the commit had ended")
		}
		select {
		case <-other:
			t.Error("the callers of another chat were woken")
		default:
		}
		if got := c.ids(t, "a"); !slices.Equal(got, []string{"1"}) {
			t.Errorf("the mailbox has %v", got)
		}
		if life := o.life(t, "1"); life.End != corebot.EndSent {
			t.Errorf("the reply ended %q", life.End)
		}
		if n := o.counted(t, "corebot_outbox_sends_total"); n != 1 {
			t.Errorf("%v sends are counted", n)
		}
		if s.Status()[0].LastEvent.IsZero() {
			t.Error("the account knows of no event")
		}
		if len(c.sent) != 0 {
			t.Errorf("the channel was given %+v", c.sent)
		}
	})
}

// A reply that waited before the callers fetched goes first, and so does a reply from before a change to a callback.
func TestOrderHoldsWhenAChannelChangesBetweenFetchedAndPushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		begin := func(pushes bool) (*outbox, fetched, func()) {
			o := newOutbox(t, dir, "")
			c, s := fetching(t, o, pushes)
			return o, c, func() {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Send(ctx) }()
				pass(time.Second)
				cancel()
				<-ended
			}
		}
		o, _, _ := begin(true)
		o.enqueue(t, "a", "1", "pushed, and Corebot ends before it is sent")
		o.Close()
		o, c, work := begin(false)
		o.enqueue(t, "a", "2", "behind it")
		o.enqueue(t, "b", "b1", "of another chat")
		if got := c.ids(t, "a"); len(got) != 0 {
			t.Errorf("before the lane is empty the mailbox has %v", got)
		}
		if got := c.ids(t, "b"); !slices.Equal(got, []string{"b1"}) {
			t.Errorf("the mailbox of the other chat has %v", got)
		}
		work()
		o.enqueue(t, "a", "3", "at once")
		if got := c.ids(t, "a"); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("the mailbox has %v", got)
		}
		o.Close()
		o, c, work = begin(true)
		o.enqueue(t, "a", "4", "pushed again")
		if got := c.ids(t, "a"); len(got) != 3 {
			t.Errorf("before it is sent the mailbox has %v", got)
		}
		work()
		if got := c.ids(t, "a"); !slices.Equal(got, []string{"1", "2", "3", "4"}) {
			t.Errorf("the mailbox has %v", got)
		}
		if len(c.sent) != 1 || c.sent[0].ID != "4" {
			t.Errorf("the callback was given %+v", c.sent)
		}
	})
}
