package skills

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot/internal/rootfs"
)

// tick waits until the file system's clock has gone on: changes before and after it differ in time.
func tick(t *testing.T, dir string) {
	t.Helper()
	probe := func() time.Time {
		path := filepath.Join(dir, "clock")
		err := os.WriteFile(path, nil, 0o600)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil {
			t.Fatal(err, statErr)
		}
		return info.ModTime()
	}
	for begun := probe(); !probe().After(begun); {
	}
}

func TestOnlyWhatChangedIsParsedAgainAndWhatIsGoneIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(100 * 365 * 24 * time.Hour) // the files are real: to this clock they have long been left alone
		dir := t.TempDir()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		root, err := rootfs.New(dir)
		must(err)
		defer root.Close()
		s, err := New(root, Options{})
		must(err)
		var made []string
		s.parsed = rootfs.NewDerived(root, func(path string, data []byte) Skill {
			made = append(made, path)
			return parsed(path, data)
		})
		at := func(name string) string { return filepath.Join(dir, Dir, name) }
		write := func(name, description string) {
			must(os.MkdirAll(at(name), 0o700))
			must(os.WriteFile(filepath.Join(at(name), FileName), []byte("---\nname: "+name+"\ndescription: "+
				description+"\n---\n"), 0o600))
		}
		for _, step := range []struct {
			change func()
			want   string // what is parsed
		}{
			{func() { write("tea", "one"); write("milk", "one") }, "skills/milk/SKILL.md skills/tea/SKILL.md"},
			{func() {}, ""},
			{func() { write("tea", "another") }, "skills/tea/SKILL.md"},
			{func() { must(os.Rename(at("tea"), at("chai"))) }, "skills/chai/SKILL.md"},
			// the same file as before, and no longer known
			{func() { must(os.Rename(at("chai"), at("tea"))) }, "skills/tea/SKILL.md"},
			{func() {}, ""},
		} {
			tick(t, dir)
			step.change()
			made = nil
			_, err := s.All()
			must(err)
			if got := strings.Join(made, " "); got != step.want {
				t.Errorf("parsed are %q, want %q", got, step.want)
			}
		}
	})
}
