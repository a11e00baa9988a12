package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// A replay of many goes through the letters in the order of their ids. Each commit that replays letters also moves the
// replay's place behind them. So a crash repeats none, however often a letter dies again, and the next process goes on
// at the place. At most one such replay is open, so two operators cannot replay a letter twice either.

const replayColumns = `SELECT id, filter, fresh, every, done, "left", why, next_at, began_at, ended_at, stopped, passed
	FROM replays `

var (
	openReplay   = &query{replayColumns + `WHERE ended_at = 0`}
	replayByID   = &query{replayColumns + `WHERE id = ?`}
	listReplays  = &query{replayColumns + `WHERE id < ? ORDER BY id DESC LIMIT ? + 0`}
	insertReplay = &query{`INSERT INTO replays (filter, fresh, every, began_at) VALUES (?, ?, ?, ?)`}
	paceReplay   = &query{`UPDATE replays SET every = ?, next_at = 0 WHERE id = ?`}
	moveReplay   = &query{`UPDATE replays SET passed = ?, next_at = ?, done = done + ?, "left" = "left" + ?,
		why = ?, ended_at = ? WHERE id = ?`}
	stopReplay   = &query{`UPDATE replays SET stopped = 1, ended_at = ? WHERE id = ? AND ended_at = 0`}
	forgetReplay = &query{`DELETE FROM replays WHERE id <= ? AND ended_at > 0`}
)

const (
	maxReplays  = 100                    // replays that are remembered
	replayLook  = 500                    // letters that one step looks at
	replayPause = 500 * time.Millisecond // between two steps of a slow replay; it bounds a burst
	roomPause   = 5 * time.Second        // before a replay with a rate asks again whether there is room
)

// replaying is a row of replays.
type replaying struct {
	corebot.Replaying
	filter string // as it is stored
	passed int64
}

func scanReplay(s scanner) (r replaying, err error) {
	var fresh, stopped, micros int64
	err = s.Scan(&r.ID, &r.filter, &fresh, &micros, &r.Done, &r.Left, &r.Why, moment{&r.NextAt}, moment{&r.BeganAt},
		moment{&r.EndedAt}, &stopped, &r.passed)
	if err == nil {
		err = json.Unmarshal([]byte(r.filter), &r.Filter)
	}
	r.Fresh, r.Stopped, r.Every = fresh == 1, stopped == 1, time.Duration(micros)*time.Microsecond
	return r, err
}

func replayTx(t *tx, q *query, args ...any) (r replaying, found bool, err error) {
	err = t.each(q, func(s scanner) (err error) {
		found = true
		r, err = scanReplay(s)
		return err
	}, args...)
	return r, found, err
}

// ReplayAll replays every dead letter that the filter selects, in the order of their publishing, so that the letters of
// a chat keep their order. A letter without room stays dead and is counted. It leaves letters that died after the call,
// such as a letter that failed again. It works in small commits: see [DeadLetters.BeginReplay].
func (l *DeadLetters) ReplayAll(ctx context.Context, f corebot.DeadLetterFilter,
	fresh bool,
) (all corebot.Replayed, err error) {
	r, err := l.BeginReplay(ctx, f, fresh, 0)
	if err != nil {
		return all, err
	}
	return l.finish(ctx, r)
}

// finish makes a replay without a rate go on until it ends. Another command can stop it, or give it a rate. Then it is
// not finished, and the error says so.
func (l *DeadLetters) finish(ctx context.Context, r corebot.Replaying) (all corebot.Replayed, err error) {
	for err == nil && r.EndedAt.IsZero() && r.Every == 0 {
		now, why, failed := l.step(ctx, r.ID)
		if err = failed; err == nil {
			r, all.Why = now, cmp.Or(all.Why, why)
		}
	}
	all.Done, all.Left = r.Done, r.Left
	if all.Why == nil && r.Left > 0 { // another process has made a part of it
		all.Why = errors.New(r.Why)
	}
	switch {
	case err != nil:
		signal(l.db.replaying) // somebody else makes it go on
		err = fmt.Errorf("%d replayed, then: %w", all.Done, err)
	case r.Stopped:
		err = fmt.Errorf("replay %d was stopped: it had replayed %d dead letters", r.ID, r.Done)
	case r.EndedAt.IsZero():
		err = corebot.WithHint(fmt.Errorf("replay %d goes on at the rate of another command: it has replayed %d dead "+
			"letters", r.ID, r.Done), "`corebot dlq replay --resume` waits for it")
	}
	return all, err
}

