package storage

import (
	"errors"
	"fmt"

	"github.com/corebot/corebot"
)

// errStillAsked refuses a second question to an agent that has not ended the first. So no turn floods another agent,
// and the conversation of two agents goes by turns.
var errStillAsked = errors.New("the agent still works on what it was asked from this chat")

// askAgentTx handles [corebot.AskAgent]. The question waits in the other agent's lane like any message of the
// principal, under an id that is the same in every attempt. Agents that have asked often enough in a row, a
// conversation in which a question waits, and one without room, are [*corebot.Refused].
func (db *DB) askAgentTx(t *tx, asks *asking, e corebot.AskAgent) error {
	d := asks.turn
	if d.Life == 0 {
		return &corebot.Refused{Err: fmt.Errorf("%w: %w", corebot.ErrInvalid, errSendOutside)}
	}
	m, err := d.Question(asks.position, e.Asks, e.Agent, e.Text)
	if err != nil {
		return &corebot.Refused{Err: err}
	}
	lane, err := findLaneTx(t, corebot.Inbound, m.Key)
	if err != nil {
		return err
	}
	if lane.depth > 0 {
		return &corebot.Refused{Err: corebot.WithHint(fmt.Errorf("ask the agent %q: %w", e.Agent, errStillAsked),
			"its answer comes into this chat")}
	}
	packed := pack([]corebot.Message{m})
	packed[0].cause = d.Life
	r, err := publishTx(t, &packed[0], db.limits)
	if err == nil && noRoom(r.Err) {
		return &corebot.Refused{Err: fmt.Errorf("ask the agent %q: %w", e.Agent, r.Err)}
	}
	if err != nil {
		return err
	}
	return r.Err
}
