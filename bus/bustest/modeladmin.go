package bustest

import (
	"fmt"

	"github.com/corebot/corebot"
)

// takeDead removes a random dead letter from the model.
func (m *model) takeDead() (*modelMessage, bool) {
	if len(m.dead) == 0 {
		return nil, false
	}
	i, last := m.rand.IntN(len(m.dead)), len(m.dead)-1
	x := m.dead[i]
	m.dead[i] = m.dead[last]
	m.dead = m.dead[:last]
	m.audit++ // each change of a dead letter leaves an audit event
	return x, true
}

// replay replays a dead letter. A second replay finds nothing. The store under test has no limits of its own.
func (m *model) replay() {
	x, ok := m.takeDead()
	if !ok {
		return
	}
	fresh := m.rand.IntN(2) == 0
	m.note("replay %s, fresh: %v", x.ID, fresh)
	m.s.must(m.s.DeadLetters.Replay(m.s.t.Context(), x.life, fresh))
	m.s.wantErr(m.s.DeadLetters.Replay(m.s.t.Context(), x.life, fresh), corebot.ErrNotFound)
	x.run++
	if fresh {
		x.steps = 0
	}
	m.enqueue(x)
}

// edit replays a dead letter with another text under a new id, and drops the old letter.
func (m *model) edit() {
	x, ok := m.takeDead()
	if !ok {
		return
	}
	edited := x.Message
	edited.ID, edited.Parts = fmt.Sprint("edited ", len(m.all)), corebot.TextPart("edited")
	m.note("edit %s as %s", x.ID, edited.ID)
	m.s.wantErr(m.s.Administer.Edit(m.s.t.Context(), x.life, x.ID, "a text"), corebot.ErrConflict)
	m.s.must(m.s.Administer.Edit(m.s.t.Context(), x.life, edited.ID, edited.Text()))
	m.s.wantErr(m.s.Administer.Edit(m.s.t.Context(), x.life, edited.ID, edited.Text()), corebot.ErrNotFound)
	m.push(edited, 0)
}

func (m *model) drop() {
	x, ok := m.takeDead()
	if !ok {
		return
	}
	m.note("drop %s", x.ID)
	m.s.must(m.s.Administer.Drop(m.s.t.Context(), x.life))
	m.s.wantErr(m.s.Administer.Drop(m.s.t.Context(), x.life), corebot.ErrNotFound)
}

// stop stops the head of a chat. Sometimes it names a message that is not the head, and sometimes it repeats an
// accepted /stop.
func (m *model) stop() {
	x, ok := pick(m, m.all)
	if !ok || x.lane.direction != corebot.Inbound {
		return
	}
	l, head := x.lane, int64(0)
	if len(l.queue) > 0 {
		head = l.queue[0].life
	}
	if again, ok := pick(m, m.stops); ok && m.rand.IntN(5) == 0 {
		m.stopAgain(again, head)
		return
	}
	target := head
	if m.rand.IntN(4) == 0 {
		target = x.life
	}
	found := target == head && head != 0
	id := fmt.Sprint("stop ", len(m.stops))
	m.note("stop life %d of %s; its head is %d", target, l.chat, head)
	duplicate, foundIt := m.s.stopIn(l.chat, id, target)
	if duplicate || foundIt != found {
		m.s.t.Fatalf("the stop: duplicate %v, found %v, want found %v", duplicate, foundIt, found)
	}
	m.stops, m.control[l.chat] = append(m.stops, modelStop{l.chat, id}), true
	m.lives++ // of the /stop itself
	m.push(stopNotice(l.chat, id, found), 0)
	if found {
		l.stopSeq = l.queue[0].seq
		if !l.leased {
			l.wake = min(l.wake, nowMS())
		}
	}
}

// stopAgain: a duplicate stops nothing, whatever is the head now.
func (m *model) stopAgain(s modelStop, head int64) {
	m.note("%s in %s again", s.id, s.chat)
	if duplicate, found := m.s.stopIn(s.chat, s.id, head); !duplicate || found {
		m.s.t.Fatalf("%s again: duplicate %v, found %v", s.id, duplicate, found)
	}
}
