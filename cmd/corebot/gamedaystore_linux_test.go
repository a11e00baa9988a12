package main

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
)

// storeDays break the disk and the database.
func storeDays() []gameDay {
	return []gameDay{
		{
			name: "disk-full", root: true, play: diskFull,
			alerts: []string{"CorebotDiskFilling", "CorebotDiskLow"},
			repair: []step{
				{"CorebotDiskLow", "`df`"},
				{"CorebotDiskLow", "`corebot doctor`"},
				{"CorebotDiskLow", "Make room: `/ready` is well again within seconds."},
			},
		},
		{
			name: "database-locked", play: databaseLocked,
			alerts: []string{"CorebotStuck", "CorebotCommitsSlow"},
			repair: []step{
				{"CorebotStuck", "`fuser ~/.corebot/data/corebot.db`"},
				{"CorebotStuck", "End the other program"},
				{"CorebotCommitsSlow", "`fuser ~/.corebot/data/corebot.db`"},
			},
		},
		{
			name: "corrupt-page", play: corruptPage,
			alerts: []string{"CorebotDatabaseDamaged"},
			repair: []step{
				{"CorebotDatabaseDamaged", "`corebot status`"},
				{"CorebotDatabaseDamaged", "`corebot db check`"},
				{"CorebotDatabaseDamaged", "`corebot dlq give-up LANE`"},
			},
		},
		{
			name: "disk-lost", play: diskLost,
			alerts: []string{"CorebotDown"},
			repair: []step{
				{"CorebotDown", "`corebot doctor`"},
				{"CorebotDown", "`corebot db restore DIR`"},
			},
		},
		{
			name: "retention-held-up", factor: 3600, play: retentionHeldUp,
			alerts: []string{"CorebotRetentionStopped"},
			repair: []step{
				{"CorebotRetentionStopped", "`corebot db check`"},
				{"CorebotRetentionStopped", "End a program that holds the database"},
				{"CorebotRetentionStopped", "`fuser ~/.corebot/data/corebot.db`"},
			},
		},
	}
}

// diskFull fills the file system of the home, first to less than twice the floor, then below it, then to the last byte.
func diskFull(d *day) {
	d.configure(d.llm("") + "storage: {disk_floor: 16777216}\n")
	d.start()
	d.accepted(1, "hello")
	filler := filepath.Join(d.home, "data", "backups", "filler")
	if err := os.MkdirAll(filepath.Dir(filler), 0o700); err != nil {
		d.t.Fatal(err)
	}
	fill := func(leave int64) {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(d.home, &fs); err != nil {
			d.t.Fatal(err)
		}
		f, err := os.OpenFile(filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			d.t.Fatal(err)
		}
		defer f.Close()                                                       //nolint:errcheck // it may be cut off
		_, _ = f.Write(make([]byte, max(int64(fs.Bavail)*fs.Bsize-leave, 0))) // as much as there is room for
	}
	d.breaks(func() { fill(24 << 20) })
	d.alert("CorebotDiskFilling")
	fill(8 << 20)
	d.alert("CorebotDiskLow")
	fill(0)
	fill(0) // what the ballast gave back
	if status := d.say("chat", "hello"); status != http.StatusServiceUnavailable {
		d.t.Errorf("a message on a full disk: %d", status)
	}
	if text := d.ask("/ready"); !strings.Contains(text, "disk") {
		d.t.Errorf("/ready says %s", text)
	}
	d.runs("`df`")
	if out := d.runs("`corebot doctor`"); !strings.Contains(out, "disk") {
		d.t.Errorf("doctor says %s", out)
	}
	d.mends("Make room: `/ready` is well again within seconds.", func() {
		if err := os.Remove(filler); err != nil {
			d.t.Fatal(err)
		}
	})
	d.ready()
}

// TestHoldsADatabase is no test: it is the other program of a game day.
func TestHoldsADatabase(t *testing.T) {
	path, held := os.LookupEnv("GAMEDAY_HOLDS")
	if !held {
		t.Skip("a helper of the game days")
	}
	pause, err := time.ParseDuration(os.Getenv("GAMEDAY_LETS_GO"))
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		lockFor(t, path, time.Second)
		time.Sleep(pause)
	}
}

// holder starts another program that holds the database, for a second at a time with pauses between.
func (d *day) holder(pause time.Duration) {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), os.Args[0], "-test.run", "^TestHoldsADatabase$")
	cmd.Env = append(os.Environ(), "GAMEDAY_HOLDS="+filepath.Join(d.home, "data", "corebot.db"),
		"GAMEDAY_LETS_GO="+pause.String())
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.holds = cmd
	d.t.Cleanup(d.endHolder)
}

func (d *day) endHolder() {
	if d.holds != nil {
		_ = d.holds.Process.Kill()
		_ = d.holds.Wait()
		d.holds = nil
	}
}

