package vfstest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// scene is a directory with a recording of it, whose events a test makes by hand.
type scene struct {
	*Recording
	t   *testing.T
	dir string
}

func newScene(t *testing.T, before Files) *scene {
	t.Helper()
	s := &scene{&Recording{}, t, t.TempDir()}
	must(t, before.WriteTo(s.dir))
	must(t, s.begin(s.dir))
	return s
}

// open opens a file as SQLite would, which makes it if it is missing.
func (s *scene) open(name string) (inode int) {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	must(s.t, err)
	must(s.t, f.Close())
	return s.opened(filepath.Join(s.dir, name))
}

// outcomes are the states that many cuts of the disk at its last moment leave, each told in a word by look.
func (s *scene) outcomes(look func(Files) string) []string {
	disk := s.Disk()
	disk.Advance(s.Len())
	chance := rand.New(rand.NewPCG(7, 7))
	seen := map[string]bool{}
	for range 600 {
		seen[look(disk.Cut(chance))] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func (s *scene) want(look func(Files) string, want ...string) {
	s.t.Helper()
	if got := s.outcomes(look); !slices.Equal(got, want) {
		s.t.Errorf("the cuts leave %q, want %q", got, want)
	}
}

// letters tells a file by the first byte of each of its sectors.
func letters(name string) func(Files) string {
	return func(f Files) string {
		content, ok := f[name]
		if !ok {
			return "missing"
		}
		word := ""
		for i := 0; i < len(content); i += sector {
			if end := min(i+sector, len(content)); !bytes.Equal(content[i:end], bytes.Repeat(content[i:i+1], end-i)) {
				word += "?" // neither one nor the other
				continue
			}
			word += string(content[i])
		}
		return word
	}
}

func fill(letter string, sectors int) []byte { return bytes.Repeat([]byte(letter), sectors*sector) }

func TestASyncedWriteStaysAndAnUnsyncedOneIsTornBySectors(t *testing.T) {
	s := newScene(t, Files{"f": fill("a", 2)})
	f := s.open("f")
	s.wrote(f, 0, fill("b", 2))
	s.want(letters("f"), "aa", "ab", "ba", "bb")
	s.synced(f, false)
	s.want(letters("f"), "bb")
}

func TestALaterWriteMaySurviveAnEarlierOne(t *testing.T) {
	s := newScene(t, Files{"f": fill("a", 2)})
	f := s.open("f")
	s.wrote(f, 0, fill("b", 1))
	s.wrote(f, sector, fill("c", 1))
	s.want(letters("f"), "aa", "ac", "ba", "bc")
}

func TestAnUnsyncedTruncateMayNotHaveHappened(t *testing.T) {
	s := newScene(t, Files{"f": fill("a", 2)})
	f := s.open("f")
	s.truncated(f, sector)
	s.want(letters("f"), "a", "aa")
	s.synced(f, false)
	s.want(letters("f"), "a")
}

func TestAFileMayHaveGrownBeforeItsContentArrived(t *testing.T) {
	s := newScene(t, Files{"f": nil})
	f := s.open("f")
	s.wrote(f, 0, fill("a", 1))
	got := s.outcomes(letters("f"))
	for _, want := range []string{"", "\x00", "?", "a"} { // not at all, as zeros, as garbage, whole
		if !slices.Contains(got, want) {
			t.Errorf("no cut leaves %q: %q", want, got)
		}
	}
}

func TestANameLastsOnceTheDirectoryIsSynced(t *testing.T) {
	s := newScene(t, Files{"old": fill("o", 1), "db": nil})
	f := s.open("new")
	s.wrote(f, 0, fill("n", 1))
	s.synced(f, false)
	s.deleted("old", false)
	look := func(f Files) string { return letters("new")(f) + " " + letters("old")(f) }
	s.want(look, "missing missing", "missing o", "n missing", "n o")
	s.synced(s.open("db"), true)
	s.want(look, "n missing")
}

func TestANameThatIsUsedAgainStandsForOneFileOrTheOther(t *testing.T) {
	s := newScene(t, Files{"log": fill("o", 1)})
	must(t, os.Remove(filepath.Join(s.dir, "log")))
	s.deleted("log", false)
	f := s.open("log")
	s.wrote(f, 0, fill("n", 1))
	s.synced(f, false)
	s.want(letters("log"), "missing", "n", "o")
}

func TestARenamedFileIsThereUnderItsNewNameWithItsContent(t *testing.T) {
	s := newScene(t, nil)
	f := s.open("part")
	s.wrote(f, 0, fill("a", 1))
	s.synced(f, true)
	must(t, os.Rename(filepath.Join(s.dir, "part"), filepath.Join(s.dir, "db")))
	if s.open("db") != f {
		t.Error("it is taken for a new file")
	}
	s.want(func(f Files) string { return letters("part")(f) + " " + letters("db")(f) }, "missing a")
}

func TestAFileMadeBehindSQLitesBackIsANewOne(t *testing.T) {
	s := newScene(t, nil)
	must(t, os.WriteFile(filepath.Join(s.dir, "f"), fill("a", 2), 0o600))
	s.open("f")
	got := s.outcomes(letters("f"))
	for _, want := range []string{"missing", "", "aa"} {
		if !slices.Contains(got, want) {
			t.Errorf("no cut leaves %q: %q", want, got)
		}
	}
}

func TestAFileReplacedBehindSQLitesBackIsANewOne(t *testing.T) {
	s := newScene(t, Files{"f": fill("a", 1)})
	old := s.open("f")
	must(t, os.WriteFile(filepath.Join(s.dir, "other"), fill("b", 1), 0o600))
	must(t, os.Rename(filepath.Join(s.dir, "other"), filepath.Join(s.dir, "f")))
	s.synced(old, false)
	if f := s.open("f"); f == old {
		t.Fatal("it is taken for the old one")
	} else {
		s.synced(f, true)
	}
	s.want(letters("f"), "b")
}

func TestAfterAFailedSyncALaterOneIsNoComfort(t *testing.T) {
	s := newScene(t, Files{"f": fill("a", 2)})
	f := s.open("f")
	s.wrote(f, 0, fill("b", 1))
	s.syncFailed(f)
	s.wrote(f, sector, fill("c", 1))
	s.synced(f, false)
	s.want(letters("f"), "ac", "bc")
	s.wrote(f, 0, fill("b", 1)) // written again
	s.synced(f, false)
	s.want(letters("f"), "bc")
}

func TestADiskThatIgnoresSyncsMayLoseEverything(t *testing.T) {
	s := newScene(t, Files{"f": fill("a", 1)})
	f := s.open("f")
	s.wrote(f, 0, fill("b", 1))
	s.synced(f, true)
	disk := s.Disk()
	disk.IgnoreSyncs = true
	disk.Advance(s.Len())
	chance := rand.New(rand.NewPCG(8, 8))
	seen := map[string]bool{}
	for range 100 {
		seen[letters("f")(disk.Cut(chance))] = true
	}
	if !seen["a"] || !seen["b"] {
		t.Errorf("seen: %v", seen)
	}
}

func TestTheSameChanceMakesTheSameCutAndACutChangesNothing(t *testing.T) {
	s := newScene(t, Files{"f": fill("a", 4), "g": fill("a", 4)})
	for _, name := range []string{"f", "g", "h"} {
		f := s.open(name)
		s.wrote(f, 700, fill("b", 3))
		s.truncated(f, 900)
	}
	disk := s.Disk()
	disk.Advance(s.Len())
	whole := fmt.Sprint(disk.Whole())
	for seed := range uint64(50) {
		first := disk.Cut(rand.New(rand.NewPCG(seed, 0)))
		if again := disk.Cut(rand.New(rand.NewPCG(seed, 0))); !reflect.DeepEqual(first, again) {
			t.Fatalf("seed %d: %v and %v", seed, sizes(first), sizes(again))
		}
	}
	if fmt.Sprint(disk.Whole()) != whole {
		t.Error("the cuts changed the disk")
	}
}
