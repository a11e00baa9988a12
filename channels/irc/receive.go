package irc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/backoff"
)

// position is the place of the account. IRC has none: nothing is delivered again.
const position = "live"

// maxHeard is how many lines wait in memory to be stored.
const maxHeard = 2048

// Run receives until ctx ends. A connection that breaks is an error: the supervisor runs the channel again.
func (c *Channel) Run(ctx context.Context, door channels.Door) error {
	if err := c.held(); err != nil {
		return err
	}
	ending, end := context.WithCancel(ctx)
	defer end()
	err := c.receive(ending, end, door)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *Channel) receive(ctx context.Context, end context.CancelFunc, door channels.Door) error {
	cursor, err := door.Cursor(ctx)
	for err == nil && c.waiting() > 0 { // nothing more is received before this is stored
		cursor, err = c.store(ctx, door, cursor)
	}
	if err != nil {
		return err
	}
	s, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	door.Alive()
	heard := make(chan channels.Incoming, maxHeard)
	var running sync.WaitGroup
	var broken error
	running.Go(func() {
		defer end()
		broken = c.holds(s.read(ctx, door, heard))
	})
	running.Go(func() { s.ping(ctx) })
	running.Go(func() { s.begin(ctx) })
	taken, err := door.AcceptBatch(ctx, nil, cursor.To(position))
	cursor = taken.Cursor
	for err == nil && ctx.Err() == nil {
		cursor, err = c.takeIn(ctx, door, heard, cursor)
	}
	end()
	c.gone(s)
	running.Wait()
	for len(heard) > 0 {
		c.keep(<-heard)
	}
	c.storeLast(ctx, door, cursor)
	if broken != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return broken
	}
	return err
}

// takeIn waits for something that was said, and stores it with all that was said meanwhile.
func (c *Channel) takeIn(ctx context.Context, door channels.Door, heard <-chan channels.Incoming,
	cursor corebot.Cursor,
) (corebot.Cursor, error) {
	if c.waiting() == 0 {
		select {
		case in := <-heard:
			c.keep(in)
		case <-ctx.Done():
			return cursor, nil
		}
	}
	for len(heard) > 0 && c.waiting() < corebot.MaxBatch {
		c.keep(<-heard)
	}
	return c.store(ctx, door, cursor)
}

func (c *Channel) keep(in channels.Incoming) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, in)
}

func (c *Channel) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kept)
}

// store gives what is kept to the door. Where nobody has room it stays kept.
func (c *Channel) store(ctx context.Context, door channels.Door, cursor corebot.Cursor) (corebot.Cursor, error) {
	c.mu.Lock()
	batch := slices.Clone(c.kept[:min(len(c.kept), corebot.MaxBatch)])
	c.mu.Unlock()
	taken, err := door.AcceptBatch(ctx, batch, cursor.To(position))
	if busy := (*corebot.Busy)(nil); errors.As(err, &busy) {
		c.site.Log.Warn().Err(err).Msg("no room for what was said; it is kept")
		backoff.Sleep(ctx, busy.RetryAfter)
		return cursor, ctx.Err()
	}
	if err != nil {
		return cursor, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = c.kept[len(batch):]
	if len(c.kept) == 0 {
		c.kept = nil
	}
	return taken.Cursor, nil
}

// lastTime bounds the last store of a run.
const lastTime = 3 * time.Second

// storeLast stores what was heard when a run is told to end: nobody would say it again. A line that finds no room is
// kept for the next run.
func (c *Channel) storeLast(ctx context.Context, door channels.Door, cursor corebot.Cursor) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.lastTime)
	defer cancel()
	var err error
	for err == nil && c.waiting() > 0 {
		cursor, err = c.store(ctx, door, cursor)
	}
	if err != nil {
		c.site.Log.Warn().Err(err).Int("messages", c.waiting()).Msg("what was heard last is not stored yet")
	}
}

