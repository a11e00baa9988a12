package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/mcp/serve"
)

func newMCP(s *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Look after the MCP servers, whose tools the agent can use",
		Long: `Look after the MCP servers that .mcp.json in the home lists. Their tools are called
mcp__SERVER__TOOL, and are for who is admin everywhere, unless the settings grant them to others.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMCPList(s), newMCPCheck(s), newMCPReload(s), newMCPShow(s), newMCPApprove(s), newMCPServe(s))
	return cmd
}

// printServers prints one server a line, and what is wrong with their file beside them.
func printServers(cmd *cobra.Command, o operate.MCPServers, asJSON bool) error {
	beside := &teller{w: cmd.ErrOrStderr()}
	for _, w := range o.Warnings {
		beside.line("corebot: %s", printable(w))
	}
	if o.FileError != "" {
		beside.line("corebot: the file is wrong, and what it said before stays: %s", printable(o.FileError))
	}
	if asJSON {
		for _, s := range o.Rows {
			if err := printJSON(cmd, s); err != nil {
				return err
			}
		}
		return beside.err
	}
	t := &teller{w: cmd.OutOrStdout()}
	if len(o.Rows) == 0 {
		t.line("no MCP servers")
	}
	for _, s := range o.Rows {
		t.line("%-20s %-6s %-11s since %s  %s", s.Name, s.Transport, s.State, clock(s.Since),
			count(int64(len(s.Tools)), "tool"))
		if s.LastError != "" {
			t.line("    %s", oneLine(s.LastError, 500))
		}
		if n := len(s.Unapproved); n > 0 {
			t.line("    %s not approved, which taints the turns that are offered them (corebot mcp show %s)",
				count(int64(n), "tool"), s.Name)
		}
		for _, name := range s.Tools {
			mark := ""
			if slices.Contains(s.Unapproved, name) {
				mark = "  not approved"
			}
			t.line("    %s%s", name, mark)
		}
	}
	if t.err != nil {
		return t.err
	}
	return beside.err
}

// allWell is an error if a server that should be connected is not.
func allWell(o operate.MCPServers) error {
	bad := int64(0)
	for _, s := range o.Rows {
		if s.State != string(mcp.Connected) && s.State != string(mcp.Disabled) {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("%s of %d cannot be used", count(bad, "MCP server"), len(o.Rows)),
		"what each of them says is above")
}

// servers is the list of MCP servers, whole, with what is wrong with their file.
func servers(page func(operate.Part) (operate.MCPServers, error)) (all operate.MCPServers, err error) {
	rows, err := gather(func(p operate.Part) (_ operate.Page[operate.MCPServer], err error) {
		all, err = page(p)
		return all.Page, err
	})
	all.Rows = rows
	return all, err
}

func newMCPList(s *shell) *cobra.Command {
	return serversCommand("list", "Print how each MCP server is doing, and its tools",
		`Print how each MCP server is doing, since when, what went wrong last, and its tools, as the running
Corebot knows. If none runs, the servers of the file are listed as stopped.`,
		func(cmd *cobra.Command, of operate.ByAgent) (operate.MCPServers, error) {
			return servers(func(p operate.Part) (operate.MCPServers, error) {
				return look(s, cmd, operate.ListServers, operate.ServersQuery{ByAgent: of, Part: p})
			})
		})
}

func newMCPCheck(s *shell) *cobra.Command {
	return serversCommand("check", "Read .mcp.json and try each server once; nothing is changed",
		`Read .mcp.json and connect to each of its servers once, beside a running Corebot and without one.
Nothing is changed: neither what the running Corebot does, nor what is known of tools. It fails if
the file is wrong, and if a server cannot be used.`,
		func(cmd *cobra.Command, of operate.ByAgent) (operate.MCPServers, error) {
			c, err := s.settings()
			if err != nil {
				return operate.MCPServers{}, err
			}
			return app.CheckMCP(cmd.Context(), c, of.Agent, app.Version())
		}, allWell)
}

func newMCPReload(s *shell) *cobra.Command {
	return serversCommand("reload", "Have the running Corebot read .mcp.json again",
		`Have the running Corebot read .mcp.json again. It does so by itself with the next message after a
change; this also tries servers again that are not connected. If the file is wrong nothing changes.
Servers whose entries have not changed keep their connections.`,
		func(cmd *cobra.Command, of operate.ByAgent) (operate.MCPServers, error) {
			daemon, err := s.daemon(cmd.Context(),
				"the next start reads the file anyway; `corebot mcp check` tries it now")
			if err != nil {
				return operate.MCPServers{}, err
			}
			return servers(func(p operate.Part) (operate.MCPServers, error) {
				if p.After == "" {
					return operate.ReloadServers.Call(cmd.Context(), daemon, operate.ServersQuery{ByAgent: of})
				}
				return operate.ListServers.Call(cmd.Context(), daemon, operate.ServersQuery{ByAgent: of, Part: p})
			})
		})
}

// serversCommand is a command that finds the MCP servers of an agent and prints them. The command ends with
// the error of judge, after the print.
func serversCommand(use, short, long string,
	find func(cmd *cobra.Command, of operate.ByAgent) (operate.MCPServers, error),
	judge ...func(operate.MCPServers) error,
) *cobra.Command {
	var asJSON bool
	var of operate.ByAgent
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := find(cmd, of)
			if err == nil {
				err = printServers(cmd, found, asJSON)
			}
			for _, j := range judge {
				if err == nil {
					err = j(found)
				}
			}
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	agentFlag(cmd, &of.Agent)
	return cmd
}

func newMCPServe(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Be an MCP server on standard input and output, for an editor or another agent",
		Long: `Be an MCP server on standard input and output: list this as a program in an editor or another agent,
and it can say things to Corebot, wait for the replies, and read chats, as the principal of
mcp.serve.principal. Standard output has the protocol and nothing else; the log goes to standard
error.

It attaches to the Corebot that runs on this home. If none runs, it is one itself until its input
ends, and others attach to it. For MCP over HTTP, set mcp.serve.http and run "corebot serve".`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.settings()
			if err != nil {
				return err
			}
			// a client that closes its end is an error like any other, and this process ends in order
			signal.Ignore(syscall.SIGPIPE)
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
	server, err := serve.NewServer(ctx, app.ClientsOf(link), serve.ServerOptions{Version: app.Version(), Log: log})
	if err != nil {
		return err
	}
	return server.ServeStdio(ctx, s.cmd.InOrStdin(), s.cmd.OutOrStdout())
}
