package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
)

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
	flags.StringVar(&f.reason, "reason", "", "dead for this reason only: attempts, permanent, \"too long for the model\", poison, damaged or ambiguous")
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
	return time.Time{}, usage(cmd, fmt.Errorf("--%s %q: want a day such as 2006-01-02, or a moment such as 2006-01-02T15:04:05Z", at, text))
}

// needsFilter refuses a change of many dead letters that nothing says which.
func needsFilter(cmd *cobra.Command, empty, all bool) error {
	if empty && !all {
		return usage(cmd, errors.New("say which dead letters are meant with flags such as --reason or --chat, or --all"))
	}
	return nil
}
