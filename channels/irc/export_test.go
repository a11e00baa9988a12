package irc

import (
	"context"
	"net"
	"time"
)

// StoreLastWithin bounds the last store of a run.
func (c *Channel) StoreLastWithin(d time.Duration) { c.lastTime = d }

// DialBy has a channel connect in another way, such as in memory.
func (c *Channel) DialBy(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	c.dial = dial
}
