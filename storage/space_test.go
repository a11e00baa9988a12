package storage

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/needs"
)

const mib = 1 << 20

// gauge is a disk that has as much room as a test says.
type gauge struct{ free atomic.Int64 }

func (g *gauge) disk(string) (Disk, error) { return Disk{Total: 1 << 40, Free: g.free.Load()}, nil }

// watch watches the disk of a database until the test ends.
func watch(t *testing.T, db *DB, o SpaceOptions) *Space {
	t.Helper()
	s, err := NewSpace(db, o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	return s
}

func offer(db *DB, m corebot.Message) (corebot.Receipt, error) {
	r, err := NewQueue(db).Publish(context.Background(), []corebot.Message{m}, corebot.Limits{})
	if err != nil {
		return corebot.Receipt{}, err
	}
	return r[0], r[0].Err
}

func outboundTest(chat, id string) corebot.Message {
	m := testMessage(chat, id)
	m.Direction, m.Kind, m.Sender = corebot.Outbound, corebot.KindReply, corebot.Principal{}
	return m
}

func TestTheFloorIsHalfAGibibyteOrATwentiethTheSmaller(t *testing.T) {
	for total, want := range map[int64]int64{1 << 40: 512 * mib, 10 << 30: 512 * mib, 1000 * mib: 50 * mib, 0: 0} {
		if got := (Disk{Total: total}).Floor(0); got != want {
			t.Errorf("of a disk of %d bytes it is %d, want %d", total, got, want)
		}
	}
	for asked, want := range map[int64]int64{-1: 0, 1: 1, mib: mib} {
		if got := (Disk{Total: 1 << 40}).Floor(asked); got != want {
			t.Errorf("asked for %d it is %d, want %d", asked, got, want)
		}
	}
}

func TestUnderTheFloorNothingNewComesInAndEverythingElsePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		var g gauge
		g.free.Store(513 * mib)
		s := watch(t, db, SpaceOptions{Disk: g.disk})
		for _, id := range []string{"1", "2", "3"} {
			publishTest(t, db, "a", id)
		}
		g.free.Store(511 * mib)
		time.Sleep(time.Second + time.Millisecond)
		if s.Low() == "" {
			t.Fatal("a second later it has not noticed")
		}

		before := count(t, dir, "message_life")
		if _, err := offer(db, testMessage("a", "4")); !errors.Is(err, corebot.ErrDiskFull) {
			t.Errorf("a new message: %v", err)
		}
		if _, err := offer(db, testMessage("new chat", "1")); !errors.Is(err, corebot.ErrDiskFull) {
			t.Errorf("a new chat: %v", err)
		}
		if after := count(t, dir, "message_life"); after != before || count(t, dir, "lanes") != 1 {
			t.Error("what was refused has left a trace")
		}
		if r, err := offer(db, testMessage("a", "1")); err != nil || !r.Duplicate {
			t.Errorf("a duplicate: %+v, %v", r, err)
		}
		other := testMessage("a", "1")
		other.Parts = corebot.TextPart("another")
		if _, err := offer(db, other); !errors.Is(err, corebot.ErrConflict) {
			t.Errorf("another body under the same id: %v", err)
		}

		ledger := NewLedger(db)
		d := claimTest(t, db)
		must(t, ledger.Record(t.Context(), d, corebot.Step{
			Kind: corebot.StepModel, State: corebot.StepDone,
			Answer: &corebot.Answer{},
		}))
		must(t, ledger.Commit(t.Context(), d, corebot.Result{
			Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
			History: []corebot.HistoryEntry{{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart("hello")}},
			Replies: []corebot.Message{outboundTest("a", "1/1/0")},
		}))
		must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{
			Verb:   corebot.Dead,
			Reason: "permanent",
		}))
		must(t, NewQueue(db).Settle(t.Context(), claimTest(t, db), corebot.Outcome{
			Verb: corebot.RetryAt,
			At:   time.Now().Add(time.Hour),
		}))
		if _, err := offer(db, outboundTest("a", "task/1")); err != nil {
			t.Errorf("a reply: %v", err)
		}

		g.free.Store(512 * mib)
		time.Sleep(time.Second + time.Millisecond)
		if why := s.Low(); why != "" {
			t.Errorf("a second after the relief: %s", why)
		}
		publishTest(t, db, "a", "4")
	})
}

