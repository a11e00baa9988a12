package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newDeferred(s *shell) *cobra.Command {
	cmd := group("deferred", "List, release and drop messages that wait for a budget or for their time",
		newDeferredList(s),
		newDeferredChange(s, "release", "Put deferred messages back into their chats' queues now; a message that is "+
			"still over a budget is deferred again", operate.ReleaseDeferred, "released"),
		newDeferredChange(s, "drop", "Give deferred messages up for good; their chats are told", operate.DropDeferred,
			"dropped"))
	cmd.Aliases = []string{"parked"} // its name in Corebot 0.1 and before
	return cmd
}

func newDeferredList(s *shell) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the messages that left their chats' queues, in the order in which they come back",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			_, err = deferredTable.print(cmd, asJSON, limit,
				func(p operate.Part) (operate.Page[operate.DeferredMessage], error) {
					return look(s, cmd, operate.ListDeferred, p)
				})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

var deferredTable = listing[operate.DeferredMessage]{
	header: "ID\tCHAT\tMESSAGE\tFOR\tUNTIL",
	none:   "nothing is deferred",
	json:   func(p operate.DeferredMessage) any { return p.DeferredRow },
	cells: func(p operate.DeferredMessage) string {
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", p.ID, p.Key, oneLine(p.MessageID, 40), p.Reason,
			p.DueAt.Local().Format(time.DateTime))
	},
}

func newDeferredChange(s *shell, name, short string, op operate.Operation[operate.ByLives, operate.Done],
	said string,
) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID...", Short: short, Args: takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			var lives operate.ByLives
			for _, arg := range args {
				id, err := strconv.ParseInt(arg, 10, 64)
				if err != nil {
					return usage(cmd, fmt.Errorf("%q is not the id of a deferred message", arg))
				}
				lives.IDs = append(lives.IDs, id)
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := op.Call(cmd.Context(), c, lives)
				if err != nil {
					return corebot.WithHint(err, "`corebot deferred list` shows the ids")
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", said, count(int64(done.Changed), "message"))
				return err
			})
		},
	}
}

func newWaits(s *shell) *cobra.Command {
	return group("waits", "List the answers that wait for a time or a word", newWaitsList(s))
}

func newWaitsList(s *shell) *cobra.Command {
	var asJSON, all bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what answers wait for, oldest first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := waitTable.print(cmd, asJSON, limit, func(p operate.Part) (operate.Page[operate.WaitRow], error) {
				return look(s, cmd, operate.ListWaits, operate.WaitQuery{All: all, Part: p})
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&all, "all", false, "also waits that have ended, newest first")
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

var waitTable = listing[operate.WaitRow]{
	header: "ID\tKIND\tSTATE\tCHAT\tMESSAGE\tUNTIL\tFOR",
	none:   "nothing waits",
	cells: func(w operate.WaitRow) string {
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%s", w.ID, w.Kind, w.State, w.ChatID, oneLine(w.MessageID, 40),
			w.Until.Local().Format(time.DateTime), oneLine(w.For, 60))
	},
}

func newResume(s *shell) *cobra.Command {
	var outside bool
	cmd := &cobra.Command{
		Use:   "resume ID [TEXT]",
		Short: "Let an answer go on that waits, and give it the word for which it waits",
		Long: `Let an answer go on that waits, and give it the word for which it waits. The model reads TEXT as
your word. Say --outside if others wrote it, such as the output of a program that quotes a page: the
answer then counts as one that has read text from outside. "corebot waits list" shows the ids.`,
		Args: takes("ID", "[TEXT]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := corebot.ParseWaitID(args[0])
			if err != nil {
				return usage(cmd, err)
			}
			word := operate.NewWord{ID: id, Outside: outside}
			if len(args) > 1 {
				word.Text = args[1]
			}
			return s.change(cmd, func(c control.Caller) error {
				_, err := operate.GiveWord.Call(cmd.Context(), c, word)
				if errors.Is(err, corebot.ErrNotFound) {
					return corebot.WithHint(err, "`corebot waits list` shows the ids")
				}
				if err == nil {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "resumed %d\n", id)
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&outside, "outside", false, "others than you wrote the text")
	return cmd
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
				if q.Chat, err = corebot.ParseKey(chat); err != nil {
					return usage(cmd, err)
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
	cmd.Flags().StringVar(&chat, "chat", "", "only those whose results this conversation gets, by its key")
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
