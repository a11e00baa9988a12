package scheduler

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage"
)

func TestAHeartbeatIsDueInItsActiveHours(t *testing.T) {
	for name, c := range map[string]struct {
		spec, zone, after string
		want              []string // in UTC
	}{
		"in the day": {"6h 08:00-22:00", "", "2026-01-01T00:00:00Z", []string{
			"01T08:00", "01T14:00",
			"01T20:00", "02T08:00",
		}},
		"its end is over": {"7h 08:00-22:00", "", "2026-01-01T15:00:00Z", []string{
			"02T08:00", "02T15:00",
			"03T08:00",
		}},
		"past midnight": {"3h 22:00-04:00", "", "2026-01-01T23:30:00Z", []string{
			"02T01:00", "02T22:00",
			"03T01:00",
		}},
		"in the hours of yesterday": {"3h 22:00-04:00", "", "2026-01-02T00:30:00Z", []string{"02T01:00", "02T22:00"}},
		"all day":                   {"12h", "", "2026-01-01T00:00:00Z", []string{"01T12:00", "02T00:00", "02T12:00"}},
		"to midnight": {"1h 22:00-24:00", "", "2026-01-01T00:00:00Z", []string{
			"01T22:00", "01T23:00",
			"02T22:00",
		}},
		// the clock goes from 02:00 to 03:00 on 29 March, and back from 03:00 to 02:00 on 25 October
		"set forward": {
			"1h 00:00-05:00", "Europe/Berlin", "2026-03-28T22:30:00Z",
			[]string{"28T23:00", "29T00:00", "29T01:00", "29T02:00", "29T22:00"},
		},
		"set back": {
			"1h 00:00-04:00", "Europe/Berlin", "2026-10-24T21:30:00Z",
			[]string{"24T22:00", "24T23:00", "25T00:00", "25T01:00", "25T02:00", "25T23:00"},
		},
		"hours that are skipped": {"10m 02:00-03:00", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"30T00:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			after, err := time.Parse(time.RFC3339, c.after)
			must(t, err)
			rule, err := Parse(corebot.Schedule{Kind: corebot.TaskHeartbeat, Spec: c.spec, TimeZone: c.zone}, after)
			must(t, err)
			var got []string
			for range c.want {
				due, ok := rule.Next(after)
				if !ok || !due.After(after) {
					t.Fatalf("after %s comes %s", after, due)
				}
				got, after = append(got, due.UTC().Format("02T15:04")), due
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("due at %q, want %q", got, c.want)
			}
		})
	}
	for _, spec := range []string{
		"", "30s 08:00-22:00", "30m 8-22", "30m 08:00", "30m 25:00-26:00",
		"25h 08:00-22:00",
	} {
		if _, err := Parse(corebot.Schedule{Kind: corebot.TaskHeartbeat, Spec: spec}, time.Now()); !errors.Is(err,
			ErrSchedule) {
			t.Errorf("%q is taken: %v", spec, err)
		}
	}
}

// TestAHeartbeatWithNothingToDoIsNeitherPublishedNorNoted lets two due times pass with nothing to do, and then one
// whose page lists something.
func TestAHeartbeatWithNothingToDoIsNeitherPublishedNorNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storage.Options{})
		task := r.add(corebot.TaskHeartbeat, "1h 08:00-22:00")
		r.start(Options{Gate: gateFunc(func(corebot.Task) corebot.Verdict {
			if time.Now().UTC().Hour() < 10 {
				return corebot.Verdict{Skip: "the page lists nothing"}
			}
			return corebot.Verdict{Prompt: "look at the disk"}
		})})
		d := r.claim(11 * time.Hour)
		if m := d.Message; m.Text() != "look at the disk" || m.Errand == nil || !m.Errand.Heartbeat ||
			time.Now().UTC().Hour() != 10 {
			t.Errorf("at %s came %+v", time.Now().UTC(), m)
		}
		r.end(d, answered)
		if got := r.runs(task.ID); !slices.Equal(got, []string{"answered"}) {
			t.Errorf("the runs ended as %q", got)
		}
	})
}
