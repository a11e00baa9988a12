package storage

import (
	"time"

	"github.com/corebot/corebot"
)

// Lanes are served fairly between principals first, then between the lanes of each. When more lanes are ready than workers wait, a principal has
// one lane in line at a time: the others are held back, out of the way of everybody else's. When that one is claimed, the next goes to the
// end of the line. So hundreds of chats of one sender wait behind one chat of another, and no claim walks past them twice: a lane is held back
// once, and put in line once. A principal whose turns take all the room that he may have has no lane in line until one of them ends.

var (
	headSender  = &query{`SELECT m.sender, q.seq FROM message_queue q JOIN message_life m ON m.id = q.life_id WHERE q.lane_id = ? AND q.seq > ? ORDER BY q.seq LIMIT 1`}
	holdLane    = &query{`UPDATE lanes SET wake_at = ?, held_for = ?, held_at = ? WHERE id = ?`}
	lineUp      = &query{`UPDATE lanes SET wake_at = ?, held_for = NULL WHERE id = ?`}
	longestHeld = &query{`SELECT id FROM lanes WHERE pool = ? AND channel = ? AND account = ? AND held_for = ? AND depth > 0 ORDER BY held_at LIMIT 1`}
	releaseHeld = &query{`UPDATE lanes SET wake_at = CASE WHEN depth > 0 THEN ? END, held_for = NULL WHERE held_for IS NOT NULL`}
)

const (
	heldUntil  = 7_258_118_400_000 // the year 2200, in unix milliseconds: after everything that falls due
	maxFlows   = 10_000            // principals that may have lanes held back; more are served as they come
	fairRounds = 8                 // looks at the ready lanes in one transaction
	fairLook   = 64                // lanes that are looked at beyond those that are wanted
)

// fairness says what is to be chosen.
type fairness struct {
	pool  corebot.Pool
	want  int
	terms corebot.Terms
	aside int                                // lanes that are set aside, and among those that are ready
	skip  func(lane int64) (skip, soon bool) // whether a lane is one of them; soon: it is to be looked at again soon
}

// fairTx chooses up to want of a pool's ready lanes. whole says that no other lane is ready. An error is [*unserved].
func (f *flows) fairTx(t *tx, want fairness) (chosen []claimed, whole bool, err error) {
	f.lookThrough(t.now)
	p := pick{flows: f, fairness: want, now: t.now, look: 1, lanes: map[int64]bool{}, his: map[corebot.Principal]int{}, begins: map[speaker]int{}}
	for range fairRounds {
		if err := p.lineUpTx(t); err != nil {
			return nil, false, &unserved{pool: p.pool, err: err}
		}
		if whole, err = p.roundTx(t); err != nil || whole || len(p.chosen) == p.want {
			return p.chosen, whole, err
		}
	}
	return p.chosen, false, nil
}

// pick is one choice of lanes.
type pick struct {
	*flows
	fairness
	now    time.Time
	look   int // lanes to be looked at beyond those that are wanted: one in the first round, which mostly is enough
	chosen []claimed
	lanes  map[int64]bool            // those chosen
	his    map[corebot.Principal]int // how many of them are whose
	begins map[speaker]int           // how many of them count for whose rate
}

// lineUpTx puts a lane in line for each principal who has room, and none in line.
func (p *pick) lineUpTx(t *tx) error {
	for who := range p.stalled {
		if !p.mayBegin(who) {
			continue
		}
		lane := int64(0)
		found, err := t.one(longestHeld, []any{&lane}, string(p.pool), who.Channel, who.Account, who.ID)
		if err != nil {
			return err
		}
		if found {
			if _, err := t.exec(lineUp, t.now, lane); err != nil {
				return err
			}
		}
		p.change(who, func(v *flow) {
			if v.held--; !found {
				v.held = 0
			} else {
				v.next, v.since = lane, t.now
			}
		})
	}
	return nil
}

// roundTx looks at the ready lanes once, oldest first. whole says that it has seen all of them, and left none.
func (p *pick) roundTx(t *tx) (whole bool, err error) {
	limit := len(p.chosen) + p.want + p.aside + p.look
	p.look = fairLook
	due, err := readyLanesTx(t, p.pool, limit)
	if err != nil {
		return false, &unserved{pool: p.pool, err: err}
	}
	crowded := len(due) > p.want // others wait, too
	left := false
	for i := range due {
		c := &due[i]
		if len(p.chosen) == p.want {
			return false, nil
		}
		if p.lanes[c.lane] {
			continue
		}
		if skip, soon := p.skip(c.lane); skip {
			left = left || soon
			continue
		}
		stays, err := p.lookTx(t, c, crowded)
		if err != nil {
			return false, &unserved{pool: p.pool, lane: c, err: err}
		}
		left = left || stays
	}
	return len(due) < limit && !left && !p.somebodyHasRoom(), nil
}

// somebodyHasRoom says whether another lane can be put in line.
func (p *pick) somebodyHasRoom() bool {
	for who := range p.stalled {
		if p.mayBegin(who) {
			return true
		}
	}
	return false
}

