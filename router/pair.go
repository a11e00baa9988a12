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

// Links has a chat resume the conversation of another one.
type Links interface {
	// Of gives the links of a chat.
	Of(ctx context.Context, k corebot.Key) ([]corebot.Link, error)
	// Asked is who wants to resume the conversation of a chat now, if somebody does.
	Asked(ctx context.Context, from corebot.Key) (k corebot.Link, found bool, err error)
	// Command stores the command, what it does about a link, and its notices, in one commit. It calls notices with the
	// links that it is about, or with [corebot.ErrNotFound] or another [corebot.ErrInvalid] that says why it does
	// nothing. A command that by denies does nothing.
	Command(ctx context.Context, m corebot.Message, step corebot.LinkStep, code string, by corebot.AuditEvent,
		notices func([]corebot.Link, error) []corebot.Message) (corebot.Receipt, error)
}

// link accepts a /link: an offer of this conversation, the code of another one, or the word that agrees. Nobody takes
// the words of others along, so others must not have spoken here.
func (r *Router) link(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	answer := func(text string) (corebot.Receipt, error) { return r.ledger.Answer(ctx, m, controlNotice(m, c, text)) }
	if r.opts.Links == nil {
		return answer("Chats cannot be linked here.")
	}
	by, err := r.deniedSession(ctx, m, c)
	if err != nil {
		return corebot.Receipt{}, err
	}
	if by.Outcome == corebot.OutcomeDenied {
		return r.ledger.Refuse(ctx, m, by, controlNotice(m, c, linkDenied(by.Rule)))
	}
	if m.Envelope.Group {
		return answer("A group takes part in no link: whoever is in it would read a conversation of others.")
	}
	step, code := corebot.LinkOffer, ""
	switch {
	case strings.EqualFold(c.Args, "yes"):
		step = corebot.LinkAgree
		why, err := r.roomOfTaker(ctx, m.Key)
		if err != nil {
			return corebot.Receipt{}, err
		}
		if why != "" {
			return answer(why)
		}
	case c.Args != "":
		if code, err = corebot.ParsePairingCode(c.Args); err != nil {
			return answer("That is no code: a code has 8 letters and digits. " +
				"/link shows one in the chat whose conversation goes on here.")
		}
		step = corebot.LinkEnter
	}
	return r.opts.Links.Command(ctx, m, step, code, by, func(all []corebot.Link, err error) []corebot.Message {
		if err != nil {
			return []corebot.Message{controlNotice(m, c, linkFailed(err))}
		}
		return linkNotices(m, c, step, all[0])
	})
}

// Rooms say how it is in a chat now, which a message of minutes ago does not tell.
type Rooms interface {
	// Room says whether others than a principal read a chat, and whether he may talk there.
	Room(ctx context.Context, p corebot.Principal, k corebot.Key) (group, talks bool, err error)
}

// roomOfTaker says why the chat that asks for this conversation cannot have it any more; empty: it can. The chat can
// have become a group since it asked, and its taker can have lost his place.
func (r *Router) roomOfTaker(ctx context.Context, from corebot.Key) (string, error) {
	if r.opts.Rooms == nil {
		return "", nil
	}
	k, found, err := r.opts.Links.Asked(ctx, from)
	if err != nil || !found {
		return "", err
	}
	taker, err := corebot.ParsePrincipal(k.Taker)
	if err != nil {
		return "", err
	}
	group, talks, err := r.opts.Rooms.Room(ctx, taker, k.To)
	switch {
	case err != nil:
		r.opts.Log.Warn().Err(err).Str("chat", k.To.String()).Msg("nobody knows who reads a chat that would be linked")
		return "Nobody can tell now who reads the other chat, so nothing was linked. Try again later.", nil
	case group:
		return "The other chat has become a group: whoever is in it would read this conversation. Nothing was linked.",
			nil
	case !talks:
		return "The sender who asked may not talk in the other chat any more. Nothing was linked.", nil
	}
	return "", nil
}

func linkDenied(rule string) string {
	if rule == refusedOthers {
		return "Others have spoken in this session: only an admin of this chat can link it."
	}
	return "Only a person can link chats."
}

