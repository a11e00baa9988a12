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

// claimed is a lane with its head as the claim found it. The caller decodes the stored parts, outside of the writer.
type claimed struct {
	lane, epoch, lostAt, stopSeq, mergeSeq, wakeAt, freeAt, now int64
	past                                                        int64 // places up to here have no live message
	leased, interrupted                                         bool
	held                                                        bool  // it was held back to let others go first
	readyAt                                                     int64 // when it became ready
	sender                                                      corebot.Principal
	attempts, lost, run, limited                                int
	limitedAt                                                   time.Time
	waiting                                                     string
	key                                                         corebot.Key
	life, seq, publishedAt                                      int64
	id, kind                                                    string
	checksum, body                                              []byte
	attemptLog                                                  string
	journal                                                     []corebot.Step
	damaged                                                     error // the journal cannot be read
	begun                                                       bool  // an earlier claim of the head did not end it
}

var (
	// The due lanes of a pool, oldest first: one probe of lanes_wake, however deep the backlog is. Leased and
	// backing-off lanes sort after now in the same index, and empty lanes are not in it. The query reads only lanes, so
	// an unreadable message troubles only its own lane. The planner looks at the value of a bare LIMIT ? and prepares
	// the statement anew whenever the value changes. It does not look at the value of an expression.
	readyLanes = &query{`SELECT id, epoch, leased, attempts, lost, lost_at, stop_seq, interrupted, merge_seq, free_at,
		waiting, past,
		  held_for IS NOT NULL, wake_at,
		  agent, channel, account, chat, thread
		FROM lanes WHERE pool = ? AND wake_at <= ? ORDER BY wake_at LIMIT ? + 0`}
	// The first live message of a lane, behind unreadable rows that were left in place. A head without a life row must
	// not be skipped.
	laneHead = &query{`SELECT q.life_id, q.seq, q.body, m.message_id, m.kind, m.checksum, m.run,
		MAX(m.published_at, m.deliver_at), m.attempt_log
		FROM message_queue q LEFT JOIN message_life m ON m.id = q.life_id WHERE q.lane_id = ? AND q.seq > ?
		ORDER BY q.seq LIMIT 1`}
	nextWake  = &query{`SELECT MIN(wake_at) FROM lanes WHERE pool = ? AND wake_at > ?`}
	leaseLane = &query{`UPDATE lanes SET ` + nextEpoch +
		`, leased = 1, wake_at = ?, claimed_at = ?, lost = ?, lost_at = ?, free_at = ?, waiting = '' WHERE id = ?`}
	// How often the head met a rate limit. Few heads did.
	selectLimited = &query{`SELECT limited, limited_at FROM lanes WHERE id = ?`}
	logLife       = &query{`UPDATE message_life SET attempt_log = ? WHERE id = ?`}
)

// nextEpoch fences off the last claim of a lane. If that claim had not ended, its lease is lost, and the lane remembers
// its epoch.
const nextEpoch = `lost_epoch = CASE WHEN leased = 1 THEN epoch ELSE lost_epoch END, epoch = epoch + 1`

func readyLanesTx(t *tx, pool corebot.Pool, n int) ([]claimed, error) {
	var out []claimed
	err := t.each(readyLanes, func(s scanner) error {
		out = append(out, claimed{})
		c := &out[len(out)-1]
		return s.Scan(&c.lane, &c.epoch, &c.leased, &c.attempts, &c.lost, &c.lostAt, &c.stopSeq, &c.interrupted,
			&c.mergeSeq, &c.freeAt, &c.waiting, &c.past, &c.held, &c.readyAt,
			&c.key.Agent, &c.key.Channel, &c.key.Account, &c.key.Chat, &c.key.Thread)
	}, string(pool), t.now, n)
	return out, err
}

// loadTx reads the head of a lane and the traces of an earlier claim.
func loadTx(t *tx, c *claimed) error {
	found, err := t.one(laneHead, []any{
		&c.life, &c.seq, &c.body, &c.id, &c.kind, &c.checksum, &c.run, &c.publishedAt, &c.attemptLog,
	}, c.lane, c.past)
	if err == nil && !found {
		err = errNoHead
	}
	if err != nil {
		return err
	}
	return lookTx(t, c)
}

