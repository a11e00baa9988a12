package cli

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/corebot/corebot"
)

// localCommand is a command that the terminal carries out itself.
type localCommand struct {
	name, args, summary string
	run                 func(m *model, args string)
}

// localCommands are the terminal's own. Every other slash command goes through the door.
func localCommands() []localCommand {
	return []localCommand{
		{"/name", "TEXT", "give this chat a name, for `corebot chat --list` and --resume", (*model).name},
		{"/edit", "", "put your last message into the input again", (*model).edit},
		{"/output", "[N]", "show the output of tool call N, or of the newest", (*model).output},
		{"/quit", "", "leave; so does /exit", func(m *model, _ string) { m.leave() }},
		{"/exit", "", "leave", func(m *model, _ string) { m.leave() }},
	}
}

// localHelp lists what the list of the chat's own commands leaves out.
func localHelp() string {
	var b strings.Builder
	b.WriteString("At this terminal also:\n")
	for _, c := range localCommands() {
		if c.name != "/exit" {
			fmt.Fprintf(&b, "%-13s %s\n", strings.TrimSpace(c.name+" "+c.args), c.summary)
		}
	}
	fmt.Fprintf(&b, "%-13s %s\n", "@FILE",
		`in a message: attach the text of that file; @"MY FILE" if its name has spaces`)
	fmt.Fprintf(&b, "%-13s %s", "Tab", "complete a command or a path")
	return b.String()
}

// local carries out a command of the terminal, and says whether the text was one.
func (m *model) local(text string) bool {
	word, args, _ := strings.Cut(strings.TrimSpace(text), " ")
	for _, c := range localCommands() {
		if c.name == word && (c.args != "" || args == "") {
			m.editor.set("")
			c.run(m, strings.TrimSpace(args))
			return true
		}
	}
	return false
}

// isHelp says whether a text asks for the list of commands.
func isHelp(text string) bool {
	c, _, known := corebot.ParseCommand(text)
	return known && c.Name == "/help"
}

// maxName is the longest name of a chat, in bytes.
const maxName = 100

type renamedMsg struct {
	name string
	err  error
}

// name gives the chat a name.
func (m *model) name(name string) {
	switch {
	case m.rename == nil:
		m.printDim("this chat can have no name")
	case name == "" || len(name) > maxName || strings.ContainsFunc(name, corebot.Hidden):
		m.printDim(fmt.Sprintf("say it as /name TEXT: at most %d bytes, and nothing that cannot be seen", maxName))
	default:
		m.later = append(m.later, func() tea.Msg { return renamedMsg{name, m.rename(name)} })
	}
}

func (m *model) onRenamed(r renamedMsg) {
	if r.err != nil {
		m.printError(fmt.Errorf("name the chat: %w", r.err))
		return
	}
	m.printDim("this chat is called " + r.name)
}

// edit puts the last prompt into the input.
func (m *model) edit(string) {
	for _, p := range slices.Backward(m.history.prompts) {
		if !strings.HasPrefix(p.Text, "/") {
			m.editor.set(p.Text)
			return
		}
	}
	m.printDim("nothing was said here yet")
}
