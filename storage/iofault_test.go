package storage

import (
	"context"
	"flag"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage/vfstest"
)

var ioFaults = flag.Int("iofault.calls", 0,
	"fail each of the first so many writes, syncs and truncates; 0: some of the first 500")

// The store must be whole again so soon after the disk is. The test looks every millisecond and counts the looks: on a
// machine that is too busy for that, the store cannot work either, and has longer.
const (
	recovery = 5 * time.Second
	looks    = int(recovery / time.Millisecond)
)

// outage is one run of a workload in which the disk fails.
type outage struct {
	*round
	fault  vfstest.Fault
	faults *vfstest.Faults
	db     *DB
}

// template is a database that every outage begins with a copy of.
func template(t *testing.T) vfstest.Files {
	t.Helper()
	dir := t.TempDir()
	wholeDatabaseOnce(t, dir)
	files, err := vfstest.ReadFiles(dir)
	must(t, err)
	delete(files, "lock")
	return files
}

// suffer runs a workload over an outage until the store has recovered and ended everything that it had accepted.
func suffer(t *testing.T, files vfstest.Files, fault vfstest.Fault) *outage {
	t.Helper()
	dir := t.TempDir()
	must(t, files.WriteTo(dir))
	o := &outage{round: &round{recording: &vfstest.Recording{}}, fault: fault, faults: &vfstest.Faults{}}
	v, err := vfstest.Install(dir, vfstest.Options{Recording: o.recording, Faults: o.faults})
	must(t, err)
	if o.db, err = Open(t.Context(), dir, Options{}); err != nil {
		t.Fatal(err)
	}
	pragma(t, o.db, "wal_autocheckpoint = 4") // until the writer opens another connection
	pragma(t, o.db, "journal_size_limit = 0")
	o.workload = newWorkload(o.db, o.recording.Len)
	stop := running(t, o.db)
	if fault.Nth%2 == 0 { // a reader keeps SQLite from clearing up when the writer closes its connection
		_, err := o.db.Problems(t.Context())
		must(t, err)
	} else { // pages are written before the commit too, where a failure ends the transaction under an operation
		pragma(t, o.db, "cache_size = 2")
	}
	o.faults.Arm(fault)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.live(t)
	}()
	if !o.moves(ended) {
		t.Fatalf("%+v: nothing moves any more", fault)
	}
	stop()
	must(t, v.Close())
	if wrong := o.inspect(t, dir, o.recording.Len()); len(wrong) > 0 {
		t.Errorf("%+v: reopened: %s", fault, strings.Join(wrong, "; "))
	}
	return o
}

// moves waits for the end of the workload. It is false if the store makes no call of the disk for long.
func (o *outage) moves(ended chan struct{}) bool {
	calls := 0
	for still := 0; still < 4*looks; still++ {
		select {
		case <-ended:
			return true
		case <-time.After(time.Millisecond):
		}
		if now := o.recording.Len(); now != calls {
			calls, still = now, 0
		}
	}
	return false
}

// live publishes and ends messages until the fault has struck and is over, and then until nothing waits.
func (o *outage) live(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range 3 {
		wg.Go(func() { o.worker(ctx) })
	}
	wg.Go(func() { o.relieve(ctx) })
	o.publishers(chats("chat", 4), func(place int) bool { return place > 1000 || o.faults.Fired() > 0 })
	o.publishers(chats("later", 2), func(place int) bool { return place == 5 })
	o.faults.Relieve()
	for place := 0; ; place++ {
		left, probed := o.left()
		if left == 0 && probed {
			return
		}
		if place > looks {
			t.Errorf("%+v: not recovered %v after the disk has: %d of %d messages are left", o.fault, recovery, left,
				len(o.book))
			return
		}
		if !probed { // one is enough: on a busy machine the workers would never have ended the newest
			o.publish("probe", place)
		}
		time.Sleep(time.Millisecond)
	}
}

// relieve repairs a disk that is broken for good a moment after it broke.
func (o *outage) relieve(ctx context.Context) {
	for ctx.Err() == nil && o.faults.Fired() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond)
	o.faults.Relieve()
}

// left is how many of the accepted messages have not ended. probed says whether a probe was accepted.
func (o *outage) left() (n int, probed bool) {
	o.note(func() {
		for _, r := range o.book {
			probed = probed || r.chat == "probe" && r.publish.accepted(never-1)
			if r.publish.accepted(never-1) && !r.end.accepted(never-1) {
				n++
			}
		}
	})
	return n, probed
}

// faultsToTry are calls that fail, once or for a while, of the kinds of call that are given.
func faultsToTry(calls ...vfstest.Call) []vfstest.Fault {
	places := long.Or([]int{9}, []int{1, 2, 3, 5, 9, 33, 130, 500})
	if *ioFaults > 0 {
		places = nil
		for n := range *ioFaults {
			places = append(places, n+1)
		}
	}
	var all []vfstest.Fault
	for i, n := range places {
		for _, call := range calls {
			for _, kind := range []vfstest.Kind{vfstest.Full, vfstest.IO, vfstest.Short} {
				if kind != vfstest.Short || call == vfstest.Write {
					all = append(all, vfstest.Fault{Call: call, Nth: n, Kind: kind, Sticky: (i+int(kind))%2 == 1})
				}
			}
		}
	}
	return all
}

func TestAFailingDiskMakesNoFalseWordAndTheStoreRecovers(t *testing.T) {
	files := template(t)
	calls := []vfstest.Call{vfstest.Write, vfstest.Sync, vfstest.Truncate}
	struck := map[vfstest.Call]int{}
	all := faultsToTry(calls...)
	for _, fault := range all {
		if suffer(t, files, fault).faults.Fired() > 0 {
			struck[fault.Call]++
		}
		if t.Failed() {
			return // one is enough to look at, and waiting for a store that does not recover takes long
		}
	}
	t.Logf("%d faults; struck: %v", len(all), struck)
	for _, call := range calls {
		if struck[call] < len(all)/len(calls)/2 {
			t.Errorf("only %d faults of a %s have struck: the workload is too small", struck[call], call)
		}
	}
}
