package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
)

// maxBatch bounds how many operations share a commit, and so how long the first of them waits.
const maxBatch = 1024

// op is one request to the writer: an operation to run, or a claim.
type op struct {
	name  string
	run   func(*tx) error // nil for a claim
	claim *claim
	next  *op // a claim that is served in the commit of run, or not at all
	state atomic.Uint32
	done  chan error // nil for the next of another
}

func (o *op) answer(err error) {
	if o.done != nil {
		o.done <- err
	}
}

// Until the writer has taken an op, its caller can cancel it. Exactly one of the two wins.
const (
	opWaiting uint32 = iota
	opTaken
	opCancelled
)

func (o *op) take() bool   { return o.state.CompareAndSwap(opWaiting, opTaken) }
func (o *op) cancel() bool { return o.state.CompareAndSwap(opWaiting, opCancelled) }

// write runs fn in the writer and returns after the commit. fn can run twice, the second time alone in a transaction.
// So fn must reset its results each time, and check its rules before its first write. ctx counts until the writer has
// taken fn.
func (db *DB) write(ctx context.Context, name string, fn func(*tx) error) error {
	return db.submit(ctx, &op{name: name, run: withKey(ctx, fn), done: make(chan error, 1)})
}

func (db *DB) submit(ctx context.Context, o *op) error {
	err := db.await(ctx, o)
	db.faults.note(o.name, err)
	return err
}

func (db *DB) await(ctx context.Context, o *op) error {
	select {
	case db.ops <- o:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-db.stopped:
		return corebot.ErrClosed
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		if o.cancel() {
			return context.Cause(ctx)
		}
	case <-db.drained: // the op entered the queue after the writer's last look
		if o.cancel() {
			return corebot.ErrClosed
		}
	}
	return <-o.done
}

// writer is the state of the one goroutine that writes.
type writer struct {
	db       *DB
	conn     *prepared
	state    // as of the last commit
	claims   waitingClaims
	flows    *flows
	recalled bool // the rates of senders from before this process are loaded
	timer    *time.Timer
	pause    time.Duration // after a failure, before the waiting claims are tried again

	sampled time.Time // when the last sample was written

	step      time.Duration // a step of the wall clock that the stored times do not follow yet
	heedAgain time.Time     // when to move the stored times, after a failure
}

// failurePause keeps a writer with a broken disk from spinning for the waiting claims.
const failurePause = time.Second

var (
	begin     = &query{`BEGIN IMMEDIATE`}
	commit    = &query{`COMMIT`}
	emptyLog  = &query{`PRAGMA wal_checkpoint(TRUNCATE)`}
	rollback  = &query{`ROLLBACK`}
	bumpBatch = &query{`UPDATE store SET batch = ?, last_life = ?, at = ? WHERE id = 1`}
)

// Run is the writer. It blocks until ctx ends, answers what was submitted before, and refuses the rest with
// [corebot.ErrClosed]. It runs once.
func (db *DB) Run(ctx context.Context) error {
	w := &writer{
		db: db, conn: db.conn, state: db.state, claims: newWaitingClaims(db.aside), flows: newFlows(),
		timer: time.NewTimer(idle),
	}
	w.flows.waiting.first = w.lastLife
	defer func() { db.conn = w.conn }()
	w.schedule()
	for {
		select {
		case o := <-db.ops:
			w.work(w.collect(o))
		case <-w.timer.C:
			w.work(nil)
		case fn := <-db.between:
			fn(w)
		case <-ctx.Done():
			close(db.stopped)
			w.drain()
			close(db.drained)
			return nil
		}
	}
}

// collect gathers the waiting operations. It yields until the queue stops growing, so that publishers who are about to
// submit join the same commit. On an idle bus this costs nothing.
func (w *writer) collect(first *op) []*op {
	batch := []*op{first}
	for {
		runtime.Gosched()
		before := len(batch)
		batch = w.takeWaiting(batch)
		if len(batch) == before || len(batch) >= maxBatch {
			return batch
		}
	}
}