// errNoHead says that the count of a lane is above zero, but no message is there.
var errNoHead = errors.New("the message is missing")

// nextWakeTx is when the next lane of a pool becomes due.
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

// lookTx reads the traces of an earlier claim of the head. A due lane that is still marked as leased has lost its
// worker. The loss is counted against the journal position: a new step since the last loss restarts the count.
func lookTx(t *tx, c *claimed) (err error) {
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
		if at := progress(c.journal); at != c.lostAt {
			c.lost, c.lostAt = 0, at
		}
		c.lost++
	}
	return nil
}

// hasBegun says whether an earlier claim of the head did not end it.
func (c *claimed) hasBegun() bool {
	return c.leased || c.attempts > 0 || c.lost > 0 || c.waiting != "" && c.waiting != corebot.Throttled &&
		c.waiting != corebot.Collecting
}

// leaseTx leases a ready lane.
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
	_, err := t.exec(leaseLane, c.wakeAt, t.now, c.lost, c.lostAt, c.freeAt, c.lane)
	return err
}

func logLossTx(t *tx, c *claimed) error {
	if !c.leased {
		return nil
	}
	log := appendAttempt(c.attemptLog, corebot.Attempt{Run: c.run, At: t.now, What: attemptLost})
	_, err := t.exec(logLife, log, c.life)
	return err
}

// nextFree is when a lane can deliver its next message if it delivers one now. It is the generic cell rate algorithm:
// its whole state is the time from which the lane is free.
func nextFree(freeAt int64, now time.Time, r corebot.Rate) int64 {
	if r.Every <= 0 {
		return freeAt
	}
	credit := time.Duration(max(r.Burst, 1)-1) * r.Every
	return max(freeAt, now.Add(-credit).UnixMilli()) + r.Every.Milliseconds()
}

// progress measures a journal: every begun and every finished step counts.
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
	m.ID, m.CreatedAt = c.id, fromMillis(c.publishedAt)
	err = cmp.Or(err, c.damaged)
	return corebot.Delivery{
		Lease: corebot.Lease{Lane: c.lane, Epoch: c.epoch}, Life: c.life, Message: m, Seq: c.seq, Size: len(c.body),
		Run: c.run, Attempt: c.attempts + 1, Limited: c.limited, LimitedAt: c.limitedAt, Lost: c.lost,
		Stopped: c.stopSeq >= c.seq, Interrupted: c.interrupted, Merges: c.mergeSeq > c.seq, Journal: c.journal,
		PublishedAt: fromMillis(c.publishedAt), ClaimedAt: fromMillis(c.now), ExpiresAt: fromMillis(c.wakeAt),
		Damaged: err,
	}
}

var (
	// Leased lanes wake in the future. So this reads a range of the index that is as long as there are claims and
	// waits.
	suspectAtWork = &query{`SELECT 1 FROM lanes WHERE pool = ? AND wake_at > ? AND leased = 1 AND lost >= ? LIMIT 1`}
	putAsideLane  = &query{`UPDATE lanes SET ` + nextEpoch +
		`, leased = 0, wake_at = ?, lost = ?, lost_at = ?, waiting = '` + corebot.Quarantined + `' WHERE id = ?`}
)

// asideFor is how long a suspect waits until the next look.
const asideFor = time.Second

// quarantineTx keeps at most one suspect among the loaded lanes of a pool, or none while another suspect is at work.
// The other suspects wait, with their loss counted. They are claimed one after the other. See [corebot.ClaimOptions].
func quarantineTx(t *tx, pool corebot.Pool, ready []claimed, limit int) ([]claimed, error) {
	left, known, busy := ready[:0], false, false
	for i := range ready {
		c := &ready[i]
		// after one more loss it is poison, and the router ends it without running it
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

func putAsideTx(t *tx, c *claimed) error {
	if err := logLossTx(t, c); err != nil {
		return err
	}
	t.flows.release(c.lane)
	_, err := t.exec(putAsideLane, t.now.Add(asideFor), c.lost, c.lostAt, c.lane)
	return err
}
