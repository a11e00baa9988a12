package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/control"
)

// byDefault is how the command line asks for a setting to be the configured one again.
const byDefault = "default"

func newChatsSet(s *shell) *cobra.Command {
	var mode string
	cmd := &cobra.Command{
		Use:   "set KEY --queue-mode MODE",
		Short: "Change the settings of a chat",
		Long: `Change the settings of a chat. The queue mode says what becomes of a message that comes while another is being answered: with queue it waits
its turn; with steer the answer that is being made takes it in; with interrupt it ends that answer, if that is to the same sender; with collect the
messages of one sender that wait are answered together, after bus.collect_debounce. "default" is bus.queue_mode. What waits already stays as it is.`,
		Args: takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := corebot.ParseKey(args[0])
			if err != nil {
				return usage(cmd, err)
			}
			if mode == "" {
				return usage(cmd, errors.New("--queue-mode: want queue, steer, interrupt, collect or default"))
			}
			change := app.ModeChange{Key: key}
			if mode != byDefault {
				if change.Mode, err = corebot.ParseQueueMode(mode); err != nil {
					return usage(cmd, err)
				}
			}
			return s.change(cmd, func(c control.Caller) error {
				if _, err := control.Call[app.Done](cmd.Context(), c, app.OpMode, change); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "queue mode of %s: %s\n", key, mode)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&mode, "queue-mode", "", "queue, steer, interrupt, collect or default")
	return cmd
}
