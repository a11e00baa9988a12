package cli

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// fakeDoor accepts what answer lets pass, and remembers every attempt.
type fakeDoor struct {
	mu       sync.Mutex
	attempts []channels.Incoming
	answer   func(attempt int, m channels.Incoming) error // nil: everything is accepted
}

func (d *fakeDoor) Accept(_ context.Context, m channels.Incoming) (channels.Accepted, error) {
	d.mu.Lock()
	d.attempts = append(d.attempts, m)
	n := len(d.attempts)
	d.mu.Unlock()
	if d.answer != nil {
		if err := d.answer(n, m); err != nil {
			return channels.Accepted{}, err
		}
	}
	return channels.Accepted{ID: m.ID}, nil
}

func (d *fakeDoor) seen() []channels.Incoming {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]channels.Incoming(nil), d.attempts...)
}

// syncBuffer is a terminal's output that a test reads while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	b   strings.Builder
	err error
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) breakDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.New("gone")
}

func testKey() corebot.Key {
	return corebot.Key{Agent: "main", Channel: "cli", Account: "local", Chat: "main"}
}

func reply(id, to, text string) channels.Outbound {
	return channels.Outbound{
		ID: id, Key: testKey(), Kind: corebot.KindReply, InReplyTo: to,
		Parts: corebot.TextPart(text),
	}
}

func notice(id, to, text string) channels.Outbound {
	m := reply(id, to, text)
	m.Kind = corebot.KindNotice
	return m
}

func classOf(t *testing.T, err error) corebot.Class {
	t.Helper()
	var f *corebot.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%v is not a Failure", err)
	}
	return f.Class
}

// sendOnly is a send of which the error counts: a terminal gives no receipt.
func sendOnly(ctx context.Context, c sender, m channels.Outbound) error {
	_, err := c.Send(ctx, m)
	return err
}

// sender is the half of a channel that shows messages.
type sender interface {
	Send(ctx context.Context, o channels.Outbound) (channels.Receipt, error)
}
