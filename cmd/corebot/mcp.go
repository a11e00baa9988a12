package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/mcp"
)

func newMCP(s *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Look after the MCP servers, whose tools the agent can use",
		Long: `Look after the MCP servers that .mcp.json in the home lists. Their tools are called mcp__SERVER__TOOL, and are for who is admin everywhere,
unless the settings grant them to others.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMCPList(s), newMCPCheck(s), newMCPReload(s), newMCPShow(s), newMCPApprove(s), newMCPServe(s))
	return cmd
}

// printServers prints one server a line, and what is wrong with their file beside them.
func printServers(cmd *cobra.Command, o mcp.Overview, asJSON bool) error {
	beside := &teller{w: cmd.ErrOrStderr()}
	for _, w := range o.Warnings {
		beside.line("corebot: %s", printable(w))
	}
	if o.FileError != "" {
		beside.line("corebot: the file is wrong, and what it said before stays: %s", printable(o.FileError))
	}
	if asJSON {
		for _, s := range o.Servers {
			if err := printJSON(cmd, s); err != nil {
				return err
			}
		}
		return beside.err
	}
	t := &teller{w: cmd.OutOrStdout()}
	if len(o.Servers) == 0 {
		t.line("no MCP servers")
	}
	for _, s := range o.Servers {
		t.line("%-20s %-6s %-11s since %s  %s", s.Name, s.Transport, s.State, clock(s.Since), count(int64(len(s.Tools)), "tool"))
		if s.LastError != "" {
			t.line("    %s", oneLine(s.LastError, 500))
		}
		if n := len(s.Unapproved); n > 0 {
			t.line("    %s not approved, which taints the turns that are offered them (corebot mcp show %s)", count(int64(n), "tool"), s.Name)
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
func allWell(o mcp.Overview) error {
	bad := int64(0)
	for _, s := range o.Servers {
		if s.State != mcp.Connected && s.State != mcp.Disabled {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("%s of %d cannot be used", count(bad, "MCP server"), len(o.Servers)), "what each of them says is above")
}
