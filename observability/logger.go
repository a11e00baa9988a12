package observability

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

// NewLogger writes to out: for people when format is pretty, or auto and out is a terminal; else JSON, an event a line. Keys are
// the same words everywhere: chat, message_id, execution, tool, attempt. ("message" is zerolog's own, the text of the event.)
//
// What hide knows for a secret is in no line; nil hides nothing.
func NewLogger(out io.Writer, level, format string, hide *redact.Redactor) (zerolog.Logger, error) {
	l, err := parseLevel(level)
	if err != nil {
		return zerolog.Nop(), err
	}
	if format != "auto" && format != "json" && format != "pretty" {
		return zerolog.Nop(), fmt.Errorf("%w: log format %q: want auto, json or pretty", corebot.ErrInvalid, format)
	}
	pretty, colours := format == "pretty" || format == "auto" && isTerminal(out), isTerminal(out) && os.Getenv("NO_COLOR") == ""
	if hide != nil {
		out = hide.Writer(out)
	}
	if pretty {
		out = zerolog.ConsoleWriter{Out: out, TimeFormat: time.TimeOnly, NoColor: !colours}
	}
	return zerolog.New(out).Level(l).With().Timestamp().Logger(), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
