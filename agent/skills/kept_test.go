package skills

import (
	"errors"
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

// TestAPromptIsBuiltAnewOnlyAfterAChangeAndAfterEachChange compares prompts by their identity: a prompt that is built
// anew is another one.
func TestAPromptIsBuiltAnewOnlyAfterAChangeAndAfterEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(100 * 365 * 24 * time.Hour) // see above
		dir, outside := t.TempDir(), t.TempDir()
		root, err := rootfs.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		have := map[string]bool{}
		has := func(name string) bool { return have[name] }
		s, err := New(root, Options{Env: has, Tool: has})
		if err != nil {
			t.Fatal(err)
		}
		at := func(names ...string) string { return filepath.Join(append([]string{dir, Dir}, names...)...) }
		page := func(name, description string) func() error {
			return func() error {
				return errors.Join(os.MkdirAll(at(name), 0o700), os.WriteFile(at(name, FileName),
					[]byte("---\nname: "+name+"\ndescription: "+description+"\n---\n"), 0o600))
			}
		}
		for _, step := range []struct {
			name   string
			change func() error
			want   string
		}{
			{"the first skill", page("tea", "one"), "tea one"},
			{"an edit in place", page("tea", "two"), "tea two"},
			{"another file", func() error {
				return errors.Join(page("tmp", "x")(), page("tea.new", "x")(), os.WriteFile(at("tea.new", FileName),
					[]byte("---\nname: tea\ndescription: six\n---\n"), 0o600),
					os.Rename(at("tea.new", FileName), at("tea", FileName)), os.RemoveAll(at("tea.new")),
					os.RemoveAll(at("tmp")))
			}, "tea six"},
			{"a directory without a page", func() error { return os.Mkdir(at("milk"), 0o700) }, "tea six"},
			{"its page", page("milk", "one"), "milk one, tea six"},
			{"a page that is gone", func() error { return os.Remove(at("milk", FileName)) }, "tea six"},
			{"a need that is not met", page("milk", "one\nrequires:\n- tools: [cow]"), "tea six"},
			{"a tool that came", func() error { have["cow"] = true; return nil }, "milk one, tea six"},
			{"a tool that went", func() error { clear(have); return nil }, "tea six"},
			{"a directory elsewhere", func() error {
				return errors.Join(os.Rename(at("tea"), filepath.Join(outside, "tea")),
					os.Symlink(filepath.Join(outside, "tea"), at("tea")))
			}, ""},
			{"the directory back", func() error {
				return errors.Join(os.Remove(at("tea")), os.Rename(filepath.Join(outside, "tea"), at("tea")))
			}, "tea six"},
			{"all of them elsewhere", func() error {
				return errors.Join(os.Rename(at(), filepath.Join(outside, Dir)),
					os.Symlink(filepath.Join(outside, Dir), at()))
			}, ""},
		} {
			tick(t, dir)
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
			s.Renew() // nothing of this goes through the root
			_, index, _ := strings.Cut(s.Prompt(), "\n\n")
			if got := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(index, "- ", ""), ": ", " "), "\n",
				", "); strings.TrimSuffix(got, ", ") != step.want {
				t.Errorf("%s: the index has %q, want %q", step.name, got, step.want)
			}
			if first, again := s.now(), s.now(); first != again && first.err == nil && step.want != "" {
				t.Errorf("%s: the prompt is built anew without a change", step.name)
			}
		}
	})
}

// TestAPageThatSomebodyElseParsedFirstIsInTheNextPrompt: the list of skills that an operator asks for looks at the same
// pages.
func TestAPageThatSomebodyElseParsedFirstIsInTheNextPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(100 * 365 * 24 * time.Hour)
		dir := t.TempDir()
		root, err := rootfs.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		s, err := New(root, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, description := range []string{"one", "two", "six"} {
			tick(t, dir)
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, Dir, "tea"), 0o700),
				os.WriteFile(filepath.Join(dir, Path("tea")), []byte("---\nname: tea\ndescription: "+description+
					"\n---\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			s.Renew()
			if _, err := s.All(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := s.Prompt(); !strings.HasSuffix(got, "- tea: "+description+"\n") {
					t.Errorf("the prompt is %q, want %s", got, description)
				}
			}
		}
	})
}
