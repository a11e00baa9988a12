package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// callsKept bounds how many calls /output still knows: the oldest are forgotten first.
const callsKept = 500

// shownCall is a call whose line is on the screen. The journal of the message has the call's output, at position.
type shownCall struct {
	number   int // at the end of the line
	message  string
	position int
	name     string
}

// outputMsg brings the output of a call, for which /output has asked.
type outputMsg struct {
	call   shownCall
	result corebot.ToolResult
	err    error
}

// endTool prints how a call ended: one line with a number, by which /output finds the call. A call that waits for an
// approval has not ended.
func (m *model) endTool(e live.Event) {
	r := m.turn.toolEnded(e.Tool)
	if e.Text == live.Waiting {
		return
	}
	call := shownCall{m.called + 1, e.MessageID, e.Position, e.Tool}
	m.called++
	m.calls = append(m.calls, call)
	m.calls = m.calls[max(len(m.calls)-callsKept, 0):]
	m.printTool(r, e.Text, call.number)
	if e.Note != "" {
		m.print(m.look.dim.Render("  " + indent(wrap(drawable(e.Note), m.width-promptColumns))))
	}
}

// printTool prints the line of a call. The arguments are cut to the columns that the name, the outcome and the number
// leave free. The last column stays empty: see wrap.
func (m *model) printTool(r toolRun, outcome string, number int) {
	mark := m.look.good.Render("✓")
	suffix := fmt.Sprintf(" [%d]", number)
	if corebot.AuditOutcome(outcome) != corebot.OutcomeSuccess {
		mark = m.look.bad.Render("✗")
		suffix = " → " + oneLine(outcome, noteWidth/2) + suffix
	}
	call := oneLine(r.name+" "+briefArgs(r.args), m.width-1-ansi.StringWidth("✓ "+suffix))
	m.print(mark + " " + m.look.dim.Render(strings.TrimSpace(call)+suffix))
}

// briefArgs shows the JSON arguments of a call as name=value, in their order. Anything else is shown as it is.
func briefArgs(args string) string {
	d := json.NewDecoder(strings.NewReader(args))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return args
	}
	var parts []string
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return args
		}
		shown := string(bytes.TrimSpace(value))
		var text string
		switch {
		case json.Unmarshal(value, &text) != nil || text == "" || strings.ContainsAny(text, "\t\n\r\"\\"):
		case strings.ContainsAny(text, " ="):
			shown = `"` + text + `"`
		default:
			shown = text
		}
		parts = append(parts, fmt.Sprintf("%v=%s", name, shown))
	}
	return strings.Join(parts, " ")
}

// output asks for the output of the call with a number, or of the last call if args is empty. onOutput prints it.
func (m *model) output(args string) {
	if len(m.calls) == 0 || m.outputs == nil {
		m.printDim("no tool call was shown here yet")
		return
	}
	call := m.calls[len(m.calls)-1]
	if args != "" {
		n, err := strconv.Atoi(args)
		at := slices.IndexFunc(m.calls, func(c shownCall) bool { return c.number == n })
		if err != nil || at < 0 {
			m.printDim(fmt.Sprintf("there is no call %s here: each call's line ends with its number", args))
			return
		}
		call = m.calls[at]
	}
	m.later = append(m.later, func() tea.Msg {
		result, err := m.outputs(call.message, call.position)
		return outputMsg{call, result, err}
	})
}

func (m *model) onOutput(o outputMsg) {
	if o.err != nil {
		m.printError(fmt.Errorf("read the output of call %d: %w", o.call.number, o.err))
		return
	}
	head := fmt.Sprintf("output of call %d, %s", o.call.number, o.call.name)
	if o.result.Outcome != corebot.OutcomeSuccess {
		head += " → " + string(o.result.Outcome)
	}
	m.printDim(head + ":")
	text := drawable(o.result.Content)
	if strings.TrimSpace(text) == "" {
		text = "(nothing)"
	}
	m.print(m.paint(strings.Trim(text, "\n"), m.look.plain) + "\n")
}

// paint wraps a text to the width of the screen. The rows of a diff get their colors, and all other rows get usual. A
// diff begins with the head of a hunk ("@@ ").
func (m *model) paint(text string, usual lipgloss.Style) string {
	lines := strings.Split(text, "\n")
	within, lead := false, ""
	for i, line := range lines {
		style := usual
		// In a request for an approval, each row of a diff begins with "| ".
		if bare := strings.TrimPrefix(line, "| "); strings.HasPrefix(bare, "@@ ") {
			within, lead = true, strings.TrimSuffix(line, bare)
		}
		row, led := strings.CutPrefix(line, lead)
		within = within && led && row != "" && strings.Contains("@+- \\", row[:1])
		switch {
		case within && row[0] == '@':
			style = m.look.dim
		case within && row[0] == '+':
			style = m.look.good
		case within && row[0] == '-':
			style = m.look.bad
		}
		rows := strings.Split(wrap(line, m.width), "\n")
		for j, row := range rows {
			rows[j] = style.Render(row)
		}
		lines[i] = strings.Join(rows, "\n")
	}
	return strings.Join(lines, "\n")
}

