package router

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/corebot/corebot"
)

// Pairings stores who asked to talk where access is "pairing".
type Pairings interface {
	// Page gives the pairings in a state behind a cursor, and the cursor behind them.
	Page(ctx context.Context, state corebot.PairingState, after string, limit int) (found []corebot.Pairing,
		next string, err error)
	// Command stores the command, its decision about a code and the notice in one commit. It calls notice with the
	// pairing, or with [corebot.ErrNotFound] or another [corebot.ErrInvalid] that says why nothing is decided. A
	// command that by denies decides nothing.
	Command(ctx context.Context, m corebot.Message, code string, state corebot.PairingState, by corebot.AuditEvent,
		notice func(corebot.Pairing, error) corebot.Message) (corebot.Receipt, error)
}

// pairingsShown is how many open requests /pair shows.
const pairingsShown = 20

const pairUsage = "/pair CODE lets in who got that code, and /pair deny CODE refuses him."

// pair accepts a /pair: the list of those who ask to talk, or a decision by a code. Nobody but an admin learns
// whether a code is right.
func (r *Router) pair(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	answer := func(text string) (corebot.Receipt, error) { return r.ledger.Answer(ctx, m, controlNotice(m, c, text)) }
	if r.opts.Pairings == nil {
		return answer("Nobody can be let in here.")
	}
	decision, by, err := r.judge(ctx, m, c, m.Sender)
	if err != nil {
		return corebot.Receipt{}, err
	}
	if !decision.Allow {
		return r.ledger.Refuse(ctx, m, by, controlNotice(m, c, "That is not allowed: "+decision.Reason+"."))
	}
	state, words := corebot.PairingPaired, strings.Fields(c.Args)
	switch {
	case len(words) == 0:
		text, err := r.pairingList(ctx)
		if err != nil {
			return corebot.Receipt{}, err
		}
		return answer(text)
	case len(words) == 2 && words[0] == "deny":
		state, words = corebot.PairingDenied, words[1:]
	case len(words) == 2 && words[0] == "approve":
		words = words[1:]
	}
	if len(words) != 1 {
		return answer(pairUsage)
	}
	code, err := corebot.ParsePairingCode(words[0])
	if err != nil {
		return answer("That is no code: a code has 8 letters and digits. " + pairUsage)
	}
	return r.opts.Pairings.Command(ctx, m, code, state, by, func(p corebot.Pairing, err error) corebot.Message {
		switch {
		case errors.Is(err, corebot.ErrNotFound):
			return controlNotice(m, c, fmt.Sprintf("Nobody has the code %s. /pair lists who asks.", code))
		case err != nil:
			text := strings.TrimPrefix(err.Error(), corebot.ErrInvalid.Error()+": ")
			return controlNotice(m, c, corebot.Plainly(sentence(text)))
		case state == corebot.PairingDenied:
			return controlNotice(m, c, fmt.Sprintf("%s may not talk, and gets no other code.", p.Principal))
		}
		return controlNotice(m, c, fmt.Sprintf("%s may talk now.", p.Principal))
	})
}

// pairingList tells who asks to talk.
func (r *Router) pairingList(ctx context.Context) (string, error) {
	found, next, err := r.opts.Pairings.Page(ctx, corebot.PairingOpen, "", pairingsShown)
	if err != nil {
		return "", fmt.Errorf("list who asks to talk: %w", err)
	}
	if len(found) == 0 {
		return "Nobody asks to talk.", nil
	}
	var b strings.Builder
	for _, p := range found {
		fmt.Fprintf(&b, "%s: %s", p.Code, p.Principal)
		if p.Name != "" {
			fmt.Fprintf(&b, ", who calls himself %q", corebot.Plainly(p.Name))
		}
		fmt.Fprintf(&b, ", until %s\n", p.ExpiresAt.UTC().Format("15:04 MST"))
	}
	if next != "" {
		b.WriteString("There are more; `corebot pair list` shows all.\n")
	}
	return b.String() + pairUsage, nil
}
