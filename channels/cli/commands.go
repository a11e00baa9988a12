package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
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
		{"/export", "[FILE]", "write this conversation as Markdown into a new file, or here", (*model).export},
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
		`in a message: attach that file; @"MY FILE" if its name has spaces`)
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

// exportedMsg is a conversation as Markdown that was written into a file, or is to be shown.
type exportedMsg struct {
	file, text string
	messages   int
	err        error
}

// export writes the conversation into a file that is not there yet. Without a file it is shown.
func (m *model) export(file string) {
	if m.session == nil {
		m.printDim("this chat cannot be exported")
		return
	}
	if m.place != nil && file != "" {
		file = m.place(file)
	}
	m.later = append(m.later, func() tea.Msg {
		said, err := m.session()
		e := exportedMsg{file: file, text: markdownOf(said), messages: len(said), err: err}
		if err == nil && file != "" {
			e.err = writeNew(file, e.text)
		}
		return e
	})
}

func (m *model) onExported(e exportedMsg) {
	switch {
	case e.err != nil:
		m.printError(fmt.Errorf("export the chat: %w", e.err))
	case e.messages == 0:
		m.printDim("nothing was said in this conversation yet")
	case e.file == "":
		m.print(wrap(drawable(e.text), m.width))
	default:
		m.printDim(fmt.Sprintf("%d messages are in %s", e.messages, e.file))
	}
}

// markdownOf writes messages with their speakers and times.
func markdownOf(said []corebot.HistoryEntry) string {
	var b strings.Builder
	for _, e := range said {
		who := "Corebot"
		if e.Speaker == corebot.SpeakerUser {
			who = cmp.Or(strings.Join(strings.Fields(e.Name), " "), "You")
		}
		at := e.At.Local().Format("2006-01-02 15:04")
		fmt.Fprintf(&b, "## %s, %s\n\n%s\n\n", who, at, strings.TrimSpace(e.Text()))
	}
	return b.String()
}

// writeNew writes a file that only its owner reads, and never over another.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
