package cli

import (
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

const (
	noteWidth  = 60                     // columns of a text that is only mentioned
	frameTime  = 120 * time.Millisecond // one step of the spinner
	firstFrame = 60 * time.Millisecond  // two frames of the renderer: see model.Init
)

// model is the interactive chat. All of it belongs to bubbletea's event loop: Update never blocks and never does more
// I/O than a line for the history file.
type model struct {
	look    styles
	editor  *editor
	history *history
	answers answers
	width   int
	height  int

	printer printer
	ready   bool // the first frame is on the screen
	frame   int  // of the spinner
	ticking bool

	rename  func(name string) error
	session func() ([]corebot.HistoryEntry, error)                         // what was said in the session
	outputs func(message string, position int) (corebot.ToolResult, error) // reads the output of a call
	calls   []shownCall                                                    // the newest on the screen
	called  int                                                            // how many calls were shown
	request *request                                                       // waits for an approval
	later   []tea.Cmd                                                      // what the handling of a message has begun

	paths      func(typed string) []string // completes a path; nil: none
	place      func(typed string) string   // the path of a name of a file; nil: the name
	candidates []string                    // of the last Tab, until the next key

	deliver  func(letter)      // hands a letter to the door; a deliveredMsg reports the end
	onWay    []letter          // typed and not yet accepted; the first one is at the door
	returned letter            // was refused and is in the input: sent again unchanged, it keeps its id
	asked    map[string]string // messages that wait for an answer, by id
	answered recent            // messages that have one
	seen     recent            // questions on the screen
	last     string            // the question that the newest line on the screen is about
	shown    recent            // replies on the screen
	turn     turn
	unsent   []turn       // ended, their answers are on their way
	stopID   string       // of the /stop under way, until a turn ends or anything is answered
	leaving  bool         // the user left; what was typed is still on its way
	away     bool         // there is no connection to Corebot
	gone     bool         // nothing more is taken; the rest is printed
	wrote    func() error // what became of writing to the terminal
}

// The messages of the model, beside bubbletea's own.
type (
	eventsMsg    []live.Event
	deliveredMsg struct {
		letter letter
		err    error
	}
	showMsg struct {
		message channels.Outbound
		done    chan<- error // buffered
	}
	connectionMsg struct {
		text string
		gone bool
	}
	readyMsg struct{}
	tickMsg  struct{}
	leaveMsg struct{} // from outside: leave now
)

func newModel(o Options, h *history, width, height int) *model {
	look := newStyles(o.NoColor)
	m := &model{
		look: look, editor: newEditor(h, look), history: h, answers: newAnswers(o.NoColor),
		width: width, height: height, asked: make(map[string]string), wrote: func() error { return nil },
	}
	m.editor.setWidth(width)
	return m
}

// Init holds printing back until the first frame is drawn. A line that is inserted above a missing frame would land
// anywhere on the screen. The library bubbletea draws at the first tick of its renderer, and does not tell when.
func (m *model) Init() tea.Cmd {
	return tea.Tick(firstFrame, func(time.Time) tea.Msg { return readyMsg{} })
}

// Update is bubbletea's door. After every event, printing and the spinner go on if there is a reason.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.handle(msg)
	if m.gone && len(m.printer.queue) == 0 {
		return m, tea.Quit
	}
	later := m.later
	m.later = nil
	return m, tea.Batch(append(later, cmd, m.pump(), m.animate())...)
}

func (m *model) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		return m.onKey(msg)
	case tea.PasteMsg:
		m.editor.insert(msg.Content)
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
		m.editor.setWidth(m.width)
	case eventsMsg:
		for _, e := range msg {
			m.onEvent(e)
		}
	case deliveredMsg:
		m.onDelivered(msg)
	case showMsg:
		m.onShow(msg)
	case connectionMsg:
		m.away = msg.gone
		m.printDim(msg.text)
	case exportedMsg:
		m.onExported(msg)
	case renamedMsg:
		m.onRenamed(msg)
	case outputMsg:
		m.onOutput(msg)
	case keyMsg:
		m.onKeyAlone(msg)
	case completedMsg:
		m.onCompleted(completion(msg))
	case printedMsg:
		m.onPrinted()
	case readyMsg:
		m.ready = true
	case tickMsg:
		m.ticking = false
		m.frame++
	case leaveMsg:
		m.leaveNow()
	}
	return nil
}

