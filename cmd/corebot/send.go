package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/scheduler"
)

func newSend(s *shell) *cobra.Command {
	var chat, id, agent, deliverAt string
	var wait, asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "send --chat ID [--wait] TEXT",
		Short: "Publish one message, with --wait print the reply",
		Long: `Publish one message in a chat of the terminal channel. The text "-" is read from standard input.
Without --wait the command ends as soon as the message is on disk; it is answered by the Corebot
that runs on this home, or by the next one.

With --wait the command prints the answer and ends. What Corebot says meanwhile, such as that the
answer waits for an approval, goes to standard error. A message that was given up, refused or
stopped has no answer: the command says why, with exit code 1. So it does when --timeout is over;
the message is kept and answered all the same.

With --deliver-at the message is on disk at once and answered at that time: a time from now such as
2h, a time of the day such as 18:30, or a date with a time such as 2026-12-24T18:00, in the time
zone of the settings. "corebot deferred list" shows it until then, and "deferred drop" gives it up.`,
		Args: takes("TEXT..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case chat == "":
				return usage(cmd, errNoChat)
			case deliverAt != "" && wait:
				return usage(cmd, errors.New("--deliver-at is for a later time; --wait waits for the answer now"))
			case cmd.Flags().Changed("timeout") && (timeout <= 0 || !wait):
				return usage(cmd, errors.New("--timeout is a time over 0s, and needs --wait"))
			}
			c, err := s.settings()
			if err != nil {
				return err
			}
			in := channels.Incoming{ID: id, Agent: agent, Account: cli.DefaultAccount, Chat: chat}
			if err := compose(cmd, c, &in, args, deliverAt); err != nil {
				return err
			}
			if !wait {
				return publishAndSay(cmd, c, in, asJSON)
			}
			return s.ask(cmd, c, in, timeout, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&chat, "chat", "main", "which chat to send to")
	chatAgentFlag(cmd, &agent)
	filledFlag(cmd.Flags(), &id, "id", "the message's id: sending it twice accepts it once (default: a new one)")
	cmd.Flags().StringVar(&deliverAt, "deliver-at", "", "answer it at this time, such as 18:30 or 2h from now")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the reply and print it")
	cmd.Flags().DurationVar(&timeout, "timeout", 0,
		"with --wait: how long at most, such as 90s (default: until the message has ended)")
	return cmd
}

// compose completes the message of a command line: its text, its id, its sender, its agent, and when it is due.
func compose(cmd *cobra.Command, c config.Config, in *channels.Incoming, args []string, deliverAt string) error {
	text, err := textOf(cmd, args)
	if err != nil {
		return err
	}
	if in.ID == "" {
		in.ID = uuid.Must(uuid.NewV7()).String() // fails only where Go ends the program before: no randomness
	}
	in.SenderID, in.SenderName = whoRuns()
	in.Parts = corebot.TextPart(text)
	if in.Agent, err = agentOf(c, in.Agent, in.Chat); err != nil {
		return err
	}
	if deliverAt != "" {
		in.Envelope.DeliverAt, err = deliveryTime(c, deliverAt, time.Now())
	}
	return err
}

// maxInput bounds what is read of standard input, in bytes. The limit of a message is lower unless somebody raised it
// far.
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
	if !utf8.Valid(data) {
		return "", notUTF8("standard input")
	}
	return string(data), nil
}

// publishAndSay puts the message on disk and leaves it there.
func publishAndSay(cmd *cobra.Command, c config.Config, in channels.Incoming, asJSON bool) error {
	if err := app.Locked(cmd.Context(), c.Home, func() error { return publish(cmd.Context(), c, in) }); err != nil {
		return refusal(err)
	}
	if asJSON {
		return printJSON(cmd, sent{ID: in.ID, DeliverAt: in.Envelope.DeliverAt})
	}
	later := ""
	if at := in.Envelope.DeliverAt; !at.IsZero() {
		later = ", to be delivered at " + at.Format("2006-01-02 15:04:05 MST")
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "accepted %s%s\n", in.ID, later)
	return err
}

// deliveryTime reads the time of --deliver-at in the time zone of the settings.
func deliveryTime(c config.Config, text string, now time.Time) (time.Time, error) {
	at, err := scheduler.When(text, cmp.Or(c.Tasks.TimeZone, scheduler.LocalZone()), now)
	if err != nil && !errors.Is(err, scheduler.ErrPast) {
		return at, usageWithHint(err)
	}
	if err != nil {
		return at, err
	}
	if !at.After(now) {
		return at, corebot.WithHint(fmt.Errorf("%w: %s is over", corebot.ErrInvalid, text), "leave --deliver-at out")
	}
	return at, nil
}

