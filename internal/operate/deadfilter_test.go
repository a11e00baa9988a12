package operate

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestWordsOfAFilterThatMeanNothingAreRefused(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 123_456_789, time.UTC)
	for name, w := range map[string]DeadWords{
		"invalid: direction \"": {Direction: "sideways"},
		"want a day":            {Before: "yesterday"},
		"want a day such":       {After: "1969-12-31"},
		"says the same":         {Before: "2026-01-01", OlderThan: time.Hour},
		"has passed":            {NewerThan: -time.Second},
		"nothing was given up":  {Before: "2026-01-01", After: "2026-01-01"},
		"nothing was given":     {OlderThan: 2 * time.Hour, NewerThan: time.Hour},
		`reason "nope": want`:   {Reason: "nope"},
		"the limit is":          {Text: strings.Repeat("x", 1_001)},
		"UTF-8":                 {Error: "\xff"},
	} {
		if f, err := w.Filter(now); !errors.Is(err, corebot.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v is %+v: %v", w, f, err)
		}
	}
	f, err := DeadWords{Direction: "inbound", OlderThan: time.Hour, After: "2026-01-01"}.Filter(now)
	if before := now.Add(-time.Hour).Truncate(time.Millisecond); err != nil || f.Direction != corebot.Inbound ||
		!f.Before.Equal(before) || f.After.Format(time.DateOnly) != "2026-01-01" {
		t.Errorf("the filter is %+v: %v", f, err)
	}
}

// FuzzWordsOfAFilter: whatever the words are, a filter that they give reaches another process as it is.
func FuzzWordsOfAFilter(f *testing.F) {
	f.Add("inbound", "main", "webhook", "u", "poison", "hello", "401", "2026-01-01", "", int64(0), int64(time.Hour))
	f.Add("", "", "", "", "", "\x00", "\xff", "", "2026-01-01T00:00:00+23:59", int64(-1), int64(0))
	f.Add("", "", "", "", "", "", "", "9999-12-31T23:59:59Z", "1970-01-01", int64(1)<<62, int64(0))
	f.Fuzz(func(t *testing.T, direction, agent, channel, sender, reason, text, failed, before, after string,
		older, newer int64,
	) {
		filter, err := DeadWords{
			direction, agent, channel, sender, reason, text, failed, before, after, time.Duration(older),
			time.Duration(newer),
		}.Filter(time.Now())
		if err != nil {
			if !errors.Is(err, corebot.ErrInvalid) || len(err.Error()) > 1_000 {
				t.Fatalf("the error is %.2000v", err)
			}
			return
		}
		sent, err := json.Marshal(filter)
		var got corebot.DeadLetterFilter
		if err == nil {
			err = json.Unmarshal(sent, &got)
		}
		if err != nil || !got.Before.Equal(filter.Before) || !got.After.Equal(filter.After) {
			t.Fatalf("%+v arrives as %+v: %v", filter, got, err)
		}
		got.Before, got.After = filter.Before, filter.After
		if !reflect.DeepEqual(got, filter) {
			t.Fatalf("%+v arrives as %+v", filter, got)
		}
	})
}

func TestARateOfAReplayHasBounds(t *testing.T) {
	for _, rate := range []float64{0, -1, 0.0001, 1001} {
		if _, err := New(Stores{}).BeginReplay(t.Context(), PacedReplay{Rate: rate}); !errors.Is(err,
			corebot.ErrInvalid) {
			t.Errorf("a rate of %v: %v", rate, err)
		}
	}
}
