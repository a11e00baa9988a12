package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/sorted"
)

// If the head of a lane cannot be read, because a page of the file is damaged or a row is missing, the lane is set
// aside. This lane waits, and no other lane does. The writer tries to read the head again after a second, and then
// after ever longer times. So the lane goes on by itself when the file is repaired. The lane's own row says that it is
// set aside, and until when. If that row cannot be written either, the writer remembers it.
//
// SQLite commits nothing in a transaction that has met a damaged page. So if a batch meets one while it serves waiting
// claims, it runs again without serving. Lanes that were set aside are only tried in transactions of their own.

const (
	asideLeast = time.Second // the wait before the first new try
	asideMost  = time.Minute
	asideRound = 32 // lanes that may be found unreadable before other operations get their turn
)

// Aside is a lane that is set aside, or an unreadable deferred message.
type Aside struct {
	Lane  int64 // or the life of the deferred message, negative
	Pool  corebot.Pool
	Key   corebot.Key
	Since time.Time
	Until time.Time // when its head is tried again
	Error string

	pause  time.Duration
	stored asideStored
}

// asideStored says whether the lane's row says that the lane is set aside.
type asideStored uint8

const (
	asideUnstored asideStored = iota
	asideInRow                // the row says it
	asideInMemory             // the row cannot be written
)

// aside holds the lanes that are set aside. Only the writer changes it; other goroutines read it.
type aside struct {
	count atomic.Int64 // of lanes; mostly 0
	mu    sync.Mutex
	lanes map[int64]*Aside
}

func newAside() *aside { return &aside{lanes: map[int64]*Aside{}} }

// asideStands is what a claim must know about a lane.
type asideStands uint8

const (
	asideNot asideStands = iota
	asideNow             // leave the lane alone
	asideDue             // the lane can be tried again
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

// remembered is how many lanes of a pool are set aside while their rows still say that they are due.
func (a *aside) remembered(pool corebot.Pool) (n int) {
	a.each(pool, func(l *Aside) {
		if l.stored != asideInRow {
			n++
		}
	})
	return n
}

// next is when the first lane of a pool is tried again whose row says that it is due, in unix milliseconds.
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

// put sets a lane aside, for twice as long as the last time. fresh says that it was not set aside before.
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
	// Whole milliseconds, like the row and the timer: a look at that moment finds the lane due.
	l.Until, l.Error = now.Add(l.pause).Truncate(time.Millisecond), u.err.Error()
	if l.stored = asideUnstored; u.pool == deferredPool {
		l.stored = asideInMemory // its row has the unreadable body
	}
	return *l, fresh
}

// unstored lists the lanes whose rows do not say yet that they are set aside.
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

// shift moves the times of the next tries when the wall clock was stepped.
func (a *aside) shift(step time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.lanes {
		if step < 0 {
			l.Until = l.Until.Add(step)
		}
	}
}

// note records what the rows of lanes say.
func (a *aside) note(lanes []Aside, s asideStored) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range lanes {
		if known := a.lanes[l.Lane]; known != nil {
			known.stored = s
		}
	}
}

// drop forgets lanes, and returns those that were set aside.
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

// all lists the lanes in the order of their numbers.
func (a *aside) all() (all []Aside) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.lanes {
		all = append(all, *l)
	}
	sorted.By(all, func(x, y Aside) int { return cmp.Compare(x.Lane, y.Lane) })
	return all
}

// If the lane's worker died, the loss is counted here, because after this the row no longer says that the lane is
// leased.
var setAsideLane = &query{`UPDATE lanes SET ` + nextEpoch +
	`, lost = lost + leased, leased = 0, wake_at = ?, waiting = '` + corebot.Unreadable + `' WHERE id = ?`}

// storeAsideTx writes into the rows of lanes that they are set aside. Its errors are [*unserved].
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

// ofTheFile says whether an error can come from one damaged place of the file or one row. All other errors concern the
// whole store.
func ofTheFile(err error) bool {
	e, ok := asSQLite(err)
	if !ok {
		return true
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
		sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL:
		return false
	}
	return true
}

// leave makes the next transactions skip what could not be served.
func (w *writer) leave(u *unserved) {
	now := w.db.clock.now()
	log := w.db.log.With().Str("pool", string(u.pool)).Logger()
	switch {
	case u.lane == nil || !ofTheFile(u.err):
		w.claims.shut[u.pool] = now.Add(failurePause)
		w.claims.refusePool(u.pool, classify(u.err)) // a pool whose lanes cannot be chosen must not look idle
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
			Str("hint", "run `corebot db check`; `corebot dlq give-up "+strconv.FormatInt(l.Lane, 10)+
				"` lets the chat go on without the message").
			Msg("the next message of a chat cannot be read: the chat is set aside")
	}
}

