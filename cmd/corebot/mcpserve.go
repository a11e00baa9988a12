package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/mcp/serve"
	"github.com/corebot/corebot/storage"
)

func newMCPServe(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Be an MCP server on standard input and output, for an editor or another agent",
		Long: `Be an MCP server on standard input and output: list this as a program in an editor or another agent, and it can say things to Corebot, wait for
the replies, and read chats, as the principal of mcp.serve.principal. Standard output has the protocol and nothing else; the log goes to standard error.

It attaches to the Corebot that runs on this home. If none runs, it is one itself until its input ends, and others attach to it. For MCP over HTTP, set
mcp.serve.http and run "corebot serve".`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.settings()
			if err != nil {
				return err
			}
			signal.Ignore(syscall.SIGPIPE) // a client that closes its end is an error like any other, and this process ends in order
			return (&clientSide{cmd, c}).serve(cmd.Context())
		},
	}
}

// clientSide is this process as the MCP server that somebody has started.
type clientSide struct {
	cmd    *cobra.Command
	config config.Config
}

// takeOver is how long a Corebot that has just begun on the home may take until others can attach to it.
const takeOver = 5 * time.Second

// serve attaches to the Corebot of the home, or is it. Two that begin at once both try to be it: the second one then finds the first.
func (s *clientSide) serve(ctx context.Context) error {
	for began := time.Now(); ; backoff.Sleep(ctx, 50*time.Millisecond) {
		daemon, running, err := control.Dial(ctx, app.DataDir(s.config.Home))
		switch {
		case err != nil:
			return err
		case running:
			return s.attach(ctx, daemon)
		}
		err = s.alone(ctx)
		if held := (*storage.LockError)(nil); !errors.As(err, &held) || time.Since(began) > takeOver || ctx.Err() != nil {
			return err
		}
	}
}

// attach speaks for the Corebot that runs.
func (s *clientSide) attach(ctx context.Context, daemon control.Caller) error {
	hide, err := redact.New(s.config.Secrets())
	if err != nil {
		return err
	}
	return s.speak(ctx, app.ClientsOf(daemon), hide)
}

// alone is Corebot itself, as long as its client is there.
func (s *clientSide) alone(ctx context.Context) (err error) {
	hide, err := redact.New(nil) // the app has it learn the secrets
	if err != nil {
		return err
	}
	c := s.config
	log, _, err := terminalLog(c, hide, false)
	if err != nil {
		return err
	}
	c.Bus.Drain = min(c.Bus.Drain, chatDrain)
	a, err := app.New(ctx, c, app.Options{Version: versionText(), Log: log, Redactor: hide, Clients: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		defer stop() // nobody is left to answer
		ended <- a.Run(ctx)
	}()
	err = s.speak(ctx, a.Clients(), hide)
	stop()
	return errors.Join(err, <-ended)
}

func (s *clientSide) speak(ctx context.Context, b serve.Backend, hide *redact.Redactor) error {
	log, _, err := terminalLog(s.config, hide, false)
	if err != nil {
		return err
	}
	server, err := serve.NewServer(ctx, b, serve.ServerOptions{Version: versionText(), Log: log})
	if err != nil {
		return err
	}
	return server.ServeStdio(ctx, s.cmd.InOrStdin(), s.cmd.OutOrStdout())
}
