package operate

import (
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// DeadWords say in words which dead letters are meant, as people write them. An empty word says nothing.
type DeadWords struct {
	Direction              string // inbound or outbound
	Agent, Channel, Sender string
	Reason                 string
	Text, Error            string        // what stands in the content, or in the last error
	Before, After          string        // when they were given up: a day or a moment
	OlderThan, NewerThan   time.Duration // likewise: for how long they have been dead
}

// Filter is the filter that the words mean at a moment. Its errors name the flags of `corebot dlq`.
func (w DeadWords) Filter(now time.Time) (f corebot.DeadLetterFilter, err error) {
	f = corebot.DeadLetterFilter{
		Agent: w.Agent, Channel: w.Channel, Sender: w.Sender, Reason: w.Reason, Text: w.Text, Error: w.Error,
	}
	switch w.Direction {
	case "":
	case corebot.Inbound.String():
		f.Direction = corebot.Inbound
	case corebot.Outbound.String():
		f.Direction = corebot.Outbound
	default:
		return f, fmt.Errorf("%w: --direction %q: want inbound or outbound", corebot.ErrInvalid, clip(w.Direction))
	}
	if f.Before, err = Moment("before", w.Before, "older-than", w.OlderThan, now); err != nil {
		return f, err
	}
	if f.After, err = Moment("after", w.After, "newer-than", w.NewerThan, now); err != nil {
		return f, err
	}
	if !f.Before.IsZero() && !f.After.IsZero() && !f.After.Before(f.Before) {
		return f, fmt.Errorf("%w: nothing was given up after %s and before %s", corebot.ErrInvalid,
			f.After.Format(time.RFC3339), f.Before.Format(time.RFC3339))
	}
	return f, f.Validate()
}

// Moment reads two words that mean the same: a time, or how long ago.
func Moment(at, text, ago string, d time.Duration, now time.Time) (time.Time, error) {
	switch {
	case d < 0:
		return time.Time{}, fmt.Errorf("%w: --%s %v: want a time that has passed", corebot.ErrInvalid, ago, d)
	case d > 0 && text != "":
		return time.Time{}, fmt.Errorf("%w: --%s and --%s say the same: give one", corebot.ErrInvalid, at, ago)
	case d > 0:
		return whole(now.Add(-d)), nil
	case text == "":
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04", time.DateTime} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil && t.Year() >= 1970 {
			return whole(t), nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: --%s %q: want a day such as 2006-01-02, or a moment such as "+
		"2006-01-02T15:04:05Z", corebot.ErrInvalid, at, clip(text))
}

// whole is a moment in whole milliseconds, as moments are stored. A fraction would be lost on the way to a store.
func whole(t time.Time) time.Time { return t.Round(0).Truncate(time.Millisecond) }
