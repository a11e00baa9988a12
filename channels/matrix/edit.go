package matrix

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// Edit implements [channels.Editor]. An edit is an event of its own. It has its text twice, because programs that know
// no edits show it as a message. So it has room for half a piece.
func (c *Channel) Edit(ctx context.Context, id string, o channels.Outbound) (channels.Receipt, error) {
	err := editable(o.Key, id)
	if err == nil {
		err = c.stands(ctx, o.Key.Chat, id)
	}
	if err != nil {
		return channels.Receipt{}, err
	}
	document, whole := texts(o)
	for limit := maxUnits / 2; ; limit /= 2 {
		p := c.piece(o, document, whole, limit)
		if p.blank {
			return channels.Receipt{}, &corebot.Failure{
				Class: corebot.Permanent, Err: errors.New("nothing is left to show"),
			}
		}
		relates := p.replace(id)
		if limit > minUnits && size(p.event) > maxEvent {
			continue
		}
		receipt, err := c.show(ctx, o, p, relates)
		if limit > minUnits && tooLarge(err) {
			continue
		}
		if err == nil {
			receipt.IDs = []string{id}
		}
		return receipt, err
	}
}

// editable refuses what cannot be a message of Matrix.
func editable(k corebot.Key, id string) error {
	err := addressed(k)
	if err == nil && !isEvent(id) {
		err = fmt.Errorf("%w: %q is no event of Matrix", corebot.ErrInvalid, id)
	}
	if err != nil {
		return &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	return nil
}

// stands says by [channels.ErrGone] that a message was taken back. A homeserver takes the edit of such a message, and
// no program shows it. The homeserver still gives the message, without its content. A message that it does not give was
// sent just now: Dendrite gives an event only some time after it has taken it.
func (c *Channel) stands(ctx context.Context, room, id string) error {
	e, err := call[event](ctx, &c.client, channels.Get("rooms", room, "event", id))
	switch {
	case refused(err, "M_NOT_FOUND"):
		return nil
	case err != nil:
		return channels.NotShown(err)
	case strings.TrimSpace(string(e.Content)) == "{}": // also of an encrypted one
		return fmt.Errorf("%w: somebody has taken it back", channels.ErrGone)
	}
	return nil
}

// replace turns a piece into an edit of a message. The transaction names the very text: a text that was begun anew can
// be as long as the one before.
func (p *piece) replace(id string) (relates map[string]any) {
	content, _ := json.Marshal(p.event) // texts only: cannot fail
	sum := sha256.Sum256([]byte(strings.Join([]string{p.key, "edit", id, string(content)}, "\n")))
	p.key = hex.EncodeToString(sum[:16])
	p.event[markKey] = p.key // by which another Corebot knows that no person speaks
	shown := p.event
	p.event = map[string]any{
		"msgtype": shown["msgtype"], "body": "* " + shown["body"].(string), "m.new_content": shown,
		"m.mentions": map[string]any{}, markKey: p.key,
	}
	return map[string]any{"rel_type": relReplace, "event_id": id}
}

// Erase implements [channels.Editor].
func (c *Channel) Erase(ctx context.Context, k corebot.Key, id string) error {
	if err := editable(k, id); err != nil {
		return err
	}
	err := c.redact(ctx, k.Chat, id)
	if refused(err, "M_NOT_FOUND") {
		return nil
	}
	return err
}

func (c *Channel) redact(ctx context.Context, room, id string) error {
	sum := sha256.Sum256([]byte(room + "\nredact\n" + id))
	_, err := call[struct{}](ctx, &c.client, channels.Put(struct{}{}, "rooms", room, "redact", id,
		hex.EncodeToString(sum[:16])))
	return err
}

// saidOnce takes back a message of the account that comes a second time, as another event. A homeserver that was killed
// can show an event late that it had taken. Corebot has looked for it meanwhile, and has sent it again. The mark names
// one piece of one message, so no other message has it.
func (c *Channel) saidOnce(ctx context.Context, room string, e event) {
	said := contentOf(e.Content)
	if said.Sent == nil || said.Relates.Type == relReplace { // an edit that comes twice shows the same
		return
	}
	first, is := known(c, &c.rooms.sent, *said.Sent)
	switch {
	case !is:
		note(c, &c.rooms.sent, *said.Sent, e.ID)
	case first != e.ID:
		ctx, cancel := context.WithTimeout(ctx, receiptTime)
		defer cancel()
		if err := c.redact(ctx, room, e.ID); err != nil {
			c.site.Log.Warn().Err(err).Str("room", room).Str("event", e.ID).Msg("a message stays in its room twice")
		}
	}
}

// DraftEvery implements [channels.Editor].
func (c *Channel) DraftEvery(corebot.Key) time.Duration { return c.stream }

// EditsApart implements [channels.EditsTogether]: homeservers count what an account says in all its rooms.
func (c *Channel) EditsApart() time.Duration { return c.stream }
