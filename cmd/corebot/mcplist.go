package main

import (
	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/mcp"
)

func newMCPList(s *shell) *cobra.Command {
	var asJSON bool
	var agent string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print how each MCP server is doing, and its tools",
		Long: `Print how each MCP server is doing, since when, what went wrong last, and its tools, as the running Corebot knows. If none runs, the servers of
the file are listed as stopped.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.settings()
			if err != nil {
				return err
			}
			o, err := app.ListMCP(cmd.Context(), c, agent)
			if err != nil {
				return err
			}
			return printServers(cmd, o, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	agentFlag(cmd, &agent)
	return cmd
}

func newMCPCheck(s *shell) *cobra.Command {
	var asJSON bool
	var agent string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Read .mcp.json and try each server once; nothing is changed",
		Long: `Read .mcp.json and connect to each of its servers once, beside a running Corebot and without one. Nothing is changed: neither what the running
Corebot does, nor what is known of tools. It fails if the file is wrong, and if a server cannot be used.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.settings()
			if err != nil {
				return err
			}
			o, err := app.CheckMCP(cmd.Context(), c, agent, versionText())
			if err != nil {
				return err
			}
			if err := printServers(cmd, o, asJSON); err != nil {
				return err
			}
			return allWell(o)
		},
	}
	jsonFlag(cmd, &asJSON)
	agentFlag(cmd, &agent)
	return cmd
}

func newMCPReload(s *shell) *cobra.Command {
	var asJSON bool
	var agent string
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the running Corebot read .mcp.json again",
		Long: `Have the running Corebot read .mcp.json again. It does so by itself with the next message after a change; this also tries servers again that are not
connected. If the file is wrong nothing changes. Servers whose entries have not changed keep their connections.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon, err := s.daemon(cmd.Context(), "the next start reads the file anyway; `corebot mcp check` tries it now")
			if err != nil {
				return err
			}
			o, err := control.Call[mcp.Overview](cmd.Context(), daemon, app.OpMCPReload, app.MCPServer{Agent: agent})
			if err != nil {
				return err
			}
			return printServers(cmd, o, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	agentFlag(cmd, &agent)
	return cmd
}