// endOther ends the holder, if the list of processes names it. No other process is touched.
func (d *day) endOther(fuser string) {
	d.t.Helper()
	if !slices.Contains(strings.Fields(fuser), strconv.Itoa(d.holds.Process.Pid)) {
		d.t.Fatalf("the list does not name the process %d: %s", d.holds.Process.Pid, fuser)
	}
	d.endHolder()
}

func databaseLocked(d *day) {
	d.configure(d.llm("") + dayBus)
	d.start()
	d.accepted(1, "hello")
	d.breaks(func() { d.holder(0) })
	go d.say("stuck", "hello")
	d.alert("CorebotStuck")
	if text := d.ask("/ready"); !strings.Contains(text, "writer") {
		d.t.Errorf("/ready says %s", text)
	}
	held := d.runs("`fuser ~/.corebot/data/corebot.db`")
	d.mends("End the other program", func() { d.endOther(held) })
	d.ready()
	d.holder(time.Second) // it is back, and lets Corebot write at times
	done := make(chan struct{})
	defer close(done)
	for n := range 4 {
		go func() {
			for {
				select {
				case <-done:
					return
				default:
					d.say([]string{"a", "b", "c", "d"}[n], "hello")
				}
			}
		}()
	}
	d.alert("CorebotCommitsSlow")
	held = d.runs("`fuser ~/.corebot/data/corebot.db`")
	d.endOther(held)
}

// corruptPage damages the body of a message that waits.
func corruptPage(d *day) {
	d.configure(d.llm("") + dayBus)
	d.start()
	d.accepted(1, "hello")
	d.answer(llmtest.Always(llmtest.Text("").Stall(-1)))
	for _, text := range []string{strings.Repeat("x", 40<<10), "behind"} {
		d.say("damaged", text)
	}
	d.super.stop()
	d.breaks(func() { damageBodies(d.t, filepath.Join(d.home, "data", "corebot.db")) })
	d.answer(llmtest.Always(llmtest.Text("done")))
	d.super.begin(d)
	d.alert("CorebotDatabaseDamaged")
	status := d.runs("`corebot status`")
	lane := regexp.MustCompile(`give-up (\d+)`).FindStringSubmatch(status)
	if lane == nil {
		d.t.Fatalf("the status is %s", status)
	}
	d.runs("`corebot db check`")
	d.runs("`corebot dlq give-up LANE`", "LANE", lane[1])
	d.damaged = true // a restore would mend that, and lose what came since the backup
}

// damageBodies breaks the pointers to the overflow pages of long bodies of x in a closed database.
func damageBodies(t *testing.T, path string) {
	t.Helper()
	const page = 4096
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	filling := bytes.Repeat([]byte("x"), page-100)
	var starts []uint32
	inner := map[uint32]bool{}
	for at := 0; at+page <= len(file); at += page {
		if bytes.Contains(file[at:at+page], filling) {
			starts = append(starts, uint32(at/page+1))
			inner[binary.BigEndian.Uint32(file[at:])] = true
		}
	}
	broken := 0
	for _, start := range starts {
		at := bytes.Index(file, binary.BigEndian.AppendUint32([]byte("xxxx"), start))
		if inner[start] || at < 0 {
			continue
		}
		binary.BigEndian.PutUint32(file[at+4:], 0xffffff)
		broken++
	}
	if broken == 0 {
		t.Fatal("no page of a long body was found")
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

// diskLost loses everything but the settings and a backup elsewhere.
func diskLost(d *day) {
	d.configure(d.llm(""))
	d.start()
	d.accepted(3, "hello")
	d.until("they are answered", seenWithin, func() bool {
		return metricSum(d.ask("/metrics"), `corebot_turns_total`) >= 3
	})
	backup := filepath.Join(d.dir, "elsewhere")
	d.runsBefore("db", "backup", "--to", backup)
	d.breaks(func() {
		if err := os.Rename(filepath.Join(d.home, "data"), filepath.Join(d.dir, "lost")); err != nil {
			d.t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(d.home, "data"), 0o700); err != nil {
			d.t.Fatal(err)
		}
		remember, err := os.ReadFile(filepath.Join(d.dir, "lost", "database.json"))
		if err == nil {
			d.write(".corebot/data/database.json", string(remember))
		}
		d.super.kill()
	})
	d.alert("CorebotDown")
	if out := d.runs("`corebot doctor`"); !strings.Contains(out, "restore") {
		d.t.Errorf("doctor says %s", out)
	}
	d.runs("`corebot db restore DIR`", "DIR", backup)
	d.ready()
	d.mu.Lock()
	d.sent = 0
	d.mu.Unlock()
	if status := d.say("chat0", "hello"); status != http.StatusOK && status != http.StatusAccepted {
		d.t.Errorf("a message of before: %d", status)
	}
}

func retentionHeldUp(d *day) {
	d.configure(d.llm(""))
	d.start()
	d.breaks(func() { d.holder(0) })
	d.alert("CorebotRetentionStopped")
	d.runs("`corebot db check`")
	d.mends("End a program that holds the database", func() {
		d.endOther(d.runs("`fuser ~/.corebot/data/corebot.db`"))
	})
}
