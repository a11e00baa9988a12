package cli

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/corebot/corebot"
)

// onKey gives the keys that mean something to the chat their meaning; all others belong to the editor.
func (m *model) onKey(k tea.KeyPressMsg) tea.Cmd {
	m.candidates = nil
	switch k.String() {
	case "enter":
		m.stopID = ""
		m.submit()
		return nil
	case "tab":
		return m.complete()
	case "ctrl+c":
		m.interrupt()
		return nil
	case "ctrl+d":
		if m.editor.empty() {
			m.leave()
			return nil
		}
	}
	m.pressed(k.String())
	m.stopID = "" // whoever types on does not mean to leave
	return m.editor.press(k)
}

// submit puts what was typed on its way. The input is free at once, and the order of typing is the order of accepting.
func (m *model) submit() {
	text := m.editor.text()
	switch {
	case strings.TrimSpace(text) == "" || m.leaving:
		return
	case m.answer(), m.local(text):
		return
	}
	l := newLetter(text)
	if text == m.returned.text {
		l = m.returned // the door may have stored it after all: under the same id it cannot become two
	}
	m.returned = letter{}
	if err := m.history.add(prompt{l.id, l.text}); err != nil {
		m.printError(err)
		m.history.path = "" // said once; from now on it is in memory only
	}
	m.editor.set("")
	m.send(l)
}

// send puts a letter on its way, behind those that are.
func (m *model) send(l letter) {
	m.asked[l.id] = l.text // before it is accepted: its answer may come before the door's
	m.onWay = append(m.onWay, l)
	if len(m.onWay) == 1 {
		m.deliver(l)
	}
}

// onDelivered shows what was accepted and sends the next one, or gives back what was refused.
func (m *model) onDelivered(d deliveredMsg) {
	if d.letter.id == m.stopID {
		m.onStopDelivered(d.err)
		return
	}
	if len(m.onWay) == 0 || m.onWay[0].id != d.letter.id {
		return // a /stop that is already answered
	}
	m.onWay[0] = d.letter // with the files that it attaches
	if d.err != nil {
		m.giveBack(d.err)
	} else {
		m.onWay = m.onWay[1:]
		if isControl(d.letter.text) {
			delete(m.asked, d.letter.id) // it acted when it was accepted
		}
		if !m.seen.has(d.letter.id) { // else its answer was faster
			m.printQuestion(d.letter)
		}
		if len(m.onWay) > 0 {
			m.deliver(m.onWay[0])
		}
	}
	if m.leaving && len(m.onWay) == 0 {
		m.leaveNow()
	}
}

// isControl holds for the commands that act when they are accepted and for which no turn runs.
func isControl(text string) bool {
	return corebot.Read(text).Kind == corebot.KindControl
}

// giveBack shows why a message was refused and returns it to the input, with those that were typed after it: they may
// not make sense without it.
func (m *model) giveBack(err error) {
	m.printError(err)
	if m.leaving {
		m.leaveNow() // which prints what was not sent
		return
	}
	m.returned = m.onWay[0]
	var texts []string
	for _, l := range m.onWay {
		delete(m.asked, l.id)
		texts = append(texts, l.text)
	}
	m.onWay = nil
	if typing := m.editor.text(); typing != "" {
		texts = append(texts, typing)
	}
	m.editor.set(strings.Join(texts, "\n"))
}

// interrupt is Ctrl-C: it clears what is typed; with nothing typed it stops what runs; and it leaves if nothing runs,
// or if that was stopped before.
func (m *model) interrupt() {
	switch {
	case m.leaving:
		m.leaveNow()
	case !m.editor.empty():
		m.editor.discard()
		m.print(m.look.dim.Render("the input is cleared; the up arrow brings it back"))
	case m.stopID != "" || m.away || !m.awaited():
		m.leave()
	default:
		m.stop()
	}
}

func (m *model) stop() {
	stop := newLetter("/stop")
	m.stopID = stop.id
	m.seen.add(stop.id)
	m.print(m.look.dim.Render("stopping; Ctrl-C again leaves"))
	m.deliver(stop)
}

func (m *model) onStopDelivered(err error) {
	if err != nil {
		m.stopID = ""
		m.printError(fmt.Errorf("stop the turn: %w", err))
	}
}

// leave waits for what is on its way to the door, since Enter was pressed on it. Asked again, it does not wait.
func (m *model) leave() {
	if len(m.onWay) > 0 && !m.leaving {
		m.leaving = true
		return
	}
	m.leaveNow()
}

// leaveNow ends the chat once everything is printed that would be lost.
func (m *model) leaveNow() {
	if m.gone {
		return
	}
	m.leaving, m.gone = true, true
	for _, t := range append(m.unsent, m.turn) {
		m.printPartial(t, "")
	}
	m.unsent, m.turn = nil, turn{}
	m.saveInput()
	for _, l := range m.onWay {
		m.print(wrap(m.look.bad.Render("perhaps not sent: ")+drawable(l.text), m.width))
	}
	m.onWay = nil
}

// saveInput keeps what is typed, and was not sent, for the next time: no key of the user has given it up.
func (m *model) saveInput() {
	text := m.editor.text()
	if strings.TrimSpace(text) == "" {
		return
	}
	m.print(wrap(m.look.bad.Render("not sent: ")+drawable(text), m.width))
	if err := m.history.add(prompt{Text: text}); err != nil {
		m.printError(err)
	}
}
