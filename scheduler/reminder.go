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

const reminderForms = "write /remind 10m TEXT, /remind 18:30 TEXT, /remind tomorrow 9:00 TEXT, " +
	"/remind friday 9:00 TEXT or /remind 2026-12-24 18:00 TEXT"

// dayNamed gives the date of "tomorrow", or of the next day with the name of a weekday, which is never today.
func dayNamed(word string, now time.Time) (date string, named bool) {
	word = strings.ToLower(word)
	for ahead := 1; ahead <= 7; ahead++ {
		day := now.AddDate(0, 0, ahead)
		name := strings.ToLower(day.Weekday().String())
		if word == name || word == name[:3] || ahead == 1 && word == "tomorrow" {
			return day.Format(time.DateOnly), true
		}
	}
	return "", false
}

// Reminder reads "10m tea", "18:30 tea", "tomorrow 9:00 tea" and "2026-12-24T18:00 tea" as a task that is due once. A
// time of the day that is over is that of the next day. The zone is the planner's default.
func (p Planner) Reminder(text string, now time.Time) (corebot.Task, error) {
	when, what, _ := strings.Cut(strings.TrimSpace(text), " ")
	what = strings.TrimSpace(what)
	location, err := zone(p.Default)
	if err != nil {
		location = time.UTC
	}
	if date, named := dayNamed(when, now.In(location)); named {
		when = date
	}
	clock, rest, _ := strings.Cut(what, " ")
	if clockTime().MatchString(clock) && strings.Contains(when, "-") { // "2026-12-24 18:00 tea", "tomorrow 9:00 tea"
		hour, minute, _ := strings.Cut(clock, ":")
		when, what = fmt.Sprintf("%sT%02s:%s", when, hour, minute), strings.TrimSpace(rest)
	}
	if when == "" || what == "" {
		return corebot.Task{}, corebot.WithHint(fmt.Errorf("%w: a reminder wants a time and a text", ErrSchedule),
			reminderForms)
	}
	due, err := When(when, p.Default, now.In(location))
	if corebot.HintOf(err) == momentForms {
		err = corebot.WithHint(err, reminderForms)
	}
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
			return due, corebot.WithHint(fmt.Errorf("%w: %s from now", ErrSchedule, when),
				fmt.Sprintf("write 1s at least and %.0fh at most", LongestInterval.Hours()))
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
