package channels

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/policy"
)

// Register knows the chats that stand apart. It is asked for every message.
type Register interface {
	Admission(ctx context.Context, k corebot.Key) (corebot.Admission, error)
}

// Admissions say who may talk where. The front door asks for each message; the scheduler asks for the maker of a task.
type Admissions struct {
	Chats    Register
	Accounts map[Account]AccountRules // on an account that is not there nobody may talk
	// Pairings are asked where access is "pairing"; nil: nobody is paired there.
	Pairings Pairings
}

// AccountRules say who may talk on an account, and as what.
type AccountRules struct {
	Access policy.Access
	Groups GroupRule // empty: [GroupsAll]
	People bool      // see [Kind]
}

// Judge says whether a principal may talk in a conversation. group says that others than the principal read it.
func (a Admissions) Judge(ctx context.Context, p corebot.Principal, k corebot.Key, group bool) (policy.Decision,
	error,
) {
	chat, err := a.Chats.Admission(ctx, k)
	if err != nil {
		return policy.Decision{}, fmt.Errorf("read who may talk in chat %s: %w", k, err)
	}
	rules, known := a.Accounts[AccountOf(k)]
	switch {
	case !known:
		return policy.Decision{Rule: noChannel, Reason: "there is no such channel"}, nil
	case group && rules.Groups == GroupsOff:
		return policy.Decision{Rule: groupsOff, Reason: "this account does not talk in groups"}, nil
	}
	if rules.Access.Pairs() && a.Pairings != nil && p.ID != "" {
		if chat.Paired, err = a.Pairings.Paired(ctx, p); err != nil {
			return policy.Decision{}, err
		}
	}
	return rules.Access.Admit(p, k, chat), nil
}

// noChannel is the rule that refuses messages of an account that the settings do not have.
const noChannel = "no-channel"

// groupsOff is the rule that refuses messages of groups where an account does not talk in them.
const groupsOff = "groups-off"

// refusals are the rules by which messages of an account can be refused.
func (r AccountRules) refusals() []string {
	rules := r.Access.Refusals()
	if r.Groups == GroupsOff {
		rules = append(rules, groupsOff)
	}
	return rules
}

// Admit says whether a sender may talk in a chat. A refusal is counted and audited as by Accept.
func (d *FrontDoor) Admit(ctx context.Context, in Incoming) error {
	key, err := d.key(in)
	if err != nil {
		return err
	}
	return d.admit(ctx, corebot.Message{
		ID: in.ID, Direction: corebot.Inbound, Kind: corebot.KindHeard, Key: key, Parts: corebot.TextPart("asks"),
		Sender:     corebot.Principal{Channel: in.Channel, Account: in.Account, ID: in.SenderID},
		SenderName: in.SenderName, Envelope: in.Envelope,
	})
}

// tellOnce tells a chat what Corebot cannot follow there: see [Incoming]. The id of the notice is of its words, so that
// the chat is told once, also after a restart.
func (d *FrontDoor) tellOnce(ctx context.Context, m corebot.Message, words string) {
	sum := sha256.Sum256([]byte(words))
	notice := corebot.TextNotice(m.Key, corebot.OwnID("channel", fmt.Sprintf("%x", sum[:8])), "", words,
		corebot.Notice{Kind: corebot.NoticeChannel})
	if _, err := d.bus.Publish(ctx, notice); err != nil && !errors.Is(err, corebot.ErrConflict) {
		d.opts.Log.Warn().Err(err).Str("chat", m.Key.String()).
			Msg("a chat was not told of what Corebot cannot follow there")
	}
}

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
