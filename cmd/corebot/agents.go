package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
)

func newAgents(s *shell) *cobra.Command {
	return group("agents", "Show the agents of this home: who answers where, and with what", newAgentsList(s),
		newAgentsShow(s))
}

func newAgentsList(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the agents of the settings",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := gather(func(p operate.Part) (operate.Page[operate.Agent], error) {
				return look(s, cmd, operate.ListAgents, p)
			})
			if err != nil {
				return err
			}
			t := &teller{w: cmd.OutOrStdout()}
			for _, a := range all {
				if asJSON {
					if err := printJSON(cmd, a); err != nil {
						return err
					}
					continue
				}
				t.line("%-16s %-24s %-24s %s", a.ID, oneLine(a.Name, 24), cmp.Or(a.Model, "-"), a.Workspace)
			}
			return t.err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newAgentsShow(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print all that the settings say of an agent, and its routes",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := look(s, cmd, operate.ShowAgent, operate.ByAgent{Agent: args[0]})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, a)
			}
			t := &teller{w: cmd.OutOrStdout()}
			t.line("id:          %s\nname:        %s\nworkspace:   %s\nmcp file:    %s", a.ID, printable(a.Name),
				a.Workspace, a.MCPFile)
			t.line("providers:   %s", strings.Join(a.Providers, ", "))
			t.line("model:       %s\nthink:       %s\ntemperature: %s", cmp.Or(a.Model, "the first that answers"),
				cmp.Or(a.Think, "-"), cmp.Or(a.Temperature, "-"))
			t.line("tools:       %s\nnot:         %s\nmcp:         %s\nskills:      %s", listed(a.Tools),
				listed(a.Denied), listed(a.MCP), listed(a.Skills))
			t.line("queue mode:  %s", a.QueueMode)
			if a.DailyTokens > 0 || a.DailyCost != "" {
				t.line("budget:      %d tokens a day, cost %s", a.DailyTokens, cmp.Or(a.DailyCost, "-"))
			}
			for _, r := range a.Routes {
				t.line("route:       %s", r)
			}
			return t.err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// agentFlag lets a command mean one agent of several.
func agentFlag(cmd *cobra.Command, agent *string) {
	cmd.Flags().StringVar(agent, "agent", "", "which agent: its id (default: the one that answers there)")
}

// agentOf is the agent that is meant at the terminal: the one that was named, or the one that answers in the chat.
func agentOf(c config.Config, named, chat string) (string, error) {
	if named == "" {
		return c.AgentFor(cli.Channel, cli.DefaultAccount, chat), nil
	}
	return named, knownAgent(c, named)
}

// knownAgent refuses an agent that the settings do not list.
func knownAgent(c config.Config, id string) error {
	var ids []string
	for _, a := range c.AgentList() {
		ids = append(ids, a.ID)
	}
	if slices.Contains(ids, id) {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("the agent %q: %w", id, corebot.ErrNotFound),
		"there are: "+strings.Join(ids, ", "))
}
