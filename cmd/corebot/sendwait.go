package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/cli"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
)

// question is a message whose answer the command waits for.
type question struct {
	cmd    *cobra.Command
	in     channels.Incoming
	asJSON bool
	last   string // what was said when the message ended
}

// ask publishes the message and prints its answer as soon as it comes. Everything else that the chat is told meanwhile goes to stderr.
func (s *shell) ask(cmd *cobra.Command, settings config.Config, in channels.Incoming, timeout time.Duration, asJSON bool) error {
	q := &question{cmd: cmd, in: in, asJSON: asJSON}
	var shot *cli.OneShot
	err := s.talk(cmd.Context(), settings, conversation{agent: in.Agent, chat: in.Chat, passing: true, open: func(at *attached, _ string) (channels.Channel, error) {
		at.tell = func(p app.Place) { fmt.Fprintln(cmd.ErrOrStderr(), placeText(p)) }
		shot = cli.NewOneShot(in, cli.OneShotOptions{Wait: timeout, Show: q.show, Life: func(ctx context.Context) (corebot.Life, error) {
			return control.Call[corebot.Life](ctx, at.link, app.OpLife, app.TerminalMessage{Agent: in.Agent, Chat: in.Chat, ID: in.ID})
		}})
		return shot, nil
	}})
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
	return corebot.WithHint(fmt.Errorf("%s; the message is kept and will be answered all the same", why), fmt.Sprintf("`corebot why %s` tells how far it is", q.in.ID))
}

// show prints what the chat is told: the answer to stdout, the rest to stderr.
func (q *question) show(m channels.Outbound, as cli.ShowAs) (err error) {
	text, stderr := printable(m.Text()), q.cmd.ErrOrStderr()
	switch {
	case !as.Own && m.InReplyTo == "":
		_, err = fmt.Fprintf(stderr, "sent here in answer to nothing:\n%s\n", text)
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
	return corebot.WithHint(fmt.Errorf("message %s was not answered: %s", q.in.ID, q.last), fmt.Sprintf("`corebot why %s` tells more", q.in.ID))
}
