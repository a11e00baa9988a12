package bustest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
)

// fresh is a message that was never published, for a random lane.
func (m *model) fresh() corebot.Message {
	chat, id := fmt.Sprint("chat ", m.rand.IntN(modelChats)), fmt.Sprint("m", len(m.all))
	if m.rand.IntN(6) == 0 {
		return reply(chat, id)
	}
	return prompt(chat, id)
}

func name(l *modelLane, id string) string { return fmt.Sprint(l.direction, " ", l.chat, " ", id) }

// push adds an accepted message to the tail of its lane.
func (m *model) push(msg corebot.Message, life int64) *modelMessage {
	l := m.lane(msg.Direction, msg.Key.Chat)
	x := &modelMessage{Message: msg, lane: l, life: life, run: 1}
	m.all = append(m.all, x)
	m.known[name(l, msg.ID)] = x
	m.lives++
	m.enqueue(x)
	return x
}

func (m *model) enqueue(x *modelMessage) {
	l := x.lane
	if len(l.queue) == 0 {
		l.wake = nowMS()
	}
	x.seq = l.nextSeq
	l.nextSeq++
	l.queue = append(l.queue, x)
	m.waiting[l.direction]++
}

// full lists the refusals that a new message can meet.
func (m *model) full(msg corebot.Message) (refusals []error) {
	for _, l := range m.lanes {
		if l.direction == msg.Direction && l.chat == msg.Key.Chat && len(l.queue) >= modelLaneDepth {
			refusals = append(refusals, corebot.ErrLaneFull)
		}
	}
	if m.waiting[msg.Direction] >= modelTotalDepth {
		refusals = append(refusals, corebot.ErrOverloaded)
	}
	return refusals
}

// received checks the receipt of a new message against the limits.
func (m *model) received(msg corebot.Message, r corebot.Receipt, err error) {
	m.s.t.Helper()
	refusals := m.full(msg)
	m.note("publish %v %s in %s: %+v %v", msg.Direction, msg.ID, msg.Key.Chat, r, err)
	switch {
	case len(refusals) == 0 && (err != nil || r.Duplicate || r.Life == 0):
		m.s.t.Fatalf("publish %s: %+v, %v", msg.ID, r, err)
	case len(refusals) == 0:
		m.push(msg, r.Life)
	case !slices.ContainsFunc(refusals, func(want error) bool { return errors.Is(err, want) }):
		m.s.t.Fatalf("publish %s over a limit: %+v, %v, want one of %v", msg.ID, r, err, refusals)
	}
}

func (m *model) publish() {
	msg := m.fresh()
	r, err := m.s.bus.Publish(m.s.t.Context(), msg)
	m.received(msg, r, err)
}

// publishAgain repeats an accepted message, although limits are reached and whatever has happened to it.
func (m *model) publishAgain() {
	x, ok := pick(m, m.all)
	if !ok {
		return
	}
	r, err := m.s.bus.Publish(m.s.t.Context(), x.Message)
	m.note("publish %s again: %+v %v", x.ID, r, err)
	m.s.must(err)
	if !r.Duplicate || x.life != 0 && r.Life != x.life {
		m.s.t.Fatalf("publish %s again: %+v, want a duplicate of life %d", x.ID, r, x.life)
	}
}

// publishOther publishes another body under a used id.
func (m *model) publishOther() {
	x, ok := pick(m, m.all)
	if !ok {
		return
	}
	other := x.Message
	other.Parts = corebot.TextPart("another text")
	_, err := m.s.bus.Publish(m.s.t.Context(), other)
	m.note("publish another %s: %v", x.ID, err)
	m.s.wantErr(err, corebot.ErrConflict)
}

