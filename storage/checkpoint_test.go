package storage

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage/seedtest"
)

var logBytes = flag.Int64("log.bytes", 0,
	"write that many bytes beside readers, with the default marks, and hold the log to 64 MiB; 0 is a short form")

// beside is another process that reads a database.
func beside(t *testing.T, db *DB) *sql.DB {
	t.Helper()
	side, err := sql.Open("sqlite", dsn(db.path, readPragmas))
	must(t, err)
	t.Cleanup(func() { must(t, side.Close()) })
	return side
}

// snapshot begins to read, as a query that is under way does. It goes on until the transaction is rolled back.
func snapshot(t *testing.T, side *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := side.Begin()
	must(t, err)
	var n int
	must(t, tx.QueryRow(`SELECT COUNT(*) FROM message_life`).Scan(&n))
	return tx
}

// comeAndGo has readers of a few milliseconds each, of which one is always there, until stop.
func comeAndGo(t *testing.T, db *DB) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	side := beside(t, db)
	var reading sync.WaitGroup
	reading.Go(func() {
		for last := snapshot(t, side); ; {
			select {
			case <-time.After(5 * time.Millisecond):
				next := snapshot(t, side)
				_ = last.Rollback()
				last = next
			case <-done:
				_ = last.Rollback()
				return
			}
		}
	})
	return func() {
		close(done)
		reading.Wait()
	}
}

// load publishes so many bytes from several chats at once and gives the greatest size of the log meanwhile.
func load(t *testing.T, db *DB, total int64) (longest int64) {
	t.Helper()
	const writers, body = 4, 256 << 10
	var all sync.WaitGroup
	sizes := make([]int64, writers)
	for w := range writers {
		all.Go(func() {
			for i := range total / body / writers {
				m := testMessage(fmt.Sprint("chat ", w), fmt.Sprintf("%d-%d", w, i))
				m.Parts = corebot.TextPart(strings.Repeat("x", body))
				if _, err := offer(db, m); err != nil {
					t.Error(err)
				}
				sizes[w] = max(sizes[w], logSize(db))
			}
		})
	}
	all.Wait()
	for _, size := range sizes {
		longest = max(longest, size)
	}
	return longest
}

