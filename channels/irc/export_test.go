package irc

import (
	"context"
	"net"
)

// DialBy has a channel connect in another way, such as in memory.
func (c *Channel) DialBy(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	c.dial = dial
}
