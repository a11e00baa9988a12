package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newDLQ(s *shell) *cobra.Command {
	return group("dlq", "List, show, replay, edit, drop, purge and make dead letters",
		newDLQList(s), newDLQShow(s), newDLQReplay(s), newDLQEdit(s), newDLQDrop(s), newDLQPurge(s), newDLQGiveUp(s))
}

func newDLQList(s *shell) *cobra.Command {
	var asJSON bool
	var f deadFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, newest first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, _, err := f.parse(s, cmd)
			if err != nil {
				return err
			}
			_, err = s.listDeadLetters(cmd, filter, f.limit, "no dead letters", asJSON)
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	f.flags(cmd)
	limitFlag(cmd, &f.limit, 100, "at most this many, the newest")
	return cmd
}

// listDeadLetters prints the dead letters that a filter means, and says how many. none is what it prints if there are
// none.
func (s *shell) listDeadLetters(cmd *cobra.Command, f corebot.DeadLetterFilter, limit int, none string,
	asJSON bool,
) (int, error) {
	list := listing[operate.DeadLetter]{
		header: "ID\tDIED\tDIRECTION\tCHAT\tMESSAGE\tREASON\tTRIES\tLAST ERROR",
		cells:  deadLetterCells, none: none,
	}
	return list.print(cmd, asJSON, limit, func(p operate.Part) (operate.Page[operate.DeadLetter], error) {
		return look(s, cmd, operate.ListDeadLetters, operate.DeadLetterQuery{Filter: f, Part: p})
	})
}

func deadLetterCells(l operate.DeadLetter) string {
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%d\t%s", l.ID, l.DeadAt.Local().Format(time.DateTime), l.Direction,
		oneLine(l.Channel+"/"+l.ChatID, 24), oneLine(l.MessageID, 36), l.Reason, l.Attempts, oneLine(l.LastError, 120))
}

func newDLQShow(s *shell) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a dead letter: its life and its content",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ids, err := s.named(cmd, args)
			if err != nil {
				return err
			}
			life, err := look(s, cmd, operate.ShowDeadLetter, operate.ByID{ID: ids[0]})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, life)
			}
			if err := tell(cmd.OutOrStdout(), life.Whole()); err != nil || life.Message == nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", printable(life.Message.Text()))
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// deadFilter are the flags that say which dead letters are meant.
type deadFilter struct {
	direction, agent, channel, chat, sender, reason string
	before, after                                   string
	olderThan, newerThan                            time.Duration
	limit                                           int
}

func (f *deadFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.direction, "direction", "", "inbound or outbound (default: both)")
	flags.StringVar(&f.agent, "agent", "", "of this agent only")
	flags.StringVar(&f.channel, "channel", "", "of this channel only")
	flags.StringVar(&f.chat, "chat", "", chatFlagHelp)
	flags.StringVar(&f.sender, "sender", "", "of this sender only")
	flags.StringVar(&f.reason, "reason", "",
		"dead for this reason only: attempts, permanent, \"too long for the model\", poison, damaged or ambiguous")
	flags.StringVar(&f.before, "before", "", "dead before this moment: 2006-01-02, or 2006-01-02T15:04:05Z")
	flags.StringVar(&f.after, "after", "", "dead at this moment or later")
	flags.DurationVar(&f.olderThan, "older-than", 0, "dead for longer than this, such as 24h")
	flags.DurationVar(&f.newerThan, "newer-than", 0, "dead for less than this")
}

// parse reads the flags. empty says that none of them narrows the choice.
func (f *deadFilter) parse(s *shell, cmd *cobra.Command) (out corebot.DeadLetterFilter, empty bool, err error) {
	out = corebot.DeadLetterFilter{Agent: f.agent, Channel: f.channel, Sender: f.sender, Reason: f.reason}
	if out.Key, out.Chat, err = s.chatFilter(cmd, f.channel, f.chat); err != nil {
		return out, false, err
	}
	switch f.direction {
	case "":
	case corebot.Inbound.String():
		out.Direction = corebot.Inbound
	case corebot.Outbound.String():
		out.Direction = corebot.Outbound
	default:
		return out, false, usage(cmd, fmt.Errorf("--direction %q: want inbound or outbound", f.direction))
	}
	if out.Before, err = moment(cmd, "before", f.before, "older-than", f.olderThan); err != nil {
		return out, false, err
	}
	if out.After, err = moment(cmd, "after", f.after, "newer-than", f.newerThan); err != nil {
		return out, false, err
	}
	empty = out == (corebot.DeadLetterFilter{})
	out.Limit = f.limit
	return out, empty, nil
}

// moment reads one of two flags that mean the same: a time, or how long ago.
func moment(cmd *cobra.Command, at, text, ago string, d time.Duration) (time.Time, error) {
	switch {
	case d < 0:
		return time.Time{}, usage(cmd, fmt.Errorf("--%s %v: want a time that has passed", ago, d))
	case d > 0 && text != "":
		return time.Time{}, usage(cmd, fmt.Errorf("--%s and --%s say the same: give one", at, ago))
	case d > 0:
		return time.Now().Add(-d), nil
	case text == "":
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04", time.DateTime} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage(cmd,
		fmt.Errorf("--%s %q: want a day such as 2006-01-02, or a moment such as 2006-01-02T15:04:05Z", at, text))
}

// needsFilter refuses a change of many dead letters that nothing says which.
func needsFilter(cmd *cobra.Command, empty, all bool) error {
	if empty && !all {
		return usage(cmd,
			errors.New("say which dead letters are meant with flags such as --reason or --chat, or --all"))
	}
	return nil
}

func newDLQGiveUp(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "give-up LANE",
		Short: "Have a chat go on without a message that cannot be read",
		Long: `Have a chat that is set aside go on without its next message, which cannot be read from the
database: the message becomes a dead letter without content, and the chat is told to send it again.
"corebot status" lists the lanes that are set aside. Prefer to repair the database: the chat then
goes on by itself, and nothing is lost.`,
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
