package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/migrations"
	"github.com/corebot/corebot/storage/vfstest"
)

var migrationKills = long.Int("migrationkill.points", 3, 20,
	"moments at which a migration is cut short, each in two ways")

// recordMigration records how a directory's database is brought to the newest schema.
func recordMigration(t *testing.T, dir string) *vfstest.Recording {
	t.Helper()
	recording := &vfstest.Recording{}
	v, err := vfstest.Install(dir, vfstest.Options{Recording: recording})
	must(t, err)
	must(t, migrate(t.Context(), filepath.Join(dir, FileName), migrations.FS, zerolog.Nop()))
	must(t, v.Close())
	return recording
}

// newest is the schema that a migration ends with.
func newest(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	must(t, migrate(t.Context(), path, migrations.FS, zerolog.Nop()))
	return schema(t, path)
}

// moments are positions in a recording: the first ones, where files are made, and others spread over it. Three moments
// or fewer are the middle, the end and the beginning.
func moments(recording *vfstest.Recording, n int) []int {
	end := recording.Len()
	if n <= 3 {
		return []int{end / 2, end, 0}[:n]
	}
	var at []int
	for i := range n / 2 {
		at = append(at, min(i, end))
	}
	for i := range n - n/2 {
		at = append(at, n/2+i*(end-n/2)/(n-n/2-1))
	}
	return at
}

// cutShort opens a database whose migration was cut short, by a crash of the program and by a power cut, and has each
// looked at. It does so at n moments.
func cutShort(t *testing.T, recording *vfstest.Recording, n int, look func(dir string)) {
	t.Helper()
	chance := rand.New(rand.NewPCG(6, 6))
	want := newest(t)
	disk := recording.Disk()
	for _, at := range moments(recording, n) {
		disk.Advance(at)
		for how, files := range map[string]vfstest.Files{"crash": disk.Whole(), "power cut": disk.Cut(chance)} {
			dir := filepath.Join(t.TempDir(), "data")
			must(t, files.WriteTo(dir))
			db, err := Open(t.Context(), dir, Options{})
			if err != nil {
				t.Fatalf("%s after %d of %d calls: %v", how, at, recording.Len(), err)
			}
			healthy(t, db)
			must(t, db.Close())
			if got := schema(t, filepath.Join(dir, FileName)); !slices.Equal(got, want) {
				t.Fatalf("%s after %d of %d calls: the schema is %v", how, at, recording.Len(), got)
			}
			look(dir)
			must(t, os.RemoveAll(dir))
		}
	}
}

// oldDatabase makes a database of the first schema with three messages that wait.
func oldDatabase(t *testing.T, path string) {
	t.Helper()
	must(t, migrateTo(t.Context(), path, migrations.FS, 1))
	sideQuery(t, path, `INSERT INTO lanes (id, direction, agent, channel, account, chat, thread, pool, next_seq, depth,
		bytes, wake_at)
		VALUES (1, 1, 'main', 'test', '', 'chat', '', 'inbound', 4, 3, 6, 1)`)
	for n := 1; n <= 3; n++ {
		sideQuery(t, path,
			`INSERT INTO message_life (id, lane_id, message_id, kind, checksum, published_at)
				VALUES (?, 1, ?, 'prompt', x'00', 1)`, n, fmt.Sprint(n))
		sideQuery(t, path, `INSERT INTO message_queue (life_id, lane_id, seq, body) VALUES (?, 1, ?, x'7b7d')`, n, n)
	}
}

func TestAMigrationThatIsCutShortIsDoneByTheNextStartAndLosesNothing(t *testing.T) {
	dir := t.TempDir()
	oldDatabase(t, filepath.Join(dir, FileName))
	cutShort(t, recordMigration(t, dir), migrationKills(), func(dir string) {
		if got := sideQuery(t, dir,
			`SELECT m.message_id FROM message_queue q JOIN message_life m ON m.id = q.life_id ORDER BY q.seq`,
		); fmt.Sprint(got) != "[1 2 3]" {
			t.Fatalf("waiting: %v", got)
		}
	})
}

func TestADatabaseWhoseMakingIsCutShortIsMadeByTheNextStart(t *testing.T) {
	cutShort(t, recordMigration(t, t.TempDir()), migrationKills(), func(dir string) {
		db := openTest(t, dir)
		publishTest(t, db, "chat", "1")
	})
}

// largest is a file of a recording's directory at the moment when it was longest.
func largest(recording *vfstest.Recording, name string) []byte {
	var longest []byte
	disk := recording.Disk()
	for at := range recording.Len() {
		disk.Advance(at)
		if content := disk.Whole()[name]; len(content) > len(longest) {
			longest = content
		}
	}
	return longest
}

// An earlier program made its database in place. A crash in the middle left files beside an empty database, and they
// must not become part of the new database. A write-ahead log can also be all that is left of a used database. Then the
// operator decides.
func TestWhatLiesBesideAnEmptyDatabaseIsNotTakenForTheNewOnes(t *testing.T) {
	old := t.TempDir()
	recording := &vfstest.Recording{}
	v, err := vfstest.Install(old, vfstest.Options{Recording: recording})
	must(t, err)
	must(t, migrateTo(t.Context(), filepath.Join(old, FileName), migrations.FS, 1))
	must(t, v.Close())
	for _, suffix := range []string{"-journal", "-wal"} {
		left := largest(recording, FileName+suffix)
		if len(left) == 0 {
			t.Fatalf("the making of a database leaves no %s", suffix)
		}
		dir := filepath.Join(t.TempDir(), "data")
		must(t, vfstest.Files{FileName: nil, FileName + suffix: left}.WriteTo(dir))
		if suffix == "-wal" {
			if _, err := Open(t.Context(), dir, Options{}); err == nil ||
				!strings.Contains(err.Error(), "this home had a database") {
				t.Errorf("beside a log: %v", err)
			}
			aside, err := BeginAnew(t.Context(), dir)
			must(t, err)
			if kept, err := os.ReadFile(filepath.Join(aside, FileName+suffix)); err != nil || !bytes.Equal(kept, left) {
				t.Errorf("the log is not kept: %v", err)
			}
		}
		earlier(t, dir, func(db *DB) { publishTest(t, db, "chat", "1") })
		db := openTest(t, dir)
		healthy(t, db)
		if d := claimTest(t, db); d.Message.ID != "1" {
			t.Errorf("beside a %s: claimed %+v", suffix, d)
		}
	}
}
