package builtin

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/tools"
)

//go:embed dead_letter_replay.md
var deadLetterReplayDoc string

type deadLetterReplayArgs struct {
	ID int64 `json:"id" jsonschema:"the id of the dead letter, as bus.dead_letter.list shows it"`
}

// DeadLetterReplay puts a message that was given up back into the queue, in the commit of its own outcome.
func DeadLetterReplay() tools.Tool {
	return tools.NewOwn("bus.dead_letter.replay", deadLetterReplayDoc, tools.Privileged, replayDeadLetter)
}

// replayDeadLetter prepares the effect of bus.dead_letter.replay.
func replayDeadLetter(_ context.Context, c tools.Call, a deadLetterReplayArgs) (corebot.Effect, string, error) {
	if a.ID < 1 {
		return nil, "", fmt.Errorf("%w: id %d: want the id of a dead letter", corebot.ErrInvalid, a.ID)
	}
	return corebot.ReplayDeadLetter{ID: a.ID, Agent: c.Key.Agent},
		fmt.Sprintf("dead letter %d is back in its queue", a.ID), nil
}
