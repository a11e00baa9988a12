package scheduler

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	_ "time/tzdata" // a machine of its own, such as a container, can be without the zones

	"github.com/robfig/cron/v3"

	"github.com/corebot/corebot"
)

// Rule gives the due times of a schedule. The zero Rule has none.
//
// Times of a wall clock (once, daily, cron) follow the wall clock of the schedule's zone. Where that clock is set
// forward, a time in the skipped hour is due at the moment of the change. Where it is set back, a time in the repeated
// hour is due the first time only. So each time of the wall clock is due once. An interval counts elapsed time and
// knows no wall clock.
type Rule struct {
	once     time.Time
	every    time.Duration
	anchor   time.Time // of an interval: the due times are whole intervals later
	wall     cron.Schedule
	hours    *hours // of a heartbeat
	location *time.Location
}

// Limits of a schedule.
const (
	ShortestInterval = time.Minute
	LongestInterval  = 10 * 366 * 24 * time.Hour
)

// Errors of a schedule that cannot be used.
var (
	ErrSchedule = fmt.Errorf("%w schedule", corebot.ErrInvalid)
	ErrPast     = fmt.Errorf("%w: the time is over", ErrSchedule)
	ErrNever    = fmt.Errorf("%w: the time never comes", ErrSchedule)
)

// fiveFields reads minute, hour, day of month, month and day of week, and names such as @daily.
var fiveFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Parse reads a schedule. now is when its intervals begin. The error is [ErrSchedule] and says what to write instead. A
// schedule without any due time after now is [ErrPast] or [ErrNever].
func Parse(s corebot.Schedule, now time.Time) (Rule, error) {
	location, err := zone(s.TimeZone)
	if err != nil {
		return Rule{}, err
	}
	spec := strings.TrimSpace(s.Spec)
	r := Rule{location: location}
	switch s.Kind {
	case corebot.TaskOnce:
		r.once, err = moment(spec, location)
	case corebot.TaskInterval:
		r.every, err = interval(spec)
		r.anchor = now.Truncate(time.Second)
	case corebot.TaskDaily:
		r.wall, err = daily(spec)
	case corebot.TaskCron:
		r.wall, err = expression(spec)
	case corebot.TaskHeartbeat:
		r.hours, err = heartbeat(spec)
	default:
		err = corebot.WithHint(fmt.Errorf("%w: kind %q", ErrSchedule, s.Kind), "write once, interval, daily or cron")
	}
	if err != nil {
		return Rule{}, err
	}
	if _, ok := r.Next(now); !ok {
		if s.Kind == corebot.TaskOnce {
			return Rule{}, corebot.WithHint(fmt.Errorf("%w: %s was before %s", ErrPast, spec,
				now.In(location).Format(time.RFC3339)), "give a time to come")
		}
		return Rule{}, corebot.WithHint(fmt.Errorf("%w: %q", ErrNever, spec),
			"no month has such a day; look at the third and the fourth field")
	}
	return r, nil
}

// Resume reads the schedule of a stored task. Unlike [Parse] it takes a schedule whose times are over. Intervals are
// counted from anchor.
func Resume(s corebot.Schedule, anchor time.Time) (Rule, error) {
	r, err := Parse(s, anchor)
	if errors.Is(err, ErrPast) || errors.Is(err, ErrNever) {
		return Rule{}, nil
	}
	return r, err
}

// zone loads a time zone by its IANA name. "Local" would differ between machines, and so would what else is among the
// zones of some machines: localtime, posixrules, and copies such as right/UTC. No name of the list begins as these do.
func zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" || name[0] < 'A' || name[0] > 'Z' {
		return nil, corebot.WithHint(fmt.Errorf("%w: there is no time zone %q", ErrSchedule, name),
			"use a name of the IANA list, such as Europe/Berlin or UTC")
	}
	return location, nil
}

// layouts of a moment without a zone.
var layouts = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"}

const momentForms = "write it as 2026-12-24T18:00, or with a zone as 2026-12-24T18:00:00+01:00"

func moment(spec string, location *time.Location) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, spec)
	for i := 0; err != nil && i < len(layouts); i++ {
		if t, err = time.Parse(layouts[i], spec); err == nil {
			t = onWall(t, location)
		}
	}
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}, corebot.WithHint(fmt.Errorf("%w: %q is no time", ErrSchedule, spec),
			momentForms)
	}
	return t, nil
}

func interval(spec string) (time.Duration, error) {
	every, err := time.ParseDuration(spec)
	switch {
	case err != nil:
		return 0, corebot.WithHint(fmt.Errorf("%w: %q is no duration", ErrSchedule, spec),
			"write it as 90m or 1h30m; a day is 24h")
	case every < ShortestInterval || every > LongestInterval:
		return 0, corebot.WithHint(fmt.Errorf("%w: an interval of %s", ErrSchedule, spec),
			fmt.Sprintf("write 1m at least and %.0fh at most", LongestInterval.Hours()))
	}
	return every, nil
}

func daily(spec string) (cron.Schedule, error) {
	at, err := time.Parse("15:04", spec)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("%w: %q is no time of the day", ErrSchedule, spec),
			"write hours and minutes, such as 08:30")
	}
	return fiveFields.Parse(fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()))
}