// BeginReplay begins a replay of every dead letter that the filter selects, one in each every. [DeadLetters.StepReplay]
// makes it go on, in any process. If the same replay is open already, that one goes on with the new rate. While another
// one is open, none begins.
func (l *DeadLetters) BeginReplay(ctx context.Context, f corebot.DeadLetterFilter, fresh bool,
	every time.Duration,
) (r corebot.Replaying, err error) {
	if err := f.Validate(); err != nil {
		return r, err
	}
	filter, err := json.Marshal(f)
	if err != nil {
		return r, fmt.Errorf("encode the filter of a replay: %w", err)
	}
	err = l.db.write(ctx, "replay.begin", func(t *tx) error {
		open, found, err := replayTx(t, openReplay)
		switch {
		case err != nil:
			return err
		case found && (open.filter != string(filter) || open.Fresh != fresh):
			return openElsewhere(open)
		case found:
			r = open.Replaying
			r.Every = every
			_, err := t.exec(paceReplay, every.Microseconds(), r.ID)
			return err
		}
		id, err := t.insert(insertReplay, string(filter), fresh, every.Microseconds(), t.now)
		if err != nil {
			return err
		}
		r = corebot.Replaying{ID: id, Filter: f, Fresh: fresh, Every: every, BeganAt: t.now}
		_, err = t.exec(forgetReplay, id-maxReplays)
		return err
	})
	if err == nil && every > 0 {
		signal(l.db.replaying)
	}
	return r, err
}

func openElsewhere(r replaying) error {
	return corebot.WithHint(fmt.Errorf("replay %d is still open: it has replayed %d dead letters", r.ID, r.Done),
		fmt.Sprintf("`corebot dlq replay --resume` goes on with it, and `corebot dlq replays stop %d` ends it",
			r.ID))
}

// Replays returns the newest replays of many, newest first.
func (l *DeadLetters) Replays(ctx context.Context, limit int) (all []corebot.Replaying, err error) {
	err = l.db.reader.each(ctx, listReplays, func(s scanner) error {
		r, err := scanReplay(s)
		all = append(all, r.Replaying)
		return err
	}, newestDeath.id, limit)
	return all, err
}

// StopReplay ends a replay. The letters that it has replayed stay replayed. A replay that has ended is
// [corebot.ErrNotFound].
func (l *DeadLetters) StopReplay(ctx context.Context, id int64) (r corebot.Replaying, err error) {
	err = l.db.write(ctx, "replay.stop", func(t *tx) error {
		if n, err := t.exec(stopReplay, t.now, id); err != nil || n == 0 {
			return cmp.Or(err, fmt.Errorf("an open replay %d: %w", id, corebot.ErrNotFound))
		}
		stopped, _, err := replayTx(t, replayByID, id)
		r = stopped.Replaying
		return err
	})
	return r, err
}

// StepReplay replays the next letters of a replay if they are due, in one commit, and returns the replay as it is then.
// Any number of processes and goroutines can make the same replay go on.
func (l *DeadLetters) StepReplay(ctx context.Context, id int64) (corebot.Replaying, error) {
	r, _, err := l.step(ctx, id)
	return r, err
}

// step is StepReplay; why is the error of a letter that stays.
func (l *DeadLetters) step(ctx context.Context, id int64) (now corebot.Replaying, why, err error) {
	var r replaying
	found := false
	err = l.db.reader.each(ctx, replayByID, func(s scanner) (err error) {
		found = true
		r, err = scanReplay(s)
		return err
	}, id)
	switch {
	case err != nil:
		return now, nil, fmt.Errorf("read replay %d: %w", id, err)
	case !found:
		return now, nil, fmt.Errorf("replay %d: %w", id, corebot.ErrNotFound)
	case !r.EndedAt.IsZero() || r.due(l.db.clock.now()) > 0:
		return r.Replaying, nil, nil
	}
	part, err := l.nextReadable(ctx, r)
	if err != nil {
		return now, nil, fmt.Errorf("find the next letters of replay %d: %w", id, err)
	}
	for {
		err = l.db.write(ctx, "replay", func(t *tx) (err error) {
			now, why, err = l.stepTx(t, r, part)
			return err
		})
		bad := (*damagedLetter)(nil)
		if !errors.As(err, &bad) {
			return now, why, err
		}
		l.leave(&part, bad)
	}
}

