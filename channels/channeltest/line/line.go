// Package line is a template for a chat network: a channel that has all that a network needs, and nothing that is of
// one platform only. Tests use it with the server of this package, which stands for the platform. Corebot itself does
// not have it.
package line

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/backoff"
)

// Settings are what an account needs, under channels.line.ACCOUNT.
type Settings struct {
	Addr  string        `mapstructure:"addr" doc:"the host and port of the server"`
	Token string        `mapstructure:"token" secret:"yes" doc:"what the server knows the bot by"`
	Wait  time.Duration `mapstructure:"wait" min:"1ms" doc:"how long the server holds a fetch that finds nothing"`
}

// Validate refuses settings that cannot work.
func (s Settings) Validate() error {
	if _, _, err := net.SplitHostPort(s.Addr); err != nil {
		return corebot.WithHint(fmt.Errorf("addr is no address: %w", err), "write host:port, such as 127.0.0.1:7000")
	}
	if s.Token == "" {
		return corebot.WithHint(errors.New("token is empty"), "set token to file:line.token")
	}
	return nil
}

// Network describes the network for the list of networks in package internal/app.
func Network() channels.Network {
	return channels.NewNetwork(channels.Kind{
		Name: "line", People: true, About: "an account on a line server",
		Questions: []channels.Question{
			{Key: "addr", Text: "Host and port of the server"},
			{Key: "token", Text: "Token of the account", Hint: "The operator of the server gives one."},
		},
	}, Settings{Wait: 10 * time.Second}, New)
}

// Channel is one account.
type Channel struct {
	settings Settings
	site     channels.Site
}

var (
	_ channels.Splitter   = (*Channel)(nil)
	_ channels.Idempotent = (*Channel)(nil)
	_ channels.Periodic   = (*Channel)(nil)
	_ channels.Checker    = (*Channel)(nil)
)

// New makes the channel of an account. It connects to nothing.
func New(s Settings, site channels.Site) (channels.Channel, error) { return &Channel{s, site}, nil }

// MaxMessageBytes implements [channels.Splitter].
func (c *Channel) MaxMessageBytes() int { return 1000 }

// IdempotentSend implements [channels.Idempotent]: the server shows what has the same key once.
func (c *Channel) IdempotentSend() {}

// Period implements [channels.Periodic].
func (c *Channel) Period() time.Duration { return c.settings.Wait + time.Second }

// Check implements [channels.Checker].
func (c *Channel) Check(ctx context.Context) (string, error) {
	a, err := c.once(ctx, Request{Op: "who"})
	return "known as " + a.Name, err
}

// Run fetches until ctx ends. A connection that breaks is an error: the supervisor runs the channel again. The next
// fetch acknowledges the messages of the last one, and comes after these are stored.
func (c *Channel) Run(ctx context.Context, door channels.Door) error {
	l, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	cursor, err := door.Cursor(ctx)
	for err == nil {
		var a Answer
		if a, err = l.ask(Request{Op: "fetch", After: cursor.Position, Wait: c.settings.Wait}); err != nil {
			break
		}
		door.Alive()
		if len(a.Messages) > 0 {
			cursor, err = c.accept(ctx, door, a, cursor)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// accept gives one fetch to the door. Where nobody has room the cursor stays, and the same is fetched again later.
func (c *Channel) accept(ctx context.Context, door channels.Door, a Answer,
	cursor corebot.Cursor,
) (corebot.Cursor, error) {
	var batch []channels.Incoming
	for _, m := range a.Messages {
		batch = append(batch, channels.Incoming{
			ID: m.ID, Chat: m.Chat, SenderID: m.Sender, SenderName: m.Name, Parts: corebot.TextPart(m.Text),
			EditOf: m.EditOf, DeleteOf: m.DeleteOf, Bot: m.Bot, Own: m.Sender == a.Name, Interactive: true,
			Envelope: corebot.Envelope{ReplyTo: m.ReplyTo, Group: m.Group, Mentioned: m.Mentioned, SentAt: m.At},
		})
	}
	taken, err := door.AcceptBatch(ctx, batch, cursor.To(a.Next))
	if busy := (*corebot.Busy)(nil); errors.As(err, &busy) {
		c.site.Log.Warn().Err(err).Msg("no room for what was fetched; it is fetched again")
		backoff.Sleep(ctx, busy.RetryAfter)
		return cursor, nil
	}
	if err != nil {
		return cursor, err
	}
	return taken.Cursor, nil
}

// Send shows one message, or a piece of one.
func (c *Channel) Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error) {
	a, err := c.once(ctx, Request{
		Op: "say", Chat: o.Key.Chat, Text: o.Text(), Key: o.IdempotencyKey, ReplyTo: o.InReplyTo,
	})
	if err != nil {
		return channels.Receipt{}, err
	}
	return channels.Receipt{IDs: []string{a.ID}}, nil
}

// once makes one request on a connection of its own.
func (c *Channel) once(ctx context.Context, r Request) (Answer, error) {
	l, err := c.dial(ctx)
	if err != nil {
		return Answer{}, err
	}
	defer l.close()
	return l.ask(r)
}

// link is a connection to the server. It ends with the context that it was made with.
type link struct {
	net.Conn
	in    *bufio.Scanner
	token string
	stop  func() bool
}

func (c *Channel) dial(ctx context.Context) (*link, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.settings.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	in := bufio.NewScanner(conn)
	in.Buffer(nil, maxLine)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &link{conn, in, c.settings.Token, stop}, nil
}

func (l *link) close() {
	l.stop()
	_ = l.Close() // it was used up
}

// ask makes one request. A refusal of the server says whether another try can help.
func (l *link) ask(r Request) (a Answer, err error) {
	r.Token = l.token
	if err := json.NewEncoder(l).Encode(r); err != nil {
		return a, fmt.Errorf("write to the server: %w", err)
	}
	if !l.in.Scan() {
		return a, fmt.Errorf("read from the server: %w", errors.Join(net.ErrClosed, l.in.Err()))
	}
	if err := json.Unmarshal(l.in.Bytes(), &a); err != nil {
		return a, fmt.Errorf("the server says something else: %w", err)
	}
	switch {
	case a.Error == "":
		return a, nil
	case a.RetryAfter > 0:
		return a, &corebot.Failure{Class: corebot.RateLimited, RetryAfter: a.RetryAfter, Err: errors.New(a.Error)}
	}
	return a, &corebot.Failure{Class: corebot.Permanent, Err: errors.New(a.Error)}
}
