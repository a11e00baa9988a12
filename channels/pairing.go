package channels

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
)

// Pairings knows the senders whom an admin has let in, on accounts whose access is "pairing".
type Pairings interface {
	Paired(ctx context.Context, p corebot.Principal) (bool, error)
	// Offer gives a sender a code and enqueues the notice that tells it, in one commit, unless he has one already or
	// the account has [corebot.MaxOpenPairings] of them.
	Offer(ctx context.Context, p corebot.Pairing, notice func(corebot.Pairing) corebot.Message) (bool, error)
}

// longestName bounds the display name of a stranger, in bytes.
const longestName = 100

// pair offers a code to a sender who may not talk yet. A message that is only heard gets none: a program could answer
// it for ever, and others would read it. A group gets none either. Without a code the refusal stands all the same.
func (d *FrontDoor) pair(ctx context.Context, m corebot.Message) {
	if d.admissions.Pairings == nil || m.Kind == corebot.KindHeard || m.EditOf != "" || m.DeleteOf != "" ||
		m.Envelope.Group || m.Sender.Validate() != nil ||
		m.Validate(0) != nil || corebot.CheckID(m.ID) != nil {
		return
	}
	asks := corebot.Pairing{Principal: m.Sender, Name: runes.Head(m.SenderName, longestName), Chat: m.Key}
	_, err := d.admissions.Pairings.Offer(ctx, asks, func(p corebot.Pairing) corebot.Message {
		text := fmt.Sprintf("I do not know you yet. Your code is %s, for the next hour. Tell it to the person who "+
			"runs this Corebot. `/pair %s` or `corebot pair approve %s` lets you in.", p.Code, p.Code, p.Code)
		id := fmt.Sprintf("%s/%d/%s", m.ID, p.AskedAt.UnixMilli(), corebot.NoticePairing)
		return corebot.TextNotice(m.Key, id, m.ID, text, corebot.Notice{Kind: corebot.NoticePairing})
	})
	if err != nil {
		d.opts.Log.Warn().Err(err).Str("chat", m.Key.String()).Msg("a stranger was given no code")
	}
}