// begin joins the channels, and then lets others send.
func (s *session) begin(ctx context.Context) {
	s.join(ctx, s.of.settings.Channels)
	c := s.of
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() == nil {
		c.now = s
		close(c.came)
	}
}

// gone ends the sends of a session.
func (c *Channel) gone(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == s {
		c.now, c.came = nil, make(chan struct{})
	}
}

// join joins channels in which Corebot is not. A refusal is tried again with the next ping.
func (s *session) join(ctx context.Context, all []string) {
	if !s.take(ctx) {
		return
	}
	defer s.leave()
	for _, one := range all {
		name, key, err := parseJoin(one)
		if err != nil || s.isIn(fold(name)) || !s.of.pace.turn(ctx) {
			continue
		}
		a, err := s.ask(ctx, strings.TrimSpace("JOIN "+name+" "+key))
		if err != nil {
			return
		}
		for _, l := range a.said {
			if l.command >= "400" && fold(l.param(1)) == fold(name) {
				s.of.site.Log.Warn().Str("channel_of_irc", name).Str("says", l.last()).Str("number", l.command).
					Msg("the server does not let Corebot into a channel; it is tried again")
			}
		}
	}
}

// ping asks a server whether it is there, takes the wanted nick back, and joins again where that was refused.
func (s *session) ping(ctx context.Context) {
	ticker := time.NewTicker(s.of.settings.Ping)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dead:
			return
		case <-ticker.C:
		}
		lines := []string{"PING :" + s.id}
		if !s.own(s.of.settings.Nick) {
			lines = append(lines, "NICK "+s.of.settings.Nick)
		}
		if s.write(ctx, lines...) != nil {
			_ = s.conn.Close() // read says so
			return
		}
		var missing []string
		for _, one := range s.of.settings.Channels {
			if name, _, _ := parseJoin(one); s.wants(fold(name)) {
				missing = append(missing, one)
			}
		}
		if len(missing) > 0 {
			s.join(ctx, missing)
		}
	}
}

// wants says whether Corebot is to join a channel. A channel from which it was removed is left alone.
func (s *session) wants(channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.joined[channel] && !s.removed[channel]
}

// maxInvited bounds the channels into which Corebot follows invitations, until the connection ends.
const maxInvited = 20

// invited follows the invitation of somebody who may talk. It is forgotten with the connection.
func (s *session) invited(ctx context.Context, door channels.Door, l line) {
	name := l.param(1)
	s.mu.Lock()
	room := len(s.joined) < len(s.of.settings.Channels)+maxInvited
	s.mu.Unlock()
	account := s.accountOf(l)
	if !isChannel(name) || !room || account == "" {
		return
	}
	if err := door.Admit(ctx, channels.Incoming{
		ID: "invite/" + name, Chat: fold(name), SenderID: account, SenderName: l.source.nick,
		Envelope: corebot.Envelope{Group: true},
	}); err != nil {
		return
	}
	if err := s.write(ctx, "JOIN "+name); err == nil {
		s.of.site.Log.Info().Str("channel_of_irc", name).Str("by", account).Msg("Corebot follows an invitation")
	}
}

// session is the connection that is there, or comes soon.
func (c *Channel) session(ctx context.Context) (*session, error) {
	timer := time.NewTimer(soon)
	defer timer.Stop()
	c.mu.Lock()
	s, came := c.now, c.came
	c.mu.Unlock()
	if s == nil {
		select {
		case <-came:
		case <-timer.C:
		case <-ctx.Done():
		}
		c.mu.Lock()
		s = c.now
		c.mu.Unlock()
	}
	if s == nil {
		return nil, &corebot.Failure{
			Class: corebot.Cancelled, RetryAfter: soon,
			Err: fmt.Errorf("%s is not connected to its server", c.site.Account),
		}
	}
	return s, nil
}

// soon is how long a send waits for a connection.
const soon = 3 * time.Second
