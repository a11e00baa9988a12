package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/listen"
	"github.com/corebot/corebot/internal/live"
)

// Channel is the channel's name, in keys and commands.
const Channel = "webhook"

// Kind describes the webhook. Whether its senders are people is a setting: see [Options].
func Kind() channels.Kind {
	return channels.Kind{Name: Channel, Daemon: true, People: true, AnyChat: true}
}

// Options of a [Webhook]. Token and Secret may both be set, and either is enough; with neither, New refuses.
type Options struct {
	Addr   string // where to listen; port 0 picks one
	Token  string // what callers send as a bearer token: 16 visible ASCII characters or more
	Secret string // what callers sign with, by Standard Webhooks: whsec_ and base64 of 16 bytes or more

	Routing corebot.Routing // which agent answers where

	Interactive bool // its senders are people, who may approve calls

	MaxBodyBytes   int64    // of a POST, 1 MiB by default
	MaxConnections int      // at once, 1024 by default; one more is answered 503 and closed
	AllowedHosts   []string // names of the listener beside its address and localhost: see [listen.NewPages]
	MaxWaiting     int      // long polls and streams at once, 256 by default; one more is answered 503

	Callback       string // an http or https address that replies are pushed to; empty: none
	CallbackSecret string // what pushes are signed with, as Secret; required with Callback

	Guest Guest // answers at /mcp; nil: nobody does
	Words Words // takes the words that turns wait for; nil: nobody does

	Files channels.FileOpener // opens the files of messages for callers; nil: nothing is served

	Traced bool // a caller that has proven who it is can send the header traceparent

	Live    *live.Hub // what streams show of a running turn; nil: nothing
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: figures are kept and shown to nobody
}

func (o Options) withDefaults() Options {
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 1<<20)
	o.MaxConnections = cmp.Or(o.MaxConnections, 1024)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 256)
	if o.Live == nil {
		o.Live = new(live.Hub)
	}
	return o
}

func (o Options) validate() error {
	for _, limit := range []struct {
		name string
		n    int64
	}{
		{"max_body_bytes", o.MaxBodyBytes},
		{"max_connections", int64(o.MaxConnections)},
		{"max_waiting", int64(o.MaxWaiting)},
	} {
		if limit.n < 1 {
			return corebot.WithHint(fmt.Errorf("%w: webhook.%s is %d", corebot.ErrInvalid, limit.name, limit.n),
				"it must be at least 1")
		}
	}
	return nil
}

// Webhook is the channel. It implements [channels.Channel], [channels.Idempotent] and [channels.Pulled].
type Webhook struct {
	opts        Options
	replies     *channels.Replies
	credentials atomic.Pointer[credentials]
	callback    *callback // nil: none
	waits       waits
	buffers     sync.Pool // of *bytes.Buffer, for bodies
	metrics     *metrics

	addr     string
	pages    listen.Pages
	mu       sync.Mutex
	listener net.Listener
	served   bool // the listener has been given to a server, which closes it when it ends
}

var (
	_ channels.Channel    = (*Webhook)(nil)
	_ channels.Idempotent = (*Webhook)(nil)
	_ channels.Pulled     = (*Webhook)(nil)
	_ channels.Files      = (*Webhook)(nil)
	_ channels.Prober     = (*Webhook)(nil)
)

// New listens at once, so that a busy port is known before anything else is started, and serves in [Webhook.Run]. Its
// errors are those of settings ([corebot.ErrInvalid]) and of the listener, with a hint that names the key.
func New(box channels.Mailbox, o Options) (*Webhook, error) {
	w, err := prepare(box, o)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("listen for the webhook: %w", err),
			"choose another webhook.addr, or port 0 for any")
	}
	if err := w.attach(l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return w, nil
}

// prepare makes a webhook that listens nowhere.
func prepare(box channels.Mailbox, o Options) (*Webhook, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	w := &Webhook{opts: o, replies: channels.NewReplies(box), metrics: newMetrics(o.Guest != nil)}
	w.waits.max, w.waits.gauge = o.MaxWaiting, w.metrics.waiting
	if err := w.SetCredentials(o.Token, o.Secret); err != nil {
		return nil, err
	}
	var err error
	if w.callback, err = newCallback(o.Callback, o.CallbackSecret); err != nil {
		return nil, err
	}
	return w, w.metrics.register(o.Metrics)
}

func (w *Webhook) attach(l net.Listener) (err error) {
	w.listener, w.addr = l, l.Addr().String()
	if w.pages, err = listen.NewPages(l, w.opts.AllowedHosts); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	return nil
}

// Addr is where the webhook listens.
func (w *Webhook) Addr() string { return w.addr }

// SetCredentials replaces both credentials at once. From now on an old credential is refused. Its long polls and
// streams end, and so do the sessions of the guest. An error changes nothing; it names the key, and never shows the
// value.
func (w *Webhook) SetCredentials(token, secret string) error {
	c, err := newCredentials(token, secret)
	if err != nil {
		return err
	}
	was := w.credentials.Swap(c)
	w.waits.revoke(w.credentials.Load())
	if was != nil && !was.sameAs(c) && w.opts.Guest != nil {
		w.opts.Guest.EndSessions()
	}
	return nil
}

// Send puts a reply into the mailbox, wakes who waits for it, and pushes it to the callback if there is one. A reply
// whose push failed is in the mailbox all the same; sending it again repeats only the push, under the same webhook-id.
func (w *Webhook) Send(ctx context.Context, m channels.Outbound) (channels.Receipt, error) {
	if err := w.replies.Send(ctx, m); err != nil {
		return channels.Receipt{}, err
	}
	if w.callback == nil {
		return channels.Receipt{}, nil
	}
	return channels.Receipt{}, w.callback.push(ctx, m, w.filesOf(ctx, m.Key, m.Parts))
}

// Pulled implements [channels.Pulled]: without a callback, callers fetch all that is said to them.
func (w *Webhook) Pulled() bool { return w.callback == nil }

// Posted implements [channels.Pulled]. It wakes who waits for the reply.
func (w *Webhook) Posted(k corebot.Key) { w.replies.Posted(k) }

// ShowsFiles implements [channels.Files]: a reply names its attachments.
func (w *Webhook) ShowsFiles() {}

// IdempotentSend implements [channels.Idempotent]: the mailbox knows a reply by its id, and so does who is pushed to.
func (w *Webhook) IdempotentSend() {}

// Close frees the port, also of a webhook that was never run. It may be called twice, and after Run.
func (w *Webhook) Close() error {
	if w.callback != nil {
		w.callback.target.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