// endsTurn removes a due lane from the running turns: its old holder has no lease any more. The transaction that saw
// this was undone.
func (w *writer) endsTurn(lane int64) {
	w.flows.release(lane)
	w.flows.commit()
}

// readmit forgets lanes that were set aside and have been claimed or given up since.
func (w *writer) readmit(lanes []int64) {
	for _, l := range w.db.aside.drop(lanes) {
		w.db.log.Info().Int64("lane", l.Lane).Str("chat", l.Key.String()).Msg("a chat that was set aside goes on")
	}
}

var (
	laneByID = &query{
		`SELECT direction, agent, channel, account, chat, thread, leased, waiting, past FROM lanes WHERE id = ?`,
	}
	// LENGTH of a body reads nothing of the body.
	headOnly = &query{
		`SELECT q.life_id, q.seq, LENGTH(q.body) FROM message_queue q WHERE q.lane_id = ? AND q.seq > ? ORDER BY q.seq
			LIMIT 1`,
	}
	lifeName = &query{`SELECT message_id FROM message_life WHERE id = ?`}
	// For a lane that has lost rows: lives that have not ended and are in no table.
	lostLives = &query{`SELECT m.id FROM message_life m LEFT JOIN message_queue q ON q.life_id = m.id
		LEFT JOIN message_parked p ON p.life_id = m.id
		WHERE m.lane_id = ? AND m."end" = '' AND q.life_id IS NULL AND p.life_id IS NULL ORDER BY m.id LIMIT ? + 0`}
	endUnread = &query{`UPDATE message_life SET "end" = 'dead', reason = '` + corebot.ReasonDamaged +
		`', last_error = ?, ended_at = ? WHERE id = ?`}
	// The lane's own counts can be wrong when rows are missing, so they are computed anew.
	passLane = &query{`UPDATE lanes SET past = MAX(past, ?), epoch = epoch + 1, leased = 0, attempts = 0, lost = 0,
		lost_at = 0, waiting = '',
		depth = (SELECT COUNT(*) FROM message_queue q WHERE q.lane_id = lanes.id AND q.seq > MAX(lanes.past, ?1)),
		bytes = (SELECT COALESCE(SUM(LENGTH(q.body)),
		0) FROM message_queue q WHERE q.lane_id = lanes.id AND q.seq > MAX(lanes.past, ?1)),
		wake_at = CASE WHEN EXISTS (SELECT 1 FROM message_queue q WHERE q.lane_id = lanes.id AND q.seq >
		MAX(lanes.past, ?1)) THEN ? END
		WHERE id = ?`}
	countLane = &query{`SELECT depth, bytes FROM lanes WHERE id = ?`}
)

// GiveUp makes the head of a lane that is set aside a dead letter without content, tells the chat, and lets the lane go
// on. It leaves the unreadable row in place: a deletion would trust what the damaged page says about other pages. It
// returns the message's life and id. Both are unknown if the life cannot be read either. A lane that is not set aside
// is [corebot.ErrNotFound].
func (l *DeadLetters) GiveUp(ctx context.Context, lane int64) (given corebot.Origin, err error) {
	// SQLite commits nothing after a damaged page; the second try does not touch the life
	for _, named := range []bool{true, false} {
		err = l.db.write(ctx, "give-up", func(t *tx) error {
			g := giving{lane: lane, named: named}
			err := l.giveUpTx(t, &g)
			given = g.Origin
			return err
		})
		if _, damaged := asSQLite(err); !damaged || !ofTheFile(err) {
			return given, err
		}
	}
	return given, corebot.WithHint(fmt.Errorf("give up the message at the head of lane %d: %w", lane, err), repairHint)
}

// giving is the part of a lane that is given up.
type giving struct {
	corebot.Origin
	lane      int64
	named     bool // the life of the message can be read and written
	direction corebot.Direction
	key       corebot.Key
	past      int64
	why       string
}

