package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newParked(s *shell) *cobra.Command {
	return group("parked", "List, release and drop messages that wait for tomorrow's budget", newParkedList(s),
		newParkedChange(s, "release", "Put parked messages back into their chats' queues now; what is still over a "+
			"cap is parked again", operate.ReleaseParked, "released"),
		newParkedChange(s, "drop", "Give parked messages up for good; their chats are told", operate.DropParked,
			"dropped"))
}

func newParkedList(s *shell) *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the messages that left their chats' queues, in the order in which they come back",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			_, err = parkedTable.print(cmd, asJSON, limit, func(p operate.Part) (operate.Page[operate.ParkedMessage], error) {
				return look(s, cmd, operate.ListParked, p)
			})
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	limitFlag(cmd, &limit, 1000, "at most this many")
	return cmd
}

var parkedTable = listing[operate.ParkedMessage]{
	header: "ID\tCHAT\tMESSAGE\tFOR\tUNTIL",
	none:   "nothing is parked",
	json:   func(p operate.ParkedMessage) any { return p.ParkedRow },
	cells: func(p operate.ParkedMessage) string {
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s", p.ID, p.Key, oneLine(p.MessageID, 40), p.Reason,
			p.DueAt.Local().Format(time.DateTime))
	},
}

func newParkedChange(s *shell, name, short string, op operate.Operation[operate.ByLives, operate.Done],
	said string,
) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID...", Short: short, Args: takes("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			var lives operate.ByLives
			for _, arg := range args {
				id, err := strconv.ParseInt(arg, 10, 64)
				if err != nil {
					return usage(cmd, fmt.Errorf("%q is not the id of a parked message", arg))
				}
				lives.IDs = append(lives.IDs, id)
			}
			return s.change(cmd, func(c control.Caller) error {
				done, err := op.Call(cmd.Context(), c, lives)
				if err != nil {
					return corebot.WithHint(err, "`corebot parked list` shows the ids")
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", said, count(int64(done.Changed), "message"))
				return err
			})
		},
	}
}