func TestADiskThatIsLowFromTheStartAdmitsNothing(t *testing.T) {
	db := openTest(t, t.TempDir())
	var g gauge
	_, err := NewSpace(db, SpaceOptions{Disk: g.disk})
	must(t, err)
	if _, err := offer(db, testMessage("a", "1")); !errors.Is(err, corebot.ErrDiskFull) {
		t.Errorf("before the first look of Run: %v", err)
	}
}

func TestAFloorThatIsSwitchedOffNeitherRefusesNorTakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		must(t, ballast{filepath.Join(dir, "ballast")}.make(mib)) // of an earlier run
		var g gauge
		s := watch(t, db, SpaceOptions{Floor: -1, Disk: g.disk})
		time.Sleep(2 * time.Second)
		publishTest(t, db, "a", "1")
		if _, err := os.Stat(s.ballast.path); !errors.Is(err, os.ErrNotExist) || s.Low() != "" {
			t.Errorf("ballast: %v, low: %q", err, s.Low())
		}
	})
}

func TestADiskThatCannotBeReadStaysAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		var broken atomic.Bool
		disk := func(string) (Disk, error) {
			if broken.Load() {
				return Disk{}, errDisk
			}
			return Disk{Total: 1 << 40, Free: 0}, nil
		}
		s := watch(t, db, SpaceOptions{Disk: disk})
		broken.Store(true)
		time.Sleep(10 * time.Second)
		if s.Low() == "" {
			t.Error("not knowing was taken for having room")
		}
		if _, err := NewSpace(db, SpaceOptions{Disk: disk}); !errors.Is(err, errDisk) {
			t.Errorf("a disk that cannot be read at the start: %v", err)
		}
	})
}

