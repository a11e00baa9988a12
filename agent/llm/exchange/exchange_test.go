package exchange

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func readEvents(body string, wire, line int, spell Spelling) (string, error) {
	b := &eventBody{
		in: bufio.NewReaderSize(strings.NewReader(body), 16), closer: io.NopCloser(nil), wire: wire,
		line: line, spell: spell,
	}
	out, err := io.ReadAll(b)
	return string(out), err
}

func inBrackets(data []byte) ([]byte, error) { return []byte("[" + string(data) + "]"), nil }

func TestOnlyTheDataOfEventsIsPassedOn(t *testing.T) {
	got,
		err := readEvents(": hi\r\nevent: x\r\ndata: {\"a\":1}\r\n\r\ndata:\n\nid: 3\ndata:b\n\nretry: 5\ndata: [DONE]",
		1<<20, 1<<16, inBrackets)
	if want := `[{"a":1}][b][[DONE]]`; err != nil || got != want {
		t.Errorf("%v %q", err, got)
	}
}

func TestAStreamOverItsLimitsEnds(t *testing.T) {
	for name, body := range map[string]string{
		"one endless line":    "data: " + strings.Repeat("x", 200),
		"comments for ever":   strings.Repeat(": hi\n", 200),
		"an endless no event": strings.Repeat("x", 200),
	} {
		if _, err := readEvents(body, 500, 100, inBrackets); !errors.Is(err, ErrTooLong) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readEvents(strings.Repeat("data: x\n", 10), 500, 100, inBrackets); err != nil {
		t.Errorf("within its limits: %v", err)
	}
}

func TestASpellingMayLeaveOutAndMayEndTheStream(t *testing.T) {
	got, err := readEvents("data: a\ndata: skip\ndata: b\ndata: stop\ndata: c\n", 500, 100,
		func(data []byte) ([]byte, error) {
			switch string(data) {
			case "skip":
				return nil, nil
			case "stop":
				return nil, ErrGarbled
			}
			return data, nil
		})
	if got != "ab" || !errors.Is(err, ErrGarbled) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRetryAfterIsReadInEverySpelling(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		header, ms string
		want       time.Duration
	}{
		{"7", "", 7 * time.Second},
		{" 7 ", "", 7 * time.Second},
		{"0.5", "", 500 * time.Millisecond},
		{"7", "6500", 6500 * time.Millisecond},
		{"", "250", 250 * time.Millisecond},
		{"", "1e30", time.Hour},
		{"7", "soon", 7 * time.Second},
		{now.Add(90 * time.Second).Format(http.TimeFormat), "", 90 * time.Second},
		{now.AddDate(9, 0, 0).Format(http.TimeFormat), "", time.Hour},
		{now.AddDate(-9, 0, 0).Format(http.TimeFormat), "", 0},
		{"86400", "", time.Hour},
		{"1e400", "", time.Hour},
		{"Inf", "", time.Hour},
		{"-5", "", 0},
		{"0", "", 0},
		{"NaN", "", 0},
		{"soon", "", 0},
		{"", "", 0},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.header)
		h.Set("Retry-After-Ms", c.ms)
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%q and %q ms: %v, want %v", c.header, c.ms, got, c.want)
		}
	}
}

func FuzzRetryAfterStaysWithinItsBounds(f *testing.F) {
	for _, s := range []string{"1", "-1", "1e99", "1e999", "NaN", "Inf", "Mon, 02 Jan 2006 15:04:05 GMT"} {
		f.Add(s, s)
	}
	now := time.Unix(1e9, 0)
	f.Fuzz(func(t *testing.T, s, ms string) {
		h := http.Header{"Retry-After": {s}, "Retry-After-Ms": {ms}}
		if d := retryAfter(h, now); d < 0 || d > MaxRetryAfter {
			t.Errorf("%q, %q: %v", s, ms, d)
		}
	})
}

func TestAHeaderThatCannotBeSentIsRefusedWithoutItsValue(t *testing.T) {
	for name, value := range map[string]string{
		"": "v", "a b": "v", "a:": "v", "ä": "v", "A": "hunter2\r\nB: c",
		"B": "hunter2\x00",
	} {
		_, err := New("http://x", Options{Model: "m", Header: map[string]string{name: value}})
		if !errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "" ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %q gave %v", name, value, err)
		}
	}
	if _, err := New("http://x", Options{Model: "m", Header: map[string]string{
		"X-Title": "a bot",
		"x_y":     "",
	}}); err != nil {
		t.Error(err)
	}
}

func TestASettingIsNamedAsItsOperatorFindsIt(t *testing.T) {
	for provider, settings := range map[string]map[string]string{
		"": {
			"model": "llm.model or OPENAI_MODEL", "api_key": "llm.api_key or OPENAI_API_KEY",
			"idle_timeout": "llm.idle_timeout",
		},
		"main": {"model": "models of main in llm.providers", "api_key": "api_key of main in llm.providers"},
	} {
		e, err := New("http://x", Options{Model: "m", Provider: provider})
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range settings {
			if got := e.Setting(key); got != want {
				t.Errorf("%s of %q is called %q, want %q", key, provider, got, want)
			}
		}
	}
}

func TestSecretsOfHeadersAreInNoError(t *testing.T) {
	e, err := New("http://x", Options{
		Model: "m", APIKey: "k3y",
		Header: map[string]string{"Authorization": "Basic hunter2hunter2", "X-Title": "bot"},
	})
	if err != nil {
		t.Fatal(err)
	}
	said := e.Failure(errors.New("k3y, Basic hunter2hunter2 and hunter2hunter2 of a bot"), Status{}).Error()
	if strings.Contains(said, "hunter2") || strings.Contains(said, "k3y") || !strings.Contains(said, "of a bot") {
		t.Error(said)
	}
}
