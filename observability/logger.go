package observability

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

// NewLogger writes to out: for people when format is pretty, or auto and out is a terminal; else JSON, an event a line. Keys are
// the same words everywhere: chat, message_id, execution, tool, attempt. ("message" is zerolog's own, the text of the event.)
//
// No line has anything that a terminal obeys beside the colours: what comes from outside is escaped in it.
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
	if pretty { // it quotes texts in fields by itself, but neither lists nor the message
		out = zerolog.ConsoleWriter{
			Out: out, TimeFormat: time.TimeOnly, NoColor: !colours, FormatMessage: harmless,
			FormatFieldValue: func(v any) string { return redact.Escaped(fmt.Sprintf("%s", v)) },
		}
	} else {
		out = redact.EscapedWriter(out)
	}
	return zerolog.New(out).Level(l).With().Timestamp().Logger(), nil
}

// harmless is a message for people: what a terminal would obey in it stands there as a Go string's escape.
func harmless(message any) string {
	text, _ := message.(string)
	if redact.Visible(text) != text {
		text = strconv.QuoteToGraphic(text)
	}
	return text
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
