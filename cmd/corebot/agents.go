package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
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
			_, err := agentTable.print(cmd, asJSON, 0, func(p operate.Part) (operate.Page[operate.Agent], error) {
				return look(s, cmd, operate.ListAgents, p)
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

var agentTable = listing[operate.Agent]{
	header: "ID\tNAME\tMODEL\tWORKSPACE",
	cells: func(a operate.Agent) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s", a.ID, oneLine(a.Name, 24), cmp.Or(a.Model, "-"), printable(a.Workspace))
	},
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

// agentFlag lets a command about an agent name it.
func agentFlag(cmd *cobra.Command, agent *string) {
	cmd.Flags().StringVar(agent, "agent", "", "which agent: its id (default: main, or the first of the settings)")
}

// chatAgentFlag lets a command that talks in a chat name the agent.
func chatAgentFlag(cmd *cobra.Command, agent *string) {
	cmd.Flags().StringVar(agent, "agent", "", "which agent: its id (default: the one that answers in the chat)")
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

func newJobs(s *shell) *cobra.Command {
	return group("jobs", "List and stop the work that answers have given to child turns and to other agents",
		newJobsList(s), newJobsShow(s), newJobsStop(s))
}

func newJobsList(s *shell) *cobra.Command {
	var asJSON, all bool
	var chat string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the open jobs, oldest first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := operate.JobQuery{All: all}
			if chat != "" {
				var err error
				if q.Chat, err = s.chat(cmd, chat); err != nil {
					return err
				}
			}
			_, err := jobTable.print(cmd, asJSON, limit, func(p operate.Part) (operate.Page[operate.JobRow], error) {
				q.Part = p
				return look(s, cmd, operate.ListJobs, q)
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&all, "all", false, "also jobs that have ended, newest first")
	cmd.Flags().StringVar(&chat, "chat", "",
		"only those whose results this chat gets: its key, or a short form such as webhook:c1")
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

var jobTable = listing[operate.JobRow]{
	header: "ID\tKIND\tSTATE\tCHAT\tPARENT\tBEGAN\tPROMPT",
	none:   "no jobs",
	cells: func(j operate.JobRow) string {
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%s", j.ID, kindOfJob(j), stateOfJob(j), j.ChatID,
			oneLine(j.Parent, 40), j.CreatedAt.Local().Format(time.DateTime), oneLine(j.Prompt, 60))
	},
}

func kindOfJob(j operate.JobRow) string {
	switch {
	case j.Kind == corebot.JobAsk:
		return "ask " + j.Agent
	case j.Background:
		return "background"
	}
	return string(j.Kind)
}

func stateOfJob(j operate.JobRow) string {
	if j.State == corebot.JobOpen && j.Waits != "" {
		return "waits for " + j.Waits
	}
	return string(j.State)
}

func newJobsShow(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a job",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := corebot.ParseJobID(args[0])
			if err != nil {
				return usage(cmd, err)
			}
			j, err := look(s, cmd, operate.ShowJob, operate.JobID{ID: id})
			if err != nil || asJSON {
				return errors.Join(knownJob(err), printIf(cmd, err == nil, j))
			}
			return printJob(cmd, j)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printJob(cmd *cobra.Command, j operate.JobRow) error {
	t := &teller{w: cmd.OutOrStdout()}
	t.line("job %d: %s, %s", j.ID, kindOfJob(j), stateOfJob(j))
	t.line("  prompt: %s", oneLine(j.Prompt, 400))
	t.line("  chat: %s, as %s", j.ChatID, j.Principal)
	t.line("  parent: message %s", oneLine(j.Parent, 200))
	t.line("  own message: %s (`corebot why` tells its life)", j.MessageID)
	t.line("  budget: %d tokens and %d model calls with tools", j.Budget.Tokens, j.Budget.Calls)
	t.line("  began: %s", j.CreatedAt.Local().Format(time.DateTime))
	if !j.EndedAt.IsZero() {
		t.line("  ended: %s, with %d tokens and %d model calls used", j.EndedAt.Local().Format(time.DateTime),
			j.Used.Tokens, j.Used.Calls)
	}
	if j.Reason != "" {
		t.line("  reason: %s", oneLine(j.Reason, 400))
	}
	return t.err
}

func newJobsStop(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "stop ID...",
		Short: "Stop jobs, and with each the jobs that it has begun",
		Args:  takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			var ids operate.JobIDs
			for _, arg := range args {
				id, err := corebot.ParseJobID(arg)
				if err != nil {
					return usage(cmd, err)
				}
				ids.IDs = append(ids.IDs, id)
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := operate.StopJobs.Call(cmd.Context(), c, ids)
				if err != nil {
					return knownJob(err)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "stopping %s\n", count(int64(done.Changed), "job"))
				return err
			})
		},
	}
}

// knownJob says where the numbers of jobs are listed.
func knownJob(err error) error {
	if errors.Is(err, corebot.ErrNotFound) {
		return corebot.WithHint(err, "`corebot jobs list --all` shows the ids")
	}
	return err
}
