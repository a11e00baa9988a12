package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/corebot/corebot"
)

// SpaceOptions of a [Space]. The zero value is usable.
type SpaceOptions struct {
	// bytes that stay free, as for [Disk.Floor]; without a floor there is no ballast
	Floor   int64
	Every   time.Duration                   // between two looks; 1 s
	Disk    func(path string) (Disk, error) // nil means [DiskAt]
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: the metrics are kept and not exported
}

// Space prepares for a full disk. While less than the floor is free, the store refuses new inbound messages with
// [corebot.ErrDiskFull]. Senders keep those messages, and the remaining room is for answers to accepted ones.
// Duplicates are still acknowledged. Settles, replies and everything else pass.
//
// If the disk becomes full to the last byte all the same, Space deletes its ballast, so that settles go on. The ballast
// is a file of up to 16 MiB in the data directory. The store then refuses new messages until the ballast can be made
// again.
//
// Limits: Space looks once a second. If the disk fills faster, a transaction fails first, and its error is reported
// like any other. A quota counts only where the file system shows it as free space.
type Space struct {
	db      *DB
	opts    SpaceOptions
	dir     string
	ballast ballast

	spent    bool  // the ballast was deleted
	blind    bool  // the last look could not read the free space
	bare     bool  // the ballast could not be made
	failures int64 // failures of the writer at the last look

	mu    sync.Mutex // guards the fields below, which only Run writes
	disk  Disk
	floor int64
	low   string // why inbound messages are refused; empty: they are not
}

// NewSpace looks at the disk once, so that its floor holds before anything is accepted. It starts nothing.
func NewSpace(db *DB, o SpaceOptions) (*Space, error) {
	o.Every = cmp.Or(o.Every, time.Second)
	if o.Every < 0 {
		return nil, fmt.Errorf("%w: look at the disk every %v", corebot.ErrInvalid, o.Every)
	}
	if o.Disk == nil {
		o.Disk = DiskAt
	}
	dir := filepath.Dir(db.path)
	s := &Space{db: db, opts: o, dir: dir, ballast: ballast{filepath.Join(dir, ballastName)}}
	if err := s.measure(); err != nil {
		return nil, err
	}
	s.admit()
	return s, s.register(o.Metrics)
}

// Run watches the disk until ctx ends. It leaves the ballast.
func (s *Space) Run(ctx context.Context) error {
	if s.opts.Floor < 0 { // switched off, perhaps since the last start
		if err := s.ballast.release(); err != nil {
			s.opts.Log.Warn().Err(err).Msg("ballast")
		}
	}
	tick := time.NewTicker(s.opts.Every)
	defer tick.Stop()
	for {
		s.look()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Low says why new messages are refused now; empty: they are not.
func (s *Space) Low() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.low
}

// look is one round: it measures, helps a writer without room, restores the ballast, and admits or refuses messages.
func (s *Space) look() {
	err := s.measure()
	if blind := err != nil; blind != s.blind { // logged once, not every second
		s.blind = blind
		s.opts.Log.WithLevel(levelOf(blind)).Err(err).Bool("readable", !blind).Msg("the free space of the disk")
	}
	s.rescue()
	s.mend()
	s.admit()
}

func levelOf(bad bool) zerolog.Level {
	if bad {
		return zerolog.WarnLevel
	}
	return zerolog.InfoLevel
}

// measure reads the free space. If it cannot, the last figures stay.
func (s *Space) measure() error {
	d, err := s.opts.Disk(s.dir)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk, s.floor = d, d.Floor(s.opts.Floor)
	return nil
}

// failure says whether the last transaction of the writer failed, and counts the failures. The count matters because a
// smaller transaction can succeed after one without room.
type failure struct {
	last  atomic.Bool
	count atomic.Int64
}

func (f *failure) Store(failed bool) {
	if failed {
		f.count.Add(1)
	}
	f.last.Store(failed)
}

// Load says whether the last transaction failed.
func (f *failure) Load() bool { return f.last.Load() }

// rescue deletes the ballast if a transaction has failed since the last look and almost nothing is free. The callers
// who end messages retry for longer than this takes.
func (s *Space) rescue() {
	size, failures := ballastFor(s.floor), s.db.failing.count.Load()
	failed := failures != s.failures
	s.failures = failures
	if failed && s.disk.Free < size && s.ballast.held(size) {
		s.spent = true
		s.opts.Log.Error().AnErr("ballast",
			s.ballast.release()).Msg("the disk is full: the ballast is given up, so that what was accepted can end")
	}
}

// mend makes the ballast if the disk then stays above its floor. On a disk that is low from the start, it also makes
// the ballast if that does not take most of the remaining room. A deleted ballast comes back only when there is room
// again. Otherwise it would be deleted again at once.
func (s *Space) mend() {
	size, free := ballastFor(s.floor), s.disk.Free
	if size == 0 {
		return
	}
	if !s.ballast.held(size) {
		if ample, early := free >= s.floor+size, !s.spent && free < s.floor && free >= 2*size; !ample && !early {
			return
		}
		if err := s.ballast.make(size); err != nil {
			if !s.bare { // logged once, not every second
				s.bare = true
				s.opts.Log.Warn().Err(err).Msg(
					"there is no ballast: on a disk that is full to the last byte nothing could end")
			}
			return
		}
	}
	s.spent, s.bare = false, false
}

// admit lets inbound messages in, or refuses them.
func (s *Space) admit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	low := ""
	switch {
	case s.disk.Free < s.floor:
		low = fmt.Sprintf("the disk is under its floor: %d MiB are free, %d MiB should be", s.disk.Free>>20,
			s.floor>>20)
	case s.spent:
		low = fmt.Sprintf("the disk was full, and has too little room yet: %d MiB are free", s.disk.Free>>20)
	}
	if was := s.low != ""; was != (low != "") {
		s.opts.Log.WithLevel(levelOf(low != "")).Int64("free", s.disk.Free).Int64("floor", s.floor).Bool("accepting",
			low == "").Msg("the space on the disk")
	}
	s.low = low
	if s.db.diskLow.Store(low != ""); low != "" {
		s.db.wal.call()
	}
}

