package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

func newParked(s *shell) *cobra.Command {
	return group("parked", "List, release and drop messages that wait for tomorrow's budget", newParkedList(s),
		newParkedChange(s, "release", "Put parked messages back into their chats' queues now; what is still over a cap is parked again", app.OpRelease, "released"),
		newParkedChange(s, "drop", "Give parked messages up for good; their chats are told", app.OpUnpark, "dropped"))
}

// parkedRow is what `parked list --json` prints.
type parkedRow struct {
	ID        int64     `json:"id"`
	Channel   string    `json:"channel"`
	ChatID    string    `json:"chatId"`
	SenderID  string    `json:"senderId"`
	MessageID string    `json:"messageId"`
	Reason    string    `json:"reason"`
	ParkedAt  time.Time `json:"parkedAt"`
	DueAt     time.Time `json:"dueAt"`
}

func newParkedList(s *shell) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the messages that left their chats' queues, in the order in which they come back",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			parked, err := read(s, cmd, func(ctx context.Context, db *storage.DB) ([]corebot.Parked, error) {
				return storage.NewLot(db).List(ctx, limit)
			})
			if err != nil {
				return err
			}
			return printParked(cmd, parked, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

func printParked(cmd *cobra.Command, parked []corebot.Parked, asJSON bool) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	t := &teller{w: table}
	if !asJSON && len(parked) > 0 {
		t.line("ID\tCHAT\tMESSAGE\tFOR\tUNTIL")
	}
	for _, p := range parked {
		if asJSON {
			row := parkedRow{p.Life, p.Key.Channel, p.Key.Chat, p.Sender.ID, p.MessageID, p.Reason, p.ParkedAt, p.DueAt}
			if err := printJSON(cmd, row); err != nil {
				return err
			}
			continue
		}
		t.line("%d\t%s\t%s\t%s\t%s", p.Life, p.Key, oneLine(p.MessageID, 40), p.Reason, p.DueAt.Local().Format(time.DateTime))
	}
	if len(parked) == 0 && !asJSON {
		t.line("nothing is parked")
	}
	return errors.Join(t.err, table.Flush())
}

func newParkedChange(s *shell, name, short, op, said string) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID...", Short: short, Args: takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			var lives app.Lives
			for _, arg := range args {
				id, err := strconv.ParseInt(arg, 10, 64)
				if err != nil {
					return usage(cmd, fmt.Errorf("%q is not the id of a parked message", arg))
				}
				lives.IDs = append(lives.IDs, id)
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := control.Call[operate.Done](cmd.Context(), c, op, lives)
				if err != nil {
					return corebot.WithHint(err, "`corebot parked list` shows the ids")
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", said, count(int64(done.Changed), "message"))
				return err
			})
		},
	}
}