// busy says whether anything but a person is awaited.
func (m *model) busy() bool { return m.request == nil && m.awaited() }

// awaited says whether a message has no answer yet.
func (m *model) awaited() bool { return m.turn.running || len(m.asked) > 0 || len(m.onWay) > 0 }

// animate keeps the spinner going while there is something to wait for, and lets the terminal rest otherwise.
func (m *model) animate() tea.Cmd {
	if m.ticking || m.gone || !m.busy() && !m.away {
		return nil
	}
	m.ticking = true
	return tea.Tick(frameTime, func(time.Time) tea.Msg { return tickMsg{} })
}

// onShow prints a reply or notice under its question. The answer takes the place of what was streamed.
func (m *model) onShow(s showMsg) {
	done := func() { s.done <- m.wrote() }
	if !m.shown.add(s.message.ID) {
		m.printer.queue = append(m.printer.queue, printJob{done: done}) // behind the first showing of it
		return
	}
	to := s.message.InReplyTo
	help := isHelp(m.asked[to])
	for _, id := range s.message.Answers() {
		m.bringQuestion(id)
		if !goesOn(s.message) {
			delete(m.asked, id)
		}
	}
	if s.message.Kind == corebot.KindNotice {
		m.onNotice(to)
		text := drawable(s.message.Text())
		if help {
			text += "\n" + localHelp()
		}
		m.follow(s.message)
		m.printThen(m.paint(text, m.look.dim)+"\n", done)
		return
	}
	m.stopID = ""
	if m.request != nil && slices.Contains(s.message.Answers(), m.request.message) {
		m.request = nil
	}
	if to != "" {
		m.answered.add(to)
		m.dropTurn(to)
	}
	m.printThen(m.answers.render(s.message.Text(), m.width)+"\n", done)
}

// onNotice prints what a turn streamed that the user has stopped, before the notice that it has ended.
func (m *model) onNotice(to string) {
	if m.stopID == "" || to == m.stopID {
		return
	}
	m.stopID = ""
	if to == m.turn.id {
		m.printPartial(m.turn, string(corebot.EndStopped))
		m.turn = turn{}
	}
}

// bringQuestion makes sure that whoever reads the reply knows what it replies to: nothing to do if that is the last
// question on the screen.
func (m *model) bringQuestion(id string) {
	if id == "" || id == m.last || nobodyTyped(id) {
		return
	}
	if text, waiting := m.asked[id]; waiting && !m.seen.has(id) {
		m.printQuestion(letter{id: id, text: text})
		return
	}
	text, known := m.history.question(id)
	switch {
	case m.seen.has(id) && !known: // too long for the history, or the /stop of Ctrl-C
		return
	case known:
		text = "in reply to: " + oneLine(text, noteWidth)
	default:
		text = "in reply to the earlier message " + oneLine(id, noteWidth)
	}
	m.last = id
	m.print(m.look.dim.Render(wrap(text, m.width)))
}

// nobodyTyped says whether a message has a text of Corebot's own: it runs calls that were approved after their answer.
func nobodyTyped(id string) bool {
	_, runs := corebot.RunOfApproval(id)
	return runs
}

// recall notes the questions that stand on the screen since the chat was opened.
func (m *model) recall(past []corebot.HistoryEntry) {
	for _, e := range past {
		if e.Speaker == corebot.SpeakerUser && e.MessageID != "" {
			m.seen.add(e.MessageID)
			m.last = e.MessageID
		}
	}
}

func (m *model) printQuestion(l letter) {
	m.seen.add(l.id)
	m.last = l.id
	text := wrap(drawable(l.text), m.width-promptColumns)
	if l.attached != "" {
		text += "\n" + m.look.dim.Render(wrap("attached: "+drawable(l.attached), m.width-promptColumns))
	}
	m.print(m.look.question.Render(promptMark) + indent(text) + "\n")
}

// printDim prints what Corebot itself says.
func (m *model) printDim(text string) {
	m.print(m.look.dim.Render(wrap(drawable(text), m.width)) + "\n")
}

func (m *model) printError(err error) {
	m.print(m.look.bad.Render(wrap(drawable(describe(err)), m.width)) + "\n")
}
