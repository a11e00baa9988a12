package redact_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/corebot/corebot/internal/redact"
)

func TestEscapedJSONHasNothingThatATerminalObeys(t *testing.T) {
	for in, want := range map[string]string{
		"{\"a\":\"x\u009b2Jy\"}":         `{"a":"x\u009b2Jy"}`,
		"{\"a\":\"\x7f\u202e\u200b\"}":   `{"a":"\u007f\u202e\u200b"}`,
		"{\"a\":\"\U000e0041\"}":         `{"a":"\udb40\udc41"}`,
		"{\n\t\"a\": \"\\u001b ü 世\"\n}": "{\n\t\"a\": \"\\u001b ü 世\"\n}",
	} {
		if got := redact.Escaped(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func FuzzEscapedJSONIsTheSameValue(f *testing.F) {
	for _, s := range []string{"", "\u009b", "\U000e0041\u200d", "\\", "\\u009b", "\"\x1b", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if n, err := redact.EscapedWriter(&out).Write(raw); n != len(raw) || err != nil {
			t.Fatalf("wrote %d of %d, %v", n, len(raw), err)
		}
		var before, after string
		if err := json.Unmarshal(raw, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out.Bytes(), &after); err != nil || after != before {
			t.Errorf("%s became %s: %v", raw, out.Bytes(), err)
		}
		if visible := redact.Visible(out.String()); visible != out.String() {
			t.Errorf("%q has what nobody sees", out.String())
		}
	})
}
