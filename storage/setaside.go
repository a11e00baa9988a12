package storage

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot"
)

// A lane whose head cannot be read, since a page of the file is damaged or a row is missing, is set aside: it waits, and no other lane does.
// The writer tries to read the head again after a second, then after ever longer, so that a lane goes on by itself when the file is
// repaired. The lane's own row says that it is set aside, and until when. If that row cannot be written either, the writer remembers it.
//
// SQLite commits nothing in a transaction that has met a damaged page. So a batch that meets one while it serves waiting claims runs again
// without serving, and lanes that were set aside are only tried in transactions of their own.

const (
	asideLeast = time.Second // until a head is tried again, for the first time
	asideMost  = time.Minute
	asideRound = 32 // lanes that are found unreadable before other operations have their turn
)

// Aside is a lane that is set aside, or a parked message that cannot be read.
type Aside struct {
	Lane  int64 // or the life of the parked message, negative
	Pool  corebot.Pool
	Key   corebot.Key
	Since time.Time
	Until time.Time // when its head is tried again
	Error string

	pause  time.Duration
	stored asideStored
}

// asideStored is how far the lane's row says that the lane is set aside.
type asideStored uint8

const (
	asideUnstored asideStored = iota
	asideInRow                // it does
	asideInMemory             // it cannot
)

// aside are the lanes that were set aside. The writer changes it; others look.
type aside struct {
	count atomic.Int64 // of lanes; most of the time there are none
	mu    sync.Mutex
	lanes map[int64]*Aside
}

func newAside() *aside { return &aside{lanes: map[int64]*Aside{}} }

// asideStands is what a claim has to know of a lane.
type asideStands uint8

const (
	asideNot asideStands = iota
	asideNow             // leave it alone
	asideDue             // it may be tried again
)

func (a *aside) stands(lane int64, now time.Time) asideStands {
	if a.count.Load() == 0 {
		return asideNot
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.lanes[lane]
	switch {
	case l == nil:
		return asideNot
	case l.Until.After(now):
		return asideNow
	}
	return asideDue
}

// remembered is how many lanes of a pool are set aside and still due by their rows.
func (a *aside) remembered(pool corebot.Pool) (n int) {
	a.each(pool, func(l *Aside) {
		if l.stored != asideInRow {
			n++
		}
	})
	return n
}

// next is when the first lane of a pool is tried again that is still due by its row, in unix milliseconds.
func (a *aside) next(pool corebot.Pool) int64 {
	next := int64(math.MaxInt64)
	a.each(pool, func(l *Aside) {
		if l.stored != asideInRow {
			next = min(next, l.Until.UnixMilli())
		}
	})
	return next
}

func (a *aside) each(pool corebot.Pool, fn func(*Aside)) {
	if a.count.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.lanes {
		if l.Pool == pool {
			fn(l)
		}
	}
}

// put sets a lane aside, for twice as long as the last time, and says whether it was not before.
func (a *aside) put(u *unserved, now time.Time) (_ Aside, fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.lanes[u.lane.lane]
	if fresh = l == nil; fresh {
		l = &Aside{Lane: u.lane.lane, Pool: u.pool, Key: u.lane.key, Since: now}
		a.lanes[l.Lane] = l
		a.count.Add(1)
	}
	l.pause = min(cmp.Or(2*l.pause, asideLeast), asideMost)
	l.Until, l.Error = now.Add(l.pause), u.err.Error()
	if l.stored = asideUnstored; u.pool == parkedPool {
		l.stored = asideInMemory // its row has the body that cannot be read
	}
	return *l, fresh
}

// unstored are the lanes whose rows do not say yet that they are set aside.
func (a *aside) unstored() (all []Aside) {
	if a.count.Load() == 0 {
		return nil
	}
	for _, l := range a.all() {
		if l.stored == asideUnstored {
			all = append(all, l)
		}
	}
	return all
}

// shift has lanes be tried again in time when the wall clock was stepped.
func (a *aside) shift(step time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.lanes {
		if step < 0 {
			l.Until = l.Until.Add(step)
		}
	}
}

// note remembers what became of the rows of lanes.
func (a *aside) note(lanes []Aside, s asideStored) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range lanes {
		if known := a.lanes[l.Lane]; known != nil {
			known.stored = s
		}
	}
}

