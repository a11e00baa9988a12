package observability_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/observability"
)

func TestTheLogIsJSONUnlessPeopleRead(t *testing.T) {
	for format, isJSON := range map[string]bool{"json": true, "auto": true, "pretty": false} {
		var out bytes.Buffer
		log, err := observability.NewLogger(&out, "info", format, nil)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug().Msg("not shown")
		log.Info().Str("chat", "a").Msg("turn")
		var event map[string]any
		if err := json.Unmarshal(out.Bytes(), &event); (err == nil) != isJSON {
			t.Errorf("%s: %q", format, out.String())
		}
		if isJSON && (event["chat"] != "a" || event["message"] != "turn" || event["level"] != "info" ||
			event["time"] == nil) {
			t.Errorf("%s: %v", format, event)
		}
		if strings.Contains(out.String(), "\x1b[") {
			t.Errorf("%s: colours in a file: %q", format, out.String())
		}
		if strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: not one line: %q", format, out.String())
		}
	}
}

func TestALevelOrFormatThatNobodyKnowsIsRefused(t *testing.T) {
	for _, c := range [][2]string{
		{"", "json"},
		{"loud", "json"},
		{"disabled", "json"},
		{"panic", "json"},
		{"7", "json"},
		{"info", ""},
		{"info", "xml"},
	} {
		if _, err := observability.NewLogger(&bytes.Buffer{}, c[0], c[1], nil); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("level %q, format %q: %v", c[0], c[1], err)
		}
	}
}

func TestALineHasNoSecret(t *testing.T) {
	hide, err := redact.New([]string{`hunter2"hunter2`})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "pretty"} {
		var out bytes.Buffer
		log, err := observability.NewLogger(&out, "info", format, hide)
		if err != nil {
			t.Fatal(err)
		}
		log.Error().Err(errors.New(`it is hunter2"hunter2`)).Str("key", `hunter2"hunter2`).Msg(`hunter2"hunter2`)
		if strings.Contains(out.String(), "hunter2") || strings.Count(out.String(), redact.Mark) != 3 {
			t.Errorf("%s: %s", format, &out)
		}
	}
}
