package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/app"
)

func newSend(s *shell) *cobra.Command {
	var chat, id string
	var wait, asJSON bool
	cmd := &cobra.Command{
		Use:   "send --chat ID [--wait] TEXT",
		Short: "Publish one message, with --wait print the reply",
		Long: `Publish one message in a chat of the terminal channel. The text "-" is read from standard input. Without --wait the command ends as soon
as the message is on disk; it is answered by the next Corebot that runs on this home.`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(args, " ")
			if text == "-" {
				data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 64<<20))
				if err != nil {
					return fmt.Errorf("read standard input: %w", err)
				}
				text = string(data)
			}
			if id == "" {
				fresh, err := uuid.NewV7()
				if err != nil {
					return fmt.Errorf("make an id: %w", err)
				}
				id = fresh.String()
			}
			uid, name := whoRuns()
			in := channels.Incoming{ID: id, Account: "local", Chat: chat, SenderID: uid, SenderName: name, Text: text}
			if !wait {
				return s.publish(cmd, in, asJSON)
			}
			return s.ask(cmd, in, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&chat, "chat", "main", "which chat to send to")
	cmd.Flags().StringVar(&id, "id", "", "the message's id: sending it twice accepts it once (default: a new one)")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the reply and print it")
	return cmd
}

// publish puts the message on disk and leaves it there.
func (s *shell) publish(cmd *cobra.Command, in channels.Incoming, asJSON bool) error {
	if err := s.oneShot(cmd, cli.NewOneShot(in, nil), true); err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd, sent{ID: in.ID})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "accepted %s\n", in.ID)
	return err
}

// ask publishes the message and prints the reply as soon as it comes.
func (s *shell) ask(cmd *cobra.Command, in channels.Incoming, asJSON bool) error {
	shot := cli.NewOneShot(in, func(m corebot.Message) error {
		if asJSON {
			return printJSON(cmd, sent{ID: in.ID, Reply: m.Text(), Kind: m.Kind})
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), m.Text())
		return err
	})
	if err := s.oneShot(cmd, shot, false); err != nil {
		return err
	}
	if !shot.Answered() {
		return errors.New("no reply came; the message is kept and will be answered by the next Corebot that runs")
	}
	return nil
}

func (s *shell) oneShot(cmd *cobra.Command, shot *cli.OneShot, publishOnly bool) error {
	c, err := s.settings()
	if err != nil {
		return err
	}
	return s.talk(cmd.Context(), c, false, app.Options{
		Channel: func(*app.App) (channels.Channel, error) { return shot, nil }, PublishOnly: publishOnly,
	})
}

// sent is what `send --json` prints.
type sent struct {
	ID    string       `json:"id"`
	Reply string       `json:"reply,omitempty"`
	Kind  corebot.Kind `json:"kind,omitempty"`
}