func logSize(db *DB) int64 {
	info, err := os.Stat(db.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// frames is how much of the log is in use, once the writer has ended what it was doing.
func frames(t *testing.T, db *DB) int64 {
	t.Helper()
	must(t, db.Ping(t.Context()))
	return db.wal.frames.Load()
}

func cutting(t *testing.T, db *DB, o CheckpointOptions) *Checkpoints {
	t.Helper()
	c, err := NewCheckpoints(db, o)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// background runs the cuts until the test ends.
func (c *Checkpoints) background(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
}

func TestTheLogStaysShortUnderLoadWithReadersThatComeAndGo(t *testing.T) {
	total, limit, o := int64(40<<20), int64(24<<20), CheckpointOptions{Mark: 1 << 20, Every: 5 * time.Millisecond}
	if *logBytes > 0 {
		total, limit, o = *logBytes, 64<<20, CheckpointOptions{}
	}
	t.Run("nobody cuts it: a control", func(t *testing.T) {
		most := int64(0)
		for range 3 { // on a busy machine a reader can come and go between two commits
			db := openTest(t, seedtest.OnDisk(t))
			leave := comeAndGo(t, db)
			most = max(most, load(t, db, total))
			leave()
			if most > limit {
				return
			}
		}
		t.Errorf("it is at most %d KiB all the same: the test proves nothing", most>>10)
	})
	t.Run("it is cut", func(t *testing.T) {
		db := openTest(t, seedtest.OnDisk(t))
		cutting(t, db, o).background(t)
		defer comeAndGo(t, db)()
		most := load(t, db, total)
		if most > limit {
			t.Errorf("it grew to %d KiB, the limit is %d", most>>10, limit>>10)
		}
		t.Logf("at most %d KiB", most>>10)
		wantWhole(t, db)
	})
}

func TestALongReaderKeepsTheLogAndHoldsUpNobody(t *testing.T) {
	db := openTest(t, t.TempDir())
	registry, told := prometheus.NewRegistry(), new(bytes.Buffer)
	c := cutting(t, db, CheckpointOptions{Mark: 1 << 20, Limit: 1 << 20, Log: zerolog.New(told), Metrics: registry})
	publishTest(t, db, "a", "1")
	reader := snapshot(t, beside(t, db))
	load(t, db, 6<<20) // more than nearly all
	before := frames(t, db)
	for range 3 {
		if cut, err := c.cut(t.Context(), false); cut || err != nil {
			t.Fatalf("it was cut under a reader: %v, %v", cut, err)
		}
		if db.wal.paused() > 0 {
			t.Error("the writer was locked out for a reader that stays")
		}
		c.look(t.Context())
	}
	if frames(t, db) != before {
		t.Error("the log has begun anew under a reader")
	}
	if n := strings.Count(told.String(), "grows"); n != 1 {
		t.Errorf("the warning was given %d times:\n%s", n, told)
	}
	must(t, reader.Rollback())
	c.look(t.Context())
	if n := frames(t, db); n != 0 {
		t.Errorf("after the reader has gone it has %d bytes of frames", n)
	}
	size := logSize(db)
	publishTest(t, db, "a", "2")
	if n := frames(t, db); n == 0 || n > mib || logSize(db) != size {
		t.Errorf("the next commit has written up to %d of %d bytes, before of %d", n, logSize(db), size)
	}
	wantWhole(t, db)
	families, err := registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	if got["read"] != 3 || got["cut"] != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestAReaderThatIsALittleBehindIsWaitedForAndNotAgainAtOnce(t *testing.T) {
	db := openTest(t, t.TempDir())
	c := cutting(t, db, CheckpointOptions{Mark: 1})
	publishTest(t, db, "a", "1")
	reader := snapshot(t, beside(t, db))
	load(t, db, 1<<20)
	if cut, err := c.cut(t.Context(), false); cut || err != nil {
		t.Fatalf("it was cut under a reader: %v, %v", cut, err)
	}
	must(t, reader.Rollback())
	c.look(t.Context())
	if frames(t, db) == 0 {
		t.Error("it was tried again at once")
	}
	now := time.Now()
	db.wal.pause.Store(&now)
	c.look(t.Context())
	if n := frames(t, db); n != 0 {
		t.Errorf("after the pause it has %d bytes of frames", n)
	}
}

func TestAShortLogIsLeftAlone(t *testing.T) {
	db := openTest(t, t.TempDir())
	publishTest(t, db, "a", "1")
	n := frames(t, db)
	cutting(t, db, CheckpointOptions{}).look(t.Context())
	if n == 0 || frames(t, db) != n {
		t.Errorf("of %d bytes of frames there are %d", n, frames(t, db))
	}
	for _, o := range []CheckpointOptions{{Mark: -1}, {Limit: -1}, {Every: -1}} {
		if _, err := NewCheckpoints(db, o); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestTheUnusedRoomOfTheLogIsGivenBackWhileTheDiskIsLow(t *testing.T) {
	db := openTest(t, t.TempDir())
	c := cutting(t, db, CheckpointOptions{Mark: 1 << 20})
	load(t, db, 6<<20)
	c.look(t.Context()) // it begins anew
	publishTest(t, db, "a", "1")
	long := logSize(db)
	c.look(t.Context())
	if long < 6<<20 || logSize(db) != long {
		t.Fatalf("on a disk with room it has %d bytes, before %d", logSize(db), long)
	}
	db.diskLow.Store(true)
	c.look(t.Context())
	if size := logSize(db); size != 0 {
		t.Errorf("on a disk that is low it has %d bytes", size)
	}
	must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{Verb: corebot.Dead, Reason: "test"}))
	short := logSize(db)
	c.look(t.Context())
	if short == 0 || logSize(db) != short {
		t.Errorf("a log of %d bytes was cut to %d", short, logSize(db))
	}
	wantWhole(t, db)
}

// Nobody looks at the log while nothing is written: an idle Corebot sleeps.
func TestTheLogIsLookedAtWhenTheWriterOrTheDiskCalls(t *testing.T) {
	for what, c := range map[string]struct {
		mark int64
		call func(*DB)
	}{
		"a log over its mark": {4 << 20, func(db *DB) { load(t, db, 6<<20) }},
		"a disk that is low": {1 << 40, func(db *DB) {
			load(t, db, 6<<20)
			cutting(t, db, CheckpointOptions{Mark: 1}).look(t.Context())
			low := func(string) (Disk, error) { return Disk{Total: 1 << 40, Free: 1}, nil }
			_, err := NewSpace(db, SpaceOptions{Floor: 1 << 20, Disk: low})
			must(t, err)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			db := openTest(t, t.TempDir())
			watch := cutting(t, db, CheckpointOptions{Mark: c.mark, Every: time.Hour}) // one look, and one for a call
			watch.background(t)
			time.Sleep(5 * time.Millisecond)
			c.call(db)
			for began := time.Now(); watch.cuts() == 0; time.Sleep(time.Millisecond) {
				if time.Since(began) > 20*time.Second {
					t.Fatal("nobody was called")
				}
			}
		})
	}
}

// cuts is how often the log was made to begin anew.
func (c *Checkpoints) cuts() float64 {
	var m dto.Metric
	_ = c.results.WithLabelValues("cut").Write(&m) // a counter has no error
	return m.GetCounter().GetValue()
}