// publish gives the message to the Corebot that runs on the home or, with none, opens the home for this one message.
func publish(ctx context.Context, c config.Config, in channels.Incoming) error {
	client, running, err := control.Dial(ctx, app.DataDir(c.Home))
	if err != nil {
		return err
	}
	if running {
		_, err := app.Send(ctx, client, in)
		return err
	}
	hide, err := redact.New(nil) // the app has it learn the secrets
	if err != nil {
		return err
	}
	log, _, err := terminalLog(c, hide, false)
	if err != nil {
		return err
	}
	a, err := app.New(ctx, c, app.Options{Version: app.Version(), Log: log, Redactor: hide})
	if err != nil {
		return err
	}
	return a.While(ctx, func(ctx context.Context) error {
		_, err := a.Accept(ctx, in)
		return err
	})
}

// refusal adds what to do about a message that was not accepted.
func refusal(err error) error {
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
	ID        string       `json:"id"`
	DeliverAt time.Time    `json:"deliverAt,omitzero"`
	Reply     string       `json:"reply,omitempty"`
	Kind      corebot.Kind `json:"kind,omitempty"`
	End       corebot.End  `json:"end,omitempty"` // of a message without an answer
}

// question is a message whose answer the command waits for.
type question struct {
	cmd    *cobra.Command
	in     channels.Incoming
	asJSON bool
	last   string // what was said when the message ended
}

// ask publishes the message and prints its answer as soon as it comes. Everything else that the chat is told meanwhile
// goes to stderr.
func (s *shell) ask(cmd *cobra.Command, settings config.Config, in channels.Incoming, timeout time.Duration,
	asJSON bool,
) error {
	q := &question{cmd: cmd, in: in, asJSON: asJSON}
	var shot *cli.OneShot
	err := s.talk(cmd.Context(), settings, conversation{
		agent: in.Agent, chat: in.Chat, passing: true,
		open: func(at *attached, _ string) (cli.Terminal, error) {
			at.tell = func(p app.Place) { fmt.Fprintln(cmd.ErrOrStderr(), placeText(p)) }
			shot = cli.NewOneShot(in, cli.OneShotOptions{
				Wait: timeout, Show: q.show,
				Life: func(ctx context.Context) (corebot.Life, error) {
					return app.TerminalLife.Call(ctx, at.link, app.TerminalMessage{
						Agent: in.Agent,
						Chat:  in.Chat, ID: in.ID,
					})
				},
			})
			return shot, nil
		},
	})
	switch {
	case shot == nil || !shot.Accepted():
		return refusal(err)
	case shot.End() != "":
		return errors.Join(q.result(shot.End()), err)
	case errors.Is(err, cli.ErrNoReply):
		return q.unanswered(fmt.Sprintf("no reply came within %v", timeout))
	case cmd.Context().Err() != nil:
		return q.unanswered("interrupted before the reply came")
	}
	return err
}

// unanswered is the error of a message that is not waited for any more.
func (q *question) unanswered(why string) error {
	return corebot.WithHint(fmt.Errorf("%s; the message is kept and will be answered all the same", why),
		fmt.Sprintf("`corebot why %s` tells how far it is", q.in.ID))
}

// show prints what the chat is told: the answer to stdout, the rest to stderr.
func (q *question) show(m channels.Outbound, as cli.ShowAs) (err error) {
	text, stderr := printable(m.Text()), q.cmd.ErrOrStderr()
	switch {
	case !as.Own && m.InReplyTo == "":
		_, err = fmt.Fprintf(stderr, "also said in this chat, not an answer to your message:\n%s\n", text)
	case !as.Own:
		_, err = fmt.Fprintf(stderr, "the answer to the earlier message %s:\n%s\n", m.InReplyTo, text)
	case as.End == "":
		_, err = fmt.Fprintf(stderr, "no answer yet:\n%s\n", text)
	case !succeeded(as.End) && q.asJSON:
		err = printJSON(q.cmd, sent{ID: q.in.ID, Reply: m.Text(), Kind: m.Kind, End: as.End})
	case q.asJSON:
		err = printJSON(q.cmd, sent{ID: q.in.ID, Reply: m.Text(), Kind: m.Kind})
	case succeeded(as.End):
		_, err = fmt.Fprintln(q.cmd.OutOrStdout(), text)
	}
	if as.End != "" {
		q.last = m.Text()
	}
	return err
}

// succeeded says whether a message that ended so has its answer. A chat command that acted at once has it too.
func succeeded(e corebot.End) bool { return e == corebot.EndAnswered || e == corebot.EndApplied }

// result is the error of a message that ended without an answer.
func (q *question) result(e corebot.End) error {
	if succeeded(e) {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("message %s was not answered: %s", q.in.ID, q.last),
		fmt.Sprintf("`corebot why %s` tells more", q.in.ID))
}
