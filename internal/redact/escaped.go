package redact

import (
	"io"

	"github.com/corebot/corebot"
)

// Escaped is JSON in which the characters that [Visible] takes out are written as \u escapes. The value is the same,
// and no terminal obeys such a character. encoding/json and loggers leave controls beyond ASCII as they are.
func Escaped(json string) string { return corebot.EscapeFunc(json, invisible) }

// EscapedWriter writes JSON to w as [Escaped] has it. A write must not begin or end inside a character.
func EscapedWriter(w io.Writer) io.Writer { return escaping{w} }

type escaping struct{ to io.Writer }

func (w escaping) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Escaped(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
