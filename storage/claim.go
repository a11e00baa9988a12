package storage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/corebot/corebot"
)

// claimed is a lane with its head, which is its first live message, as the claim found them. Times are Unix
// milliseconds. The claimer decodes the stored parts after the write transaction: see delivery.
type claimed struct {
	// of the lane
	lane, epoch       int64
	key               corebot.Key
	leased            bool  // the last claim has not ended: its lease has expired
	held              bool  // the lane was held back so that other senders go first
	dueSince          int64 // the lane's wake_at when the claim found it
	freeAt            int64 // the rate limit's state: see nextFree
	past              int64 // the place up to which the lane has no live message
	stopSeq, mergeSeq int64 // the places of the last /stop, and of the last message that merges into the head

	// of the head
	life, seq    int64
	id, kind     string
	checksum     []byte
	body         []byte
	run          int    // from 1; each replay starts a new one
	queuedAt     int64  // the later of published_at and deliver_at: when the head could first be claimed
	attemptLog   string // JSON
	sender       corebot.Principal
	attempts     int // counted attempts of this run
	limited      int // attempts that met a rate limit, which are not counted
	limitedAt    time.Time
	lost         int    // leases that expired in a row at the journal position lostPosition
	lostPosition int64  // see progress
	waiting      string // why the head waits, such as [corebot.Throttled]
	interrupted  bool   // a newer message has interrupted the head's turn
	begun        bool   // an earlier claim worked on the head: see hasBegun
	journal      []corebot.Step
	damaged      error // why the journal cannot be read

	// of this claim
	now    int64
	wakeAt int64 // when the lease expires
}

var (
	// The due lanes of a pool, oldest wake time first: one probe of the index lanes_wake, however deep the backlog is.
	// Leased and backing-off lanes have a wake time after now, and empty lanes are not in the index. The query reads
	// only lanes, so an unreadable message troubles only its own lane. SQLite prepares a statement anew whenever the
	// value of a bare LIMIT ? changes. It does not look at the value of an expression.
	readyLanes = &query{`SELECT id, epoch, leased, attempts, lost, lost_at, stop_seq, interrupted, merge_seq, free_at,
		waiting, past,
		  held_for IS NOT NULL, wake_at,
		  agent, channel, account, chat, thread
		FROM lanes WHERE pool = ? AND wake_at <= ? ORDER BY wake_at LIMIT ? + 0`}
	// The head of a lane: the first message after the place past, which skips unreadable rows that were left in place.
	// A LEFT JOIN does not skip a head without a life row. The read fails on its NULLs, and the lane is set aside.
	laneHead = &query{`SELECT q.life_id, q.seq, q.body, m.message_id, m.kind, m.checksum, m.run,
		MAX(m.published_at, m.deliver_at), m.attempt_log
		FROM message_queue q LEFT JOIN message_life m ON m.id = q.life_id WHERE q.lane_id = ? AND q.seq > ?
		ORDER BY q.seq LIMIT 1`}
	nextWake  = &query{`SELECT MIN(wake_at) FROM lanes WHERE pool = ? AND wake_at > ?`}
	leaseLane = &query{`UPDATE lanes SET ` + nextEpoch +
		`, leased = 1, wake_at = ?, claimed_at = ?, lost = ?, lost_at = ?, free_at = ?, waiting = '' WHERE id = ?`}
	// How often the head met a rate limit. It is a query of its own because few heads did.
	selectLimited = &query{`SELECT limited, limited_at FROM lanes WHERE id = ?`}
	logLife       = &query{`UPDATE message_life SET attempt_log = ? WHERE id = ?`}
)

// nextEpoch fences off the last claim of a lane. If that claim had not ended, its lease is lost, and the lane remembers
// its epoch.
const nextEpoch = `lost_epoch = CASE WHEN leased = 1 THEN epoch ELSE lost_epoch END, epoch = epoch + 1`

// readyLanesTx reads up to n due lanes of a pool, without their heads.
func readyLanesTx(t *tx, pool corebot.Pool, n int) ([]claimed, error) {
	var out []claimed
	err := t.each(readyLanes, func(s scanner) error {
		out = append(out, claimed{})
		c := &out[len(out)-1]
		return s.Scan(&c.lane, &c.epoch, &c.leased, &c.attempts, &c.lost, &c.lostPosition, &c.stopSeq,
			&c.interrupted, &c.mergeSeq, &c.freeAt, &c.waiting, &c.past, &c.held, &c.dueSince,
			&c.key.Agent, &c.key.Channel, &c.key.Account, &c.key.Chat, &c.key.Thread)
	}, string(pool), t.now, n)
	if err != nil || !t.deleting.any() {
		return out, err
	}
	late := false
	for _, c := range out {
		if t.deleting.has(c.key) {
			late = true
			if err = putOffTx(t, c.lane); err != nil {
				return nil, err
			}
		}
	}
	if late { // others can be behind them
		return readyLanesTx(t, pool, n)
	}
	return out, nil
}

