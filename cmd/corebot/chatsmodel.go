package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newChatsModel(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "model KEY MODEL",
		Short: "Have a chat's conversation be answered by another model",
		Long: `Have a chat's conversation be answered by another of the configured models, named as its provider does or as PROVIDER/MODEL; the others answer
if it fails. A new conversation (/new) goes back to the configured order, and so does "default". A turn that has begun keeps its model.`,
		Args: takes("KEY", "MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			change := operate.ModelChange{Key: key, Model: args[1]}
			if change.Model == byDefault {
				change.Model = ""
			} else if err := s.knowsModel(change.Model); err != nil {
				return err
			}
			return s.change(cmd, func(c control.Caller) error {
				if _, err := operate.SetChatModel.Call(cmd.Context(), c, change); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "model of %s: %s\n", key, printable(args[1]))
				return err
			})
		},
	}
}

// knowsModel refuses a model that is not configured: its chat would get no answer.
func (s *shell) knowsModel(name string) error {
	c, err := s.settings()
	if err != nil {
		return err
	}
	if known := c.LLM.KnownModels(); len(known) > 0 && !slices.Contains(known, name) {
		return corebot.WithHint(fmt.Errorf("no model is called %q", name), "the settings have "+strings.Join(known, ", "))
	}
	return nil
}
