package main

import (
	"context"

	"github.com/corebot/corebot/channels"
)

// terminal is a channel on this process's terminal. It runs once, since input that has ended does not come back, and keeps the
// error for the command: whoever sits here reads it once and without the names of services.
type terminal struct {
	channels.Channel
	err error // of Run, once it has ended
}

// Run implements [channels.Channel].
func (t *terminal) Run(ctx context.Context, door channels.Door) error {
	t.err = t.Channel.Run(ctx, door)
	return nil
}