// publishBatch stores several messages in one transaction: new ones, one of them twice, and one that was accepted
// before.
func (m *model) publishBatch() {
	var batch []corebot.Message
	for i := range 1 + m.rand.IntN(4) {
		msg := m.fresh()
		msg.ID += fmt.Sprint("/", i)
		batch = append(batch, msg)
	}
	batch = append(batch, batch[0])
	if x, ok := pick(m, m.all); ok {
		batch = append(batch, x.Message)
	}
	receipts, err := m.s.Queue.Publish(m.s.t.Context(), batch, m.s.opts.Limits)
	m.s.must(err)
	for i, msg := range batch {
		x := m.known[name(m.lane(msg.Direction, msg.Key.Chat), msg.ID)]
		if x == nil {
			m.received(msg, receipts[i], receipts[i].Err)
			continue
		}
		m.note("publish %s again in a batch: %+v", msg.ID, receipts[i])
		if r := receipts[i]; r.Err != nil || !r.Duplicate || x.life != 0 && r.Life != x.life {
			m.s.t.Fatalf("publish %s again in a batch: %+v, want a duplicate of life %d", msg.ID, r, x.life)
		}
	}
}

// standing finds the place of a message in its lane. waits says that no work on it has begun, and ended that it is not
// there. A message whose turn has begun, in this run or an earlier one, is neither.
func (m *model) standing(x *modelMessage) (place int, waits, ended bool) {
	place = slices.Index(x.lane.queue, x)
	if place < 0 {
		return place, false, true
	}
	return place, (place > 0 || !x.lane.begun) && x.run == 1 && x.steps == 0, false
}

// change edits a message: it takes the place of one that waits, and of one that has ended it is heard.
func (m *model) change() {
	x, ok := pick(m, m.all)
	if !ok || x.lane.direction != corebot.Inbound {
		return
	}
	for x.edited != nil {
		x = x.edited
	}
	place, waits, ended := m.standing(x)
	if !waits && !ended {
		return
	}
	edit := prompt(x.lane.chat, fmt.Sprint("edit ", len(m.all)))
	edit.EditOf = x.ID
	r, err := m.s.bus.Publish(m.s.t.Context(), edit)
	m.note("edit %s, which waits: %v: %+v %v", x.ID, waits, r, err)
	m.s.must(err)
	if r.Duplicate || r.Life == 0 {
		m.s.t.Fatalf("edit %s: %+v", x.ID, r)
	}
	y := &modelMessage{Message: edit, lane: x.lane, life: r.Life, run: 1, seq: x.seq}
	m.all, m.known[name(x.lane, edit.ID)] = append(m.all, y), y
	m.lives++
	x.lane.nextSeq++
	if ended {
		m.hear(x.lane, x.lane.nextSeq-1)
		return
	}
	x.lane.queue[place], x.edited = y, y
}

// hear adds an entry to the history at a place, and forgets those that are [corebot.MaxHeard] places behind.
func (m *model) hear(l *modelLane, place int) {
	newest := place - corebot.MaxHeard
	before := len(l.heard)
	l.heard = slices.DeleteFunc(l.heard, func(h int) bool { return h > newest-corebot.MaxHeard && h <= newest })
	l.heard = append(l.heard, place)
	m.history += len(l.heard) - before
}

// cancel deletes a message: one that waits ends, and nothing happens to one that has ended.
func (m *model) cancel() {
	x, ok := pick(m, m.all)
	if !ok || x.lane.direction != corebot.Inbound {
		return
	}
	named := x.ID
	for x.edited != nil {
		x = x.edited
	}
	place, waits, ended := m.standing(x)
	if !waits && !ended {
		return
	}
	l := x.lane
	deleted := m.s.deletesIn(l.chat, named)
	m.note("delete %s, which waits: %v: %v", named, waits, deleted)
	if deleted != waits {
		m.s.t.Fatalf("delete %s: %v, want %v", named, deleted, waits)
	}
	if !waits {
		return
	}
	m.lives++ // of the deletion itself
	m.control[l.chat] = true
	l.queue = slices.Delete(l.queue, place, place+1)
	m.waiting[l.direction]--
	if place == 0 {
		l.wake = nowMS() - moment.Milliseconds() // before the suite let a moment pass
	}
}
