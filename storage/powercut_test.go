package storage

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage/vfstest"
)

var powerCuts = flag.Int("powercut.states", 240, "states of the disk that the power-cut test looks at")

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

// record runs a workload on the files of a directory, which an earlier round may have left. Checkpoints come often: the
// log begins anew many times, as it does in a long life.
func record(t *testing.T, dir string, earlier *round, pragmas ...string) *round {
	t.Helper()
	recording := &vfstest.Recording{}
	v, err := vfstest.Install(dir, vfstest.Options{Recording: recording})
	must(t, err)
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	for _, p := range append(pragmas, "wal_autocheckpoint = 40", "journal_size_limit = 100000") {
		pragma(t, db, p)
	}
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
	base := inMemory(t)
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
	const rounds = 4
	chance := rand.New(rand.NewPCG(4, 1))
	dir := inMemory(t)
	var r *round
	for i := range rounds {
		r = record(t, dir, r)
		if n := r.recording.Syncs(FileName); n < 5 {
			t.Fatalf("only %d checkpoints: the workload is too small", n)
		}
		wrong := r.survey(t, *powerCuts/rounds, chance, r.recording.Disk())
		for _, w := range wrong[:min(len(wrong), 10)] {
			t.Errorf("round %d: %s", i, strings.Join(w, "; "))
		}
		t.Logf("round %d: %d of %d states are wrong; %d calls recorded, %d checkpoints",
			i, len(wrong), *powerCuts/rounds, r.recording.Len(), r.recording.Syncs(FileName))
		disk := r.recording.Disk()
		disk.Advance(chance.IntN(r.recording.Len()))
		dir = filepath.Join(inMemory(t), "next")
		lay(t, disk, chance, dir)
	}
}

// Without these two the test above would prove nothing: the same simulator finds what is lost.
func TestPowerCutsLoseMessagesWhereCommitsAreNotSynced(t *testing.T) {
	const states = 60
	for name, c := range map[string]struct {
		pragmas []string
		lies    bool
	}{
		"synchronous is NORMAL":          {pragmas: []string{"synchronous = NORMAL"}},
		"the disk lies about every sync": {lies: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := record(t, inMemory(t), nil, c.pragmas...)
			disk := r.recording.Disk()
			disk.IgnoreSyncs = c.lies
			lost := 0
			for _, w := range r.survey(t, states, rand.New(rand.NewPCG(2, 2)), disk) {
				if strings.Contains(strings.Join(w, ";"), "is lost") {
					lost++
				}
			}
			t.Logf("%d of %d states have lost acknowledged messages", lost, states)
			if lost == 0 {
				t.Error("nothing is lost: the simulator proves nothing")
			}
		})
	}
}
