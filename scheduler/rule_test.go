package scheduler

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func at(t *testing.T, s string) time.Time {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return moment
}

func parse(t *testing.T, kind corebot.TaskKind, spec, zone string, now time.Time) Rule {
	t.Helper()
	r, err := Parse(corebot.Schedule{Kind: kind, Spec: spec, TimeZone: zone}, now)
	if err != nil {
		t.Fatalf("%s %q in %q: %v", kind, spec, zone, err)
	}
	return r
}

// The zones change the wall clock by half an hour, one hour, two hours and a whole day, also at midnight, and on both
// sides of the equator. Each time of the wall clock is due once.
func TestEachTimeOfTheWallClockIsDueOnce(t *testing.T) {
	for _, c := range []struct {
		name, zone, spec, from string
		want                   []string // the next due times, as UTC
	}{
		{
			"Berlin skips 02:00 to 03:00", "Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		},
		{
			"Berlin repeats 02:00 to 03:00", "Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		},
		{
			"every quarter of the skipped hour is due once, together", "Europe/Berlin", "*/15 2 * * *",
			"2026-03-28T01:40:00Z",
			[]string{"2026-03-28T01:45:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"},
		},
		{
			"an hourly time is not due again in the repeated hour", "Europe/Berlin", "0 * * * *",
			"2026-10-24T23:30:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"},
		},
		{
			"New York skips 02:00 to 03:00", "America/New_York", "0 2 * * *", "2026-03-08T00:00:00Z",
			[]string{"2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"},
		},
		{
			"New York repeats 01:00 to 02:00", "America/New_York", "59 1 * * *", "2026-11-01T00:00:00Z",
			[]string{"2026-11-01T05:59:00Z", "2026-11-02T06:59:00Z"},
		},
		{
			"Sydney skips 02:00 to 03:00 in October", "Australia/Sydney", "15 2 * * *", "2026-10-03T00:00:00Z",
			[]string{"2026-10-03T16:00:00Z", "2026-10-04T15:15:00Z"},
		},
		{
			"Sydney repeats 02:00 to 03:00 in April", "Australia/Sydney", "15 2 * * *", "2026-04-04T00:00:00Z",
			[]string{"2026-04-04T15:15:00Z", "2026-04-05T16:15:00Z"},
		},
		{
			"Lord Howe skips half an hour", "Australia/Lord_Howe", "10 2 * * *", "2026-10-03T00:00:00Z",
			[]string{"2026-10-03T15:30:00Z", "2026-10-04T15:10:00Z"},
		},
		{
			"Lord Howe repeats half an hour", "Australia/Lord_Howe", "40 1 * * *", "2026-04-04T00:00:00Z",
			[]string{"2026-04-04T14:40:00Z", "2026-04-05T15:10:00Z"},
		},
		{
			"Troll skips two hours", "Antarctica/Troll", "0 2 * * *", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"},
		},
		{
			"Troll repeats two hours", "Antarctica/Troll", "30 1 * * *", "2026-10-24T12:00:00Z",
			[]string{"2026-10-24T23:30:00Z", "2026-10-26T01:30:00Z"},
		},
		{
			"Beirut has no midnight", "Asia/Beirut", "0 0 * * *", "2026-03-28T12:00:00Z",
			[]string{"2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"},
		},
		{
			"Samoa skipped a whole day", "Pacific/Apia", "0 12 * * *", "2011-12-28T23:00:00Z",
			[]string{"2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"},
		},
		{
			"the 29th of February", "UTC", "0 0 29 2 *", "2026-01-01T00:00:00Z",
			[]string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"},
		},
		{
			"no 29th of February in 2100", "UTC", "0 0 29 2 *", "2097-01-01T00:00:00Z",
			[]string{"2104-02-29T00:00:00Z"},
		},
		{
			"the last day of a leap year", "America/Denver", "0 12 * * *", "2028-12-31T12:00:00Z",
			[]string{"2028-12-31T19:00:00Z", "2029-01-01T19:00:00Z"},
		},
		{
			"a day of month and a day of week: either", "UTC", "0 9 13 * 5", "2026-11-10T00:00:00Z",
			[]string{"2026-11-13T09:00:00Z", "2026-11-20T09:00:00Z"},
		},
		{
			"a name for an expression", "UTC", "@weekly", "2026-11-22T12:00:00Z",
			[]string{"2026-11-29T00:00:00Z"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := at(t, c.from)
			r := parse(t, corebot.TaskCron, c.spec, c.zone, now)
			for _, want := range c.want {
				due, ok := r.Next(now)
				if !ok || !due.Equal(at(t, want)) {
					t.Fatalf("after %s it is due at %s, want %s", now.Format(time.RFC3339),
						due.UTC().Format(time.RFC3339), want)
				}
				now = due
			}
		})
	}
}

func TestTheOtherKindsOfSchedules(t *testing.T) {
	now := at(t, "2026-11-22T12:00:30Z")
	for _, c := range []struct {
		kind       corebot.TaskKind
		spec, zone string
		want       string
	}{
		{corebot.TaskOnce, "2026-12-24T18:00", "Europe/Berlin", "2026-12-24T17:00:00Z"},
		{corebot.TaskOnce, "2026-12-24 18:00:05", "", "2026-12-24T18:00:05Z"},
		{corebot.TaskOnce, "2026-12-24T18:00:00-05:00", "Europe/Berlin", "2026-12-24T23:00:00Z"},
		{corebot.TaskOnce, "2027-03-28T02:30", "Europe/Berlin", "2027-03-28T01:00:00Z"},
		{corebot.TaskOnce, "2027-10-31T02:30", "Europe/Berlin", "2027-10-31T00:30:00Z"},
		{corebot.TaskInterval, "90m", "Europe/Berlin", "2026-11-22T13:30:30Z"},
		{corebot.TaskDaily, "08:30", "Asia/Tokyo", "2026-11-22T23:30:00Z"},
		{corebot.TaskDaily, "12:00", "", "2026-11-23T12:00:00Z"},
	} {
		due, ok := parse(t, c.kind, c.spec, c.zone, now).Next(now)
		if !ok || !due.Equal(at(t, c.want)) {
			t.Errorf("%s %q in %q: %s, want %s", c.kind, c.spec, c.zone, due.UTC().Format(time.RFC3339), c.want)
		}
	}
	once := parse(t, corebot.TaskOnce, "2026-12-24T18:00", "", now)
	if due, ok := once.Next(at(t, "2026-12-24T18:00:00Z")); ok {
		t.Errorf("a single time is due again at %s", due)
	}
}

func TestAScheduleThatCannotBeUsedSaysWhatToWrite(t *testing.T) {
	now := at(t, "2026-11-22T12:00:00Z")
	for _, c := range []struct {
		kind       corebot.TaskKind
		spec, zone string
		err        error
		hint       string
	}{
		{"weekly", "1", "", ErrSchedule, "once, interval, daily or cron"},
		{"", "", "", ErrSchedule, "once, interval, daily or cron"},
		{corebot.TaskOnce, "tomorrow", "", ErrSchedule, "2026-12-24T18:00"},
		{corebot.TaskOnce, "0001-01-01T00:00", "", ErrSchedule, "2026-12-24T18:00"},
		{corebot.TaskOnce, "2026-02-30T10:00", "", ErrSchedule, "2026-12-24T18:00"},
		{corebot.TaskOnce, "2026-11-22T12:00", "", ErrPast, "a time to come"},
		{corebot.TaskInterval, "soon", "", ErrSchedule, "90m"},
		{corebot.TaskInterval, "1d", "", ErrSchedule, "a day is 24h"},
		{corebot.TaskInterval, "59s", "", ErrSchedule, "1m at least and 87840h at most"},
		{corebot.TaskInterval, "-1h", "", ErrSchedule, "1m at least and 87840h at most"},
		{corebot.TaskInterval, "200000h", "", ErrSchedule, "at most"},
		{corebot.TaskDaily, "24:00", "", ErrSchedule, "08:30"},
		{corebot.TaskDaily, "9", "", ErrSchedule, "08:30"},
		{corebot.TaskCron, "", "", ErrSchedule, "five fields"},
		{corebot.TaskCron, "TZ=UTC", "", ErrSchedule, "--tz"},
		{corebot.TaskCron, "CRON_TZ=UTC 0 0 * * *", "", ErrSchedule, "--tz"},
		{corebot.TaskCron, "0 0 * * * *", "", ErrSchedule, "five fields"},
		{corebot.TaskCron, "0 0 30 2 *", "", ErrNever, "no month has such a day"},
		{corebot.TaskCron, "0 0 31 4,6,9,11 *", "", ErrNever, "no month has such a day"},
		{corebot.TaskCron, "61 * * * *", "", ErrSchedule, "five fields"},
		{corebot.TaskCron, "@every 1s", "", ErrSchedule, "--every"},
		{corebot.TaskCron, "@reboot", "", ErrSchedule, "five fields"},
		{corebot.TaskCron, "0 9 * * *", "Berlin", ErrSchedule, "Europe/Berlin"},
		{corebot.TaskCron, "0 9 * * *", "Local", ErrSchedule, "Europe/Berlin"},
		{corebot.TaskCron, "0 9 * * *", "localtime", ErrSchedule, "Europe/Berlin"}, // where the machine has one
		{corebot.TaskCron, "0 9 * * *", "right/UTC", ErrSchedule, "Europe/Berlin"},
		{corebot.TaskCron, "0 9 * * *", "../../etc/passwd", ErrSchedule, "Europe/Berlin"},
	} {
		_, err := Parse(corebot.Schedule{Kind: c.kind, Spec: c.spec, TimeZone: c.zone}, now)
		if !errors.Is(err, c.err) || !errors.Is(err, corebot.ErrInvalid) ||
			!strings.Contains(corebot.HintOf(err), c.hint) {
			t.Errorf("%s %q in %q: %v (hint: %s)", c.kind, c.spec, c.zone, err, corebot.HintOf(err))
		}
	}
}

func TestOnlyTheNewestDueTimeOfAPauseCounts(t *testing.T) {
	now := at(t, "2026-11-22T12:34:56Z")
	for _, c := range []struct {
		kind corebot.TaskKind
		spec string
		from string
		want string
	}{
		{corebot.TaskDaily, "09:00", "2026-11-15T09:00:00Z", "2026-11-22T09:00:00Z"},
		{corebot.TaskCron, "* * * * *", "2016-01-01T00:00:00Z", "2026-11-22T12:34:00Z"},
		{corebot.TaskCron, "0 0 1 1 *", "2016-01-01T00:00:00Z", "2026-01-01T00:00:00Z"},
		{corebot.TaskCron, "0 0 29 2 *", "2012-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
		{corebot.TaskInterval, "1m", "2016-01-01T00:00:30Z", "2026-11-22T12:34:30Z"},
		{corebot.TaskDaily, "12:34", "2026-11-22T12:34:00Z", "2026-11-22T12:34:00Z"},
		{corebot.TaskOnce, "2026-11-20T10:00", "2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z"},
	} {
		from := at(t, c.from)
		r := parse(t, c.kind, c.spec, "", from.Add(-time.Nanosecond).Truncate(time.Second))
		if c.kind == corebot.TaskInterval {
			r.anchor = from
		}
		if due := r.LastDue(from, now); !due.Equal(at(t, c.want)) {
			t.Errorf("%s %q: %s, want %s", c.kind, c.spec, due.UTC().Format(time.RFC3339), c.want)
		}
	}
}

// FuzzParse holds every schedule to three rules: nothing panics, a due time comes after its moment, and a schedule that
// is taken has a due time.
func FuzzParse(f *testing.F) {
	for _, seed := range [][3]string{
		{"cron", "30 2 * * *", "Europe/Berlin"},
		{"cron", "TZ=UTC", ""},
		{"cron", "0 0 30 2 *", "UTC"},
		{"daily", "02:30", "Australia/Lord_Howe"},
		{"interval", "1h30m", ""},
		{"once", "2026-12-24T18:00", "Asia/Tokyo"},
		{"cron", "@yearly", "Pacific/Apia"},
		{"cron", "*/7 1-5/2 ? JAN-MAR sun", "America/New_York"},
	} {
		f.Add(seed[0], seed[1], seed[2], int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, kind, spec, zone string, unix int64) {
		now := time.Unix(unix%(1<<33), 0)
		r, err := Parse(corebot.Schedule{Kind: corebot.TaskKind(kind), Spec: spec, TimeZone: zone}, now)
		if err != nil {
			if !errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "" {
				t.Fatalf("%v has no hint", err)
			}
			return
		}
		due, ok := r.Next(now)
		if !ok || !due.After(now) {
			t.Fatalf("%s %q in %q: after %s comes %s, %v", kind, spec, zone, now, due, ok)
		}
		if next, ok := r.Next(due); ok && !next.After(due) {
			t.Fatalf("%s %q in %q: after %s comes %s", kind, spec, zone, due, next)
		}
	})
}

func TestALineOfATaskShowsWhatItHides(t *testing.T) {
	task := corebot.Task{
		ID: 1, Name: "a\u202eb", Prompt: "c\u2066d\x1be\n2: f", State: corebot.TaskPaused,
		Schedule: corebot.Schedule{Kind: corebot.TaskCron, Spec: "0 9\n* * *"},
	}
	got := Line(task, true)
	if want := `1: a\u202eb, cron 0 9 * * *, paused: by a person: c\u2066d\u001be 2: f`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzWhen: a moment is one to come, or the error says what to write.
func FuzzWhen(f *testing.F) {
	for _, when := range []string{
		"10m", "18:30", "8:05", "2026-12-24T18:00", "2026-12-24T18:00:00+01:00", "-5m", "24:00",
	} {
		f.Add(when, "Europe/Berlin", int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, when, zone string, unix int64) {
		now := time.Unix(unix%(1<<33), 0)
		due, err := When(when, zone, now)
		if err != nil && (!errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "") {
			t.Fatalf("%v has no hint", err)
		}
		if err == nil && !due.After(now) {
			t.Fatalf("%q in %q: after %s comes %s", when, zone, now, due)
		}
	})
}

func TestAReminderCanNameTomorrowOrAWeekday(t *testing.T) {
	now := time.Date(2026, 3, 27, 23, 30, 0, 0, time.UTC) // a Saturday in Berlin, where the clock changes on Sunday
	for text, want := range map[string]string{
		"tomorrow 9:00 tea":    "2026-03-29T09:00:00+02:00",
		"Tomorrow 02:30 tea":   "2026-03-29T03:00:00+02:00", // there is no half past two
		"sat 18:00 tea":        "2026-04-04T18:00:00+02:00",
		"friday 9:00 tea":      "2026-04-03T09:00:00+02:00",
		"2026-04-01 9:00 tea":  "2026-04-01T09:00:00+02:00",
		"2026-04-01 09:00 tea": "2026-04-01T09:00:00+02:00",
	} {
		task, err := Planner{Default: "Europe/Berlin"}.Reminder(text, now)
		if err != nil || task.Schedule.Spec != want || task.Prompt != ReminderPrompt+"tea" {
			t.Errorf("%q is due %s (%q), want %s: %v", text, task.Schedule.Spec, task.Prompt, want, err)
		}
	}
	for _, text := range []string{"tomorrow tea", "9am tea", "tomorrow", "tomorrow 9:00", "25:00 tea"} {
		if _, err := (Planner{}).Reminder(text, now); corebot.HintOf(err) != reminderForms {
			t.Errorf("%q: %v has the hint %q", text, err, corebot.HintOf(err))
		}
	}
}

func FuzzAReminderIsDueLaterOrRefused(f *testing.F) {
	for _, text := range []string{
		"10m tea", "18:30 call Ann", "2026-12-24 18:00 party", "1m", " tea", "99999h x", "fri 9:00 x",
	} {
		f.Add(text, "Europe/Berlin", int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, text, zone string, unix int64) {
		now := time.Unix(unix%(1<<33), 0)
		task, err := Planner{Default: zone}.Reminder(text, now)
		if err != nil {
			if !errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "" {
				t.Fatalf("%v has no hint", err)
			}
			return
		}
		said, ok := strings.CutPrefix(task.Prompt, ReminderPrompt)
		if !ok || said == "" || !strings.Contains(text, said) || !task.NextRun.After(now) {
			t.Fatalf("%q is %+v", text, task)
		}
	})
}

// A clock can be off by more than the 292 years of a duration, such as that of a machine whose battery is empty.
func TestAnIntervalIsDueNextHoweverFarTheClockIsFromItsAnchor(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, every := range []time.Duration{time.Minute, 90 * time.Minute, LongestInterval} {
		r, err := Resume(corebot.Schedule{Kind: corebot.TaskInterval, Spec: every.String()}, made)
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range []int{1970, 1, 1733, 2038, 2262, 2317, 2319, 2400, 9999} {
			now := time.Date(year, 6, 1, 0, 0, 30, 0, time.UTC)
			due, ok := r.Next(now)
			if !ok || !due.After(now) || due.Sub(now) > every {
				t.Errorf("every %v, in the year %d: due at %v", every, year, due)
			}
			if last := r.LastDue(made, now); year > 2026 && (last.After(now) || now.Sub(last) > every) {
				t.Errorf("every %v, in the year %d: last due at %v", every, year, last)
			}
		}
	}
}
