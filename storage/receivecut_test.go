package storage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage/vfstest"
)

// cutBatch is the nth batch of an account: two messages, and the cursor behind them.
func cutBatch(n int, c corebot.Cursor) corebot.Batch {
	return corebot.Batch{
		Channel: "test", Account: "acc", Cursor: c.To(fmt.Sprint(n)), Messages: []corebot.Message{
			testMessage("a", fmt.Sprint(n, "-first")), testMessage("b", fmt.Sprint(n, "-second")),
		},
	}
}

func TestAPowerCutLeavesABatchWithItsCursorOrNeither(t *testing.T) {
	const batches = 30
	recording := &vfstest.Recording{}
	dir := t.TempDir()
	v, err := vfstest.Install(dir, vfstest.Options{Recording: recording})
	must(t, err)
	db, err := Open(t.Context(), dir, Options{})
	must(t, err)
	stop := running(t, db)
	opened := recording.Len()
	answered := make([]int, batches+1) // when the nth batch was answered
	var c corebot.Cursor
	for n := 1; n <= batches; n++ {
		_, c, err = NewQueue(db).Receive(t.Context(), cutBatch(n, c), corebot.Limits{})
		must(t, err)
		answered[n] = recording.Len()
	}
	stop()
	must(t, v.Close())

	chance, disk, base := rand.New(rand.NewPCG(3, 7)), recording.Disk(), t.TempDir()
	states, between := long.Or(10, 40), 0
	for i := range states {
		at := opened + (i+1)*(recording.Len()-opened)/states
		disk.Advance(at)
		left := filepath.Join(base, fmt.Sprint(i))
		lay(t, disk, chance, left)
		db, err := Open(t.Context(), left, Options{})
		if err != nil {
			t.Fatalf("state %d cannot be opened: %v", i, err)
		}
		now, err := NewQueue(db).Cursor(t.Context(), "test", "acc")
		must(t, err)
		got := int(now.Moves)
		if got > 0 && now.Position != fmt.Sprint(got) {
			t.Errorf("state %d: the cursor is %+v", i, now)
		}
		for n := 1; n <= batches; n++ {
			if answered[n] <= at && n > got {
				t.Errorf("state %d: batch %d was answered, and the cursor is that of %d", i, n, got)
			}
			for _, m := range cutBatch(n, corebot.Cursor{}).Messages {
				lives, err := NewLives(db).Find(t.Context(), m.ID)
				must(t, err)
				if (len(lives) == 1) != (n <= got) {
					t.Errorf("state %d: %d messages %s with the cursor of %d", i, len(lives), m.ID, got)
				}
			}
		}
		if got > 0 && got < batches {
			between++
		}
		must(t, db.Close())
		must(t, os.RemoveAll(left))
	}
	if between < states/2 {
		t.Errorf("only %d of %d states have some batches and not all", between, states)
	}
}
