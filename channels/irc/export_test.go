package irc

import (
	"context"
	"net"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// Heard has a channel take note of who said a message in a channel of IRC.
func (c *Channel) Heard(id, nick string, mentioned bool) {
	in := channels.Incoming{ID: id, Envelope: corebot.Envelope{Group: true, Mentioned: mentioned}}
	c.remember(in, "", line{source: source{nick: nick}})
}

// StoreLastWithin bounds the last store of a run.
func (c *Channel) StoreLastWithin(d time.Duration) { c.lastTime = d }

// DialBy has a channel connect in another way, such as in memory.
func (c *Channel) DialBy(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	c.dial = dial
}