// request is the open request for an approval in this chat. A newer request takes its place.
type request struct {
	id       int64
	message  string            // the message whose turn waits for the approval
	calls    int               // how many calls wait
	made     time.Time         // by the clock of the process that runs the turn, cut to milliseconds
	commands map[string]string // what each key sends
	answered bool              // an answer was sent: the keys are ordinary letters from then on
}

// answerKeys are the keys of the answers to a request, by the names of its actions, in the order of the screen.
var answerKeys = []struct{ action, key, says string }{
	{"approve", "y", "y once"},
	{"approve-session", "s", "s session"},
	{"approve-always", "a", "a always"},
	{"deny", "n", "n deny"},
	{"deny-stop", "N", "N stop"},
}

// newRequest reads a request for an approval from its notice. ok is false for every other message. It is also false for
// a request that belongs to no message of this chat.
func newRequest(o channels.Outbound) (r *request, ok bool) {
	n := o.Notice
	if n == nil || n.Kind != corebot.NoticeApproval || n.Approval == nil || o.InReplyTo == "" {
		return nil, false
	}
	r = &request{
		id: n.Approval.ID, message: o.InReplyTo, calls: len(n.Approval.Calls) + n.Approval.MoreCalls,
		made: o.CreatedAt, commands: map[string]string{},
	}
	for _, k := range answerKeys {
		for _, a := range n.Actions {
			if a.Name == k.action {
				r.commands[k.key] = a.Command
			}
		}
	}
	return r, true
}

// prompt is the line above the input while the request is open. On a narrow terminal the line loses first the number of
// calls, then the meanings of the keys, which the request itself tells. The keys alone need 9 columns at most.
func (r *request) prompt(width int) string {
	what := "a call waits"
	if r.calls > 1 {
		what = fmt.Sprintf("%d calls wait", r.calls)
	}
	var keys, names []string
	for _, k := range answerKeys {
		if r.commands[k.key] != "" {
			keys, names = append(keys, k.key), append(names, k.says)
		}
	}
	short, long := strings.Join(keys, " "), strings.Join(names, ", ")
	for _, line := range []string{
		fmt.Sprintf("%s · approval %d: %s", long, r.id, what), long, fmt.Sprintf("%s · approval %d", short, r.id),
	} {
		if ansi.StringWidth(line) <= width {
			return line
		}
	}
	return oneLine(short, width) // nobody can read it: such a terminal has less than 9 columns
}

// keyPause is how long a key stands alone in the input before it answers a request. A person who types on means a
// text: a text that begins with "also" must not approve anything.
const keyPause = 500 * time.Millisecond

// keyMsg says that keyPause has passed since a key was pressed.
type keyMsg struct {
	request int64
	key     string
}

// pressed starts the pause after which a key answers the open request. It is called before the key is in the input.
func (m *model) pressed(key string) {
	if !m.isAnswer(key) || !m.editor.empty() {
		return
	}
	alone := keyMsg{m.request.id, key}
	m.later = append(m.later, tea.Tick(keyPause, func(time.Time) tea.Msg { return alone }))
}

// onKeyAlone answers the request if the key still stands alone in the input.
func (m *model) onKeyAlone(k keyMsg) {
	if m.request != nil && m.request.id == k.request && m.editor.text() == k.key {
		m.answer()
	}
}

// isAnswer says whether a text in the input is the key of an answer to the open request.
func (m *model) isAnswer(text string) bool {
	return m.request != nil && !m.request.answered && m.request.commands[text] != ""
}

// answer sends the command of the key that stands in the input. It returns false if the input is not a key's.
func (m *model) answer() bool {
	key := m.editor.text()
	if !m.isAnswer(key) {
		return false
	}
	m.editor.set("")
	m.request.answered = true
	m.send(newLetter(m.request.commands[key]))
	return true
}

// follow takes over a new request for an approval, and drops the open one at a notice that ends its message. A notice
// that offers the request's answers again says that the last answer was not accepted, so the keys work again. The end
// of a message by a reply is left to settleRequest.
func (m *model) follow(o channels.Outbound) {
	if r, is := newRequest(o); is {
		m.request = r
		return
	}
	switch {
	case m.request == nil || o.Notice == nil:
	case o.InReplyTo == m.request.message && !goesOn(o):
		m.request = nil // its message has ended
	case slices.ContainsFunc(o.Notice.Actions, func(a corebot.Action) bool {
		return a.Command == m.request.commands["y"]
	}):
		m.request.answered = false
	}
}

// goesOn says whether a message is still answered after a notice about it.
func goesOn(o channels.Outbound) bool {
	if o.Kind != corebot.KindNotice || o.Notice == nil {
		return false
	}
	switch o.Notice.Kind {
	case corebot.NoticeApproval, corebot.NoticeAwaited, corebot.NoticeDelayed, corebot.NoticeWait:
		return true
	}
	return false
}

// settleRequest drops the request when the turn of its message goes on or ends. The request is a message and arrives by
// another way than the events. So an event that is older than the request can arrive later, and does not count.
func (m *model) settleRequest(e live.Event) {
	r := m.request
	if r == nil || r.message != e.MessageID || e.Text == live.Waiting {
		return
	}
	if e.At.Truncate(time.Millisecond).After(r.made) {
		m.request = nil
	}
}