// A replay of many passes over the letters that a damaged page holds. They stay dead, are counted as left, and the log
// names each. Otherwise one page would hold up all letters behind it for ever.

// nextDead reads the index alone, so it finds a letter whose row cannot be read.
var nextDead = &query{`SELECT COALESCE(MIN(id), 0) FROM message_life INDEXED BY message_life_dead_by_id
	WHERE "end" = 'dead' AND id > ?`}

// damagedLetter is the error of a letter that a damaged page keeps from being replayed.
type damagedLetter struct {
	id  int64
	why error
}

func (e *damagedLetter) Error() string {
	return fmt.Sprintf("dead letter %d cannot be read: %v; `corebot db check` shows the damage", e.id, e.why)
}

// leave takes a letter out of a portion.
func (l *DeadLetters) leave(p *portion, bad *damagedLetter) {
	p.ids = slices.DeleteFunc(slices.Clone(p.ids), func(id int64) bool { return id == bad.id })
	p.left, p.why = p.left+1, cmp.Or(p.why, error(bad))
	l.db.log.Warn().Err(bad.why).Int64("id", bad.id).Msg("a dead letter that cannot be read stays where it is")
}

// nextReadable is nextOf beyond damage.
func (l *DeadLetters) nextReadable(ctx context.Context, r replaying) (portion, error) {
	var left portion
	for left.left < changeChunk {
		p, err := l.nextOf(ctx, r)
		if err != nil && !isDamage(err) {
			return p, err
		}
		if err == nil || p.through > r.passed { // all, or those before the damage
			p.left, p.why = left.left, left.why
			return p, nil
		}
		id := int64(0)
		if _, e := l.db.reader.one(ctx, nextDead, []any{&id}, r.passed); e != nil || id == 0 {
			return p, cmp.Or(e, err)
		}
		l.leave(&left, &damagedLetter{id, err})
		r.passed, left.through = id, id
	}
	return left, nil
}

// due is how long the next letters of a replay wait. A time that is further ahead than any replay plans is of a clock
// that was set back since: then they are due.
func (r replaying) due(now time.Time) time.Duration {
	wait := r.NextAt.Sub(now)
	if wait > max(time.Duration(r.chunk())*r.Every, roomPause) {
		return 0
	}
	return max(wait, 0)
}

// chunk is how many letters one step replays at most.
func (r replaying) chunk() int {
	if r.Every == 0 {
		return changeChunk
	}
	return int(min(max(replayPause/r.Every, 1), changeChunk))
}

// portion is the next letters of a replay. through is the last letter that was looked at, and last says that there are
// no more.
type portion struct {
	ids     []int64
	through int64
	last    bool
	left    int // letters that stay for their damage, and why
	why     error
}

// nextOf finds the next letters of a replay, without the writer.
func (l *DeadLetters) nextOf(ctx context.Context, r replaying) (p portion, err error) {
	q, look, f := orderDead, r.chunk(), r.Filter
	whole := f.Text != ""
	if whole {
		q = orderDeadWhole
	}
	if searches(f) {
		look = replayLook
	}
	p.through = r.passed
	seen := 0
	// The commit leaves out what has died since the replay began.
	args := append([]any{f.After, lastDeath(f, math.MaxInt64), r.passed}, append(filterArgs(f), look)...)
	err = l.db.reader.whole(ctx, q, func(s scanner) error {
		d, err := scanDead(s, whole)
		if err != nil {
			return err
		}
		seen, p.through = seen+1, d.ID
		if means(f, d) {
			p.ids = append(p.ids, d.ID)
		}
		if len(p.ids) == r.chunk() {
			return errEnough
		}
		return nil
	}, args...)
	p.last = err == nil && seen < look
	if errors.Is(err, errEnough) {
		err = nil
	}
	return p, err
}

