package scheduler

import (
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/lazy"
)

// ReminderPrompt begins the prompt of a reminder. The rest is what the person has written.
const ReminderPrompt = "Reminder: "

// clockTime is a time of the day, as people write it.
var clockTime = lazy.Regexp(`^([01]?[0-9]|2[0-3]):[0-5][0-9]$`)

// Reminder reads "10m tea", "18:30 tea" and "2026-12-24T18:00 tea" as a task that is due once. A time of the day that
// is over is that of the next day. The zone is the planner's default.
func (p Planner) Reminder(text string, now time.Time) (corebot.Task, error) {
	when, what, _ := strings.Cut(strings.TrimSpace(text), " ")
	what = strings.TrimSpace(what)
	if day, rest, cut := strings.Cut(what, " "); cut && clockTime().MatchString(day) && strings.Contains(when, "-") {
		when, what = when+"T"+day, strings.TrimSpace(rest) // "2026-12-24 18:00 tea"
	}
	if when == "" || what == "" {
		return corebot.Task{}, corebot.WithHint(fmt.Errorf("%w: a reminder wants a time and a text", ErrSchedule),
			"write /remind 10m TEXT, /remind 18:30 TEXT or /remind 2026-12-24T18:00 TEXT")
	}
	location, err := zone(p.Default)
	if err != nil {
		location = time.UTC
	}
	due, err := When(when, p.Default, now.In(location))
	if err != nil {
		return corebot.Task{}, err
	}
	t := corebot.Task{
		Schedule: corebot.Schedule{
			Kind: corebot.TaskOnce, Spec: due.In(location).Format(time.RFC3339),
			TimeZone: p.Default,
		},
		Prompt: ReminderPrompt + what, Context: corebot.TaskInChat, Chain: 1, Anchor: now, NextRun: due,
	}
	return t, nil
}

// When reads a moment to come: a time from now such as 10m, a time of the day such as 18:30, or a date with a time. A
// time of the day that is over is that of the next day. An empty zone is UTC.
func When(when, zone string, now time.Time) (due time.Time, err error) {
	if in, err := time.ParseDuration(when); err == nil {
		if in < time.Second || in > LongestInterval {
			return due, corebot.WithHint(fmt.Errorf("%w: %s from now", ErrSchedule, when), "write 1s at least")
		}
		return now.Add(in).Truncate(time.Second), nil
	}
	s := corebot.Schedule{Kind: corebot.TaskOnce, Spec: when, TimeZone: zone}
	if clockTime().MatchString(when) {
		hour, minute, _ := strings.Cut(when, ":")
		s = corebot.Schedule{Kind: corebot.TaskDaily, Spec: fmt.Sprintf("%02s:%s", hour, minute), TimeZone: zone}
	}
	rule, err := Parse(s, now)
	if err != nil {
		return due, err
	}
	due, _ = rule.Next(now)
	return due, nil
}
