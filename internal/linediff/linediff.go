// Package linediff compares two versions of a file line by line, and shows the difference to people.
//
// Guarantees:
//   - The hunks of [Compare], applied to the old version, give the new one byte for byte.
//   - Time and memory are bounded: files over [MaxBytes] or [MaxLines] are not compared.
//   - [Render] shows text of a file only behind a " ", "-" or "+". Rows that begin with "\" say what it does not show.
//     Control and bidi characters, invalid UTF-8 and long runs of blanks are written as escapes, because a person would
//     not see them. No two different lines are shown the same.
package linediff

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Limits of what is compared, of each version.
const (
	MaxBytes = 1 << 20
	MaxLines = 50_000
)

// ErrTooLarge: a version is over [MaxBytes] or [MaxLines].
var ErrTooLarge = errors.New("is too large to be compared line by line")

// Line is a line of a hunk. Text has its line end, which only the last line of a file can be without.
type Line struct {
	Op   byte // ' ', '-' or '+'
	Text string
}

// Hunk is a change with the lines around it. Starts count from 1; of a version without lines it is 0.
type Hunk struct {
	Old, New int
	Lines    []Line
}

// Compare gives what changes old into new; nothing if they are the same.
func Compare(old, new []byte) ([]Hunk, error) {
	for _, v := range [][]byte{old, new} {
		if len(v) > MaxBytes || countLines(v) > MaxLines {
			return nil, ErrTooLarge
		}
	}
	return parse(string(diff.Diff("old", old, "new", new)))
}

func countLines(v []byte) int { return strings.Count(string(v), "\n") }

// parse reads a unified diff. Its lines end at "\n" only, and what is a line of a file stands behind a mark.
func parse(unified string) (hunks []Hunk, err error) {
	_, body, found := strings.Cut(unified, "\n@@ ") // past the names of the files
	if !found {
		return nil, nil
	}
	for row := range strings.SplitAfterSeq("@@ "+body, "\n") {
		if row == "" {
			continue
		}
		if row[0] == '@' {
			var h Hunk
			var oldLines, newLines int
			if _, err := fmt.Sscanf(row, "@@ -%d,%d +%d,%d @@", &h.Old, &oldLines, &h.New, &newLines); err != nil {
				return nil, fmt.Errorf("read a hunk of a diff: %w", err)
			}
			hunks = append(hunks, h)
			continue
		}
		lines := &hunks[len(hunks)-1].Lines
		if row[0] == '\\' { // the line above has no line end
			last := &(*lines)[len(*lines)-1]
			last.Text = strings.TrimSuffix(last.Text, "\n")
			continue
		}
		*lines = append(*lines, Line{row[0], row[1:]})
	}
	return hunks, nil
}

// Count says how many lines are added and removed.
func Count(hunks []Hunk) (added, removed int) {
	for _, h := range hunks {
		for _, l := range h.Lines {
			switch l.Op {
			case '+':
				added++
			case '-':
				removed++
			}
		}
	}
	return added, removed
}