// drop forgets lanes that were set aside, and gives those that were.
func (a *aside) drop(lanes []int64) (dropped []Aside) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range lanes {
		if l := a.lanes[id]; l != nil {
			dropped = append(dropped, *l)
			delete(a.lanes, id)
			a.count.Add(-1)
		}
	}
	return dropped
}

// all gives the lanes in the order of their numbers.
func (a *aside) all() (all []Aside) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.lanes {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(x, y Aside) int { return cmp.Compare(x.Lane, y.Lane) })
	return all
}

// Its loss, if its worker died, is counted here: the row will not say any more that it is leased.
var setAsideLane = &query{`UPDATE lanes SET ` + nextEpoch + `, lost = lost + leased, leased = 0, wake_at = ?, waiting = '` + corebot.Unreadable + `' WHERE id = ?`}

// storeAsideTx has the rows of lanes say that they are set aside. An error of one is [*unserved].
func storeAsideTx(t *tx, lanes []Aside) error {
	for _, l := range lanes {
		if _, err := t.exec(setAsideLane, l.Until, l.Lane); err != nil {
			return &unserved{pool: l.Pool, lane: &claimed{lane: l.Lane, key: l.Key}, err: err, row: true}
		}
		if err := letGoTx(t, l.Lane); err != nil {
			return &unserved{pool: l.Pool, lane: &claimed{lane: l.Lane, key: l.Key}, err: err, row: true}
		}
	}
	return nil
}

// ofTheFile says whether an error may be of one damaged place of the file, or of one row. The others are of the whole store.
func ofTheFile(err error) bool {
	e, ok := asSQLite(err)
	if !ok {
		return true
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL:
		return false
	}
	return true
}

// leave has the next transactions do without what could not be served.
func (w *writer) leave(u *unserved) {
	now := w.db.clock.now()
	log := w.db.log.With().Str("pool", string(u.pool)).Logger()
	switch {
	case u.lane == nil || !ofTheFile(u.err):
		w.parked.shut[u.pool] = now.Add(failurePause)
		w.parked.refusePool(u.pool, classify(u.err)) // what keeps all of its lanes from being chosen must not look like an idle pool
		log.Error().Err(classify(u.err)).Dur("pause_ms", failurePause).Msg("waiting claims cannot be served")
	case u.row:
		w.endsTurn(u.lane.lane)
		w.db.aside.note([]Aside{{Lane: u.lane.lane}}, asideInMemory)
		log.Error().Err(classify(u.err)).Int64("lane", u.lane.lane).Msg("the row of a lane cannot be written")
	default:
		w.endsTurn(u.lane.lane)
		l, fresh := w.db.aside.put(u, now)
		event := log.Debug()
		if fresh {
			event = log.Error()
		}
		event.Err(classify(u.err)).Int64("lane", l.Lane).Str("chat", l.Key.String()).Time("again", l.Until).
			Str("hint", "run `corebot db check`; `corebot dlq give-up "+strconv.FormatInt(l.Lane, 10)+"` lets the chat go on without the message").
			Msg("the next message of a chat cannot be read: the chat is set aside")
	}
}

// endsTurn takes a lane that was due from the turns that run: whoever held it has no lease any more. The transaction that saw it is undone.
func (w *writer) endsTurn(lane int64) {
	w.flows.release(lane)
	w.flows.commit()
}

// readmit forgets what was set aside and has been claimed, or given up.
func (w *writer) readmit(lanes []int64) {
	for _, l := range w.db.aside.drop(lanes) {
		w.db.log.Info().Int64("lane", l.Lane).Str("chat", l.Key.String()).Msg("a chat that was set aside goes on")
	}
}
