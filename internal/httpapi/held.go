package httpapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// maxHeld bounds what tokens hold open: requests that wait for an answer, and sockets.
const maxHeld = 900

// maxHeldByToken bounds what one token holds open: no token shuts out the others.
const maxHeldByToken = 600

// Why something that a token held open has ended.
var (
	errTokenEnded = errors.New("the token has been revoked or has expired")
	errStopping   = fmt.Errorf("%w: Corebot is stopping", corebot.ErrClosed)
)

// held is a request that waits, or a socket. It ends with its token.
type held struct {
	ctx   context.Context
	token int64
	end   context.CancelCauseFunc
	close func()
}

// holds are all of them.
type holds struct {
	mu   sync.Mutex
	open map[*held]struct{}
}

// hold opens something for the token of a call. Its context ends when the token is revoked or expires.
func (c *call) hold(ctx context.Context) (*held, error) {
	ctx, end := context.WithCancelCause(ctx)
	h := &held{token: c.token.ID, end: end}
	var expires func() bool
	if until := c.token.ExpiresAt; !until.IsZero() {
		timer := time.AfterFunc(time.Until(until), func() { end(errTokenEnded) })
		expires = timer.Stop
	}
	all := &c.server.holds
	h.ctx, h.close = ctx, func() {
		if expires != nil {
			expires()
		}
		all.mu.Lock()
		delete(all.open, h)
		all.mu.Unlock()
		end(nil)
	}
	all.mu.Lock()
	own := 0
	for o := range all.open {
		if o.token == h.token {
			own++
		}
	}
	full := len(all.open) >= maxHeld || own >= maxHeldByToken
	if !full {
		if all.open == nil {
			all.open = map[*held]struct{}{}
		}
		all.open[h] = struct{}{}
	}
	all.mu.Unlock()
	if full {
		h.close()
		return nil, corebot.WithHint(fmt.Errorf("%w: %d requests and sockets of this token, or %d of all, wait already",
			corebot.ErrOverloaded, maxHeldByToken, maxHeld), "close some, or ask again later")
	}
	// Looked at after the hold is known: a token that is revoked later finds it.
	if now, err := c.server.opts.Tokens.ByID(ctx, c.token.ID); err != nil || !now.InForce(time.Now()) {
		h.close()
		return nil, errors.Join(errTokenEnded, err)
	}
	return h, nil
}

// Revoked ends what a token holds open.
func (s *Server) Revoked(token int64) {
	s.endHeld(errTokenEnded, func(h *held) bool { return h.token == token })
}

func (s *Server) endHeld(why error, which func(*held) bool) {
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	for h := range s.holds.open {
		if which(h) {
			h.end(why)
		}
	}
}
