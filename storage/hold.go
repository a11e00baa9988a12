package storage

import (
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// Fairness is first between principals, then between the lanes of each. When more lanes are ready than workers wait,
// each principal has one lane in line. His other lanes are held back: they do not count as ready, so no claim
// reads them. When his lane in line is claimed, his next lane goes to the end of the line.
//
// So hundreds of chats of one sender wait behind one chat of another. No claim walks past these chats twice, because a
// lane is held back once and put in line once. A principal who uses all turns that he can have gets no lane in line
// until one of his turns ends.

var (
	headSender = &query{
		`SELECT m.sender, q.seq FROM message_queue q JOIN message_life m ON m.id = q.life_id WHERE q.lane_id = ?
			AND q.seq > ? ORDER BY q.seq LIMIT 1`,
	}
	holdLane    = &query{`UPDATE lanes SET wake_at = ?, held_for = ?, held_at = ? WHERE id = ?`}
	lineUp      = &query{`UPDATE lanes SET wake_at = ?, held_for = NULL WHERE id = ?`}
	longestHeld = &query{
		`SELECT id FROM lanes WHERE pool = ? AND channel = ? AND account = ? AND held_for = ? AND depth > 0
			ORDER BY held_at LIMIT 1`,
	}
	releaseHeld = &query{
		`UPDATE lanes SET wake_at = CASE WHEN depth > 0 THEN ? END, held_for = NULL WHERE held_for IS NOT NULL`,
	}
)

const (
	heldUntil  = 7_258_118_400_000 // the year 2200, in unix milliseconds: after every real due time
	maxFlows   = 10_000            // principals that can have held lanes; further ones are served as they come
	fairRounds = 8                 // looks at the ready lanes in one transaction
	fairLook   = 64                // lanes to look at beyond the wanted number
)

// fairness says which lanes are wanted.
type fairness struct {
	pool  corebot.Pool
	want  int
	opts  corebot.ClaimOptions
	aside int                                // ready lanes that are set aside
	skip  func(lane int64) (skip, soon bool) // says whether a lane is set aside; soon: to be read again soon
}

// fairTx chooses up to want of a pool's ready lanes. whole says that no other lane is ready. Its errors are
// [*unserved].
func (f *flows) fairTx(t *tx, want fairness) (chosen []claimed, whole bool, err error) {
	f.lookThrough(t.now)
	p := pick{
		flows: f, fairness: want, now: t.now, look: 1, lanes: map[int64]bool{}, his: map[corebot.Principal]int{},
		begins: map[speaker]int{},
	}
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
	look   int // lanes to look at beyond the wanted number: one in the first round, which is mostly enough
	chosen []claimed
	lanes  map[int64]bool            // the chosen lanes
	his    map[corebot.Principal]int // chosen lanes of each principal
	begins map[speaker]int           // chosen lanes that count for a sender's rate
}

// lineUpTx puts a lane in line for each principal who has room and no lane in line.
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

// roundTx looks at the ready lanes once, oldest first. whole says that it has seen all of them and left none.
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
	return p.room(who, p.his[who], len(p.chosen), p.opts.Turns) && p.freeFrom(senderAlone(who)) <= p.now.UnixMilli()
}

// freeFrom is when the rate of a sender allows one more turn, beside the turns of the chosen lanes.
func (p *pick) freeFrom(s speaker) int64 { return p.allowed(s, p.begins[s], p.now, p.opts) }

// lookTx chooses a ready lane, holds it back, or sends it to the end of the line. At the end of the line the lane stays
// ready.
func (p *pick) lookTx(t *tx, c *claimed, crowded bool) (stays bool, err error) {
	seq := int64(0)
	found, err := t.one(headSender, []any{&c.sender.ID, &seq}, c.lane, c.past)
	if err != nil || !found { // the code that loads the head reports what is wrong
		p.choose(t, c)
		return false, nil
	}
	c.sender.Channel, c.sender.Account = c.key.Channel, c.key.Account
	p.release(c.lane) // its lease is over
	c.seq = seq
	v, room := p.of[c.sender], p.room(c.sender, p.his[c.sender], len(p.chosen), p.opts.Turns)
	if free := p.freeFrom(c.speaker()); free > p.now.UnixMilli() && c.countsForRate() {
		if c.sender.ID == "" { // its chat is the principal
			return false, p.throttleTx(t, c, free)
		}
		room = false
	}
	switch waits := v.running+p.his[c.sender] > 0 || p.overtakes(c); {
	case c.stopSeq >= seq, // a stopped message waits for nobody
		c.leased, // its turn has begun; the old holder could still end it, and would not undo the holding back
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

// lastTx sends a lane to the end of the line. The other lanes of its principal are held back from now on.
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

// holdTx holds a lane back behind the other lanes of its principal. A lane that is in line already keeps its place. A
// message that has begun comes before new messages.
func (p *pick) holdTx(t *tx, c *claimed) error {
	at := c.dueSince
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

// throttleTx makes a lane wait until its rate allows another turn.
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

// letGoTx takes a lane that waits for something of its own out of the line and out of the held lanes. Otherwise other
// lanes would wait behind it.
func letGoTx(t *tx, lane int64) error {
	if who, ok := t.flows.inLine[lane]; ok {
		t.flows.change(who, func(v *flow) { v.next = 0 })
		return nil // it is no longer held back
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

// deleting are the conversations that are being deleted, and those that resume them. No turn begins there meanwhile,
// and no reply is sent: their messages wait. It is in memory, so a crash ends it with the deletion.
type deleting struct {
	mu   sync.Mutex
	keys map[corebot.Key]int // to how many deletions
}

// hold keeps turns of the conversations from beginning until release is called.
func (d *deleting) hold(keys []corebot.Key) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys = map[corebot.Key]int{}
	}
	for _, k := range keys {
		d.keys[k]++
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, k := range keys {
			if d.keys[k]--; d.keys[k] == 0 {
				delete(d.keys, k)
			}
		}
	}
}

func (d *deleting) any() bool {
	if d == nil { // outside of the writer nobody claims
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.keys) > 0
}

func (d *deleting) has(k corebot.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keys[k] > 0
}

// putOff is how much later a message of a conversation is looked at that is being deleted.
const putOff = 200 * time.Millisecond

var putLaneOff = &query{`UPDATE lanes SET wake_at = ? WHERE id = ?`}

// putOffTx makes a due lane due again a little later.
func putOffTx(t *tx, lane int64) error {
	if err := letGoTx(t, lane); err != nil {
		return err
	}
	_, err := t.exec(putLaneOff, t.now.Add(putOff), lane)
	return err
}
