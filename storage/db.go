package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/internal/swap"
	"github.com/corebot/corebot/migrations"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage/engine"
)

// FileName is the database's name in the data directory.
const FileName = "corebot.db"

// readConns is the number of query-only connections. So many queries run at once, and each connection keeps a cache.
const readConns = 4

// Options of a [DB]. The zero value is usable.
type Options struct {
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: the metrics are kept and not exported
	Limits  corebot.Limits        // for control messages and for dead letters that come back; none by default
	// Queueing says how prompts wait in a busy chat; in line by default. ModeCollect needs a debounce.
	Queueing corebot.Queueing
	// Accounting says how the usage of turns is booked.
	Accounting corebot.Accounting
	// Bootstrap says how the first admin is made; off by default.
	Bootstrap policy.Bootstrap
	// Speaks says whether a channel can have a sender: an admin who can never speak is not the last one. Nil: everybody
	// can.
	Speaks func(corebot.Principal) bool
	// Owner gives the owner of the home at its terminal, who is admin everywhere without any grant. It is called once
	// the data directory is there. Nil, or a principal without an id: there is no owner.
	Owner func() corebot.Principal
	// Attends says whether somebody can be the owner at a terminal. Nil: somebody can.
	Attends func(owner corebot.Principal) bool
	// KeepDeferred leaves deferred messages where they are. Otherwise they come back when the database is opened,
	// because the settings that deferred them can have changed.
	KeepDeferred bool
	// TaskFailures is how many runs of a task in a row can fail before the task is paused; 0: any number.
	TaskFailures int
	// Keeper says how long chats keep what is said in them; nil: everything, as long as all chats do.
	Keeper *corebot.Keeper
	// TasksWithin is how late a due task can begin and still count as in time; 0: that is not counted.
	TasksWithin time.Duration
}

// DB is Corebot's database in one data directory. Any goroutine may call its methods. The methods that write need a
// running [DB.Run].
type DB struct {
	path       string
	log        zerolog.Logger
	metrics    *metrics
	lock       *dirLock
	limits     corebot.Limits
	queueing   corebot.Queueing
	keeper     *corebot.Keeper
	accounting atomic.Pointer[corebot.Accounting]
	bootstrap  policy.Bootstrap
	speaks     func(corebot.Principal) bool
	owner      corebot.Principal
	attended   bool // somebody can be the owner at a terminal
	conn       *prepared
	state      state // the state with which the writer begins
	reader     *reader
	ops        chan *op
	failing    failure     // the last transaction of the writer failed
	diskLow    atomic.Bool // the disk is under its floor: the store refuses inbound messages; see [Space]
	roles      roles
	admissions admissions
	clock      *clock
	aside      *aside // lanes whose heads cannot be read
	deleting   deleting
	wal        logUse
	clients    atomic.Pointer[MailClients]
	stops      atomic.Pointer[func(life int64)] // see [DB.OnStop]
	pools      atomic.Pointer[[]corebot.Pool]   // that metrics show while they are empty, too
	said       chan struct{}                    // signals that the history has grown; holds one signal
	meant      chan struct{}                    // the same, for vectors
	planned    chan struct{}                    // signals that due times of tasks have changed; holds one signal
	grouped    chan struct{}                    // signals that notices of dead letters are grouped; holds one signal
	replaying  chan struct{}                    // signals that a replay of many is open; holds one signal
	taskEnds   int                              // failed runs in a row that pause a task; 0: any number
	taskLate   time.Duration                    // how late a task can begin in time; 0: that is not counted
	between    chan func(*writer)               // what the writer runs between two transactions
	tally      tally
	faults     faults
	rehearsals rehearsals
	dead       deadFigure
	stopped    chan struct{} // closed when the writer accepts nothing more
	drained    chan struct{} // closed when the writer has answered everything that it accepted
}

// Open locks the data directory and creates it if it is missing. It checks the file, migrates an older file, and voids
// the leases of an earlier process. It starts nothing.
//
// Open refuses and changes nothing in these cases, with an error that says what to do:
//
//   - The directory cannot be written, or another process holds it.
//   - The file is damaged, not Corebot's, of a newer Corebot, or of another home.
//   - Its write-ahead log is damaged: see [CheckLog].
//   - The file is missing or empty although the home had a database.
func Open(ctx context.Context, dir string, o Options) (*DB, error) {
	db, err := open(ctx, dir, o)
	if makesRoom(dir, err, o.Log) {
		return open(ctx, dir, o)
	}
	return db, err
}

