package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage"
)

func newWhy(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Print the whole life of a message, from publish to delivery",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			db, err := s.reader(cmd)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			lives, err := storage.NewLives(db).Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if len(lives) == 0 {
				return corebot.WithHint(fmt.Errorf("message %q: %w", args[0], corebot.ErrNotFound), "was it accepted here, and is it younger than the retention time?")
			}
			for _, life := range lives {
				if asJSON {
					err = printJSON(cmd, lifeJSON(life))
				} else {
					err = tell(cmd.OutOrStdout(), life)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// story is a life as JSON: times in milliseconds would be unreadable, so it is the struct with its direction spelled out.
type story struct {
	Direction string `json:"direction"`
	Channel   string `json:"channel"`
	ChatID    string `json:"chatId"`
	corebot.Life
}

func lifeJSON(l corebot.Life) story {
	return story{l.Direction.String(), l.Key.Channel, l.Key.Chat, l}
}

// tell writes a life as a list of what happened when.
func tell(w io.Writer, l corebot.Life) error {
	t := &teller{w: w}
	t.line("message %s (%s %s) in %s", l.MessageID, l.Direction, l.Kind, l.Key)
	t.line("  state      %s", l.State)
	if l.Reason != "" {
		t.line("  reason     %s", l.Reason)
	}
	if l.LastError != "" {
		t.line("  last error %s", oneLine(l.LastError, 300))
	}
	if l.Run > 1 {
		t.line("  run        %d (replayed)", l.Run)
	}
	t.at(l.PublishedAt, "accepted, from %s", senderOf(l))
	for _, a := range l.AttemptLog {
		t.at(a.At, "run %d: %s %s", a.Run, a.What, oneLine(a.Error, 200))
	}
	if !l.ClaimedAt.IsZero() {
		t.at(l.ClaimedAt, "claimed, attempt %d", l.Attempts)
	}
	for _, s := range l.Steps {
		t.step(s)
	}
	if !l.WakeAt.IsZero() {
		t.at(l.WakeAt, "due again")
	}
	if l.End != "" {
		t.at(l.EndedAt, "ended: %s%s", l.End, tokensOf(l.Usage))
	}
	for _, r := range l.Replies {
		t.at(r.PublishedAt, "%s %s: %s", r.Kind, r.MessageID, r.State)
		if r.End == corebot.EndSent {
			t.at(r.EndedAt, "%s %s: taken by the channel", r.Kind, r.MessageID)
		} else if r.LastError != "" {
			t.line("    %s", oneLine(r.LastError, 200))
		}
	}
	return t.err
}

func senderOf(l corebot.Life) string {
	if l.Sender.ID == "" {
		return "a sender without an id"
	}
	return l.Sender.String()
}

func tokensOf(u corebot.Usage) string {
	if u == (corebot.Usage{}) {
		return ""
	}
	return fmt.Sprintf(" (%d tokens in, %d out)", u.InputTokens, u.OutputTokens)
}

// teller writes lines and keeps the first error.
type teller struct {
	w   io.Writer
	err error
}

func (t *teller) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

func (t *teller) at(when time.Time, format string, args ...any) {
	t.line("  %s  %s", clock(when), fmt.Sprintf(format, args...))
}

func (t *teller) step(s corebot.Step) {
	switch {
	case s.Kind == corebot.StepModel && s.Answer != nil:
		t.at(s.EndedAt, "step %d: the model asked for %s", s.Position, count(int64(len(s.Answer.Calls)), "tool call"))
	case s.Kind == corebot.StepTool && s.Result != nil:
		t.at(s.EndedAt, "step %d: %s %s: %s", s.Position, s.Call.Tool, oneLine(string(s.Call.Args), 80), s.Result.Outcome)
	case s.Kind == corebot.StepTool:
		t.at(s.StartedAt, "step %d: %s was begun", s.Position, s.Call.Tool)
	case s.Kind == corebot.StepPart:
		t.at(s.EndedAt, "part %d was sent", s.Position+1)
	}
}
