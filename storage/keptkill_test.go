package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage/vfstest"
)

var retentionKills = long.Int("retentionkill.points", 2, 40,
	"moments at which a pass of retention is cut short, each in two ways")

// freedPages are numbers of pages that become free at once. Some are few. Some are near what one transaction
// overwrites, or near what one trunk of the list of free pages has.
func freedPages() []int {
	all := []int{1, 2, 3, 7, 100, 255, 256, 257, 1021, 1022, 1023, 1024, 2500}
	return long.Or([]int{1, 256, 1023}, all)
}

// A pass of retention, with the overwriting at its end, is cut short by a crash of the program and by a power cut. Each
// chat is whole then, or has lost what is over. A pass that said that all is overwritten has left no byte. After any
// other one, the next pass leaves none.
func TestAPassOfRetentionThatIsCutShortIsEndedByTheNext(t *testing.T) {
	times := map[string]corebot.Keeping{"a day": {For: day}, "nothing": {Nothing: true}}
	for name, own := range long.Or(map[string]corebot.Keeping{"a day": {For: day}}, times) {
		t.Run(name, func(t *testing.T) {
			keeper := &corebot.Keeper{Rules: []corebot.KeepRule{{Chat: "gone", Keeping: own}}}
			sweep := func(db *DB) {
				r := keeping(t, db, RetentionOptions{Keeper: keeper})
				r.cuts.Every = time.Millisecond
				must(t, r.Sweep(t.Context()))
			}
			dir := t.TempDir()
			must(t, Seed(dir))
			earlier(t, dir, func(db *DB) { saidLongAgo(t, dir, db, 3) })
			entries := sideQuery(t, dir, `SELECT COUNT(*) FROM history`)[0]
			recording := &vfstest.Recording{}
			v, err := vfstest.Install(dir, vfstest.Options{Recording: recording})
			must(t, err)
			earlier(t, dir, sweep)
			must(t, v.Close())

			chance, disk := rand.New(rand.NewPCG(22, 22)), recording.Disk()
			before, between, said := 0, 0, 0
			for i := range retentionKills() {
				disk.Advance((i + 1) * recording.Len() / retentionKills())
				for how, files := range map[string]vfstest.Files{"crash": disk.Whole(), "power cut": disk.Cut(chance)} {
					cut := fmt.Sprintf("%s at %d of %d", how, i+1, retentionKills())
					dir := filepath.Join(t.TempDir(), "data")
					must(t, files.WriteTo(dir))
					left := holds(t, dir, "wombat")
					done := sideQuery(t, dir, `SELECT overwritten_at > 0 FROM store`)[0] == "1"
					switch {
					case done && len(left) > 0:
						t.Errorf("%s: it said that all is overwritten, and left are %v", cut, left)
					case done:
						said++
					case sideQuery(t, dir, `SELECT COUNT(*) FROM history`)[0] == entries:
						before++
					default:
						between++
					}
					earlier(t, dir, func(db *DB) { wantWhole(t, db) })
					earlier(t, dir, sweep)
					earlier(t, dir, func(db *DB) { wantWhole(t, db) })
					if left := holds(t, dir, "wombat"); len(left) > 0 {
						t.Errorf("%s: after the next pass left are %v", cut, left)
					}
					if got := sideQuery(t, dir, `SELECT COUNT(*) FROM history h JOIN chats c ON c.id = h.chat_id
						WHERE c.chat = 'stays'`); got[0] != "6" {
						t.Errorf("%s: of another chat %v entries are left", cut, got)
					}
					must(t, os.RemoveAll(dir))
				}
			}
			if said == 0 || between == 0 {
				t.Errorf("of the states %d were before it, %d between, and %d after it", before, between, said)
			}
		})
	}
}

// An overwriting changes nothing but free pages: whenever it is cut short, each table has what it had.
func TestAnOverwritingThatIsCutShortHasChangedNoRow(t *testing.T) {
	dir := t.TempDir()
	must(t, Seed(dir))
	word := func(dir string) int {
		data, err := os.ReadFile(filepath.Join(dir, FileName))
		must(t, err)
		return bytes.Count(data, []byte("wombatwombat"))
	}
	earlier(t, dir, func(db *DB) { saidLongAgo(t, dir, db, 3) })
	inRows := word(dir)
	pages := long.Or(600, 1500) // more than one transaction overwrites
	earlier(t, dir, func(db *DB) { freeTest(t, db, pages) })
	if n := word(dir); n < inRows+pages*333 {
		t.Fatalf("the free pages have the word %d times", n)
	}
	rows := func(dir string) []string {
		var all []string
		for _, name := range sideQuery(t, dir, `SELECT name FROM sqlite_schema WHERE type = 'table'
			AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'history_terms%'
			AND name NOT IN ('store', 'samples', 'totals') ORDER BY 1`) {
			all = append(all, name+" "+sideQuery(t, dir, `SELECT COUNT(*) FROM "`+name+`"`)[0])
		}
		return append(all, sideQuery(t, dir, `SELECT message_id || parts FROM history ORDER BY id`)...)
	}
	want := rows(dir)
	recording := &vfstest.Recording{}
	v, err := vfstest.Install(dir, vfstest.Options{Recording: recording})
	must(t, err)
	earlier(t, dir, func(db *DB) {
		_, err := NewForgetting(db).Overwrite(t.Context())
		must(t, err)
	})
	must(t, v.Close())
	chance, disk := rand.New(rand.NewPCG(5, 5)), recording.Disk()
	for i := range retentionKills() {
		disk.Advance((i + 1) * recording.Len() / retentionKills())
		for how, files := range map[string]vfstest.Files{"crash": disk.Whole(), "power cut": disk.Cut(chance)} {
			dir := filepath.Join(t.TempDir(), "data")
			must(t, files.WriteTo(dir))
			if got := rows(dir); !slices.Equal(got, want) {
				t.Errorf("%s at %d: the tables are not what they were", how, i)
			}
			earlier(t, dir, func(db *DB) {
				healthy(t, db)
				_, err := NewForgetting(db).Overwrite(t.Context())
				must(t, err)
			})
			if n := word(dir); n > inRows {
				t.Errorf("%s at %d: the free pages have the word %d times", how, i, n-inRows)
			}
			must(t, os.RemoveAll(dir))
		}
	}
}