// stepTx replays a portion, unless the replay has moved since the portion was read.
func (l *DeadLetters) stepTx(t *tx, read replaying, p portion) (now corebot.Replaying, why, err error) {
	r, found, err := replayTx(t, replayByID, read.ID)
	if err != nil || !found || !r.EndedAt.IsZero() || r.passed != read.passed || r.due(t.now) > 0 {
		return r.Replaying, nil, err
	}
	part, passed, waits, err := l.replayChunkTx(t, p.ids, r)
	if err != nil {
		return r.Replaying, nil, err
	}
	if !waits {
		part.Left, part.Why = part.Left+p.left, cmp.Or(part.Why, p.why)
	}
	r.Done, r.Left = r.Done+part.Done, r.Left+part.Left
	switch {
	case part.Why != nil:
		r.Why = part.Why.Error()
	case r.Left == 0: // it has waited for room, and there is room again
		r.Why = ""
	}
	r.NextAt = t.now.Add(time.Duration(part.Done) * r.Every)
	switch {
	case waits:
		r.NextAt = t.now.Add(roomPause)
	case p.last:
		r.EndedAt = t.now
	}
	if !waits {
		passed = p.through
	}
	_, err = t.exec(moveReplay, passed, r.NextAt, part.Done, part.Left, r.Why, r.EndedAt, r.ID)
	return r.Replaying, part.Why, err
}

// replayChunkTx replays letters. A replay with a rate waits while there is no room for any message: it keeps the letter
// behind passed for the next time.
func (l *DeadLetters) replayChunkTx(t *tx, ids []int64, r replaying) (part corebot.Replayed, passed int64, waits bool,
	err error,
) {
	passed = r.passed
	for _, id := range ids {
		d, found, err := stillDeadTx(t, id, r.BeganAt)
		if isDamage(err) {
			return part, passed, false, &damagedLetter{id, err}
		}
		if err != nil {
			return part, passed, false, err
		}
		if !found {
			passed = id
			continue
		}
		switch err := l.reviveTx(t, d, r.Fresh); {
		case err == nil:
			part.Done++
		case r.Every > 0 && noRoom(err) && !errors.Is(err, corebot.ErrLaneFull):
			part.Why = err
			return part, passed, true, nil
		case noRoom(err):
			part.Left++
			part.Why = cmp.Or(part.Why, err)
		case errors.Is(err, errUnreadable): // an unreadable letter has no body to replay
		case isDamage(err): // the caller begins again without it: a part of it may be written
			return part, passed, false, &damagedLetter{id, err}
		default:
			return part, passed, false, err
		}
		passed = id
	}
	return part, passed, false, nil
}

// RunReplays makes the open replay go on until ctx ends, whichever process began it. A step that fails is tried again.
func (l *DeadLetters) RunReplays(ctx context.Context) error {
	told := "" // the error that the log has
	for ctx.Err() == nil {
		wait, err := l.goOn(ctx)
		switch {
		case err == nil:
			told = ""
		case ctx.Err() == nil && !errors.Is(err, corebot.ErrClosed) && err.Error() != told:
			told = err.Error()
			l.db.log.Warn().Err(err).Msg("the replay of dead letters waits")
		}
		if err != nil {
			wait = roomPause
		}
		if wait == 0 {
			continue
		}
		select {
		case <-l.db.replaying:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return nil
}

// noReplay is how long nobody looks for a replay that nobody has signalled.
const noReplay = time.Hour

// goOn makes the open replay go on by one step, and says how long it then waits.
func (l *DeadLetters) goOn(ctx context.Context) (time.Duration, error) {
	var open replaying
	err := l.db.reader.each(ctx, openReplay, func(s scanner) (err error) {
		open, err = scanReplay(s)
		return err
	})
	if err != nil || open.ID == 0 {
		return noReplay, err
	}
	now, _, err := l.step(ctx, open.ID)
	if err != nil || !now.EndedAt.IsZero() {
		return 0, err
	}
	return replaying{Replaying: now}.due(l.db.clock.now()), nil
}