func (w *writer) takeWaiting(batch []*op) []*op {
	for len(batch) < maxBatch {
		select {
		case o := <-w.db.ops:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// drain answers everything that was submitted before the writer stopped.
func (w *writer) drain() {
	for {
		select {
		case o := <-w.db.ops:
			if o.claim != nil {
				o.done <- corebot.ErrClosed
				continue
			}
			w.work([]*op{o})
		default:
			w.claims.refuse(corebot.ErrClosed)
			return
		}
	}
}

// work runs one batch, serves waiting claims in the same commit, and sets the timer for the next due lane.
func (w *writer) work(batch []*op) {
	fault.Point("writer", "work")
	taken := batch[:0]
	for _, o := range batch {
		switch {
		case o.claim != nil:
			w.recall(o.claim.opts)
			w.claims.add(o)
		case o.take():
			taken = append(taken, o)
		}
	}
	w.heed()
	if err := w.run(taken); err != nil {
		for _, o := range taken { // an operation's error rolled the batch back: each operation runs alone
			if e := w.attempt([]*op{o}, false); e != nil {
				o.done <- e
			}
		}
	}
	w.schedule()
}

// run runs a batch in one transaction that also serves waiting claims. If it cannot serve them, the batch runs without
// them, and then the claims are served as far as possible. A claim must not make another operation fail.
func (w *writer) run(ops []*op) error {
	err := w.attempt(ops, true)
	for n := 0; n < asideRound; n++ {
		u := (*unserved)(nil)
		if !errors.As(err, &u) {
			return err
		}
		w.leave(u)
		if len(ops) > 0 {
			if err := w.attempt(ops, false); err != nil {
				return err
			}
			ops = nil
		}
		err = w.attempt(nil, true)
	}
	return nil
}

// schedule sets the timer for the next due thing: a lane that a claim waits for, or a deferred message.
func (w *writer) schedule() {
	now := w.db.clock.now()
	next := w.claims.nextWake(now)
	if w.backAt != math.MaxInt64 {
		next = min(next, time.UnixMilli(max(w.backAt, w.claims.shut[deferredPool].UnixMilli())).Sub(now))
	}
	if next < idle { // a suspended machine stops the timer but not the wall clock
		next = min(next, clockLook)
	}
	w.timer.Reset(max(next, w.pause))
}

// attempt runs the operations in one transaction and answers them after the commit. If serving is set, it also serves
// the waiting claims. If an operation fails after it has written, or SQLite fails, the transaction is rolled back.
// attempt then returns an error and has answered nobody. An [*unserved] says that the operations were not at fault.
func (w *writer) attempt(ops []*op, serving bool) error {
	if now := w.db.clock.now(); len(ops) == 0 && !w.claims.due(now) && w.backAt > now.UnixMilli() {
		return nil
	}
	started := time.Now()
	if err := w.ready(); err != nil {
		return w.refuse(ops, err)
	}
	if _, err := w.conn.exec(begin); err != nil {
		return w.refuse(ops, classify(err))
	}
	t := w.newTx(w.db.clock.now())
	verdicts := make([]error, len(ops))
	for i, o := range ops {
		before := t.writes
		verdicts[i] = o.run(t)
		if t.failed != nil || verdicts[i] != nil && t.writes > before {
			w.db.failing.Store(t.failed != nil)
			w.rollback()
			if isDamage(t.failed) {
				w.forgetPages()
			}
			return classify(cmp.Or(verdicts[i], t.failed))
		}
		fault.Point(o.name, "before")
	}
	var served []*op
	if serving {
		w.claims.join(ops, verdicts)
		var err error
		served, err = w.serve(t, len(ops) == 0)
		w.claims.part()
		if err != nil {
			w.rollback()
			w.claims.giveBack(served)
			return err
		}
	}
	if err := w.commit(t); err != nil {
		return w.refuse(append(ops, served...), err)
	}
	w.pause = 0
	w.db.metrics.observe(len(ops)+len(served), t.writes, time.Since(started))
	for i, o := range ops {
		fault.Point(o.name, "after")
		o.done <- classify(verdicts[i])
	}
	for _, o := range served {
		fault.Point("claim", "after")
		o.answer(nil)
	}
	return nil
}

func (w *writer) newTx(now time.Time) *tx {
	return &tx{
		now: now.Truncate(time.Millisecond), stepped: w.step, conn: w.conn,
		total: w.total, lastLife: w.lastLife, audit: w.audit, wakes: w.claims.wakes, backAt: w.backAt, flows: w.flows,
		waiting: &w.flows.waiting,
		diskLow: w.db.diskLow.Load(), tally: &w.db.tally, queueing: w.db.queueing, lanePlaces: w.db.limits.LaneDepth,
		clients: w.db.clientsNow(), keeper: w.db.keeper, deleting: &w.db.deleting,
		taskEnds: w.db.taskEnds, taskLate: w.db.taskLate,
	}
}

// serve does the due work of the writer itself: deferred messages come back, and waiting claims get ready lanes. If
// alone is set, the transaction has no operation that could suffer.
func (w *writer) serve(t *tx, alone bool) (served []*op, err error) {
	if alone {
		lanes := w.db.aside.unstored()
		if err := storeAsideTx(t, lanes); err != nil {
			return nil, err
		}
		t.stored = lanes
	}
	if err := w.claims.returnDeferredTx(t, alone); err != nil {
		return nil, err
	}
	return w.claims.serve(t, alone)
}

// refuse answers every operation of a failed transaction with the same error.
func (w *writer) refuse(ops []*op, err error) error {
	w.claims.forget()
	w.pause = failurePause
	w.db.failing.Store(true)
	w.db.log.Error().Err(err).Int("operations", len(ops)).Msg("a transaction failed")
	for _, o := range ops {
		o.answer(err)
	}
	return nil
}

func (w *writer) rollback() {
	w.flows.rollback()
	if _, err := w.conn.exec(rollback); err != nil {
		w.db.log.Debug().Err(err).Msg("rollback") // SQLite has rolled back by itself, or the connection is replaced
		w.conn = w.discard()
	}
}

// commit ends the transaction. If nothing was written, it syncs nothing. After an error the outcome is unknown until
// the file has been read again. If the commit turns out to have happened, commit returns nil.
func (w *writer) commit(t *tx) error {
	if t.writes == 0 {
		w.backAt = t.backAt
		w.flows.commit()
		w.rollback()
		return nil
	}
	err := w.storeFiguresTx(t)
	if err == nil {
		_, err = w.conn.exec(bumpBatch, w.batch+1, t.lastLife, t.now)
	}
	if err != nil {
		w.rollback()
		return classify(err)
	}
	fault.Point("commit", "before")
	_, err = w.conn.exec(commit)
	if err == nil {
		w.batch++
		w.db.tally.took(t.counted)
		w.total, w.lastLife, w.audit, w.backAt = t.total, t.lastLife, t.audit, t.backAt
		w.db.failing.Store(false)
	} else {
		err = w.resolve(err)
	}
	if err == nil {
		w.flows.commit()
	} else {
		w.flows.rollback()
	}
	if w.conn != nil {
		w.db.wal.note(w.conn.db.Log())
	}
	w.tell(t, err)
	return err
}

// tell updates the copies in memory of what a transaction has changed. It does so before the operations learn how the
// transaction ended.
func (w *writer) tell(t *tx, err error) {
	w.db.unlearn(t) // whatever the error: the change can have happened
	if err == nil {
		signalIf(t.said, w.db.said)
		signalIf(t.said, w.db.meant)
		signalIf(t.grouped, w.db.grouped)
		signalIf(t.planned, w.db.planned)
	}
	if err == nil {
		for _, k := range t.posted {
			t.clients.Posted(k)
		}
		if stop := w.db.stops.Load(); stop != nil {
			for _, life := range t.stopped {
				(*stop)(life)
			}
		}
	}
	if err == nil && len(t.stored) > 0 {
		w.db.aside.note(t.stored, asideInRow)
	}
	if err == nil && len(t.readmitted) > 0 {
		w.readmit(t.readmitted)
	}
}

// resolve finds out by the batch number whether a failed commit has happened after all, and makes the answer final. It
// asks the failed connection first. Another connection could be shown a transaction that was written and not synced.
func (w *writer) resolve(cause error) error {
	w.db.metrics.failedCommits.Inc()
	number := w.batch + 1
	happened := false
	err := w.seal(number, &happened)
	if err != nil {
		w.conn = w.discard()
		if err = w.ready(); err == nil {
			err = w.seal(number, &happened)
		}
	}
	switch {
	case err != nil:
		w.conn = w.discard()
		w.db.log.Error().Err(err).AnErr("cause", cause).Msg("a commit failed and what became of it cannot be made sure")
		return fmt.Errorf("%w: %v", corebot.ErrCommitUnknown, cause)
	case happened:
		return nil
	}
	return classify(cause)
}

// seal reads whether the commit of a number has happened, and commits an empty batch on top. A COMMIT whose sync failed
// has written its frames. Nobody sees them, but a crash now could bring them back, or lose what is seen of them. A
// synced commit over them or after them ends this doubt. A stored number above the one in question comes from an
// earlier seal, which has set happened already.
func (w *writer) seal(number int64, happened *bool) error {
	_, _ = w.conn.exec(rollback) // mostly SQLite has rolled back already and reports that there is nothing to do
	st, err := readState(w.conn, &w.db.tally)
	if err != nil {
		return fmt.Errorf("read the state of the database: %w", err)
	}
	if st.batch <= number {
		*happened = st.batch == number
	}
	st.batch = max(st.batch, number) + 1
	if _, err := w.conn.exec(begin); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if _, err := w.conn.exec(bumpBatch, st.batch, st.lastLife, w.db.clock.now()); err != nil {
		return fmt.Errorf("write the batch number: %w", err)
	}
	if _, err := w.conn.exec(commit); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	w.state = st
	return nil
}

// discard closes the connection and leaves none.
func (w *writer) discard() *prepared {
	if w.conn != nil {
		if err := w.conn.Close(); err != nil {
			w.db.log.Warn().Err(err).Msg("close the write connection")
		}
	}
	return nil
}

// ready makes sure that there is a connection. A new connection reads the stored batch number and the totals again.
func (w *writer) ready() error {
	if w.conn != nil {
		return nil
	}
	conn, err := openWriteConn(w.db.path)
	if err != nil {
		return fmt.Errorf("reopen the database: %w", classify(err))
	}
	// The log that a new connection finds can be written and not synced, and nothing may build upon it. So it is copied
	// into the database, and the log begins anew. A reader can prevent that; but then the log has not been read anew
	// either.
	if err := conn.each(emptyLog, func(scanner) error { return nil }); err != nil {
		return errors.Join(fmt.Errorf("empty the write-ahead log: %w", classify(err)), conn.Close())
	}
	state, err := readState(conn, &w.db.tally)
	if err != nil {
		return errors.Join(fmt.Errorf("read the state of the database: %w", classify(err)), conn.Close())
	}
	flows, err := loadFlows(conn, w.db.clock.now())
	if err != nil {
		return errors.Join(fmt.Errorf("read whose turns run: %w", classify(err)), conn.Close())
	}
	flows.keep(w.flows)
	w.flows = flows
	w.flows.waiting.first = state.lastLife
	w.conn, w.state = conn, state
	return nil
}