// loadTx reads the head of a lane and the traces of an earlier claim. The error is errNoHead if the lane has no head.
func loadTx(t *tx, c *claimed) error {
	found, err := t.one(laneHead, []any{
		&c.life, &c.seq, &c.body, &c.id, &c.kind, &c.checksum, &c.run, &c.queuedAt, &c.attemptLog,
	}, c.lane, c.past)
	if err == nil && !found {
		err = errNoHead
	}
	if err != nil {
		return err
	}
	return readTracesTx(t, c)
}

// errNoHead says that a lane is due, so its depth is above zero, but that no message is in it.
var errNoHead = errors.New("the message is missing")

// nextWakeTx is when the next lane of a pool becomes due; math.MaxInt64 if no lane waits.
func nextWakeTx(t *tx, pool corebot.Pool) (int64, error) {
	next := int64(0)
	if _, err := t.one(nextWake, []any{&next}, string(pool), t.now); err != nil {
		return 0, err
	}
	if next == 0 {
		next = math.MaxInt64
	}
	return next, nil
}

// readTracesTx reads the traces of an earlier claim of the head. A due lane that is still marked as leased has lost its
// worker, and the loss is counted in c. A new step in the journal since the last loss restarts the count at 1.
func readTracesTx(t *tx, c *claimed) (err error) {
	c.begun = c.hasBegun()
	if c.begun || c.run > 1 {
		c.journal, err = stepsTx(t, c.life, c.run)
		if errors.Is(err, errStepDamaged) {
			c.damaged = err
		} else if err != nil {
			return err
		}
	}
	if c.begun {
		if _, err := t.one(selectLimited, []any{&c.limited, moment{&c.limitedAt}}, c.lane); err != nil {
			return err
		}
	}
	if c.leased {
		if position := progress(c.journal); position != c.lostPosition {
			c.lost, c.lostPosition = 0, position
		}
		c.lost++
	}
	return nil
}

// hasBegun says whether an earlier claim worked on the head. A head that only waited for its rate, or for the rest of a
// batch, has not begun.
func (c *claimed) hasBegun() bool {
	return c.leased || c.attempts > 0 || c.lost > 0 || c.waiting != "" && c.waiting != corebot.Throttled &&
		c.waiting != corebot.Collecting
}

// leaseTx leases a ready lane for opts.Lease. The new epoch fences off the last claim. Only a head that has not begun
// uses up the lane's rate. After an error c is worthless.
func leaseTx(t *tx, c *claimed, opts corebot.ClaimOptions) error {
	if err := logLossTx(t, c); err != nil {
		return err
	}
	if c.held {
		if _, err := t.exec(lineUp, t.now, c.lane); err != nil {
			return err
		}
	}
	if opts.Turns > 0 {
		t.flows.lease(c)
		t.flows.begin(c, t.now, opts)
	}
	c.now = t.now.UnixMilli()
	c.wakeAt = t.now.Add(opts.Lease).UnixMilli()
	if !c.begun {
		c.freeAt = nextFree(c.freeAt, t.now, opts.Rate)
	}
	c.epoch++
	_, err := t.exec(leaseLane, c.wakeAt, t.now, c.lost, c.lostPosition, c.freeAt, c.lane)
	return err
}

// logLossTx adds a lost lease to the attempt log of the head, if the last claim has not ended.
func logLossTx(t *tx, c *claimed) error {
	if !c.leased {
		return nil
	}
	log := appendAttempt(c.attemptLog, corebot.Attempt{Run: c.run, At: t.now, What: attemptLost})
	_, err := t.exec(logLife, log, c.life)
	return err
}

// nextFree is the new value of freeAt when a lane delivers a message now. It is the generic cell rate algorithm, whose
// whole state is freeAt: the time from which the lane can deliver without using its burst. A rate without Every has no
// limit.
func nextFree(freeAt int64, now time.Time, r corebot.Rate) int64 {
	if r.Every <= 0 {
		return freeAt
	}
	credit := time.Duration(max(r.Burst, 1)-1) * r.Every
	return max(freeAt, now.Add(-credit).UnixMilli()) + r.Every.Milliseconds()
}