func TestTheFiguresOfTheDiskAreShown(t *testing.T) {
	db := openTest(t, t.TempDir())
	registry := prometheus.NewRegistry()
	var g gauge
	g.free.Store(100 * mib)
	_, err := NewSpace(db, SpaceOptions{Disk: g.disk, Metrics: registry})
	must(t, err)
	families, err := registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	for name, want := range map[string]float64{
		"corebot_disk_free_bytes":  100 * mib,
		"corebot_disk_floor_bytes": 512 * mib, "corebot_disk_low": 1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if _, err := NewSpace(db, SpaceOptions{Every: -1}); !errors.Is(err, corebot.ErrInvalid) {
		t.Errorf("a negative time between two looks: %v", err)
	}
}

func TestTheBallastHasBlocksAndIsMadeAnewWhenItHasNot(t *testing.T) {
	b := ballast{filepath.Join(t.TempDir(), "ballast")}
	if b.held(mib) {
		t.Error("it is there before it was made")
	}
	must(t, b.make(mib))
	if !b.held(mib) || b.held(2*mib) {
		t.Error("a ballast of 1 MiB is not held as one")
	}
	must(t, os.Truncate(b.path, 0))
	must(t, os.Truncate(b.path, mib)) // the right size, and nothing in it
	if b.held(mib) {
		t.Error("a hole is taken for ballast")
	}
	must(t, b.make(mib))
	if !b.held(mib) {
		t.Error("it was not made anew")
	}
	must(t, b.release())
	must(t, b.release())
}

// smallDisk is a real file system of a few MiB, where the test may make one.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size)
	if errors.Is(err, unix.EPERM) {
		needs.Missing(t, "mounts", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// fill takes all the room that is left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	chunk := make([]byte, 64<<10)
	for size := len(chunk); size >= 512; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(chunk[:size])
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filled it: %v", err)
	}
	must(t, f.Close())
}

func TestADatabaseOpensOnAFullDiskByItsBallast(t *testing.T) {
	dir := smallDisk(t, "16m")
	data := filepath.Join(dir, "data")
	db, err := Open(t.Context(), data, Options{})
	must(t, err)
	must(t, db.Close())
	fill(t, filepath.Join(dir, "other"))
	for what, open := range map[string]func() error{
		"to be written": func() error { _, err := Open(t.Context(), data, Options{}); return err },
		"to be read":    func() error { _, err := OpenReader(t.Context(), data); return err },
	} {
		if err := open(); !errors.Is(err, corebot.ErrDiskFull) || !strings.Contains(corebot.HintOf(err), "make room") {
			t.Errorf("%s: %v, hint %q", what, err, corebot.HintOf(err))
		}
	}
	must(t, os.Remove(filepath.Join(dir, "other")))
	b := ballast{filepath.Join(data, ballastName)}
	must(t, b.make(mib))
	fill(t, filepath.Join(dir, "other"))
	told := new(bytes.Buffer)
	db, err = Open(t.Context(), data, Options{Log: zerolog.New(told)})
	must(t, err)
	must(t, db.Close())
	if b.size() != 0 || !strings.Contains(told.String(), "the ballast is given up") {
		t.Errorf("the ballast has %d bytes, the log %q", b.size(), told)
	}
}

func TestABallastThatCannotBeMadeIsToldOnce(t *testing.T) {
	db := openTest(t, t.TempDir())
	var g gauge
	g.free.Store(10 << 30)
	told := new(bytes.Buffer)
	s, err := NewSpace(db, SpaceOptions{Floor: 4 * mib, Disk: g.disk, Log: zerolog.New(told)})
	must(t, err)
	inTheWay := filepath.Join(s.ballast.path, "x")
	for episode := 1; episode <= 2; episode++ {
		must(t, s.ballast.release())
		must(t, os.MkdirAll(inTheWay, 0o700))
		for range 3 {
			s.look()
		}
		if n := strings.Count(told.String(), "there is no ballast"); n != episode {
			t.Errorf("in episode %d it was told %d times: %s", episode, n, told)
		}
		must(t, os.RemoveAll(s.ballast.path))
		s.look()
		if !s.ballast.held(2 * mib) {
			t.Error("it is not made afterwards")
		}
	}
}

// soon waits in real time, as tests on a real disk have to.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// This one is in real time, on a real disk that somebody else fills to the last byte.
func TestOnAFullDiskTheBallastLetsAcceptedMessagesEnd(t *testing.T) {
	dir := smallDisk(t, "24m")
	db := openTest(t, dir)
	s := watch(t, db, SpaceOptions{Floor: 4 * mib, Every: 20 * time.Millisecond})
	held := func() bool { return s.ballast.held(2 * mib) }
	soon(t, "ballast", held)
	publishTest(t, db, "a", "1")
	d := claimTest(t, db)

	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	long := corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{{
			Speaker: corebot.SpeakerAssistant,
			Parts:   corebot.TextPart(strings.Repeat("x", 1700<<10)), // more than the log has room for,
		}},
	}
	refused := 0
	soon(t, "the commit of the turn", func() bool {
		err := NewLedger(db).Commit(t.Context(), d, long)
		if err != nil {
			refused++
			if !errors.Is(err, corebot.ErrDiskFull) {
				t.Fatalf("the commit: %v", err)
			}
		}
		return err == nil
	})
	if refused == 0 {
		t.Fatal("the disk was not full: the test proves nothing")
	}
	if held() {
		t.Error("the ballast was not needed")
	}
	if _, err := offer(db, testMessage("a", "2")); !errors.Is(err, corebot.ErrDiskFull) {
		t.Errorf("a new message on a full disk: %v", err)
	}

	must(t, os.Remove(filler))
	soon(t, "relief", func() bool { return s.Low() == "" })
	if !held() {
		t.Error("messages come in, and the ballast is not back")
	}
	publishTest(t, db, "a", "2")
	problems, err := db.Problems(t.Context())
	must(t, err)
	if len(problems) > 0 {
		t.Error(problems)
	}
}
