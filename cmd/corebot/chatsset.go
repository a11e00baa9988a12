package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

// byDefault is how the command line asks for a setting to be the configured one again.
const byDefault = "default"

func newChatsSet(s *shell) *cobra.Command {
	var mode, access string
	cmd := &cobra.Command{
		Use:   "set KEY [--queue-mode MODE] [--access ACCESS]",
		Short: "Change the settings of a chat",
		Long: `Change the settings of a chat; each holds from the next message on.

The queue mode says what becomes of a message that comes while another is being answered: with queue it waits
its turn; with steer the answer that is being made takes it in; with interrupt it ends that answer, if that is to the same sender; with collect the
messages of one sender that wait are answered together, after bus.collect_debounce. "default" is bus.queue_mode. What waits already stays as it is.

The access says who may talk in the chat: with allow whoever is in it, with deny nobody, whatever the rule of its channel is. "default" is that
rule, such as channels.webhook.access. It holds in the threads of the chat too.`,
		Args: takes("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := s.chat(cmd, args[0])
			if err != nil {
				return err
			}
			if mode == "" && access == "" {
				return usage(cmd, errors.New("want --queue-mode, --access or both"))
			}
			changes, err := chatSettings(key, mode, access)
			if err != nil {
				return usage(cmd, err)
			}
			return s.change(cmd, func(c control.Caller) error {
				for _, change := range changes {
					if _, err := change.make(cmd.Context(), c); err != nil {
						return err
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s of %s: %s\n", change.what, key, change.to); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&mode, "queue-mode", "", "queue, steer, interrupt, collect or default")
	cmd.Flags().StringVar(&access, "access", "", "allow, deny or default")
	return cmd
}

// setting is one change of a chat that is asked for.
type setting struct {
	what, to string
	make     func(context.Context, control.Caller) (operate.Done, error)
}

// chatSettings reads what is to change; what is empty stays.
func chatSettings(key corebot.Key, mode, access string) (changes []setting, err error) {
	if mode != "" {
		change := operate.ModeChange{Key: key}
		if mode != byDefault {
			if change.Mode, err = corebot.ParseQueueMode(mode); err != nil {
				return nil, err
			}
		}
		changes = append(changes, setting{"queue mode", mode, func(ctx context.Context, c control.Caller) (operate.Done, error) {
			return operate.SetQueueMode.Call(ctx, c, change)
		}})
	}
	if access != "" {
		change := operate.AccessChange{Key: key}
		if access != byDefault {
			if change.Access, err = corebot.ParseChatAccess(access); err != nil {
				return nil, err
			}
		}
		changes = append(changes, setting{"access", access, func(ctx context.Context, c control.Caller) (operate.Done, error) {
			return operate.SetChatAccess.Call(ctx, c, change)
		}})
	}
	return changes, nil
}
