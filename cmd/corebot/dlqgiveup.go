package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newDLQGiveUp(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "give-up LANE",
		Short: "Have a chat go on without a message that cannot be read",
		Long: `Have a chat that is set aside go on without its next message, which cannot be read from the database: the message becomes a dead letter without
content, and the chat is told to send it again. "corebot status" lists the lanes that are set aside. Prefer to repair the database: the chat then goes on
by itself, and nothing is lost.`,
		Args: takes("LANE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			lane, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || lane < 1 {
				return usage(cmd, fmt.Errorf("lane %q: want a number as `corebot status` shows it", args[0]))
			}
			return s.change(cmd, func(c control.Caller) error {
				given, err := operate.GiveUpHead.Call(cmd.Context(), c, operate.GiveUp{Lane: lane})
				if err != nil {
					return err
				}
				said := fmt.Sprintf("gave up message %s (dead letter %d)", given.MessageID, given.Life)
				if given.MessageID == "" {
					said = "gave up a message; which one it was cannot be read either"
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
				return err
			})
		},
	}
}
