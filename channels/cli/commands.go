package cli

import (
	"fmt"
	"strings"

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
