package operate

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

// Pairings keeps who asked to talk on accounts whose access is "pairing".
type Pairings interface {
	// Page gives the pairings in a state behind a cursor, in the order of their senders, and the cursor behind them. An
	// empty state means all.
	Page(ctx context.Context, state corebot.PairingState, after string, limit int) (found []corebot.Pairing,
		next string, err error)
	Decide(ctx context.Context, code string, state corebot.PairingState) (corebot.Pairing, error)
	Remove(ctx context.Context, p corebot.Principal) error
}

// The operations on pairings.
var (
	ListPairings  = reads("pair.list", (*Service).ListPairings)
	DecidePairing = changes("pair.decide", (*Service).DecidePairing)
	RemovePairing = changes("pair.remove", (*Service).RemovePairing)
)

type (
	// PairingQuery asks for a part of the pairings.
	PairingQuery struct {
		All bool `json:"all,omitempty"` // also those that are decided
		Part
	}
	// Pairing is one row of the list.
	Pairing struct {
		corebot.Pairing
		Principal string `json:"principal"`
		Chat      string `json:"chat"`
	}
	// PairingDecision lets in who got a code, or turns him away.
	PairingDecision struct {
		Code  string               `json:"code"`
		State corebot.PairingState `json:"state"`
	}
)

// ListPairings lists who asks to talk, and on request also who was let in or turned away.
func (s *Service) ListPairings(ctx context.Context, q PairingQuery) (Page[Pairing], error) {
	state := corebot.PairingOpen
	if q.All {
		state = ""
	}
	found, next, err := s.stores.Pairings.Page(ctx, state, q.After, q.size())
	return pageOf(found, next, newPairing), err
}

func newPairing(p corebot.Pairing) Pairing {
	return Pairing{Pairing: p, Principal: p.Principal.String(), Chat: p.Chat.String()}
}

// DecidePairing lets in who got a code, or turns him away.
func (s *Service) DecidePairing(ctx context.Context, d PairingDecision) (Pairing, error) {
	code, err := corebot.ParsePairingCode(d.Code)
	if err != nil {
		return Pairing{}, fmt.Errorf("%q: %w", clip(d.Code), err)
	}
	p, err := s.stores.Pairings.Decide(ctx, code, d.State)
	return newPairing(p), err
}

// RemovePairing forgets what was decided about a sender.
func (s *Service) RemovePairing(ctx context.Context, p corebot.Principal) (Done, error) {
	return Done{Changed: 1}, s.stores.Pairings.Remove(ctx, p)
}
