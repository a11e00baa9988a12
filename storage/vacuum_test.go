package storage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// hollow is the database of a closed Corebot that is mostly free pages, with one message in it.
func hollow(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "it's here")
	earlier(t, dir, func(db *DB) {
		publishTest(t, db, "a", "1")
		grow(t, dir, 1000, `INSERT INTO mailbox (chat_id, message_id, in_reply_to, kind, content, created_at)
			SELECT 1, printf('%d', i), '', 'reply', hex(randomblob(1000)), 0 FROM n`)
		must(t, keeping(t, db, RetentionOptions{Mailbox: day}).Sweep(t.Context()))
	})
	return dir
}

func TestVacuumGivesFreePagesBackAndKeepsTheRest(t *testing.T) {
	dir := hollow(t)
	v, err := Vacuum(t.Context(), dir)
	must(t, err)
	info, err := os.Stat(filepath.Join(dir, FileName))
	must(t, err)
	if v.Before < 2*mib || v.After > mib || info.Size() != v.After {
		t.Errorf("from %d to %d bytes, and the file has %d", v.Before, v.After, info.Size())
	}
	db := openTest(t, dir)
	if d := claimTest(t, db); d.Message.ID != "1" {
		t.Errorf("claimed %+v", d)
	}
	wantWhole(t, db)
	left, err := os.ReadDir(dir)
	must(t, err)
	for _, f := range left {
		if name := f.Name(); name != "lock" && name != rememberedName && !strings.HasPrefix(name, FileName) {
			t.Errorf("it has left %s", name)
		}
	}
}

func TestVacuumRefusesBesideACorebotAndWhereThereIsNoDatabase(t *testing.T) {
	dir := t.TempDir()
	if _, err := Vacuum(t.Context(), dir); !errors.Is(err, os.ErrNotExist) || corebot.HintOf(err) == "" {
		t.Errorf("without a database: %v", err)
	}
	openTest(t, dir)
	var held *LockError
	if _, err := Vacuum(t.Context(), dir); !errors.As(err, &held) {
		t.Errorf("beside a running Corebot: %v", err)
	}
}

func TestVacuumDoesNotBeginWhatTheDiskCannotHold(t *testing.T) {
	dir := hollow(t)
	db, err := openReadOnly(filepath.Join(dir, FileName))
	must(t, err)
	defer db.Close() //nolint:errcheck // only read
	// of a file of more than 2 MiB, little is in use
	for free, fits := range map[int64]bool{0: false, 16 << 10: false, 4 * mib: true} {
		err := roomToVacuum(t.Context(), db, dir, func(string) (Disk, error) {
			return Disk{Total: 1 << 40, Free: free}, nil
		})
		if fits != (err == nil) || !fits && (!errors.Is(err, corebot.ErrDiskFull) || corebot.HintOf(err) == "") {
			t.Errorf("with %d bytes free: %v", free, err)
		}
	}
}

func TestAVacuumThatIsCutOffLeavesTheFileAsItWas(t *testing.T) {
	dir := hollow(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if _, err := Vacuum(ctx, dir); err == nil {
		t.Error("it went on")
	}
	db := openTest(t, dir)
	wantWhole(t, db)
	if d := claimTest(t, db); d.Message.ID != "1" {
		t.Errorf("claimed %+v", d)
	}
}
