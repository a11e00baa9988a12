package control

import (
	"context"
	"net"
)

// Peer is the user at the other end of the control socket, as the kernel names him. Nothing that the other process
// sends can change it.
type Peer struct {
	UID   int
	Known bool // false: this system does not tell
}

// peerKey is the key of a [Peer] among the values of an operation's context.
type peerKey struct{}

// PeerOf gives the peer of an operation that came through the socket. served is false for an operation that this
// process called itself.
func PeerOf(ctx context.Context) (p Peer, served bool) {
	p, served = ctx.Value(peerKey{}).(Peer)
	return p, served
}

// withPeer notes the peer of a connection. A connection of any other kind has an unknown peer.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	p := Peer{}
	if raw, ok := c.(interface{ Unwrap() net.Conn }); ok {
		c = raw.Unwrap()
	}
	if u, ok := c.(*net.UnixConn); ok {
		p.UID, p.Known = peerUID(u)
	}
	return context.WithValue(ctx, peerKey{}, p)
}
