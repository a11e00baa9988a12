package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/redact"
)

// hides has a command, and those below it, print nothing that is known for a secret: what it shows was written by others.
func (s *shell) hides(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.SetOut(&hiding{shell: s, to: os.Stdout})
	}
	return commands
}

// redactor knows the secrets of the home: those of its settings, and those of its MCP servers. Without either it knows the usual shapes.
func (s *shell) redactor() (*redact.Redactor, error) {
	c, err := s.settings()
	if err != nil { // the agent main has a file of MCP servers all the same
		home, err := config.Home(s.home)
		if err != nil {
			return redact.New(nil)
		}
		return redact.New(app.MCPSecrets(config.Config{Home: home}))
	}
	return redact.New(append(c.Secrets(), app.MCPSecrets(c)...))
}

// hiding is an output without secrets. They are looked up when there is something to write.
type hiding struct {
	shell *shell
	to    io.Writer
	out   io.Writer
}

func (h *hiding) Write(p []byte) (int, error) {
	if h.out == nil {
		r, err := h.shell.redactor()
		if err != nil {
			return 0, err
		}
		h.out = r.Writer(h.to)
	}
	return h.out.Write(p)
}
