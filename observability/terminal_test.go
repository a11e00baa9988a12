package observability_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/observability"
)

func TestNoLineOfTheLogDrivesATerminal(t *testing.T) {
	const evil = "\x1b[2J\x07\x9b\u009b31m\u202eout\u200b\x7f\r\nlevel=info\b"
	for _, format := range []string{"json", "pretty"} {
		var out bytes.Buffer
		log, err := observability.NewLogger(&out, "info", format, nil)
		if err != nil {
			t.Fatal(err)
		}
		log.Info().Str("chat", evil).Strs("list", []string{evil}).Err(errors.New(evil)).Bytes("stack",
			[]byte(evil)).Msg(evil)
		line := strings.TrimSuffix(out.String(), "\n")
		if redact.Visible(line) != line || strings.ContainsAny(line, "\r\n") || !strings.Contains(line, "out") {
			t.Errorf("%s: %q", format, line)
		}
	}
}
