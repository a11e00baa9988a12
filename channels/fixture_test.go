package channels_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

// pass lets virtual time go by, and everything happen that falls due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// platform is a channel that keeps what it was sent.
type platform struct {
	send func(ctx context.Context, m channels.Outbound) error // before a message counts as sent; nil lets all through
	run  func(ctx context.Context, door channels.Door) error

	mu   sync.Mutex
	sent []channels.Outbound
}

func (p *platform) Run(ctx context.Context, door channels.Door) error { return p.run(ctx, door) }

func (p *platform) Send(ctx context.Context, m channels.Outbound) (channels.Receipt, error) {
	if p.send != nil {
		if err := p.send(ctx, m); err != nil {
			return channels.Receipt{}, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, m)
	return channels.Receipt{}, nil
}

// texts are what was sent to a chat, in order.
func (p *platform) texts(chat string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, m := range p.sent {
		if m.Key.Chat == chat {
			out = append(out, m.Text())
		}
	}
	return out
}

// narrow is a platform whose messages have a largest size.
type narrow struct {
	*platform
	max int
}

func (n narrow) MaxMessageBytes() int { return n.max }

// idempotent is a platform that knows a message by its id.
type idempotent struct{ *platform }

func (idempotent) IdempotentSend() {}

// logged is a log that a test reads while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// outbox is an outbox on a real bus.
type outbox struct {
	*apptest.Kit
	*channels.Outbox
	registry *prometheus.Registry
	log      *logged
}

func newOutbox(t *testing.T, dir string, on channels.OnAmbiguous) *outbox {
	t.Helper()
	k := apptest.New(t, apptest.Options{Dir: dir, Bus: bus.Options{Lease: 30 * time.Second, MaxAttempts: 3}})
	registry := prometheus.NewRegistry()
	log := &logged{}
	o, err := channels.NewOutbox(k.Bus, k.Ledger, on, zerolog.New(log), registry)
	if err != nil {
		t.Fatal(err)
	}
	return &outbox{k, o, registry, log}
}

// run sends until stop is called or the test ends.
func (o *outbox) run(t *testing.T, c channels.Channel) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	entries := []channels.Entry{{Account: channels.Account{Kind: apptest.Channel}, Channel: c}}
	for _, account := range []string{"first", "second"} {
		entries = append(entries, channels.Entry{
			Account: channels.Account{Kind: apptest.Channel, Name: account},
			Channel: c,
		})
	}
	go func() { ended <- o.Run(ctx, entries[0], entries[1:]...) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (o *outbox) enqueue(t *testing.T, chat, id, text string) {
	t.Helper()
	m := corebot.Message{
		ID: id, Direction: corebot.Outbound, Key: apptest.Key(chat), Kind: corebot.KindReply,
		Parts: corebot.TextPart(text),
	}
	if _, err := o.Bus.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// claim takes the one outbound message that is ready, as a sender that then dies.
func (o *outbox) claim(t *testing.T) corebot.Delivery {
	t.Helper()
	ds, err := o.Bus.Claim(t.Context(), corebot.OutboundPool(apptest.Channel), 1)
	if err != nil {
		t.Fatal(err)
	}
	return ds[0]
}

// life is what is known of an outbound message.
func (o *outbox) life(t *testing.T, id string) corebot.Life {
	t.Helper()
	lives, err := o.Lives.Find(t.Context(), id)
	if err != nil || len(lives) != 1 {
		t.Fatalf("the lives of %s are %+v, %v", id, lives, err)
	}
	return lives[0]
}

// counted reads a counter of the outbox, all labels together.
func (o *outbox) counted(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := o.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
