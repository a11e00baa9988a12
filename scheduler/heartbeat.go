package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// hours are due times within hours of the day: from the first one on, again and again after the same time.
type hours struct {
	every    time.Duration
	from, to time.Duration // of the wall clock; to is after from, and on the next day if the hours pass midnight
}

const day = 24 * time.Hour

// heartbeat reads "30m 08:00-22:00". Without hours it is the whole day.
func heartbeat(spec string) (*hours, error) {
	const hint = "write it as 30m, or with hours as 30m 08:00-22:00"
	each, within, _ := strings.Cut(spec, " ")
	every, err := interval(each)
	if err != nil {
		return nil, err
	}
	h := &hours{every: every, to: day}
	if within != "" {
		from, to, _ := strings.Cut(within, "-")
		if h.from, err = clock(from); err == nil {
			h.to, err = clock(to)
		}
		if err != nil {
			return nil, corebot.WithHint(fmt.Errorf("%w: %q are no hours of the day", ErrSchedule, within), hint)
		}
		if h.to <= h.from {
			h.to += day
		}
	}
	if every > day {
		return nil, corebot.WithHint(fmt.Errorf("%w: a heartbeat every %s", ErrSchedule, each), "write 24h at most")
	}
	return h, nil
}

// clock is a time of the day, up to 24:00.
func clock(text string) (time.Duration, error) {
	if text == "24:00" {
		return day, nil
	}
	at, err := time.Parse("15:04", text)
	return time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute, err
}

// next is the first due time after a moment. Each day's hours begin and end by the wall clock. Between them the time
// that has elapsed counts, so that a change of the clock neither repeats nor skips anything.
func (h *hours) next(after time.Time, location *time.Location) time.Time {
	year, month, date := after.In(location).Date()
	for d := date - 2; ; d++ {
		midnight := time.Date(year, month, d, 0, 0, 0, 0, time.UTC)
		begin, end := onWall(midnight.Add(h.from), location), onWall(midnight.Add(h.to), location)
		due := begin
		if !after.Before(begin) {
			due = begin.Add((after.Sub(begin)/h.every + 1) * h.every)
		}
		if due.Before(end) {
			return due
		}
	}
}
