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
)

func newSend(s *shell) *cobra.Command {
	var chat, id string
	var wait, asJSON bool
	cmd := &cobra.Command{
		Use:   "send --chat ID [--wait] TEXT",
		Short: "Publish one message, with --wait print the reply",
		Long: `Publish one message in a chat of the terminal channel. The text "-" is read from standard input. Without --wait the command ends as soon
as the message is on disk; it is answered by the next Corebot that runs on this home.`,
		Args: takes("TEXT..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if chat == "" {
				return usage(cmd, errNoChat)
			}
			text, err := textOf(cmd, args)
			if err != nil {
				return err
			}
			if id == "" {
				id = uuid.Must(uuid.NewV7()).String() // fails only where Go ends the program before: no randomness
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

// maxInput bounds what is read of standard input, in bytes. The limit of a message is lower unless somebody raised it far.
const maxInput = 64 << 20

// textOf is the message of a command line, or of standard input.
func textOf(cmd *cobra.Command, args []string) (string, error) {
	text := strings.Join(args, " ")
	if text != "-" {
		return text, nil
	}
	data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxInput+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(data) > maxInput {
		return "", fmt.Errorf("%w: standard input has more than %d bytes", corebot.ErrTooLarge, maxInput)
	}
	return string(data), nil
}

// publish puts the message on disk and leaves it there.
func (s *shell) publish(cmd *cobra.Command, in channels.Incoming, asJSON bool) error {
	if err := s.oneShot(cmd, in.Chat, cli.NewOneShot(in, nil), true); err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd, sent{ID: in.ID})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "accepted %s\n", in.ID)
	return err
}

// ask publishes the message and prints the reply as soon as it comes. Other messages for the chat go to stderr.
func (s *shell) ask(cmd *cobra.Command, in channels.Incoming, asJSON bool) error {
	shot := cli.NewOneShot(in, func(m corebot.Message, own bool) (err error) {
		switch {
		case !own && m.InReplyTo == "":
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "sent here in answer to nothing:\n%s\n", printable(m.Text()))
		case !own:
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "the answer to the earlier message %s:\n%s\n", m.InReplyTo, printable(m.Text()))
		case asJSON:
			err = printJSON(cmd, sent{ID: in.ID, Reply: m.Text(), Kind: m.Kind})
		default:
			_, err = fmt.Fprintln(cmd.OutOrStdout(), printable(m.Text()))
		}
		return err
	})
	if err := s.oneShot(cmd, in.Chat, shot, false); err != nil {
		return err
	}
	if !shot.Answered() {
		return corebot.WithHint(errors.New("interrupted before the reply came; the message is kept and the next Corebot that runs answers it"),
			fmt.Sprintf("`corebot why %s` tells how far it is", in.ID))
	}
	return nil
}

// oneShot runs Corebot for one message.
func (s *shell) oneShot(cmd *cobra.Command, chat string, shot *cli.OneShot, publishOnly bool) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	err = s.talk(cmd.Context(), settings, conversation{
		chat: chat, publishOnly: publishOnly, open: func(place) (channels.Channel, error) { return shot, nil },
	})
	switch {
	case errors.Is(err, corebot.ErrTooLarge):
		return corebot.WithHint(err, "the limit is bus.max_message_bytes")
	case errors.Is(err, corebot.ErrConflict):
		return corebot.WithHint(err, "choose another --id; `corebot why ID` tells about the first one")
	}
	return err
}

// sent is what `send --json` prints.
type sent struct {
	ID    string       `json:"id"`
	Reply string       `json:"reply,omitempty"`
	Kind  corebot.Kind `json:"kind,omitempty"`
}
