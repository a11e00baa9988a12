package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
)

// SpaceOptions of a [Space]. The zero value is usable.
type SpaceOptions struct {
	Floor   int64                           // bytes that stay free; as [Disk.Floor] takes them; with no floor there is no ballast
	Every   time.Duration                   // between two looks; 1 s
	Disk    func(path string) (Disk, error) // nil means [DiskAt]
	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: figures are kept and shown to nobody
}

// Space keeps a full disk from being met by surprise. While less than the floor is free the store refuses new inbound messages with
// [corebot.ErrDiskFull]: senders keep them, and what was accepted can be answered with the room that is left. Duplicates are still
// acknowledged; settles, replies and everything else pass.
//
// Should the disk be filled to the last byte all the same, by whomever, a ballast file of up to 16 MiB in the data directory is given up, so
// that settles go on; new messages are then refused until the ballast could be made again.
//
// Limits: it looks once a second, so a disk that is filled faster is noticed by a failed transaction first, which is answered with an
// error as any other. A quota counts only where the file system shows it as free space.
type Space struct {
	db      *DB
	opts    SpaceOptions
	dir     string
	ballast ballast

	spent    bool  // the ballast was given up
	blind    bool  // the free space could not be read the last time
	bare     bool  // the ballast could not be made
	failures int64 // of the writer, at the last look

	mu    sync.Mutex // others read what follows; only Run writes it
	disk  Disk
	floor int64
	low   string // why nothing more comes in; empty: it does
}

// NewSpace looks at the disk for the first time, so that its floor holds before anything is accepted. It starts nothing.
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

// Run watches the disk until ctx ends. The ballast stays.
func (s *Space) Run(ctx context.Context) error {
	if s.opts.Floor < 0 { // switched off, perhaps just now
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

// Low says why new messages are refused now; empty means that they are not.
func (s *Space) Low() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.low
}

// look is one round: measure, help the writer if it has no room, mend the ballast, admit or refuse.
func (s *Space) look() {
	err := s.measure()
	if blind := err != nil; blind != s.blind { // told once, not every second
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

// measure reads the free space. When it cannot, the last figures stay.
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

// failure says whether the last transaction of the writer failed, and counts those that did: one that found no room may be followed by a
// smaller one that did.
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

// rescue gives the ballast up if a transaction has failed since the last look and next to nothing is free. Whoever ends a message tries
// again for longer than it takes to come here.
func (s *Space) rescue() {
	size, failures := ballastFor(s.floor), s.db.failing.count.Load()
	failed := failures != s.failures
	s.failures = failures
	if failed && s.disk.Free < size && s.ballast.held(size) {
		s.spent = true
		s.opts.Log.Error().AnErr("ballast", s.ballast.release()).Msg("the disk is full: the ballast is given up, so that what was accepted can end")
	}
}

// mend makes the ballast where that leaves the disk above its floor. On a disk that is low from the start it is made as well, if it
// does not take most of what is left; one that was given up must not come back before there is room again, to be given up again.
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
			if !s.bare { // told once, not every second
				s.bare = true
				s.opts.Log.Warn().Err(err).Msg("there is no ballast: on a disk that is full to the last byte nothing could end")
			}
			return
		}
	}
	s.spent, s.bare = false, false
}

// admit opens or closes the way in.
func (s *Space) admit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	low := ""
	switch {
	case s.disk.Free < s.floor:
		low = fmt.Sprintf("the disk is under its floor: %d MiB are free, %d MiB should be", s.disk.Free>>20, s.floor>>20)
	case s.spent:
		low = fmt.Sprintf("the disk was full, and has too little room yet: %d MiB are free", s.disk.Free>>20)
	}
	if was := s.low != ""; was != (low != "") {
		s.opts.Log.WithLevel(levelOf(low != "")).Int64("free", s.disk.Free).Int64("floor", s.floor).Bool("accepting", low == "").Msg("the space on the disk")
	}
	s.low = low
	s.db.diskLow.Store(low != "")
}

// register shows the figures.
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
		gauge("corebot_disk_free_bytes", "Free space of the disk that holds the data directory.", func() float64 { return float64(s.disk.Free) }),
		gauge("corebot_disk_floor_bytes", "Free space under which new messages are refused; 0: never.", func() float64 { return float64(s.floor) }),
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

// Disk is the file system that a path is on, in bytes.
type Disk struct {
	Total int64
	Free  int64 // what a user without privileges may still fill
}

// DiskAt asks the kernel about the file system of a path.
func DiskAt(path string) (Disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Disk{}, fmt.Errorf("read the free space of %s: %w", path, err)
	}
	block := int64(s.Bsize)                                                         //nolint:unconvert // the types differ between systems
	return Disk{Total: int64(s.Blocks) * block, Free: int64(s.Bavail) * block}, nil //nolint:unconvert // the same
}

// maxFloor is the floor of a large disk.
const maxFloor = 512 << 20

// Floor is how many bytes of the disk should stay free, by what was asked for: 0 means 512 MiB or 5 %, the smaller, and a negative number
// means none.
func (d Disk) Floor(asked int64) int64 {
	if asked == 0 {
		return min(maxFloor, d.Total/20)
	}
	return max(asked, 0)
}
