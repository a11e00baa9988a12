package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/mcp"
)

func newMCPShow(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SERVER",
		Short: "Print what an MCP server says of its tools, as models are shown it",
		Long: `Print what an MCP server says of its tools, as models are shown it: description and schema, and whether they are trusted: approved by an
operator, or, by default, as they were when they were seen first. The running Corebot knows, and it is what "corebot mcp approve" takes.`,
		Args: takes("SERVER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon, err := s.daemon(cmd.Context(), "start one: it connects to the servers")
			if err != nil {
				return err
			}
			tools, err := control.Call[[]mcp.Description](cmd.Context(), daemon, app.OpMCPShow, args[0])
			if errors.Is(err, corebot.ErrNotFound) {
				err = corebot.WithHint(err, "`corebot mcp list` shows which there are")
			}
			if err != nil {
				return err
			}
			return printDescriptions(cmd, tools, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printDescriptions(cmd *cobra.Command, tools []mcp.Description, asJSON bool) error {
	t := &teller{w: cmd.OutOrStdout()}
	for _, d := range tools {
		if asJSON {
			if err := printJSON(cmd, d); err != nil {
				return err
			}
			continue
		}
		state := "not approved"
		if d.Trusted {
			state = "trusted"
		}
		t.line("%s (%s)", d.Name, state)
		for line := range strings.Lines(printable(d.Text)) {
			t.line("    %s", strings.TrimSuffix(line, "\n"))
		}
		t.line("    arguments: %s", printable(string(d.Schema)))
	}
	return t.err
}

func newMCPApprove(s *shell) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "approve SERVER[/TOOL] | --all",
		Short: "Take the tools of MCP servers as they are now",
		Long: `Take the tools of an MCP server, one of them, or those of all servers, as they were seen last: name, description and schema. These are words of
somebody else, which the model reads in each turn that is offered the tool. What has changed since it was seen first, or approved, makes such a turn count as having
read text from outside until it is approved, and so does everything with mcp.trust_on_first_use: false: what not everyone may do waits in it for an admin's word.
A tool that has changed and is pinned (mcp.pin_tools, or pinTools in the entry) is not offered. "corebot mcp list" shows which tools are not approved, and "corebot mcp show" what they say: read that first.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if all {
				return takes()(cmd, args)
			}
			return takes("SERVER[/TOOL]")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var what app.MCPApproval // of all
			if !all {
				what.Server, what.Tool, _ = strings.Cut(args[0], "/")
				if what.Server == "" {
					return usage(cmd, fmt.Errorf("%q names no server", args[0]))
				}
			}
			return s.change(cmd, func(c control.Caller) error { return approveTools(cmd, c, what) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "the tools of all servers")
	return cmd
}

func approveTools(cmd *cobra.Command, c control.Caller, what app.MCPApproval) error {
	done, err := control.Call[app.Done](cmd.Context(), c, app.OpMCPApprove, what)
	if errors.Is(err, corebot.ErrNotFound) {
		err = corebot.WithHint(err, "a server is known once it was connected; `corebot mcp list` shows them")
	}
	if err != nil {
		return err
	}
	t := &teller{w: cmd.OutOrStdout()}
	t.line("%s approved", count(int64(done.Changed), "tool"))
	return t.err
}
