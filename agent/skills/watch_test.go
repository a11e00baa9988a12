//go:build linux

package skills_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/needs"
)

// many makes so many skills that the system is asked to note their changes. It is their workspace when all are known.
func many(t *testing.T, n int) bench { return manyIn(t, t.TempDir(), n) }

func manyIn(t *testing.T, dir string, n int) bench {
	b := newBenchIn(t, dir)
	for i := range n {
		b.skill(t, fmt.Sprintf("s%03d", i), "Is as of old.")
	}
	waitUntilSettled()
	b.store.Prompt()
	b.store.Age(time.Second)
	b.store.Prompt()
	return b
}

func mustNote(t *testing.T, b bench) {
	t.Helper()
	if !b.store.Noted() {
		needs.Missing(t, "inotify", "the system notes no changes")
	}
}

func TestEachChangeOfManySkillsIsInThePromptOfTheNextSecond(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(dir, page, text string) error{
		"an edit in place": func(_, page, text string) error { return os.WriteFile(page, []byte(text), 0o600) },
		"another file in its place": func(_, page, text string) error {
			if err := os.WriteFile(page+".new", []byte(text), 0o600); err != nil {
				return err
			}
			return os.Rename(page+".new", page)
		},
		"another directory in its place": func(dir, page, text string) error {
			other := filepath.Join(filepath.Dir(filepath.Dir(dir)), "other")
			if err := os.Mkdir(other, 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(other, skills.FileName), []byte(text), 0o600); err != nil {
				return err
			}
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return os.Rename(other, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := many(t, 100)
			mustNote(t, b)
			for i, at := range []int{0, 50, 99, 50} { // once more in a directory that may be another one
				skill, mark := fmt.Sprintf("s%03d", at), fmt.Sprintf("Is the change %d.", i)
				dir := filepath.Join(b.dir, skills.Dir, skill)
				if name == "another directory in its place" && i == 3 {
					must(t, os.RemoveAll(dir+".old"))
				}
				must(t, change(dir, filepath.Join(dir, skills.FileName),
					page("name: "+skill, "description: "+mark)))
				b.store.Age(time.Second)
				if got := b.store.Prompt(); !strings.Contains(got, skill+": "+mark) {
					t.Fatalf("the change %d of %s is not in the prompt", i, skill)
				}
			}
		})
	}
}

// The system does not note what a program writes into memory that is mapped to a page.
func TestAChangeOfManySkillsThatTheSystemDoesNotNoteIsFoundByTheLooksAtAPartOfThem(t *testing.T) {
	t.Parallel()
	disk, err := os.MkdirTemp("/var/tmp", "skills-") // a write into mapped memory leaves no time on a tmpfs
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(disk)) })
	b := manyIn(t, disk, 100)
	mustNote(t, b)
	f, err := os.OpenFile(filepath.Join(b.dir, skills.Dir, "s070", skills.FileName), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	info, err := f.Stat()
	must(t, err)
	mapped, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED)
	must(t, err)
	copy(mapped[strings.Index(string(mapped), "old."):], "new.")
	must(t, syscall.Munmap(mapped))
	if after, err := f.Stat(); err == nil && after.ModTime().Equal(info.ModTime()) {
		needs.Missing(t, "disk", "a mapped write leaves no time on this file system")
	}
	seen := 0
	for i := 1; i <= 8 && seen == 0; i++ {
		b.store.Age(time.Second)
		if strings.Contains(b.store.Prompt(), "s070: Is as of new.") {
			seen = i
		}
	}
	if seen == 0 {
		t.Error("after eight looks the change is not in the prompt")
	}
}

// A process has few queues for such notes, and a chat's few skills need none.
func TestFewSkillsAreLookedAtOneByOne(t *testing.T) {
	t.Parallel()
	if b := many(t, 10); b.store.Noted() {
		t.Error("ten skills are watched")
	}
}

// A turn that looks at 256 skills is to spend under 0.3 ms on them; most turns do not look. The cost is that of the
// cheapest ten of many turns, in processor time of their own thread, so a busy machine does not change it. A look at
// each skill takes more than that.
func TestATurnSpendsLittleOnManySkills(t *testing.T) {
	b := many(t, skills.MaxSkills)
	mustNote(t, b)
	chat := corebot.Key{Agent: "main", Channel: "test", Account: "work", Chat: "c"}
	turn := func(pass func()) {
		pass()
		if text := b.store.Prompt() + b.store.Here(chat, nil, "hello"); !strings.Contains(text, "s255") {
			t.Fatalf("a turn is told %q", text)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cost := func(turns int, pass func()) time.Duration {
		begun := threadTime(t)
		for range turns {
			turn(pass)
		}
		return (threadTime(t) - begun) / time.Duration(turns)
	}
	least := func(pass func(), bound time.Duration) time.Duration {
		best := cost(10, pass)
		for try := 0; try < 200 && best >= bound; try++ {
			best = min(best, cost(10, pass))
		}
		return best
	}
	second := func() { b.store.Age(time.Second) }
	looks, holds := least(second, 300*time.Microsecond), least(func() {}, 30*time.Microsecond)
	t.Logf("a turn that looks spends %v, and another one %v", looks, holds)
	if looks >= 300*time.Microsecond || holds >= 30*time.Microsecond {
		t.Errorf("a turn with 256 skills spends %v on them if it looks, and %v if not; want less than 300 µs and 30 µs",
			looks, holds)
	}
	// Neither reads a page or makes the text anew, whatever that costs on the machine.
	n := testing.AllocsPerRun(20, func() { turn(second) })
	if t.Logf("a turn that looks allocates %v times", n); n > 100 {
		t.Errorf("a turn that looks at 256 skills allocates %v times, at most 100 are meant", n)
	}
}

// threadTime is the processor time of the calling thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used))
	return time.Duration(used.Nano())
}
