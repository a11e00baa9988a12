package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// callsKept bounds how many calls /output still knows.
const callsKept = 500

// shownCall is a call whose line is on the screen. The journal of its message has the output.
type shownCall struct {
	number   int // as the line says
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
}

// printTool prints the line of a call. Its end stands whole, and the arguments have what is left of the line.
func (m *model) printTool(r toolRun, outcome string, number int) {
	mark := m.look.good.Render("✓")
	end := fmt.Sprintf(" [%d]", number)
	if corebot.AuditOutcome(outcome) != corebot.OutcomeSuccess {
		mark = m.look.bad.Render("✗")
		end = " → " + oneLine(outcome, noteWidth/2) + end
	}
	call := oneLine(r.name+" "+briefArgs(r.args), m.width-len("✓ ")-len(end))
	m.print(mark + " " + m.look.dim.Render(strings.TrimSpace(call)+end))
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

// output asks for the output of a call, which is printed when it comes.
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

// paint lays a text out in a style, with the rows of its diffs in colors. A diff begins with the head of a hunk.
func (m *model) paint(text string, other lipgloss.Style) string {
	lines := strings.Split(text, "\n")
	within, lead := false, ""
	for i, line := range lines {
		style := other
		// A request for an approval leads the rows of its diffs.
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

// request is a request for an approval that the turn of a message of this chat waits for.
type request struct {
	id       int64
	message  string
	calls    int
	answered bool // by a key, which means something else from then on
}

// prompt is the line above the input while the request is open.
func (r *request) prompt() string {
	what := "a call waits"
	if r.calls > 1 {
		what = fmt.Sprintf("%d calls wait", r.calls)
	}
	return fmt.Sprintf("y approves, n denies · approval %d: %s", r.id, what)
}

// decide answers the open request with one key, if nothing is typed. The answer is a command as any other.
func (m *model) decide(key string) bool {
	word := map[string]string{"y": "/approve", "n": "/deny"}[key]
	if m.request == nil || m.request.answered || word == "" || !m.editor.empty() {
		return false
	}
	m.request.answered = true
	m.send(newLetter(fmt.Sprintf("%s %d", word, m.request.id)))
	return true
}

// follow remembers a request for an approval that a message of this chat waits for.
func (m *model) follow(o channels.Outbound) {
	if o.Notice == nil || o.Notice.Kind != corebot.NoticeApproval || o.Notice.Approval == nil || o.InReplyTo == "" {
		return
	}
	about := o.Notice.Approval
	m.request = &request{id: about.ID, message: o.InReplyTo, calls: len(about.Calls) + about.MoreCalls}
}

// goesOn says whether a message is still answered after a notice about it.
func goesOn(o channels.Outbound) bool {
	if o.Kind != corebot.KindNotice || o.Notice == nil {
		return false
	}
	switch o.Notice.Kind {
	case corebot.NoticeApproval, corebot.NoticeAwaited, corebot.NoticeDelayed:
		return true
	}
	return false
}

// settleRequest forgets the request when the turn of its message goes on, or ends.
func (m *model) settleRequest(e live.Event) {
	if m.request != nil && m.request.message == e.MessageID && e.Text != live.Waiting {
		m.request = nil
	}
}
