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
