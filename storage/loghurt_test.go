package storage

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
)

// SQLite takes a damaged frame of its log for the end. A restart after a crash would take back all commits behind
// it, and nobody would know.
func TestADamagedLogTakesBackNoCommitSilently(t *testing.T) {
	const messages = 20
	crashed := crashedHome(t, messages)
	commits := commitsOf(crashed[FileName+"-wal"])
	places := map[string]int{
		"the header":                      17,
		"the first frame":                 logHeaderSize + frameHeaderSize + 1000,
		"the number of a page":            commits[len(commits)/2] + 3,
		"the size of a commit":            commits[len(commits)/2] + 7,
		"the salt":                        commits[len(commits)/2] + 9,
		"a checksum":                      commits[len(commits)/2] + 20,
		"a page":                          commits[len(commits)/2] + frameHeaderSize + 100,
		"the last commit but two":         commits[len(commits)-3] + frameHeaderSize + 4095,
		"the first page of a commit in 3": commits[len(commits)-4] + frameHeaderSize + 4096 + frameHeaderSize + 1,
	}
	for i, name := range slices.Sorted(maps.Keys(places)) {
		home := maps.Clone(crashed)
		home[FileName+"-wal"] = slices.Clone(home[FileName+"-wal"])
		home[FileName+"-wal"][places[name]] ^= 16
		dir := t.TempDir()
		putHome(t, dir, home)
		for what, open := range map[string]func() (*DB, error){
			"serve":     func() (*DB, error) { return Open(t.Context(), dir, Options{}) },
			"db check":  func() (*DB, error) { return checkedDB(t, dir) },
			"db vacuum": func() (*DB, error) { _, err := Vacuum(t.Context(), dir); return nil, err },
		} {
			db, err := open()
			if err == nil && db != nil {
				must(t, db.Close())
			}
			if err == nil || !strings.Contains(err.Error(), "is damaged in its") ||
				!strings.Contains(corebot.HintOf(err), "`corebot db restore "+filepath.Join(dir, FileName)+"`") {
				t.Fatalf("%s: %s: %v (%s)", name, what, err, corebot.HintOf(err))
			}
		}
		for file, content := range home {
			if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != string(content) {
				t.Errorf("%s: %s was changed: %v", name, file, err)
			}
		}
		if i%long.Or(len(places), 1) != 0 {
			continue
		}
		if _, err := Restore(t.Context(), dir, filepath.Join(dir, FileName), nil); err != nil {
			t.Errorf("%s: the way on that the hint names: %v", name, err)
		}
	}
}

func checkedDB(t *testing.T, dir string) (*DB, error) {
	t.Helper()
	db, err := OpenReader(t.Context(), dir)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	problems, err := db.Problems(t.Context())
	if err == nil && len(problems) == 0 {
		t.Error("the check finds nothing")
	}
	return db, err
}

// A log that a power cut has torn in its last commit is opened, wherever it was torn. So is one that has old frames
// behind its end.
func TestATornEndOfTheLogIsNoDamage(t *testing.T) {
	const messages = 6
	crashed := crashedHome(t, messages)
	whole := crashed[FileName+"-wal"]
	commits := commitsOf(whole)
	end, before := commits[len(commits)-1]+frameHeaderSize+4096, commits[len(commits)-2]+frameHeaderSize+4096
	torn := map[string][]byte{"whole": whole}
	for at := before; at < end; at += long.Or(5, 1) * 512 {
		cut := slices.Clone(whole)
		clear(cut[at:])
		torn[fmt.Sprint("without all from ", at)] = cut
		lost := slices.Clone(whole)
		clear(lost[at:min(at+512, end)])
		torn[fmt.Sprint("without a sector at ", at)] = lost
		torn[fmt.Sprint("cut off at ", at)] = whole[:at]
	}
	for name, log := range torn {
		dir := t.TempDir()
		crashed[FileName+"-wal"] = log
		putHome(t, dir, crashed)
		db, err := OpenReader(t.Context(), dir)
		if err == nil {
			err = CheckLog(dir)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rows := 0
		must(t, db.reader.each(t.Context(), &query{`SELECT id FROM message_life`}, func(scanner) error {
			rows++
			return nil
		}))
		if rows < messages-1 {
			t.Errorf("%s: %d of %d messages are left", name, rows, messages)
		}
		must(t, db.Close())
	}
}

// crashedHome is what is on the disk when a process dies that has stored messages, each in a commit of its own.
func crashedHome(t *testing.T, messages int) map[string][]byte {
	t.Helper()
	dir, home := t.TempDir(), map[string][]byte{}
	db := openTest(t, dir)
	for i := range messages {
		publishTest(t, db, fmt.Sprint("chat", i), "1")
	}
	for _, name := range []string{FileName, FileName + "-wal", rememberedName} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		home[name] = content
	}
	return home
}

func putHome(t *testing.T, dir string, home map[string][]byte) {
	t.Helper()
	for name, content := range home {
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
}

// commitsOf are the places of the last frames of all commits in a log.
func commitsOf(log []byte) (places []int) {
	for at := logHeaderSize; at+frameHeaderSize+4096 <= len(log); at += frameHeaderSize + 4096 {
		if string(log[at+8:at+16]) == string(log[16:24]) && binary.BigEndian.Uint32(log[at+4:]) != 0 {
			places = append(places, at)
		}
	}
	return places
}
