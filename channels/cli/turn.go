package cli

import (
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/mention"
	"github.com/corebot/corebot/internal/runes"
)

const (
	streamKept = 64 << 10 // bytes of a streaming answer that are kept, the newest
	toolsKept  = 64       // as many as run of one answer
	unsentKept = 8        // ended turns whose answers are on their way
)

// turn is what is known of the turn that runs, from live events. Those may be lost: nothing here is relied on, and the
// answer itself comes through Send.
type turn struct {
	id      string // the message that it answers; empty: none runs
	text    string // streamed so far
	cut     bool   // the beginning of text was dropped
	tools   []toolRun
	running bool // false: it ended, and text waits for the answer that replaces it
}

type toolRun struct {
	name, args string
}

// append adds a piece of the answer.
func (t *turn) append(piece string) {
	t.text += piece
	if len(t.text) > 2*streamKept { // halve now and then, instead of copying for every piece
		t.text, t.cut = strings.Clone(runes.Tail(t.text, streamKept)), true
	}
}

func (t *turn) toolStarted(e live.Event) {
	if len(t.tools) < toolsKept {
		t.tools = append(t.tools, toolRun{e.Tool, e.Text})
	}
}

// toolEnded takes the oldest run of that tool off the list. Events do not say which one of several it was.
func (t *turn) toolEnded(name string) toolRun {
	for i, r := range t.tools {
		if r.name == name {
			t.tools = append(t.tools[:i:i], t.tools[i+1:]...)
			return r
		}
	}
	return toolRun{name: name} // its start was missed
}

// onEvent follows the turn. An event of a turn whose answer is already here is late and says nothing new.
func (m *model) onEvent(e live.Event) {
	if m.answered.has(e.MessageID) {
		return
	}
	m.settleRequest(e)
	if e.Kind == live.TurnEnded {
		m.onTurnEnded(e)
		return
	}
	if m.turn.id == e.MessageID && e.Kind == live.TurnStarted { // after a crash: what was streamed comes again
		m.turn = turn{}
	}
	if m.turn.id != e.MessageID || !m.turn.running {
		m.setTurnAside()
		m.turn = turn{id: e.MessageID, running: true}
	}
	switch e.Kind {
	case live.TurnStarted:
		m.showOther(e.MessageID, e.Text)
	case live.Text:
		m.turn.append(e.Text)
	case live.TextReset:
		m.turn.text, m.turn.cut = "", false
	case live.ToolStarted:
		m.turn.toolStarted(e)
	case live.ToolEnded:
		m.endTool(e)
	}
}

// showOther prints a question that was typed at another terminal.
func (m *model) showOther(id, text string) {
	if _, mine := m.asked[id]; mine || m.seen.has(id) || text == "" || nobodyTyped(id) {
		return
	}
	m.seen.add(id)
	m.last = id
	m.print(m.look.dim.Render(promptMark+indent(wrap(drawable(typedText(text)), m.width-promptColumns))) + "\n")
}

// typedText is a message without the content of the files that it attaches.
func typedText(text string) string {
	typed, attached := mention.Typed(text)
	if attached {
		typed += "\n(with attached files)"
	}
	return typed
}

// onTurnEnded keeps an answered turn's text until the answer itself comes. A turn that ended otherwise has none: what
// it said so far is all there is.
func (m *model) onTurnEnded(e live.Event) {
	if e.Text == "retrying" || e.Text == live.Waiting {
		if m.turn.id == e.MessageID {
			m.turn = turn{}
		}
		return // its message still waits
	}
	delete(m.asked, e.MessageID)
	m.stopID = ""
	if m.turn.id != e.MessageID {
		return
	}
	m.turn.running, m.turn.tools = false, nil
	if corebot.End(e.Text) != corebot.EndAnswered {
		m.printPartial(m.turn, e.Text)
		m.turn = turn{}
	}
}

// setTurnAside makes room for the next turn, which may begin before the answer of this one is here.
func (m *model) setTurnAside() {
	if m.turn.text == "" {
		return
	}
	if len(m.unsent) == unsentKept {
		m.printPartial(m.unsent[0], "")
		m.unsent = m.unsent[1:]
	}
	m.unsent = append(m.unsent, m.turn)
}

// dropTurn forgets what a turn streamed, because its answer is here.
func (m *model) dropTurn(id string) {
	if m.turn.id == id {
		m.turn = turn{}
	}
	m.unsent = slices.DeleteFunc(m.unsent, func(t turn) bool { return t.id == id })
}

// printPartial prints what a turn streamed and no answer replaced.
func (m *model) printPartial(t turn, why string) {
	if strings.TrimSpace(t.text) == "" {
		return
	}
	text, note := t.text, "(partial answer"
	if t.cut {
		text = "…" + text
	}
	if why != "" {
		note += ", " + oneLine(why, noteWidth)
	}
	m.bringQuestion(t.id)
	m.print(strings.Trim(wrap(drawable(text), m.width), "\n") + "\n" + m.look.dim.Render(note+")") + "\n")
}
