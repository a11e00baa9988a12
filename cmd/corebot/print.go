package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/redact"
)

func jsonFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "json", false, "print JSON, one object a line")
}

// printJSON prints one object on one line, no deeper than readers of JSON go.
func printJSON(cmd *cobra.Command, v any) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := redact.EscapedWriter(cmd.OutOrStdout()).Write(redact.Flat(line.Bytes()))
	return err
}

// clock is how commands show a moment to people.
func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05.000")
}

// printable makes any text fit for a terminal: what could drive it (control characters) or deceive its reader (bidirectional
// overrides) is replaced.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// oneLine makes any text fit to be a cell of at most limit characters.
func oneLine(s string, limit int) string {
	s = printable(strings.Join(strings.Fields(s), " "))
	if runes := []rune(s); len(runes) > limit {
		s = string(runes[:limit-1]) + "…"
	}
	return s
}

func count(n int64, what string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
