package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/mention"
)

// candidateRows is how many rows of candidates are shown, and candidatesKept how many candidates are looked at.
const (
	candidateRows  = 3
	candidatesKept = 200
)

// completion is what Tab has found for a word before the cursor.
type completion struct {
	before string // the line up to the cursor, at which the answer may still be put in
	typed  string // of the word, behind what marks it as a path
	mark   string // @ or @" of a file to attach; empty: a command, or a path that is only text
	found  []string
}

type completedMsg completion

// complete looks for what the word before the cursor may become. Directories are read outside of the event loop.
func (m *model) complete() tea.Cmd {
	before, first := m.editor.before()
	if name, slash := strings.CutPrefix(strings.ToLower(before), "/"); first && slash &&
		!strings.ContainsAny(name, " \t/") {
		found := slices.DeleteFunc(commandNames(), func(c string) bool { return !strings.HasPrefix(c, "/"+name) })
		if len(found) > 0 {
			m.onCompleted(completion{before: before, typed: before, found: found})
			return nil
		}
	}
	mark, typed := lastWord(before)
	if m.paths == nil || mark == "" && typed == "" {
		return nil
	}
	return func() tea.Msg { return completedMsg{before, typed, mark, m.paths(typed)} }
}

// commandNames are all commands that can be typed here.
func commandNames() (names []string) {
	for _, c := range corebot.Commands() {
		names = append(names, c.Name)
	}
	for _, c := range localCommands() {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return names
}

// lastWord is the word that ends a line, and what marks it as a file to attach.
func lastWord(line string) (mark, typed string) {
	if at := strings.LastIndex(line, ` @"`); at >= 0 && !strings.Contains(line[at+3:], `"`) {
		return `@"`, line[at+3:]
	}
	if name, quoted := strings.CutPrefix(line, `@"`); quoted && !strings.Contains(name, `"`) {
		return `@"`, name
	}
	word := line[strings.LastIndexAny(line, " \t")+1:]
	if name, marked := strings.CutPrefix(word, "@"); marked {
		return "@", name
	}
	return "", word
}

// onCompleted puts in what all candidates share. Where they differ, it shows them.
func (m *model) onCompleted(c completion) {
	if now, _ := m.editor.before(); now != c.before || len(c.found) == 0 {
		return
	}
	shared, mark, end := mention.Common(c.found), c.mark, ""
	if len(c.found) == 1 && !strings.HasSuffix(shared, "/") {
		end = " "
	}
	if mark == "@" && strings.ContainsAny(shared, " \t") {
		mark = `@"`
	}
	if mark == `@"` && end != "" {
		end = `" `
	}
	if len(shared) < len(c.typed) { // names in another case
		return
	}
	m.editor.retype(utf8.RuneCountInString(c.mark+c.typed), mark+shared+end)
	if len(c.found) > 1 {
		m.candidates = c.found
	}
}

// candidateView are the rows that list the candidates of the last Tab.
func (m *model) candidateView() []string {
	if len(m.candidates) == 0 {
		return nil
	}
	var names []string
	for _, c := range m.candidates[:min(len(m.candidates), candidatesKept)] {
		dir := strings.LastIndex(strings.TrimSuffix(c, "/"), "/")
		names = append(names, oneLine(c[dir+1:], max(m.width-1, 1)))
	}
	if m.candidates[0][0] == '/' && !strings.Contains(m.candidates[0][1:], "/") {
		names = slices.Clone(m.candidates) // commands keep their slash
	}
	rows := strings.Split(wrap(strings.Join(names, "  "), m.width), "\n")
	if len(rows) > candidateRows {
		rows = append(rows[:candidateRows-1], oneLine(fmt.Sprintf("… of %d", len(m.candidates)), max(m.width-1, 1)))
	}
	for i, r := range rows {
		rows[i] = m.look.dim.Render(r)
	}
	return rows
}
