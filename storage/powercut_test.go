package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage/engine"
	"github.com/corebot/corebot/storage/vfstest"
)

var powerCuts = long.Int("powercut.states", 16, 240, "states of the disk that the power-cut test looks at")

// pragma sets a pragma of the write connection before the writer runs.
func pragma(t testing.TB, db *DB, text string) {
	t.Helper()
	must(t, db.conn.each(&query{"PRAGMA " + text}, func(scanner) error { return nil }))
}

// round is a recorded life of a store between two power cuts.
type round struct {
	*workload
	recording *vfstest.Recording
}

// record runs a workload on the files of a directory, which an earlier round may have left. prepare changes the store
// before it runs.
func record(t *testing.T, dir string, earlier *round, prepare func(*DB)) *round {
	t.Helper()
	recording := &vfstest.Recording{}
	v, err := vfstest.Install(dir, vfstest.Options{Recording: recording})
	must(t, err)
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	prepare(db)
	r := &round{newWorkload(db, recording.Len), recording}
	prefix := "a"
	if earlier != nil {
		r.carryOn(t, earlier.workload)
		prefix = fmt.Sprintf("a%d-", len(r.book)) // chats of its own
	}
	stop := running(t, db)
	r.run(chats(prefix, 6), 4, func(place int) bool { return place == 25 })
	stop()
	must(t, v.Close())
	return r
}

// oftenAnew makes checkpoints come often: the log begins anew many times, as it does in a long life. In every second
// round the file of the log is also cut short each time, and grows again.
func oftenAnew(t *testing.T, round int) func(*DB) {
	return func(db *DB) {
		pragma(t, db, "wal_autocheckpoint = 40")
		if round%2 == 1 {
			pragma(t, db, "journal_size_limit = 100000")
		}
	}
}

// lay lays out the files of a power cut, and in some cases a stale file of shared memory beside them, as a crash may
// leave it.
func lay(t testing.TB, disk *vfstest.Disk, chance *rand.Rand, dir string) {
	t.Helper()
	files := disk.Cut(chance)
	if chance.IntN(4) == 0 {
		stale := make([]byte, 32768)
		for i := range stale {
			stale[i] = byte(chance.Uint32())
		}
		files[FileName+"-shm"] = stale
	}
	must(t, files.WriteTo(dir))
}

// survey looks at states of the disk at moments spread over a recording and gives what was wrong in each that was
// wrong.
func (r *round) survey(t *testing.T, states int, chance *rand.Rand, disk *vfstest.Disk) (wrong [][]string) {
	t.Helper()
	base := t.TempDir()
	for i := range states {
		at := (i + 1) * r.recording.Len() / states
		disk.Advance(at)
		dir := filepath.Join(base, fmt.Sprint(i))
		lay(t, disk, chance, dir)
		found := r.inspect(t, dir, at)
		if len(found) == 0 && i%20 == 0 {
			found = r.revive(t, dir, at)
		}
		if len(found) > 0 {
			wrong = append(wrong, found)
		}
		must(t, os.RemoveAll(dir))
	}
	return wrong
}

// inspect opens what a power cut has left and audits it.
func (r *round) inspect(t *testing.T, dir string, at int) []string {
	t.Helper()
	db, err := Open(t.Context(), dir, Options{})
	if err != nil {
		return []string{"cannot be opened: " + err.Error()}
	}
	defer func() { must(t, db.Close()) }()
	return r.audit(t, db, at)
}