// expression reads a cron expression. The library takes a zone at its front, and panics if nothing follows: the zone of
// a task has a place of its own. The library also takes "@every", which is an interval.
func expression(spec string) (cron.Schedule, error) {
	const hint = `write five fields: minute, hour, day of month, month, day of week, such as "30 8 * * 1-5"`
	if strings.Contains(spec, "TZ=") {
		return nil, corebot.WithHint(fmt.Errorf("%w: %q has a time zone in it", ErrSchedule, spec),
			"give the time zone by itself: --tz, or timeZone")
	}
	if strings.HasPrefix(strings.ToLower(spec), "@every") {
		return nil, corebot.WithHint(fmt.Errorf("%w: %q is an interval", ErrSchedule, spec),
			"use the kind interval, or --every")
	}
	schedule, err := fiveFields.Parse(spec)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("%w: %q: %w", ErrSchedule, spec, err), hint)
	}
	return schedule, nil
}

// Next is the first due time after a moment; zero if there is none.
func (r Rule) Next(after time.Time) (due time.Time, ok bool) {
	switch {
	case r.once.After(after):
		return r.once, true
	case r.every > 0:
		return r.nextInterval(after), true
	case r.wall != nil:
		return r.nextOnWall(after)
	case r.hours != nil:
		return r.hours.next(after, r.location), true
	}
	return due, false
}

// nextInterval counts whole intervals from the anchor in both directions. A clock that was ahead when the task was made
// leaves an anchor to come.
//
// A duration is 292 years at most. A clock further off than that, in the past or at this moment, moves the anchor.
func (r Rule) nextInterval(after time.Time) time.Time {
	const far = 100 * 366 * 24 * time.Hour
	anchor, step := r.anchor, far/r.every*r.every
	for after.Sub(anchor) > far {
		anchor = anchor.Add(step)
	}
	for after.Sub(anchor) < -far {
		anchor = anchor.Add(-step)
	}
	passed := after.Sub(anchor)
	whole := passed / r.every
	if passed%r.every < 0 {
		whole--
	}
	return anchor.Add((whole + 1) * r.every)
}

// longestSkip is more than a zone has ever skipped at once: Samoa lost a whole day when it crossed the date line.
const longestSkip = 26 * time.Hour

// yearsAhead is how far the library looks for a time, less one. The 29th of February can be eight years away.
const yearsAhead = 4

// nextOnWall looks for the next time on the wall clock and converts it. It looks in UTC, where no time is skipped or
// repeated. After a change of the wall clock it begins earlier: a time in a skipped hour is due later than it says.
func (r Rule) nextOnWall(after time.Time) (time.Time, bool) {
	now, before := offset(after, r.location), offset(after.Add(-longestSkip), r.location)
	reading := after.UTC().Add(now)
	if now != before {
		reading = reading.Add(-longestSkip)
	}
	for range 3 {
		for {
			next := r.wall.Next(reading)
			if next.IsZero() {
				break
			}
			if due := onWall(next, r.location); due.After(after) {
				return due, true
			}
			reading = next
		}
		reading = reading.AddDate(yearsAhead, 0, 0)
	}
	return time.Time{}, false
}

// onWall is the moment at which the wall clock of a location first shows what reading shows in UTC. A reading that is
// skipped is the moment of the change. It does without [time.Time.ZoneBounds], which names a wrong end on the last day
// of a leap year.
func onWall(reading time.Time, location *time.Location) time.Time {
	early, late := reading.Add(-longestSkip), reading.Add(longestSkip)
	first, second := offset(early, location), offset(late, location)
	// the larger offset is the earlier moment
	for _, o := range []time.Duration{max(first, second), min(first, second)} {
		if moment := reading.Add(-o); offset(moment, location) == o {
			return moment
		}
	}
	for late.Sub(early) > time.Second { // the clock shows less at early, and more at late
		middle := early.Add(late.Sub(early) / 2).Truncate(time.Second)
		if middle.Add(offset(middle, location)).Before(reading) {
			early = middle
		} else {
			late = middle
		}
	}
	return late
}

// offset is what the wall clock of a location is ahead of UTC.
func offset(at time.Time, location *time.Location) time.Duration {
	_, seconds := at.In(location).Zone()
	return time.Duration(seconds) * time.Second
}

// LastDue is the newest due time that is not after now, from a due time on that is not after now either. It is quick
// for any distance: an interval is divided, and a wall clock is looked at in growing spans before now.
func (r Rule) LastDue(from, now time.Time) time.Time {
	if r.every > 0 {
		if last := r.nextInterval(now).Add(-r.every); last.After(from) {
			return last
		}
		return from
	}
	for span := time.Hour; ; span *= 24 {
		start := now.Add(-span)
		if start.Before(from) || span > 366*24*time.Hour {
			return r.lastFrom(from, now)
		}
		if due, ok := r.Next(start); ok && !due.After(now) {
			return r.lastFrom(due, now)
		}
	}
}

// lastFrom walks from a due time to the last one that is not after now.
func (r Rule) lastFrom(due, now time.Time) time.Time {
	for {
		next, ok := r.Next(due)
		if !ok || next.After(now) {
			return due
		}
		due = next
	}
}

// LocalZone is the IANA name of this machine's time zone: from TZ, or from where /etc/localtime leads. It is empty
// where neither has a name.
func LocalZone() string {
	name, set := os.LookupEnv("TZ")
	if !set {
		if target, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
			_, name, _ = strings.Cut(filepath.ToSlash(target), "/zoneinfo/")
		}
	}
	if _, err := zone(name); err != nil {
		return ""
	}
	return name
}
