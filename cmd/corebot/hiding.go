package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/redact"
)

// hides has a command, and those below it, print nothing that is known for a secret: what it shows was written by others.
func (s *shell) hides(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.SetOut(&hiding{shell: s, to: os.Stdout})
	}
	return commands
}

// hiding is an output without secrets. The settings are read for it when there is something to write; without them it knows the usual shapes.
type hiding struct {
	shell *shell
	to    io.Writer
	out   io.Writer
}

func (h *hiding) Write(p []byte) (int, error) {
	if h.out == nil {
		r, err := redact.New(nil)
		if err != nil {
			return 0, err
		}
		if c, err := h.shell.settings(); err == nil {
			if err := r.Learn(c.Secrets()); err != nil {
				return 0, err
			}
		}
		h.out = r.Writer(h.to)
	}
	return h.out.Write(p)
}
