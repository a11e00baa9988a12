package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/mcp/serve"
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

// serve speaks for the Corebot of the home, whichever process that is at the moment.
func (s *clientSide) serve(ctx context.Context) (err error) {
	hide, err := redact.New(s.config.Secrets())
	if err != nil {
		return err
	}
	log, _, err := terminalLog(s.config, hide, false)
	if err != nil {
		return err
	}
	link, closeLink := newLink(s.config, false, false, func(p app.Place) {
		if p.Gone || p.Again {
			log.Warn().Msg(placeText(p))
		}
	})
	defer func() { err = errors.Join(err, closeLink()) }()
	if _, err := link.Open(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-link.Ended(): // nobody is left to answer
			stop()
		case <-ctx.Done():
		}
	}()
	server, err := serve.NewServer(ctx, app.ClientsOf(link), serve.ServerOptions{Version: versionText(), Log: log})
	if err != nil {
		return err
	}
	return server.ServeStdio(ctx, s.cmd.InOrStdin(), s.cmd.OutOrStdout())
}
