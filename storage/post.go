package storage

import (
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

// takePlace gives a lane's next place to something that waits in no queue: it has no life there, as after a sweep.
var takePlace = &query{`UPDATE lanes SET next_seq = next_seq + 1, swept = swept + 1 WHERE id = ?`}

// errSendOutside: the id of a message that the agent sends is made of the life of its turn.
var errSendOutside = errors.New("a message can be sent by a turn only")

// sendTx handles [corebot.SendMessage]. It enqueues the message, under an id that is the same in every attempt, and
// enters it into the history of the conversation where it is read. There the message has a place of its own, behind the
// turns that are begun or wait. The turn's own conversation gets the message with the turn's history, as the call that
// sent it. A conversation without room is [*corebot.Refused], and so is an unknown one if only known ones are meant.
func (db *DB) sendTx(t *tx, asks *asking, p corebot.SendMessage) error {
	d := asks.turn
	if d.Life == 0 {
		return &corebot.Refused{Err: fmt.Errorf("%w: %w", corebot.ErrInvalid, errSendOutside)}
	}
	own := p.To == d.Message.Key
	if p.Known && !own {
		if err := knownTx(t, p.To); err != nil {
			return err
		}
	}
	m := corebot.Message{
		ID: d.PostID(asks.position), Direction: corebot.Outbound, Key: p.To, Kind: corebot.KindReply,
		Parts: corebot.TextPart(p.Text),
	}
	packed := pack([]corebot.Message{m})
	packed[0].cause = d.Life
	r, err := publishTx(t, &packed[0], db.limits)
	switch {
	case err != nil:
		return err
	case noRoom(r.Err):
		return &corebot.Refused{Err: fmt.Errorf("send to chat %q: %w", p.To.Chat, r.Err)}
	case r.Err != nil:
		return r.Err
	case own || r.Duplicate:
		return nil
	}
	return sayTx(t, p.To, m)
}

// knownTx refuses a conversation that has neither a row of its own nor a message that waits.
func knownTx(t *tx, k corebot.Key) error {
	var chat int64
	known, err := t.one(chatNumber, []any{&chat}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err != nil || known {
		return err
	}
	lane, err := findLaneTx(t, corebot.Inbound, k)
	if err == nil && lane.id == 0 {
		err = &corebot.Refused{Err: fmt.Errorf("chat %q on %s: %w: nobody has written there yet", k.Chat, k.Channel, corebot.ErrNotFound)}
	}
	return err
}

// sayTx enters a message into the history of its conversation.
func sayTx(t *tx, k corebot.Key, m corebot.Message) error {
	chat, err := chatTx(t, k)
	if err != nil {
		return err
	}
	lane, err := findLaneTx(t, corebot.Inbound, k)
	if err != nil {
		return err
	}
	if err := makeLaneTx(t, corebot.Inbound, k, &lane); err != nil {
		return err
	}
	if _, err := t.exec(takePlace, lane.id); err != nil {
		return err
	}
	t.said = true
	_, err = t.exec(appendHistory, chat.ID, chat.Session, lane.nextSeq, 0, string(corebot.SpeakerAssistant), "", "", m.Text(), "", "", false, m.ID, t.now)
	return err
}
