package corebot

import (
	"cmp"
	"fmt"
	"strings"
)

// FileChange shows what a call would make of a file, from the bytes that the file had when its approval was asked for.
// It is for people: what a call is held to is [Bound].
type FileChange struct {
	Path    string `json:"path"`              // relative to the workspace
	Before  string `json:"before"`            // as [NamedFile.Content]
	After   string `json:"after,omitempty"`   // "sha256:" and the hash of what the file would become; empty: nobody can tell
	Assumed bool   `json:"assumed,omitempty"` // Before is what earlier calls of the same answer would leave
	Added   int    `json:"added"`             // lines
	Removed int    `json:"removed"`
	// Diff is a unified diff. Each row of it begins with "@@", " ", "-", "+" or, where it is a note, "\". It has no
	// character that a person does not see but tabs.
	Diff string `json:"diff,omitempty"`
	Note string `json:"note,omitempty"` // why there is no diff, or what it leaves out; a sentence
}

// Show is the change as a request shows it: at most limit bytes of the diff, in whole rows. where says how the rest is
// read. Every row of the diff stands behind a bar, so that no text of a file can pass for a part of the request.
func (c FileChange) Show(limit int, where string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "change of %s: %s", Plainly(c.Path), c.summary())
	if c.Assumed {
		b.WriteString(", compared with what earlier calls of this answer would make of the file")
	}
	rows := strings.SplitAfter(c.Diff, "\n")
	shown := 0
	for _, row := range rows {
		if row == "" || shown+len(row) > limit {
			break
		}
		shown += len(row)
		b.WriteString("\n| " + strings.TrimSuffix(row, "\n"))
	}
	if rest := strings.Count(c.Diff[shown:], "\n"); rest > 0 {
		fmt.Fprintf(&b, "\n%d more rows of this diff are not shown here: %s.", rest, where)
	}
	if c.Note != "" {
		b.WriteString("\n" + c.Note)
	}
	return b.String()
}

// Hidden is what a chat is told that may not read the file.
func (c FileChange) Hidden(where string) string {
	return fmt.Sprintf("change of %s: not shown here, because this chat may not read the file; %s.", Plainly(c.Path), where)
}

// summary counts lines.
func (c FileChange) summary() string {
	switch {
	case c.After == "":
		return "unknown"
	case c.After == c.Before:
		return "none"
	case c.Added+c.Removed == 0 && c.Diff == "":
		return "the content"
	}
	lines := func(n int) string { return fmt.Sprintf("%d %s", n, cmp.Or(map[int]string{1: "line"}[n], "lines")) }
	if c.Before == NoFile {
		return "a new file of " + lines(c.Added)
	}
	return fmt.Sprintf("%s added, %d removed", lines(c.Added), c.Removed)
}
