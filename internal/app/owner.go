package app

import (
	"context"
	"strconv"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/owned"
)

// ownerOf is the owner of a home at its terminal: whom the kernel names as the owner of the directory. Without an id
// there is none.
func ownerOf(home string) corebot.Principal {
	if uid, ok := owned.Owner(home); ok {
		return corebot.AtTerminal(uid)
	}
	return corebot.Principal{}
}

// attends says whether somebody can be a principal at a terminal of this machine.
func attends(p corebot.Principal) bool {
	uid, err := strconv.Atoi(p.ID)
	return err == nil && owned.LogsIn(uid)
}

// acceptFrom takes in a message of a terminal. Where the message came through the control socket, the kernel names the
// sender: the id that stands in the message counts for nothing.
func (a *App) acceptFrom(ctx context.Context, in channels.Incoming) (channels.Accepted, error) {
	if peer, served := control.PeerOf(ctx); served {
		in.SenderID = senderOf(peer)
	}
	return a.Accept(ctx, in)
}

// senderOf is the id of a peer at the terminal. Where the system does not tell who the peer is, the sender has no id,
// and so no role.
func senderOf(p control.Peer) string {
	if !p.Known {
		return ""
	}
	return strconv.Itoa(p.UID)
}
