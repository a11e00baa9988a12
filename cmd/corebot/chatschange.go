package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newChatsRegister(s *shell) *cobra.Command {
	var name string
	var off bool
	cmd := &cobra.Command{
		Use:   "register KEY",
		Short: "Mark a chat as registered, or with --off as not",
		Args:  takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			said := "registered"
			if off {
				said = "no longer registered:"
			}
			return changeChat(s, cmd, operate.RegisterChat, args[0], operate.ChatChange{Registered: !off, Name: name}, said)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "a name for display")
	cmd.Flags().BoolVar(&off, "off", false, "take the registration away")
	return cmd
}

func newChatsReset(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "reset KEY",
		Short: "Begin a new conversation in a chat; what was said is kept and out of play",
		Args:  takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeChat(s, cmd, operate.ResetChat, args[0], operate.ChatChange{}, "reset")
		},
	}
}

func changeChat(s *shell, cmd *cobra.Command, op operate.Operation[operate.ChatChange, operate.Done], key string, change operate.ChatChange, said string) (err error) {
	if change.Key, err = s.chat(cmd, key); err != nil {
		return err
	}
	return s.change(cmd, func(c control.Caller) error {
		if _, err := op.Call(cmd.Context(), c, change); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", said, change.Key)
		return err
	})
}
