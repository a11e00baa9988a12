package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage"
)

func newDLQ(s *shell) *cobra.Command {
	return group("dlq", "List, show, replay, edit, drop, purge and make dead letters",
		newDLQList(s), newDLQShow(s), newDLQReplay(s), newDLQEdit(s), newDLQDrop(s), newDLQPurge(s), newDLQGiveUp(s))
}

// deadLetter is the contract's JSON of one row.
type deadLetter struct {
	ID        int64     `json:"id"`
	Direction string    `json:"direction"`
	Channel   string    `json:"channel"`
	ChatID    string    `json:"chatId"`
	MessageID string    `json:"messageId"`
	Reason    string    `json:"reason"`
	Attempts  int       `json:"attempts"`
	LastError string    `json:"lastError"`
	CreatedAt time.Time `json:"createdAt"`
	DeadAt    time.Time `json:"deadAt"`
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
			letters, err := s.deadLetters(cmd, filter)
			if err != nil {
				return err
			}
			return printDeadLetters(cmd, letters, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	f.flags(cmd)
	limitFlag(cmd, &f.limit, 100, "at most this many, the newest")
	return cmd
}

// deadLetters reads what a filter means, beside a running daemon too.
func (s *shell) deadLetters(cmd *cobra.Command, f corebot.DeadLetterFilter) ([]corebot.DeadLetter, error) {
	return read(s, cmd, func(ctx context.Context, db *storage.DB) ([]corebot.DeadLetter, error) {
		return storage.NewDeadLetters(db).List(ctx, f)
	})
}

func printDeadLetters(cmd *cobra.Command, letters []corebot.DeadLetter, asJSON bool) error {
	if asJSON {
		for _, l := range letters {
			row := deadLetter{l.ID, l.Direction.String(), l.Key.Channel, l.Key.Chat, l.MessageID, l.Reason, l.Attempts, l.LastError, l.CreatedAt, l.DeadAt}
			if err := printJSON(cmd, row); err != nil {
				return err
			}
		}
		return nil
	}
	if len(letters) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no dead letters")
		return err
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	t := &teller{w: table}
	t.line("ID\tDIED\tDIRECTION\tCHAT\tMESSAGE\tREASON\tTRIES\tLAST ERROR")
	for _, l := range letters {
		t.line("%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s", l.ID, l.DeadAt.Local().Format(time.DateTime), l.Direction,
			oneLine(l.Key.Channel+"/"+l.Key.Chat, 24), oneLine(l.MessageID, 36), l.Reason, l.Attempts, oneLine(l.LastError, 120))
	}
	return errors.Join(t.err, table.Flush())
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
			life, err := read(s, cmd, func(ctx context.Context, db *storage.DB) (corebot.Life, error) {
				return storage.NewLives(db).Get(ctx, ids[0])
			})
			if err == nil && life.End != corebot.EndDead {
				err = fmt.Errorf("dead letter %s: %w (the message is %s)", args[0], corebot.ErrNotFound, life.State)
			}
			if err != nil {
				return corebot.WithHint(err, "`corebot dlq list` shows the ids")
			}
			if asJSON {
				return printJSON(cmd, lifeJSON(life))
			}
			if err := tell(cmd.OutOrStdout(), life); err != nil || life.Message == nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", printable(life.Message.Text()))
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
