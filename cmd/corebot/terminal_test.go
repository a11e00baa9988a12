package main

import (
	"context"
	"errors"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// broken is a channel whose input is gone.
type broken struct{ err error }

func (broken) Name() string                                { return "cli" }
func (b broken) Run(context.Context, channels.Door) error  { return b.err }
func (broken) Send(context.Context, corebot.Message) error { return nil }

func TestATerminalIsRunOnceAndItsErrorIsTheCommands(t *testing.T) {
	gone := errors.New("no more input")
	term := &terminal{Channel: broken{gone}}
	if err := term.Run(t.Context(), nil); err != nil {
		t.Errorf("the supervisor would log it and run it again: %v", err)
	}
	if !errors.Is(term.err, gone) {
		t.Errorf("the command gets %v", term.err)
	}
}