func open(ctx context.Context, dir string, o Options) (_ *DB, err error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	db := newDB(dir, o)
	if db.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if o.Owner != nil {
		db.owner = o.Owner()
		db.attended = o.Attends == nil || o.Attends(db.owner)
	}
	version, p, read, err := inspect(dir)
	if err == nil {
		err = CheckLog(dir) // nothing that has only read has taken anything back
	}
	if err == nil && version != SchemaVersion() {
		_ = read.Close() // it has only read, and knows the old schema
		read, err = nil, migrate(ctx, db.path, migrations.FS, o.Log)
	}
	if err != nil {
		return nil, err
	}
	if db.reader, err = openReader(db.path, readConns, read); err != nil {
		return nil, err
	}
	if db.conn, err = openWriteConn(db.path); err != nil {
		return nil, classify(err)
	}
	if err := db.conn.remember(dir, p); err != nil {
		return nil, err
	}
	if err := db.takeOver(o.KeepDeferred); err != nil {
		return nil, err
	}
	db.metrics, err = newMetrics(o.Metrics, db)
	return db, err
}

func newDB(dir string, o Options) *DB {
	db := &DB{
		path: filepath.Join(dir, FileName), log: o.Log, limits: o.Limits, queueing: o.Queueing, keeper: o.Keeper,
		taskEnds: o.TaskFailures, taskLate: o.TasksWithin,
		bootstrap: o.Bootstrap, speaks: o.Speaks, aside: newAside(), wal: newLogUse(), clock: newClock(nil),
		ops: make(chan *op, maxBatch), said: make(chan struct{}, 1), meant: make(chan struct{}, 1),
		planned:   make(chan struct{}, 1),
		replaying: make(chan struct{}, 1), grouped: make(chan struct{}, 1),
		between: make(chan func(*writer)),
		stopped: make(chan struct{}), drained: make(chan struct{}),
	}
	db.accounting.Store(&o.Accounting)
	return db
}

// takeOver makes the state of an earlier process that of this one: its times, its leases, its deferred messages.
func (db *DB) takeOver(keepDeferred bool) (err error) {
	if err := db.conn.followClock(db.clock.now()); err != nil {
		return fmt.Errorf("have the stored times follow the clock: %w", classify(err))
	}
	if err := db.conn.voidLeases(db.clock.now()); err != nil {
		return fmt.Errorf("void the leases of the last process: %w", classify(err))
	}
	if !keepDeferred {
		if err := db.allDueNow(db.conn, db.clock.now()); err != nil {
			return fmt.Errorf("have the deferred messages come back: %w", classify(err))
		}
	}
	if db.state, err = readState(db.conn, &db.tally); err != nil {
		return fmt.Errorf("read the state of the database: %w", classify(err))
	}
	if err := db.noteOwner(); err != nil { // a full disk keeps nobody from working
		db.log.Warn().Err(classify(err)).Msg("the audit does not name the owner of the home")
	}
	db.wal.note(db.conn.db.Log())
	return nil
}

// OpenReader opens the database of a data directory only for reading. It takes no lock and works beside a running
// daemon. The repositories of such a DB can read. Their writing methods return [corebot.ErrClosed].
func OpenReader(_ context.Context, dir string) (*DB, error) {
	path := filepath.Join(dir, FileName)
	if err := ours(dir); err != nil {
		return nil, err
	}
	c, err := openCurrent(dir)
	if err != nil {
		return nil, err
	}
	r, err := openReader(path, 1, c)
	if err != nil {
		return nil, err
	}
	return readOnly(path, r), nil
}

// readOnly is a database that nobody writes through it.
func readOnly(path string, r *reader) *DB {
	db := &DB{path: path, reader: r, aside: newAside(), stopped: make(chan struct{})}
	close(db.stopped)
	return db
}

// isReadOnly says whether nobody writes through the database.
func (db *DB) isReadOnly() bool { return db.ops == nil }

