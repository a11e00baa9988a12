package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage"
)

func newDLQ(s *shell) *cobra.Command {
	return group("dlq", "List, show and replay dead letters", newDLQList(s), newDLQShow(s), newDLQReplay(s))
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
	var direction string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, newest first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			var d corebot.Direction
			if direction != "" {
				if d, err = corebot.ParseDirection(direction); err != nil {
					return usage(cmd, err)
				}
			}
			if limit < 1 {
				return usage(cmd, fmt.Errorf("--limit %d: want at least 1", limit))
			}
			db, err := s.reader(cmd)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			letters, err := storage.NewDeadLetters(db).List(cmd.Context(), corebot.DeadLetterFilter{Direction: d, Limit: limit})
			if err != nil {
				return err
			}
			return printDeadLetters(cmd, letters, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&direction, "direction", "", "inbound or outbound (default: both)")
	cmd.Flags().IntVar(&limit, "limit", 100, "at most this many")
	return cmd
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
			id, err := deadLetterID(cmd, args[0])
			if err != nil {
				return err
			}
			db, err := s.reader(cmd)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			life, err := storage.NewLives(db).Get(cmd.Context(), id)
			if err == nil && life.End != corebot.EndDead {
				err = fmt.Errorf("dead letter %d: %w (the message is %s)", id, corebot.ErrNotFound, life.State)
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

func newDLQReplay(s *shell) *cobra.Command {
	var fresh bool
	cmd := &cobra.Command{
		Use:   "replay ID...",
		Short: "Put dead letters back into the queue",
		Long: `Put dead letters back at the tail of their chats' queues, under the same id and the original sender. Each resumes its journal: what
its tools have done is not done again. With --fresh it starts over.`,
		Args: takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids := make([]int64, len(args))
			for i, a := range args {
				id, err := deadLetterID(cmd, a)
				if err != nil {
					return err
				}
				ids[i] = id
			}
			return s.withStore(cmd.Context(), func(ctx context.Context, db *storage.DB) error {
				for _, id := range ids {
					if err := storage.NewDeadLetters(db).Replay(ctx, id, fresh); err != nil {
						return corebot.WithHint(err, "`corebot dlq list` shows the ids; one that is not there was replayed or dropped")
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "replayed %d\n", id); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&fresh, "fresh", false, "start over instead of resuming the journal")
	return cmd
}

func deadLetterID(cmd *cobra.Command, s string) (int64, error) {
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id < 1 {
		return 0, usage(cmd, fmt.Errorf("dead letter id %q: want a number as `corebot dlq list` shows it", s))
	}
	return id, nil
}

// withStore opens the store for a change of this command alone, and refuses beside a running Corebot.
func (s *shell) withStore(ctx context.Context, fn func(context.Context, *storage.DB) error) (err error) {
	dir, err := s.dataDir()
	if err != nil {
		return err
	}
	db, err := storage.Open(ctx, dir, storage.Options{Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- db.Run(writing) }()
	err = fn(ctx, db)
	stop()
	return errors.Join(err, <-ended, db.Close())
}
