package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestAMedianIsTheMiddleOfTheRounds(t *testing.T) {
	for _, c := range []struct {
		of   Series
		want float64
	}{
		{Series{3, 1, 2}, 2},
		{Series{4, 1, 3, 2}, 2.5},
		{Series{7}, 7},
	} {
		if got := c.of.Median(); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.of, got, c.want)
		}
	}
	if got := (Series{}).Median(); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
	unsorted := Series{3, 1, 2}
	unsorted.Median()
	if unsorted[0] != 3 {
		t.Error("the rounds lost their order")
	}
}

func TestARatioIsTakenRoundByRound(t *testing.T) {
	got := Series{10, 100}.over(Series{1, 10, 7})
	if len(got) != 2 || got[0] != 10 || got[1] != 10 {
		t.Errorf("got %v", got)
	}
}

func TestAQuantileIsATimeThatWasMeasured(t *testing.T) {
	var l latencies
	for ms := 100; ms >= 1; ms-- {
		l = append(l, time.Duration(ms)*time.Millisecond)
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := l.quantile(q); got != want {
			t.Errorf("quantile %v is %v ms, want %v", q, got, want)
		}
	}
	if got := (latencies{}).quantile(0.5); got != 0 {
		t.Errorf("the quantile of nothing is %v", got)
	}
}

func sample() Report {
	return Report{
		Title:    "a title",
		Settings: []Setting{{"messages", 10}, {"synchronous", "FULL"}},
		Figures: []Figure{
			{
				Name: "publish_per_s", Label: "publish", Series: Series{1_234_567.4, 2_000_000, 999},
				Target: Target{Value: 40_000}, OfCeiling: Series{0.5, 0.25, 0.1},
			},
			{
				Name: "wait_ms", Label: "wait", Unit: Milliseconds, Series: Series{0.28449},
				Target: Target{Value: 0.4, AtMost: true},
			},
			{Name: "ratio", Label: "a ratio to nothing", Unit: Ratio, Series: Series{math.Inf(1)}},
			{Name: "rss_bytes", Label: "memory", Unit: Bytes, Series: Series{3 << 20}},
		},
	}
}

func TestAReportIsOneFlatObjectOfNumbersAndSettings(t *testing.T) {
	text, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"publish_per_s":1234567,"publish_of_raw":0.25,"wait_ms":0.284,"ratio":null,"rss_bytes":3145728,` +
		`"messages":10,"synchronous":"FULL",` +
		`"min":{"publish_per_s":999,"wait_ms":0.284,"ratio":null,"rss_bytes":3145728},` +
		`"max":{"publish_per_s":2000000,"wait_ms":0.284,"ratio":null,"rss_bytes":3145728}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestAReportOfNothingIsStillJSON(t *testing.T) {
	text, err := json.Marshal(Report{Figures: []Figure{{Name: "a"}, {Name: "b"}}})
	if err != nil || string(text) != `{"a":null,"b":null,"min":{"a":null,"b":null},"max":{"a":null,"b":null}}` {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestASettingThatIsNoJSONIsAnError(t *testing.T) {
	if _, err := json.Marshal(Report{Settings: []Setting{{"x", func() {}}}}); err == nil {
		t.Error("no error")
	}
}

func TestTheTableIsAlignedAndFitsIntoAHundredColumns(t *testing.T) {
	var b strings.Builder
	if err := sample().Print(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	want := []string{
		"a title",
		"",
		"                                      median           min           max          target    of raw",
		"publish                          1,234,567/s         999/s   2,000,000/s      ≥ 40,000/s      0.25",
		"wait                                0.284 ms      0.284 ms      0.284 ms      ≤ 0.400 ms",
		"a ratio to nothing                         -             -             -",
		"memory                               3.0 MiB       3.0 MiB       3.0 MiB",
	}
	for i, line := range lines {
		if utf8.RuneCountInString(line) > 100 {
			t.Errorf("line %d has %d columns", i, utf8.RuneCountInString(line))
		}
		if i >= len(want) || line != want[i] {
			t.Errorf("line %d is %q", i, line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d", len(lines), len(want))
	}
}

func TestThousandsAreGrouped(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000",
		-999: "-999",
	} {
		if got := grouped(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
}

func TestAShareThatIsSmallKeepsItsDigits(t *testing.T) {
	if text, number := Share.text(0.012345), Share.number(0.012345); text != "0.0123" || number != 0.01235 {
		t.Errorf("0.012345 is written %q and %v", text, number)
	}
}
