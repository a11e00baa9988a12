package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

func newDLQ(s *shell) *cobra.Command {
	return group("dlq", "List, count, show, replay, edit, drop, purge and make dead letters",
		newDLQList(s), newDLQStats(s), newDLQShow(s), newDLQReplay(s), newDLQReplays(s), newDLQEdit(s), newDLQDrop(s),
		newDLQPurge(s), newDLQGiveUp(s))
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

func newDLQStats(s *shell) *cobra.Command {
	var asJSON bool
	var f deadFilter
	by := string(corebot.DeadByReason)
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count dead letters by reason, cause, chat, agent or channel",
		Long: `Count the dead letters that the flags mean, in groups, the largest group first. A cause is what the
chat was told, or else the last error.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, _, err := f.parse(s, cmd)
			if err != nil {
				return err
			}
			all, err := look(s, cmd, operate.CountDeadLetters,
				operate.DeadCountQuery{Filter: filter, By: corebot.DeadBy(by)})
			switch {
			case errors.Is(err, corebot.ErrInvalid):
				return usage(cmd, err)
			case err != nil:
				return err
			case asJSON:
				return printJSON(cmd, all)
			}
			return tellDeadCounts(cmd, all)
		},
	}
	jsonFlag(cmd, &asJSON)
	f.flags(cmd)
	cmd.Flags().StringVar(&by, "by", by, "reason, cause, chat, agent or channel")
	return cmd
}

func tellDeadCounts(cmd *cobra.Command, all corebot.DeadCounts) error {
	list := listing[corebot.DeadCount]{
		header: "COUNT\tDIRECTION\tOF\tOLDEST\tNEWEST\tNEWEST ID\tLAST ERROR", none: "no dead letters",
		cells: func(c corebot.DeadCount) string {
			of := []string{c.Reason, c.Cause, c.Chat, c.Agent, c.Channel}
			of = slices.DeleteFunc(of, func(part string) bool { return part == "" })
			return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%d\t%s", c.Count, c.Direction,
				oneLine(strings.Join(of, ": "), 80), c.Oldest.Local().Format(time.DateTime),
				c.Newest.Local().Format(time.DateTime), c.LastID, oneLine(c.LastError, 100))
		},
		foot: func() string {
			text := "all: " + count(all.Total, "dead letter")
			if all.Others > 0 {
				text += fmt.Sprintf(", %d of them in groups that are not shown", all.Others)
			}
			return text
		},
	}
	_, err := list.print(cmd, false, 0, func(operate.Part) (operate.Page[corebot.DeadCount], error) {
		return operate.Page[corebot.DeadCount]{Rows: all.Groups}, nil
	})
	return err
}

// deadFilter are the flags that say which dead letters are meant.
type deadFilter struct {
	operate.DeadWords
	chat  string
	limit int
}

func (f *deadFilter) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Direction, "direction", "", "inbound or outbound (default: both)")
	flags.StringVar(&f.Agent, "agent", "", "of this agent only")
	flags.StringVar(&f.Channel, "channel", "", "of this channel only")
	flags.StringVar(&f.chat, "chat", "", chatFlagHelp)
	flags.StringVar(&f.Sender, "sender", "", "of this sender only")
	flags.StringVar(&f.Reason, "reason", "",
		"dead for this reason only: attempts, permanent, \"too long for the model\", poison, damaged, \"cannot be "+
			"stored\" or ambiguous")
	flags.StringVar(&f.Text, "text", "", "with this text in what was said, in any case of its letters")
	flags.StringVar(&f.Error, "error", "", "with this text in the last error, in any case of its letters")
	flags.StringVar(&f.Before, "before", "", "dead before this moment: 2006-01-02, or 2006-01-02T15:04:05Z")
	flags.StringVar(&f.After, "after", "", "dead at this moment or later")
	flags.DurationVar(&f.OlderThan, "older-than", 0, "dead for longer than this, such as 24h")
	flags.DurationVar(&f.NewerThan, "newer-than", 0, "dead for less than this")
}

// parse reads the flags. empty says that none of them narrows the choice.
func (f *deadFilter) parse(s *shell, cmd *cobra.Command) (out corebot.DeadLetterFilter, empty bool, err error) {
	if out, err = f.Filter(time.Now()); err != nil {
		return out, false, usage(cmd, err)
	}
	if out.Key, out.Chat, err = s.chatFilter(cmd, f.Channel, f.chat); err != nil {
		return out, false, err
	}
	empty = out == (corebot.DeadLetterFilter{})
	out.Limit = f.limit
	return out, empty, nil
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
