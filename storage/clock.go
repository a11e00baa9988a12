package storage

import (
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// Stored times are times of the wall clock. An operator, NTP, or a suspended machine can step this clock. The writer
// compares it with the monotonic clock before each transaction, and every [clockLook] while something waits. When the
// wall clock has been stepped, the stored times of waits move with it:
//
//   - Back: every wait moves, so that it lasts as long as planned. Otherwise a chat would wait longer, by the whole
//     step. A turn that waits for a time of the wall clock wakes by the new clock, and waits again.
//   - Forward: only leases move. Their holders live in this process, and a step or a suspended machine must not give
//     their chats to others. All other waits end early, or have passed while the machine slept.
//
// Each commit stores its time. So the next start notices a step between two processes.
//
// A clock that is far ahead can be wrong, and retention cannot bring back what it deletes by such a clock. So retention
// deletes nothing for [doubt] after a step of [farAhead]. A long rest between two processes counts as such a step,
// because nobody can tell the two apart.

const (
	farAhead = 24 * time.Hour
	doubt    = 24 * time.Hour

	clockTolerance = time.Second      // NTP slews by less
	clockLook      = 30 * time.Second // between two looks while something waits
)

// clock compares the wall clock with the monotonic clock.
type clock struct {
	skew func() time.Duration // added to the wall clock; tests step it
	seen time.Time            // the last look, as the system gave it: wall and monotonic
	off  time.Duration        // skew at the last look
}

func newClock(skew func() time.Duration) *clock {
	if skew == nil {
		skew = func() time.Duration { return 0 }
	}
	return &clock{skew: skew, seen: time.Now(), off: skew()}
}

// now is the wall clock.
func (c *clock) now() time.Time { return time.Now().Round(0).Add(c.skew()) }

// look returns by how much the wall clock was stepped since the last look; 0 within the tolerance.
func (c *clock) look() (step time.Duration) {
	now, off := time.Now(), c.skew()
	wall := now.Round(0).Sub(c.seen.Round(0)) + off - c.off
	step = wall - now.Sub(c.seen)
	c.seen, c.off = now, off
	if step.Abs() < clockTolerance {
		return 0
	}
	return step.Truncate(time.Millisecond)
}

var (
	// A due lane keeps its place before lanes that become due later.
	shiftBack = &query{`UPDATE lanes SET wake_at = MAX(wake_at + ?1, 1), free_at = MAX(free_at + ?1, 0),
		quiet_at = MAX(quiet_at + ?1, 0), quiet_from = MAX(quiet_from + ?1, 0),
		limited_at = MAX(limited_at + ?1, 0)
		WHERE wake_at IS NOT NULL OR free_at > ?2 OR quiet_at > ?2`}
	shiftApprovals = &query{`UPDATE approvals SET expires_at = MAX(expires_at + ?, 1) WHERE state = '` +
		string(corebot.ApprovalAwaited) + `'`}
	shiftDetached = &query{`UPDATE message_parked SET due_at = MAX(due_at + ?, 1) WHERE reason = '` +
		corebot.DeferredToApproval + `'`}
	shiftPairings = &query{`UPDATE pairings SET expires_at = MAX(expires_at + ?, 1) WHERE state = 'open'`}
	// A lease that had expired before the step stays expired.
	shiftLeases = &query{`UPDATE lanes SET wake_at = wake_at + ?1 WHERE leased = 1 AND wake_at > ?2 - ?1`}
	// The doubt lasts as long as planned.
	shiftDoubt = &query{`UPDATE store SET sweep_from = MAX(sweep_from + ?, 0) WHERE id = 1`}
	beginDoubt = &query{`UPDATE store SET sweep_from = ? WHERE id = 1`}
	doubtEnds  = &query{`SELECT sweep_from FROM store WHERE id = 1`}
)

// errDoubt says that retention waits.
var errDoubt = fmt.Errorf("the wall clock was set ahead by %v or more", farAhead)

// undoubtedTx refuses deletions by time while the clock is in doubt.
func undoubtedTx(t *tx) error {
	if t.stepped >= farAhead {
		return errDoubt
	}
	var end time.Time
	if _, err := t.one(doubtEnds, []any{moment{&end}}); err != nil || !end.After(t.now) {
		return err
	}
	return fmt.Errorf("%w: nothing is deleted before %s", errDoubt, end.UTC().Format(time.RFC3339))
}

// shift moves the stored times of waits by a step of the wall clock. now is the time after the step.
func (c *prepared) shift(now time.Time, step time.Duration) (err error) {
	if step > 0 {
		if _, err = c.exec(shiftLeases, step.Milliseconds(), now); err == nil && step >= farAhead {
			_, err = c.exec(beginDoubt, now.Add(doubt))
		}
		return err
	}
	if _, err = c.exec(shiftBack, step.Milliseconds(), now); err == nil {
		_, err = c.exec(shiftApprovals, step.Milliseconds())
	}
	if err == nil {
		_, err = c.exec(shiftDetached, step.Milliseconds())
	}
	if err == nil {
		_, err = c.exec(shiftPairings, step.Milliseconds())
	}
	if err == nil {
		_, err = c.exec(shiftWaits, step.Milliseconds())
	}
	if err == nil {
		_, err = c.exec(shiftDoubt, step.Milliseconds())
	}
	return err
}

// heed looks for a step of the wall clock and moves the stored times. If it cannot move them now, it keeps the step and
// tries again later.
func (w *writer) heed() {
	w.step += w.db.clock.look()
	now := w.db.clock.now()
	if w.step == 0 || now.Before(w.heedAgain) {
		return
	}
	if err := w.follow(now); err != nil {
		w.heedAgain = now.Add(failurePause)
		w.db.log.Error().Err(err).Dur("step_ms",
			w.step).Msg("the wall clock was stepped, and the stored times cannot follow yet")
		return
	}
	w.db.log.Warn().Dur("step_ms", w.step).Msg("the wall clock was stepped; what waits waits no longer for that")
	w.db.metrics.clockSteps.Inc()
	w.db.aside.shift(w.step)
	clear(w.claims.shut)
	w.claims.forget()
	w.step = 0
}

// follow moves the stored times in a transaction of its own.
func (w *writer) follow(now time.Time) error {
	if err := w.ready(); err != nil {
		return err
	}
	if _, err := w.conn.exec(begin); err != nil {
		return classify(err)
	}
	t := w.newTx(now)
	if err := w.conn.shift(now, w.step); err != nil {
		w.rollback()
		return classify(err)
	}
	t.writes++ // the transaction does not count the rows of the shift
	if err := w.commit(t); err != nil {
		return err
	}
	if w.step > 0 {
		return nil // the deferred messages are due, or will become due
	}
	w.flows.spoken.shift(w.step)
	w.flows.begun.shift(w.step)
	if f, err := loadFlows(w.conn, now); err != nil {
		w.db.log.Error().Err(classify(err)).Msg("whose turns run could not be read again")
	} else {
		f.waiting.first = w.lastLife
		f.keep(w.flows)
		w.flows = f // its times are times of the wall clock, too
	}
	w.backAt = now.UnixMilli()
	// the day can be another now; messages still over a budget are deferred again
	return classify(w.db.allDueNow(w.conn, now))
}