func (l *DeadLetters) giveUpTx(t *tx, g *giving) error {
	if err := l.asideTx(t, g); err != nil {
		return err
	}
	lives, err := g.headTx(t)
	if err != nil {
		return err
	}
	var before, after totals
	if err := g.countTx(t, &before); err != nil {
		return err
	}
	for _, life := range lives {
		if err := g.endTx(t, life); err != nil {
			return err
		}
	}
	if _, err := t.exec(passLane, g.past, t.now, g.lane); err != nil {
		return err
	}
	if err := letGoTx(t, g.lane); err != nil {
		return err
	}
	if err := g.countTx(t, &after); err != nil {
		return err
	}
	if err := g.makeRoomTx(t, lives, before.bytes-after.bytes); err != nil {
		return err
	}
	t.total.depth[g.direction] += after.depth[g.direction] - before.depth[g.direction]
	t.total.bytes += after.bytes - before.bytes
	t.wake(corebot.PoolOf(g.direction, g.key), t.now.UnixMilli())
	t.readmitted = append(t.readmitted, g.lane)
	d := letter{id: g.Life, direction: g.direction, key: g.key, messageID: g.MessageID, reason: corebot.ReasonDamaged}
	if err := l.auditTx(t, d, "give_up", map[string]any{"lane": g.lane}); err != nil {
		return err
	}
	if g.direction != corebot.Inbound || g.key.Channel == corebot.JobChannel {
		return nil // the chat's next turn is told about its reply, and who began a job how it ended
	}
	return noticeTx(t, &pack([]corebot.Message{g.notice()})[0], g.Life)
}

// makeRoomTx subtracts the given-up messages from the waiting messages of their senders. If a message has no readable
// life, its sender is unknown.
func (g *giving) makeRoomTx(t *tx, lives []int64, bytes int64) error {
	if g.direction != corebot.Inbound || !g.named {
		return nil
	}
	for _, life := range lives {
		if err := t.waiting.addLife(t, life, -1, int(bytes)/len(lives)); err != nil {
			return err
		}
	}
	return nil
}

// asideTx finds the lane, if it is set aside.
func (l *DeadLetters) asideTx(t *tx, g *giving) error {
	var leased bool
	var waiting string
	var direction int
	k := &g.key
	found, err := t.one(laneByID, []any{
		&direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &leased,
		&waiting, &g.past,
	}, g.lane)
	if err != nil {
		return err
	}
	g.direction = corebot.Direction(direction)
	for _, a := range l.db.aside.all() {
		if a.Lane == g.lane {
			waiting, g.why = corebot.Unreadable, a.Error
		}
	}
	if !found || leased || waiting != corebot.Unreadable {
		return corebot.WithHint(fmt.Errorf("lane %d is not set aside: %w", g.lane, corebot.ErrNotFound),
			"`corebot status` lists the lanes that are")
	}
	return nil
}

// headTx returns the lives that end: the life of the head, or, if the lane has lost its messages, the lives of the lost
// messages.
func (g *giving) headTx(t *tx) (lives []int64, err error) {
	var life, size int64
	found, err := t.one(headOnly, []any{&life, &g.past, &size}, g.lane, g.past)
	if err != nil || found {
		g.Life = life
		return []int64{life}, err
	}
	err = t.each(lostLives, func(s scanner) error {
		var life int64
		err := s.Scan(&life)
		lives = append(lives, life)
		return err
	}, g.lane, changeChunk)
	if len(lives) > 0 {
		g.Life = lives[0]
	}
	return lives, err
}

func (g *giving) endTx(t *tx, life int64) error {
	if !g.named {
		g.Life = 0
		return nil
	}
	if _, err := t.exec(endUnread, errorText(g.why), t.now, life); err != nil {
		return err
	}
	if life == g.Life {
		if _, err := t.one(lifeName, []any{&g.MessageID}, life); err != nil {
			return err
		}
	}
	if err := endCallsTx(t, life); err != nil {
		return err
	}
	lost := jobEnd{run: 1, state: corebot.JobFailed, why: corebot.FaultDamaged.Say(g.MessageID)}
	return endJobTx(t, life, 0, lost)
}

// countTx reads the lane's own count of what waits.
func (g *giving) countTx(t *tx, c *totals) error {
	_, err := t.one(countLane, []any{&c.depth[g.direction], &c.bytes}, g.lane)
	return err
}

func (g *giving) notice() corebot.Message {
	text := "A message of this chat cannot be read any more and was given up by an operator. If you still wait for " +
		"an answer, please send it again."
	if g.MessageID != "" {
		text = fmt.Sprintf("What is stored of message %s cannot be read any more: please send it again.", g.MessageID)
	}
	return corebot.TextNotice(g.key, corebot.OwnID("lane", g.lane, g.past), g.MessageID, text,
		corebot.Notice{Kind: corebot.NoticeUnreadable})
}

// errorText bounds the error text that a life keeps.
func errorText(s string) string { return s[:min(len(s), 500)] }

// errUnreadable refuses to replay a message whose body is gone.
var errUnreadable = corebot.WithHint(errors.New("what was sent cannot be read any more"),
	"have it sent again, and drop this one")