// revive runs the store on what a power cut has left: every accepted message is known again, and all that wait are
// delivered, whole and in order.
func (r *round) revive(t *testing.T, dir string, at int) (wrong []string) {
	t.Helper()
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	defer running(t, db)()
	for id, q := range r.book {
		if !q.publish.accepted(at) {
			continue
		}
		receipts, err := NewQueue(db).Publish(t.Context(), []corebot.Message{testMessage(q.chat, id)}, corebot.Limits{})
		if err != nil || !receipts[0].Duplicate {
			wrong = append(wrong, fmt.Sprintf("%s is published again: %+v, %v", id, receipts, err))
		}
	}
	waiting := 0
	kept, _, err := keptMessages(db)
	if err != nil {
		return append(wrong, "the messages cannot be read: "+err.Error())
	}
	for _, m := range kept {
		if m.waits {
			waiting++
		}
	}
	last := map[string]string{}
	for range waiting {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		ds, err := NewQueue(db).Claim(ctx, corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Minute})
		cancel()
		if err != nil {
			return append(wrong, "not everything that waits is delivered: "+err.Error())
		}
		d := ds[0]
		if chat := d.Message.Key.Chat; d.Damaged != nil || d.Message.ID <= last[chat] ||
			d.Message.Text() != testMessage(chat, d.Message.ID).Text() {
			wrong = append(wrong, fmt.Sprintf("%s is delivered after %s as %+v", d.Message.ID, last[chat], d))
		}
		last[d.Message.Key.Chat] = d.Message.ID
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	}
	problems, err := db.Problems(t.Context())
	if err != nil {
		return append(wrong, "the database cannot be checked: "+err.Error())
	}
	return append(wrong, problems...)
}

// The next round lives on what a power cut of the one before has left.
func TestPowerCutsLoseNothingThatWasAcknowledged(t *testing.T) {
	rounds := long.Or(2, 4)
	chance := rand.New(rand.NewPCG(4, 1))
	dir := t.TempDir()
	var r *round
	for i := range rounds {
		var length int64 // of the log; a power cut leaves any length to the next round
		r = record(t, dir, r, func(db *DB) { oftenAnew(t, i)(db); length = logSize(db) })
		if n := r.recording.Syncs(FileName); n < 5 || i == 0 && length < 1<<20 {
			t.Fatalf("only %d checkpoints, and a log of %d bytes: the workload is too small", n, length)
		}
		wrong := r.survey(t, powerCuts()/rounds, chance, r.recording.Disk())
		for _, w := range wrong[:min(len(wrong), 10)] {
			t.Errorf("round %d: %s", i, strings.Join(w, "; "))
		}
		t.Logf("round %d: %d of %d states are wrong; %d calls recorded, %d checkpoints",
			i, len(wrong), powerCuts()/rounds, r.recording.Len(), r.recording.Syncs(FileName))
		disk := r.recording.Disk()
		disk.Advance(chance.IntN(r.recording.Len()))
		dir = filepath.Join(t.TempDir(), "next")
		lay(t, disk, chance, dir)
	}
}

// Without these two the test above would prove nothing: the same simulator finds what is lost.
//
// With NORMAL only a checkpoint syncs the log. A commit that is longer than wal_autocheckpoint makes a checkpoint
// before it is acknowledged, and then nothing can be lost. So the commits here are shorter.
func TestPowerCutsLoseMessagesWhereCommitsAreNotSynced(t *testing.T) {
	states := max(20, powerCuts()/4)
	for name, c := range map[string]struct {
		prepare func(*DB)
		lies    bool
	}{
		"synchronous is NORMAL":          {prepare: func(db *DB) { syncLess(t, db) }},
		"the disk lies about every sync": {prepare: oftenAnew(t, 0), lies: true},
	} {
		if long.Or(!c.lies, false) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := record(t, t.TempDir(), nil, c.prepare)
			disk := r.recording.Disk()
			disk.IgnoreSyncs = c.lies
			lost := 0
			for _, w := range r.survey(t, states, rand.New(rand.NewPCG(2, 2)), disk) {
				if strings.Contains(strings.Join(w, ";"), "is lost") {
					lost++
				}
			}
			t.Logf("%d of %d states have lost acknowledged messages", lost, states)
			if lost < max(1, states/20) {
				t.Errorf("only %d of %d states have lost something: the simulator proves nothing", lost, states)
			}
		})
	}
}

// syncLess gives a store a write connection of the usual kind, since its own refuses to sync less.
func syncLess(t *testing.T, db *DB) {
	t.Helper()
	must(t, db.conn.Close())
	plain, err := engine.Open(fileURI(db.path, nil), append(slices.Clone(writePragmas), "synchronous(NORMAL)"))
	must(t, err)
	db.conn = newPrepared(plain)
	pragma(t, db, "wal_autocheckpoint = 1000")
}
