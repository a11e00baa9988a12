package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

func newDLQ(s *shell) *cobra.Command {
	return group("dlq", "List, show, replay, edit, drop, purge and make dead letters",
		newDLQList(s), newDLQShow(s), newDLQReplay(s), newDLQEdit(s), newDLQDrop(s), newDLQPurge(s), newDLQGiveUp(s))
}

func newDLQList(s *shell) *cobra.Command {
	var asJSON bool
	var f deadFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, newest first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, _, err := f.parse(s, cmd)
			if err != nil {
				return err
			}
			_, err = s.listDeadLetters(cmd, filter, f.limit, "no dead letters", asJSON)
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	f.flags(cmd)
	limitFlag(cmd, &f.limit, 100, "at most this many, the newest")
	return cmd
}

// listDeadLetters prints the dead letters that a filter means, and says how many. none is what it prints if there are none.
func (s *shell) listDeadLetters(cmd *cobra.Command, f corebot.DeadLetterFilter, limit int, none string, asJSON bool) (int, error) {
	list := listing[operate.DeadLetter]{header: "ID\tDIED\tDIRECTION\tCHAT\tMESSAGE\tREASON\tTRIES\tLAST ERROR", cells: deadLetterCells, none: none}
	return list.print(cmd, asJSON, limit, func(p operate.Part) (operate.Page[operate.DeadLetter], error) {
		return look(s, cmd, operate.ListDeadLetters, operate.DeadLetterQuery{Filter: f, Part: p})
	})
}

func deadLetterCells(l operate.DeadLetter) string {
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s", l.ID, l.DeadAt.Local().Format(time.DateTime), l.Direction,
		oneLine(l.Channel+"/"+l.ChatID, 24), oneLine(l.MessageID, 36), l.Reason, l.Attempts, oneLine(l.LastError, 120))
}

func newDLQShow(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a dead letter: its life and its content",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ids, err := s.named(cmd, args)
			if err != nil {
				return err
			}
			life, err := look(s, cmd, operate.ShowDeadLetter, operate.ByID{ID: ids[0]})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, life)
			}
			if err := tell(cmd.OutOrStdout(), life.Whole()); err != nil || life.Message == nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", printable(life.Message.Text()))
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
