package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
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

// printable makes any text fit for a terminal: what could drive it (control characters) or deceive its reader
// (bidirectional overrides) is replaced.
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

// eachPage hands a list to show page by page, at most limit rows of it, and says how many rows there were; limit 0
// means all. An empty list is one empty page. A list of any length takes no more memory than a page.
func eachPage[T any](limit int, page func(operate.Part) (operate.Page[T], error),
	show func(rows []T, first, last bool) error,
) (shown int, err error) {
	for part := (operate.Part{}); ; {
		if limit > 0 {
			part.Limit = limit - shown
		}
		found, err := page(part)
		if err != nil {
			return shown, err
		}
		first, n := shown == 0, shown+len(found.Rows)
		last := found.Next == "" || n == limit
		if err := show(found.Rows, first, last); err != nil || last {
			return n, err
		}
		shown, part.After = n, found.Next
	}
}

// gather is a list as [eachPage] gives it, whole: of things that settings and files name, of which there are few.
func gather[T any](page func(operate.Part) (operate.Page[T], error)) (all []T, err error) {
	_, err = eachPage(0, page, func(rows []T, _, _ bool) error {
		all = append(all, rows...)
		return nil
	})
	return all, err
}

// listing is how a command prints the rows of a list.
type listing[T any] struct {
	header string         // the names of the columns, with tabs between them
	cells  func(T) string // of a row, with tabs between them
	none   string         // what an empty list says to people; empty: nothing
	foot   func() string  // the last line of a list that is not empty; nil: none
	json   func(T) any    // what --json prints of a row; nil: the row itself
}

// print prints at most limit rows of a list as [eachPage] gives them, and says how many. The columns of a page stand in
// line.
func (l listing[T]) print(cmd *cobra.Command, asJSON bool, limit int,
	page func(operate.Part) (operate.Page[T], error),
) (int, error) {
	return eachPage(limit, page, func(rows []T, first, last bool) error {
		if asJSON {
			return l.lines(cmd, rows)
		}
		return l.table(cmd, rows, first, last)
	})
}

func (l listing[T]) lines(cmd *cobra.Command, rows []T) error {
	for _, row := range rows {
		var line any = row
		if l.json != nil {
			line = l.json(row)
		}
		if err := printJSON(cmd, line); err != nil {
			return err
		}
	}
	return nil
}

func (l listing[T]) table(cmd *cobra.Command, rows []T, first, last bool) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	t := &teller{w: table}
	empty := first && len(rows) == 0
	switch {
	case empty && l.none != "":
		t.line("%s", l.none)
	case first && !empty:
		t.line("%s", l.header)
	}
	for _, row := range rows {
		t.line("%s", l.cells(row))
	}
	if last && !empty && l.foot != nil {
		t.line("%s", l.foot())
	}
	return errors.Join(t.err, table.Flush())
}

// hides has a command, and those below it, print nothing that is known for a secret: what it shows was written by
// others.
func (s *shell) hides(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.SetOut(&hiding{shell: s, to: s.out})
	}
	return commands
}

// redactor knows the secrets of the home: those of its settings, and those of its MCP servers. Without either it knows
// the usual shapes.
func (s *shell) redactor() (*redact.Redactor, error) {
	c, err := s.settings()
	if err != nil { // the agent main has a file of MCP servers all the same
		home, err := config.Home(s.home)
		if err != nil {
			return redact.New(nil)
		}
		return redact.New(app.MCPSecrets(config.Config{Home: home}))
	}
	return redact.New(append(c.Secrets(), app.MCPSecrets(c)...))
}

// hiding is an output without secrets. They are looked up when there is something to write.
type hiding struct {
	shell *shell
	to    io.Writer
	out   io.Writer
}

func (h *hiding) Write(p []byte) (int, error) {
	if h.out == nil {
		r, err := h.shell.redactor()
		if err != nil {
			return 0, err
		}
		h.out = r.Writer(h.to)
	}
	return h.out.Write(p)
}
