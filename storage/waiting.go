package storage

import (
	"fmt"

	"github.com/corebot/corebot"
)

// waiting counts what waits of each sender, in memory, as [flows] do: it follows the writer's transactions. It knows the messages that were
// accepted since the process began. Those that waited already are bounded by the limits of all messages, and were by this one.
type waiting struct {
	first int64 // the last life that it does not know
	of    map[corebot.Principal]share
	undo  *[]func()
}

// share is what waits of one sender.
type share struct{ messages, bytes int64 }

var senderOfLife = &query{`SELECT l.channel, l.account, m.sender FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m.id = ?`}

// senderOf is the principal whose limits a message of a chat counts for. Those of a channel's account without an id are one.
func senderOf(k corebot.Key, sender string) corebot.Principal {
	return corebot.Principal{Channel: k.Channel, Account: k.Account, ID: sender}
}

// add counts a message that begins to wait, and with a negative number one that no longer does.
func (w *waiting) add(p corebot.Principal, life, messages int64, bytes int) {
	was, known := w.of[p]
	if life <= w.first || messages < 0 && !known {
		return
	}
	*w.undo = append(*w.undo, func() { w.put(p, was) })
	w.put(p, share{was.messages + messages, was.bytes + messages*int64(bytes)})
}

func (w *waiting) put(p corebot.Principal, l share) {
	if l.messages <= 0 {
		delete(w.of, p)
	} else {
		w.of[p] = l
	}
}

// addLife counts a message of which only the life is at hand.
func (w *waiting) addLife(t *tx, life, messages int64, bytes int) error {
	if life <= w.first {
		return nil
	}
	var p corebot.Principal
	found, err := t.one(senderOfLife, []any{&p.Channel, &p.Account, &p.ID}, life)
	if found {
		w.add(p, life, messages, bytes)
	}
	return err
}

// over says whether a sender has too much waiting for one message more.
func (w *waiting) over(p *parcel, lim corebot.Limits) error {
	if p.Direction != corebot.Inbound || lim.Owns(p.Key) {
		return nil
	}
	now := w.of[senderOf(p.Key, p.Sender.ID)]
	if lim.SenderDepth > 0 && now.messages >= lim.SenderDepth {
		return fmt.Errorf("%w: %d of %d", corebot.ErrSenderFull, now.messages, lim.SenderDepth)
	}
	if lim.SenderBytes > 0 && now.messages > 0 && now.bytes+int64(len(p.body)) > lim.SenderBytes {
		return fmt.Errorf("%w: %d of %d bytes", corebot.ErrSenderFull, now.bytes, lim.SenderBytes)
	}
	return nil
}