// register exports the metrics.
func (s *Space) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	gauge := func(name, help string, value func() float64) error {
		return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return value()
		}))
	}
	err := errors.Join(
		gauge("corebot_disk_free_bytes", "Free space of the disk that holds the data directory.",
			func() float64 { return float64(s.disk.Free) }),
		gauge("corebot_disk_floor_bytes", "Free space under which new messages are refused; 0: never.",
			func() float64 { return float64(s.floor) }),
		gauge("corebot_disk_low", "1 while new messages are refused for want of space.", func() float64 {
			if s.low != "" {
				return 1
			}
			return 0
		}),
	)
	if err != nil {
		return fmt.Errorf("register the metrics of the disk: %w", err)
	}
	return nil
}

// Disk is the room of a path's file system, in bytes.
type Disk struct {
	Total int64
	Free  int64 // for a user without privileges
}

// DiskAt asks the kernel about the file system of a path.
func DiskAt(path string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Disk{}, fmt.Errorf("read the free space of %s: %w", path, err)
	}
	block := int64(s.Bsize)                                                         //nolint:unconvert // types differ
	return Disk{Total: int64(s.Blocks) * block, Free: int64(s.Bavail) * block}, nil //nolint:unconvert // the same
}

// maxFloor is the floor of a large disk.
const maxFloor = 512 << 20

// Floor is how many bytes of the disk should stay free. asked is the setting: 0 means 512 MiB or 5 %, the smaller; a
// negative number means none.
func (d Disk) Floor(asked int64) int64 {
	if asked == 0 {
		return min(maxFloor, d.Total/20)
	}
	return max(asked, 0)
}

const ballastName = "ballast"

// ballast is a file whose only use is to be deleted. When the disk is full to the last byte, its blocks let the writer
// go on.
type ballast struct{ path string }

const (
	maxBallast   = 16 << 20 // enough for many seconds of settles
	ballastShare = 2        // half of a small floor, so that the disk keeps some room beside it
)

// ballastFor is the size of the ballast under a floor, in bytes.
func ballastFor(floor int64) int64 { return min(maxBallast, floor/ballastShare) }

// held says whether the file has all its blocks on disk. A crash can have left it too short.
func (b ballast) held(size int64) bool {
	var s unix.Stat_t
	// the unit of st_blocks, whatever the file system's own blocks are
	const unit = 512
	return size > 0 && unix.Stat(b.path, &s) == nil && s.Size == size &&
		int64(s.Blocks)*unit >= size //nolint:unconvert // the types differ between systems
}

// make allocates the file anew. If it fails, it leaves nothing behind.
func (b ballast) make(size int64) (err error) {
	if err := b.release(); err != nil {
		return err
	}
	f, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make the ballast: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(fmt.Errorf("allocate %d bytes of ballast: %w", size, err), b.release())
		}
	}()
	if err := allocate(f, size); err == nil {
		return f.Sync()
	}
	// On a file system that cannot reserve blocks, write random data, which nothing can compress.
	if _, err := io.CopyN(f, rand.Reader, size); err != nil {
		return err
	}
	return f.Sync()
}

// release deletes the file, if there is one.
func (b ballast) release() error {
	if err := os.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release the ballast: %w", err)
	}
	return nil
}

// makesRoom deletes the ballast if the database could not be opened for want of room, and says whether to try again.
// The files that SQLite makes beside the database need a few blocks.
func makesRoom(dir string, err error, log zerolog.Logger) bool {
	b := ballast{filepath.Join(dir, ballastName)}
	if !ofSQLite(err) || !errors.Is(err, corebot.ErrDiskFull) || !b.held(b.size()) {
		return false
	}
	err = b.release()
	log.Error().AnErr("ballast", err).Msg("the disk is full: the ballast is given up, so that Corebot can start")
	return err == nil
}

// shortOfRoom recognises the errors of a full disk. One of them is an input/output error: the file beside the database
// cannot have its length.
func shortOfRoom(code int, err error) error {
	switch code {
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %w", corebot.ErrDiskFull, err)
	case sqlite3.SQLITE_IOERR_SHMSIZE:
	default:
		return err
	}
	return corebot.WithHint(fmt.Errorf("%w: %w", corebot.ErrDiskFull, err), "make room on the disk of the database")
}

// size is how long the file is; 0: it is not there.
func (b ballast) size() int64 {
	var s unix.Stat_t
	if unix.Stat(b.path, &s) != nil {
		return 0
	}
	return s.Size
}