// signal leaves a signal for the one who waits for it: the search index, or the scheduler. It does not block.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default: // a signal is pending already
	}
}

func signalIf(changed bool, to chan<- struct{}) {
	if changed {
		signal(to)
	}
}

// Close releases the files and the lock. Call it after [DB.Run] has returned.
func (db *DB) Close() error {
	db.dead.close()
	var errs []error
	for _, c := range []io.Closer{db.reader, db.conn, db.lock} {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// pragmas hold for every connection.
var pragmas = []string{"busy_timeout(5000)", "foreign_keys(off)", "trusted_schema(off)", "cell_size_check(on)"}

// writePragmas hold for connections that write. synchronous(FULL) is guarantee G1, and no other pragma may weaken it.
// Measurements chose page and cache sizes (docs/performance.md). The file of the WAL keeps its length up to the limit.
// Zeros take the place of a deleted row within its page, which costs no further write ([Forgetting.Scrub]).
var writePragmas = append(slices.Clone(pragmas), "journal_mode(WAL)", "synchronous(FULL)", "cache_size(-16384)",
	"wal_autocheckpoint(4000)", "journal_size_limit(33554432)", "temp_store(memory)", "secure_delete(fast)")

// fileURI names a database file by a URI, in which a path with "?" or "#" stays a path.
func fileURI(path string, params url.Values) string {
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: params.Encode()}).String()
}

// dsn is the URI for database/sql's driver, with the pragmas.
func dsn(path string, pragmas []string) string { return fileURI(path, url.Values{"_pragma": pragmas}) }

// openWriteConn opens the write connection.
func openWriteConn(path string) (*prepared, error) {
	c, err := engine.OpenWriter(fileURI(path, nil), writePragmas)
	if err != nil {
		return nil, err
	}
	return newPrepared(c), nil
}

var (
	lastCommit   = &query{`SELECT at FROM store WHERE id = 1`}
	touchStore   = &query{`UPDATE store SET batch = batch WHERE id = 1`}
	selectStore  = &query{`SELECT batch, last_life FROM store WHERE id = 1`}
	selectTotals = &query{`SELECT direction, SUM(depth), SUM(bytes) FROM lanes GROUP BY direction`}
	voidLeases   = &query{`UPDATE lanes SET ` + nextEpoch + `, wake_at = ? WHERE leased = 1 OR waiting IN ('` +
		corebot.NotNow + `', '` + corebot.Unreadable + `')
		OR waiting = '' AND wake_at > ?`}
	capWaits = &query{`UPDATE lanes SET wake_at = MIN(wake_at, ?), free_at = MIN(free_at, ?),
		quiet_at = MIN(quiet_at, ?)
		WHERE wake_at > ? OR free_at > ? OR quiet_at > ?`}
)

// voidLeases makes lanes ready at once that an earlier process held, or that waited for something in that process. The
// held lanes stay marked as leased: the next claim counts the loss and finds the journal.
//
// The stored times are times of the wall clock. If the clock was ahead when they were written, they must not hold a
// chat. So a head that waits for nothing is due now, and no head waits longer than longestWait.
func (c *prepared) voidLeases(now time.Time) error {
	if _, err := c.exec(voidLeases, now, now); err != nil {
		return err
	}
	if _, err := c.exec(releaseHeld, now); err != nil {
		return err
	}
	latest := now.Add(longestWait)
	_, err := c.exec(capWaits, latest, latest, latest, latest, latest, latest)
	return err
}

// followClock moves the stored times if the newest commit lies in the future, because then the wall clock was stepped
// back. If the newest commit is long ago, the wall clock can have been set ahead.
func (c *prepared) followClock(now time.Time) error {
	var at time.Time
	err := c.each(lastCommit, func(s scanner) error { return s.Scan(moment{&at}) })
	if err == nil && !at.IsZero() && now.Sub(at) >= farAhead {
		_, err = c.exec(beginDoubt, now.Add(doubt))
	}
	if err != nil || at.Sub(now) < clockTolerance {
		return err
	}
	return c.shift(now, now.Truncate(time.Millisecond).Sub(at))
}

// longestWait is the longest backoff of the bus.
const longestWait = time.Hour