// mayBegin says whether a lane of a principal can be put in line.
func (p *pick) mayBegin(who corebot.Principal) bool {
	return p.room(who, p.his[who], len(p.chosen), p.terms.Turns) && p.freeFrom(senderAlone(who)) <= p.now.UnixMilli()
}

// freeFrom is when the rate of a sender allows a turn more besides those that are chosen.
func (p *pick) freeFrom(s speaker) int64 { return p.allowed(s, p.begins[s], p.now, p.terms) }

// lookTx chooses a ready lane, holds it back, or sends it to the end of the line, where it stays ready.
func (p *pick) lookTx(t *tx, c *claimed, crowded bool) (stays bool, err error) {
	seq := int64(0)
	found, err := t.one(headSender, []any{&c.sender.ID, &seq}, c.lane, c.past)
	if err != nil || !found { // who loads its head will say what is wrong with it
		p.choose(t, c)
		return false, nil
	}
	c.sender.Channel, c.sender.Account = c.key.Channel, c.key.Account
	p.release(c.lane) // its lease is over
	c.seq = seq
	v, room := p.of[c.sender], p.room(c.sender, p.his[c.sender], len(p.chosen), p.terms.Turns)
	if free := p.freeFrom(c.speaker()); free > p.now.UnixMilli() && c.countsForRate() {
		if c.sender.ID == "" { // its chat is the principal
			return false, p.throttleTx(t, c, free)
		}
		room = false
	}
	switch waits := v.running+p.his[c.sender] > 0 || p.overtakes(c); {
	case c.stopSeq >= seq, // a stop waits for nobody
		c.leased, // its turn has begun: whoever held it may still extend or end it, and would not undo the holding back
		room && !waits && v.held == 0 && v.next == 0,
		room && c.lane == v.next,
		room && !crowded && v.held == 0 && v.next == 0,
		len(p.of) >= maxFlows && v == flow{}:
		p.choose(t, c)
		return false, nil
	case room && v.held == 0 && v.next == 0:
		return true, p.lastTx(t, c)
	case room && v.next == 0 && (c.held || c.hasBegun()):
		return true, p.lastTx(t, c)
	default:
		return false, p.holdTx(t, c)
	}
}

func (p *pick) choose(t *tx, c *claimed) {
	p.chosen, p.lanes[c.lane] = append(p.chosen, *c), true
	p.his[c.sender]++
	if c.countsForRate() {
		p.begins[c.speaker()]++
	}
	p.serve(c.sender, t.now.UnixMilli())
	if p.of[c.sender].next == c.lane {
		p.change(c.sender, func(v *flow) { v.next = 0 })
	}
}

// lastTx sends a lane to the end of the line. The others of its principal are held back from now on.
func (p *pick) lastTx(t *tx, c *claimed) error {
	if _, err := t.exec(lineUp, t.now, c.lane); err != nil {
		return err
	}
	p.change(c.sender, func(v *flow) {
		if c.held {
			v.held--
		}
		v.next, v.since = c.lane, t.now
	})
	return nil
}

// holdTx holds a lane back, behind the others of its principal; the one that was in line already keeps its place, and a
// message that has begun comes before new ones.
func (p *pick) holdTx(t *tx, c *claimed) error {
	at := c.readyAt
	if c.lane == p.of[c.sender].next || c.hasBegun() {
		at = 0
	}
	if _, err := t.exec(holdLane, int64(heldUntil), c.sender.ID, at, c.lane); err != nil {
		return err
	}
	p.change(c.sender, func(v *flow) {
		if !c.held {
			v.held++
		}
		if v.next == c.lane {
			v.next = 0
		}
	})
	return nil
}

// throttleTx has a lane wait until its rate allows another turn.
func (p *pick) throttleTx(t *tx, c *claimed, until int64) error {
	if _, err := t.exec(throttleLane, until, c.lane); err != nil {
		return err
	}
	p.change(c.sender, func(v *flow) {
		if c.held {
			v.held--
		}
		if v.next == c.lane {
			v.next = 0
		}
	})
	return nil
}

var (
	heldLane   = &query{`SELECT channel, account, held_for FROM lanes WHERE id = ? AND held_for IS NOT NULL`}
	unholdLane = &query{`UPDATE lanes SET held_for = NULL WHERE id = ?`}
)

// letGoTx has a lane that waits for something of its own be neither held back nor in line, where others would wait for it.
func letGoTx(t *tx, lane int64) error {
	if who, ok := t.flows.inLine[lane]; ok {
		t.flows.change(who, func(v *flow) { v.next = 0 })
		return nil // it is held back no more
	}
	var who corebot.Principal
	held, err := t.one(heldLane, []any{&who.Channel, &who.Account, &who.ID}, lane)
	if err != nil || !held {
		return err
	}
	t.flows.change(who, func(v *flow) { v.held-- })
	_, err = t.exec(unholdLane, lane)
	return err
}
