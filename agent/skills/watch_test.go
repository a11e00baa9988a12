//go:build linux

package skills_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
