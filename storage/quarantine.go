package storage

import (
	"time"

	"github.com/corebot/corebot"
)

var (
	// Leased lanes wake in the future: a range of the index that is as long as there are claims and waits.
	suspectAtWork = &query{`SELECT 1 FROM lanes WHERE pool = ? AND wake_at > ? AND leased = 1 AND lost >= ? LIMIT 1`}
	putAsideLane  = &query{`UPDATE lanes SET ` + nextEpoch + `, leased = 0, wake_at = ?, lost = ?, lost_at = ?, waiting = '` + corebot.Quarantined + `' WHERE id = ?`}
)

// asideFor is how long a suspect waits before it is looked at again.
const asideFor = time.Second

// quarantineTx looks at the loaded lanes of a pool and leaves one suspect among them, or none while another is at work. The others are
// put aside, with their loss counted: they are claimed one after the other. See [corebot.Terms].
func quarantineTx(t *tx, pool corebot.Pool, ready []claimed, limit int) ([]claimed, error) {
	left, known, busy := ready[:0], false, false
	for i := range ready {
		c := &ready[i]
		if limit <= 0 || c.lost != limit { // one more loss, and it is poison: the router gives it up without running it
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