func linkFailed(err error) string {
	return sentence(strings.TrimPrefix(inChat(err), corebot.ErrInvalid.Error()+": "))
}

// linkNotices tells both chats what a step did.
func linkNotices(m corebot.Message, c corebot.Command, step corebot.LinkStep, k corebot.Link) []corebot.Message {
	there := func(to corebot.Key, name, text string) corebot.Message {
		return corebot.TextNotice(to, corebot.OwnID("link", k.ID, name), "", text,
			corebot.Notice{Kind: corebot.NoticeCommand})
	}
	switch step {
	case corebot.LinkOffer:
		return []corebot.Message{controlNotice(m, c, fmt.Sprintf("Write /link %s in the other chat within %v. Whoever "+
			"writes it asks to read what was said here, and you will be asked here before he does.", k.Code,
			corebot.LinkTime))}
	case corebot.LinkEnter:
		return []corebot.Message{
			controlNotice(m, c, "Asked. Say /link yes in the other chat, and its conversation goes on here."),
			there(k.From, "asked", fmt.Sprintf("%s asks from the chat %s to go on with this conversation there. "+
				"If that is you, say /link yes. The other chat will see what was said here. "+
				"Otherwise do nothing: the question ends within %v.",
				corebot.Plainly(k.Taker), corebot.Plainly(k.To.String()), corebot.LinkTime)),
		}
	default:
		return []corebot.Message{
			controlNotice(m, c, fmt.Sprintf("The conversation goes on in %s, with %d entries of the history. "+
				"What is said there is not shown here. Neither chat has roles, memory or files of the other. "+
				"/unlink takes the entries back.", corebot.Plainly(k.To.String()), k.Entries)),
			there(k.To, "linked", fmt.Sprintf("The conversation of %s goes on here, with %d entries of the history. "+
				"/unlink ends that.", corebot.Plainly(k.From.String()), k.Entries)),
		}
	}
}

// unlink accepts an /unlink, of somebody who has linked the chat, or of an admin.
func (r *Router) unlink(ctx context.Context, m corebot.Message, c corebot.Command) (corebot.Receipt, error) {
	if r.opts.Links == nil {
		return r.ledger.Answer(ctx, m, controlNotice(m, c, "Chats cannot be linked here."))
	}
	links, err := r.opts.Links.Of(ctx, m.Key)
	if err != nil {
		return corebot.Receipt{}, err
	}
	whose := m.Sender
	for _, k := range links {
		if k.Giver != m.Sender.String() && k.Taker != m.Sender.String() {
			whose = corebot.Principal{} // somebody else's
		}
	}
	decision, by, err := r.judge(ctx, m, c, whose)
	if err != nil {
		return corebot.Receipt{}, err
	}
	if !decision.Allow || m.Sender.ID == "" && len(links) > 0 {
		by.Outcome = corebot.OutcomeDenied
		return r.ledger.Refuse(ctx, m, by, controlNotice(m, c,
			"Only who has linked this chat, or an admin, can end that."))
	}
	return r.opts.Links.Command(ctx, m, corebot.Unlink, "", by, func(all []corebot.Link, err error) []corebot.Message {
		switch {
		case errors.Is(err, corebot.ErrInvalid):
			return []corebot.Message{controlNotice(m, c, "An answer is under way in a chat that has the words. "+
				"Try again when it has come.")}
		case err != nil:
			return []corebot.Message{controlNotice(m, c, "This chat is not linked.")}
		}
		entries := int64(0)
		var told []corebot.Message
		for _, k := range all {
			entries += k.Entries
			other := k.From
			if other == m.Key {
				other = k.To
			}
			if other == (corebot.Key{}) { // that chat was deleted
				continue
			}
			told = append(told, corebot.TextNotice(other, corebot.OwnID("link", k.ID, "ended"), "",
				"The link with "+corebot.Plainly(m.Key.String())+" has ended.",
				corebot.Notice{Kind: corebot.NoticeCommand}))
		}
		return append(told, controlNotice(m, c, fmt.Sprintf("Unlinked. %d entries that were copied are deleted. What "+
			"answers have said of them stays.", entries)))
	})
}