// progress is the position in a journal: each step counts one when it begins and one more when it is done.
func progress(steps []corebot.Step) int64 {
	n := int64(len(steps))
	for _, s := range steps {
		if s.State == corebot.StepDone {
			n++
		}
	}
	return n
}

// endsDead says whether a stored list of attempts ends with the death of this run.
func endsDead(stored string, run int) bool {
	var log []corebot.Attempt
	_ = json.Unmarshal([]byte(stored), &log)
	return len(log) > 0 && log[len(log)-1].What == attemptDead && log[len(log)-1].Run == run
}

// appendAttempt adds to a stored list of attempts and keeps the newest. An unreadable list is replaced: it only informs
// people, and must not stop a message.
func appendAttempt(stored string, a corebot.Attempt) string {
	var log []corebot.Attempt
	_ = json.Unmarshal([]byte(stored), &log)
	log = append(log, a)
	if extra := len(log) - corebot.MaxAttemptsKept; extra > 0 {
		log = log[extra:]
	}
	text, _ := json.Marshal(log) // strings, numbers and times: Marshal cannot fail
	return string(text)
}

// delivery decodes a claimed message. An unreadable body or journal does not lose the claim: the message is delivered
// as damaged.
func (c *claimed) delivery(pool corebot.Pool) corebot.Delivery {
	direction := corebot.Outbound
	if pool == corebot.InboundPool {
		direction = corebot.Inbound
	}
	m, err := unpack(c.body, direction, c.key, corebot.Kind(c.kind), c.checksum)
	if err == nil && m.ID != c.id {
		err = fmt.Errorf("the stored message is %q and its body says %q", c.id, m.ID)
	}
	m.ID, m.CreatedAt = c.id, fromMillis(c.queuedAt)
	err = cmp.Or(err, c.damaged)
	return corebot.Delivery{
		Lease: corebot.Lease{Lane: c.lane, Epoch: c.epoch}, Life: c.life, Message: m, Seq: c.seq, Size: len(c.body),
		Run: c.run, Attempt: c.attempts + 1, Limited: c.limited, LimitedAt: c.limitedAt, Lost: c.lost,
		Stopped: c.stopSeq >= c.seq, Interrupted: c.interrupted, Merges: c.mergeSeq > c.seq, Journal: c.journal,
		PublishedAt: fromMillis(c.queuedAt), ClaimedAt: fromMillis(c.now), ExpiresAt: fromMillis(c.wakeAt),
		Damaged: err,
	}
}

var (
	// Leased lanes have a wake time after now. So the query reads the part of the index lanes_wake that has the leased
	// and the waiting lanes.
	suspectAtWork = &query{`SELECT 1 FROM lanes WHERE pool = ? AND wake_at > ? AND leased = 1 AND lost >= ? LIMIT 1`}
	putAsideLane  = &query{`UPDATE lanes SET ` + nextEpoch +
		`, leased = 0, wake_at = ?, lost = ?, lost_at = ?, waiting = '` + corebot.Quarantined + `' WHERE id = ?`}
)

// asideFor is how long a suspect that was put aside waits until it is due again.
const asideFor = time.Second

// quarantineTx keeps at most one suspect among the loaded lanes of a pool, or none while another suspect is at work. A
// suspect is a head that has lost limit leases in a row: it may be what kills the workers. The other suspects are put
// aside with their loss stored, so they are claimed one after the other. A limit below 1 switches this off. See
// [corebot.ClaimOptions].
func quarantineTx(t *tx, pool corebot.Pool, ready []claimed, limit int) ([]claimed, error) {
	left, known, busy := ready[:0], false, false
	for i := range ready {
		c := &ready[i]
		// a head that has lost more than limit leases passes: it is poison, and the router ends it without running it
		if limit <= 0 || c.lost != limit {
			left = append(left, *c)
			continue
		}
		if !known {
			var one int64
			var err error
			if busy, err = t.one(suspectAtWork, []any{&one}, string(pool), t.now, limit); err != nil {
				return nil, err
			}
			known = true
		}
		if !busy {
			busy = true
			left = append(left, *c)
			continue
		}
		if err := putAsideTx(t, c); err != nil {
			return nil, &unserved{pool: pool, lane: c, err: err}
		}
	}
	return left, nil
}

// putAsideTx has a suspect wait for asideFor, and fences off its last claim.
func putAsideTx(t *tx, c *claimed) error {
	if err := logLossTx(t, c); err != nil {
		return err
	}
	t.flows.release(c.lane)
	_, err := t.exec(putAsideLane, t.now.Add(asideFor), c.lost, c.lostPosition, c.lane)
	return err
}