// state is what the writer knows about the database without a query.
type state struct {
	batch    int64 // the number of the last commit
	lastLife int64 // the number of the newest life
	audit    link  // the newest event of the audit trail
	total    totals
	backAt   int64 // see tx
}

// readState reads the state, and the counters into y.
func readState(c *prepared, y *tally) (st state, err error) {
	err = c.each(selectStore, func(s scanner) error { return s.Scan(&st.batch, &st.lastLife) })
	if err != nil {
		return st, err
	}
	if st.audit, err = readHead(c); err != nil {
		return st, err
	}
	err = c.each(selectTotals, func(s scanner) error {
		var direction int
		var depth, bytes int64
		if err := s.Scan(&direction, &depth, &bytes); err != nil {
			return err
		}
		if direction >= 0 && direction < len(st.total.depth) { // otherwise a bit has flipped, which `db check` reports
			st.total.depth[direction] = depth
		}
		st.total.bytes += bytes
		return nil
	})
	if err != nil {
		return st, err
	}
	if err = c.each(countTasks, func(s scanner) error { return s.Scan(&st.total.tasks) }); err != nil {
		return st, err
	}
	counters, err := readTally(c)
	if err != nil {
		return st, err
	}
	y.replace(counters)
	var deferred, bytes int64 // all of them were inbound, and they count as waiting
	err = c.each(deferredTotal, func(s scanner) error { return s.Scan(&deferred, &bytes, &st.backAt) })
	st.total.depth[corebot.Inbound] += deferred
	st.total.bytes += bytes
	if deferred == 0 {
		st.backAt = math.MaxInt64
	}
	return st, err
}

// fileSizes are the sizes of the database and its write-ahead log, in bytes.
func (db *DB) fileSizes() map[string]int64 {
	sizes := map[string]int64{}
	for name, path := range map[string]string{"db": db.path, "wal": db.path + "-wal"} {
		if info, err := os.Stat(path); err == nil {
			sizes[name] = info.Size()
		}
	}
	return sizes
}

// Ping waits until the writer has taken an operation. It writes only if the last transaction failed. Then its error
// says whether the next one would be committed.
func (db *DB) Ping(ctx context.Context) error {
	return db.write(ctx, "ping", func(t *tx) error {
		if !db.failing.Load() {
			return nil
		}
		_, err := t.exec(touchStore)
		return err
	})
}

// LockError says that another process holds the data directory.
type LockError struct {
	Dir string
	PID int // 0: the holder did not write it
}

func (e *LockError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is in use by another Corebot", e.Dir)
	}
	return fmt.Sprintf("%s is in use by another Corebot, process %d", e.Dir, e.PID)
}

// dirLock is an advisory lock on a file of the data directory. The kernel releases it when the process dies, in
// whatever way.
type dirLock struct{ file *os.File }

// lockDir locks a data directory. It ends a swap that a crash has cut short, so that whoever has the lock sees all old
// or all new.
func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("lock the data directory: %w", err),
			"make "+dir+" writable for the user who runs Corebot, or choose another home with --home")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := &LockError{Dir: dir, PID: readPID(f)}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		return nil, errors.Join(corebot.WithHint(holder,
			"stop that process first, or give this one a home of its own with --home"), f.Close())
	}
	if err := writePID(f); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
	}
	if err := swap.Finish(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("end the restore that was cut short: %w", err), f.Close())
	}
	return &dirLock{f}, nil
}

// readPID only informs people. The lock does not depend on it.
func readPID(f io.ReaderAt) int {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return pid
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Close releases the lock. It leaves the file: without it two processes could lock two files of one name.
func (l *dirLock) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

func makeDir(dir string) error {
	err := owned.MakeDir(dir)
	if errors.Is(err, owned.ErrNotOurs) {
		return fmt.Errorf("the data directory: %w", err)
	}
	if err != nil {
		return corebot.WithHint(fmt.Errorf("make the data directory: %w", err), owned.Elsewhere(err, filepath.Dir(dir)))
	}
	return ours(dir)
}

// ours refuses a data directory, or a file of the database, that others can change. A user who can write there can
// give himself a role.
func ours(dir string) error {
	for _, name := range []string{"", "lock", FileName, FileName + "-wal", FileName + "-shm"} {
		if err := owned.Check(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("the data directory: %w", err)
		}
	}
	return nil
}
