package storage

import (
	"time"

	"github.com/corebot/corebot"
)

// flows are the principals as claims see them: each has lanes that run, and lanes that are held back so that others have their turn. It is
// the writer's, and follows its transactions: what a transaction changes is undone if the transaction did not happen.
type flows struct {
	running map[int64]corebot.Principal    // leased lanes, by whose message is at their head
	of      map[corebot.Principal]flow     // those that have any
	stalled map[corebot.Principal]bool     // those with lanes held back and none of them in line
	inLine  map[int64]corebot.Principal    // lanes in line, by whose they are
	looked  time.Time                      // when the lines were last looked through
	served  [2]map[corebot.Principal]int64 // when the latest turn of a principal began; two generations
	waiting waiting
	spoken  rates[speaker] // commands that find nothing to do
	begun   rates[speaker] // turns of new messages
	undo    []func()
}

// speaker is a sender in a chat; one without an id is everybody without an id there.
type speaker struct {
	chat   corebot.Key
	sender string
}

// flow is one principal.
type flow struct {
	running int       // turns
	held    int       // lanes held back
	next    int64     // the lane that is in line for him, while others are held back; 0: none
	since   time.Time // when that one was put in line
}

func newFlows() *flows {
	f := &flows{
		running: map[int64]corebot.Principal{}, of: map[corebot.Principal]flow{}, stalled: map[corebot.Principal]bool{}, inLine: map[int64]corebot.Principal{},
		waiting: waiting{of: map[corebot.Principal]share{}},
	}
	f.waiting.undo = &f.undo
	f.spoken, f.begun = newRates[speaker](&f.undo), newRates[speaker](&f.undo)
	return f
}

// keep takes over what no database has from the flows before these.
func (f *flows) keep(earlier *flows) {
	f.spoken, f.begun = earlier.spoken, earlier.begun
	f.spoken.undo, f.begun.undo = &f.undo, &f.undo
}

var runningLanes = &query{`SELECT l.id, l.channel, l.account, m.sender FROM lanes l
	JOIN message_queue q ON q.lane_id = l.id AND q.seq = (SELECT MIN(h.seq) FROM message_queue h WHERE h.lane_id = l.id AND h.seq > l.past)
	JOIN message_life m ON m.id = q.life_id WHERE l.pool = ? AND l.leased = 1 AND l.wake_at > ?`}

// loadFlows begins anew with what the database says: whose turns run. Nothing is held back any more. Of a turn whose message cannot be read
// nobody knows whose it is; then some principals can have more turns for a while.
func loadFlows(c *prepared, now time.Time) (*flows, error) {
	f := newFlows()
	if _, err := c.exec(releaseHeld, now); err != nil {
		return nil, err
	}
	_ = c.each(runningLanes, func(s scanner) error {
		l := &claimed{}
		err := s.Scan(&l.lane, &l.sender.Channel, &l.sender.Account, &l.sender.ID)
		f.lease(l)
		return err
	}, string(corebot.InboundPool), now)
	f.commit()
	return f, nil
}

// commit makes what was changed final, and rollback undoes it.
func (f *flows) commit() { f.undo = f.undo[:0] }

func (f *flows) rollback() {
	for i := len(f.undo) - 1; i >= 0; i-- {
		f.undo[i]()
	}
	f.commit()
}

func (f *flows) change(p corebot.Principal, by func(*flow)) {
	was := f.of[p]
	now := was
	by(&now)
	f.undo = append(f.undo, func() { f.put(p, was) })
	f.put(p, now)
}

func (f *flows) put(p corebot.Principal, now flow) {
	delete(f.inLine, f.of[p].next)
	if now.next != 0 {
		f.inLine[now.next] = p
	}
	if now.running == 0 && now.held == 0 && now.next == 0 {
		delete(f.of, p)
	} else {
		f.of[p] = now
	}
	if now.held > 0 && now.next == 0 {
		f.stalled[p] = true
	} else {
		delete(f.stalled, p)
	}
}

// maxServed bounds the principals of whom is known when their latest turn began.
const maxServed = 4_096

// serve notes that a turn of a principal begins.
func (f *flows) serve(p corebot.Principal, now int64) {
	if f.served[0] == nil || len(f.served[0]) >= maxServed/2 {
		f.served[0], f.served[1] = map[corebot.Principal]int64{}, f.served[0]
	}
	f.served[0][p] = now
}

// overtakes says whether a lane was ready already when the latest turn of its principal began: those who wait come before it now.
func (f *flows) overtakes(c *claimed) bool {
	at, ok := f.served[0][c.sender]
	if !ok {
		at, ok = f.served[1][c.sender]
	}
	return ok && c.readyAt <= at
}

// lease notes that a turn of a principal runs.
func (f *flows) lease(c *claimed) {
	f.release(c.lane)
	f.running[c.lane] = c.sender
	f.undo = append(f.undo, func() { delete(f.running, c.lane) })
	f.change(c.sender, func(v *flow) {
		v.running++
		if v.next == c.lane {
			v.next = 0
		}
		if c.held {
			v.held--
		}
	})
}

// release notes that the turn of a lane has ended, and says whether that may make room for others.
func (f *flows) release(lane int64) (room bool) {
	p, ok := f.running[lane]
	if !ok {
		return false
	}
	delete(f.running, lane)
	f.undo = append(f.undo, func() { f.running[lane] = p })
	f.change(p, func(v *flow) { v.running-- })
	return len(f.stalled) > 0
}

// room says whether a principal may have one more turn besides some that are about to begin, of the turns that can run at once. He may have as
// many as are left for others, and always one. So one principal alone has half of them, the next one a half of the rest, and there is
// nearly always one for somebody who comes late.
func (f *flows) room(p corebot.Principal, his, all, turns int) bool {
	running := f.of[p].running + his
	return running == 0 || running < turns-len(f.running)-all
}

// lineTime is how long a lane stays in line for its principal before another is put beside it. A lane that cannot be claimed, such as one that is
// damaged, must not keep the others back.
const lineTime = 10 * time.Second

// lookThrough finds the principals whose lane in line was not claimed for long, once in a while.
func (f *flows) lookThrough(now time.Time) {
	if now.Sub(f.looked) < lineTime && !now.Before(f.looked) {
		return
	}
	f.looked = now
	for p, v := range f.of {
		if v.held > 0 && v.next != 0 && now.Sub(v.since) >= lineTime {
			f.change(p, func(v *flow) { v.next = 0 })
		}
	}
}
