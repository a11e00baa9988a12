package skills_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/skills"
	"github.com/corebot/corebot/internal/rootfs"
)

// bench is a workspace with skills in it.
type bench struct {
	*testing.T
	dir   string
	store *skills.Store
	log   *bytes.Buffer
}

// newBench has the variable KEY and the tool web.search, and no others.
func newBench(t testing.TB) bench { return newBenchIn(t, t.TempDir()) }

func newBenchIn(t testing.TB, dir string) bench {
	t.Helper()
	b := bench{dir: dir, log: new(bytes.Buffer)}
	b.T, _ = t.(*testing.T)
	root, err := rootfs.New(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	b.store, err = skills.New(root, skills.Options{
		Env:  func(name string) bool { return name == "KEY" },
		Tool: func(name string) bool { return name == "web.search" }, Log: zerolog.New(b.log),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// path is where something is in the directory of skills.
func (b bench) path(names ...string) string {
	return filepath.Join(append([]string{b.dir, skills.Dir}, names...)...)
}

// write puts a page there, whatever is in it. The next prompt looks at it.
func (b bench) write(t testing.TB, name, text string) {
	t.Helper()
	defer b.store.Renew()
	must(t, os.MkdirAll(b.path(name), 0o700))
	must(t, os.WriteFile(b.path(name, skills.FileName), []byte(text), 0o600))
}

// skill writes a good one.
func (b bench) skill(t testing.TB, name, description string, lines ...string) {
	t.Helper()
	b.write(t, name, page(append([]string{"name: " + name, "description: " + description}, lines...)...))
}

// all names the skills that are found, with what is wrong with them.
func (b bench) all() map[string]error {
	b.Helper()
	found, err := b.store.All()
	must(b, err)
	all := map[string]error{}
	for _, s := range found.Skills {
		all[s.Name] = s.Err
	}
	return all
}

func TestAWorkspaceWithoutSkillsHasNone(t *testing.T) {
	b := newBench(t)
	for range 2 {
		if found, err := b.store.All(); err != nil || len(found.Skills) != 0 || b.store.Prompt() != "" {
			t.Errorf("found %+v, %v, and the prompt has %q", found, err, b.store.Prompt())
		}
		must(t, os.MkdirAll(b.path("empty"), 0o700)) // a directory without a page is no skill
		must(t, os.WriteFile(b.path("README.md"), []byte("# Skills"), 0o600))
	}
}

func TestOneBadSkillTakesNoOtherAway(t *testing.T) {
	b := newBench(t)
	b.skill(t, "tea", "Makes tea.")
	b.skill(t, "a-tea", "Makes other tea.")
	outside := filepath.Join(t.TempDir(), "stranger")
	must(t, os.MkdirAll(outside, 0o700))
	must(t, os.WriteFile(filepath.Join(outside, skills.FileName),
		[]byte(page("name: linked", "description: from outside")), 0o600))
	must(t, os.Symlink(outside, b.path("linked")))
	must(t, os.Symlink("tea", b.path("inner")))
	must(t, os.MkdirAll(b.path("leads-out"), 0o700))
	must(t, os.Symlink(filepath.Join(outside, skills.FileName), b.path("leads-out", skills.FileName)))
	must(t, os.MkdirAll(b.path("fifo"), 0o700))
	must(t, syscall.Mkfifo(b.path("fifo", skills.FileName), 0o600))
	must(t, syscall.Mkfifo(b.path("a-fifo"), 0o600))
	must(t, os.MkdirAll(b.path("dir", skills.FileName), 0o700))
	must(t, os.MkdirAll(b.path("second-name"), 0o700))
	must(t, os.Link(filepath.Join(outside, skills.FileName), b.path("second-name", skills.FileName)))
	b.write(t, "large", page("name: large", "description: x")+strings.Repeat("x", skills.MaxFile))
	b.write(t, "bad-yaml", page("name: [", "description: x"))
	b.write(t, "other", page("name: another", "description: x"))
	b.write(t, "Odd Name", page("name: odd", "description: x"))
	got := b.all()
	for name, want := range map[string]error{
		"tea": nil, "a-tea": nil,
		"linked": rootfs.ErrEscape, "inner": rootfs.ErrEscape, "leads-out": rootfs.ErrEscape,
		"fifo": rootfs.ErrNotRegular, "a-fifo": rootfs.ErrNotDir, "dir": rootfs.ErrNotRegular,
		"second-name": rootfs.ErrNotRegular,
		"large":       rootfs.ErrTooLarge, "bad-yaml": corebot.ErrInvalid, "other": corebot.ErrInvalid,
		"Odd Name": corebot.ErrInvalid,
	} {
		err, found := got[name]
		if !found || !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: found %v, %v; want %v", name, found, err, want)
		}
		delete(got, name)
		if _, _, err := b.store.Read(name); want != nil && err == nil || want == nil && err != nil {
			t.Errorf("%s is read with %v", name, err)
		}
	}
	if len(got) > 0 {
		t.Errorf("there are also %v", got)
	}
	if prompt := b.store.Prompt(); !strings.HasSuffix(prompt, "\n\n- a-tea: Makes other tea.\n- tea: Makes tea.\n") {
		t.Errorf("the prompt has %q", prompt)
	}
}

func TestADirectoryOfSkillsThatIsNoneIsAnErrorAndEmptiesThePrompt(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"a link": func(path string) error { return os.Symlink(t.TempDir(), path) },
		"a file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a FIFO": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		b := newBench(t)
		must(t, spoil(b.path()))
		if _, err := b.store.All(); err == nil || corebot.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
		if b.store.Prompt()+b.store.Prompt() != "" || strings.Count(b.log.String(), "read the skills") != 1 {
			t.Errorf("%s: the log has %s", name, b.log)
		}
	}
}

func TestNoMoreThanTheFirstDirectoriesAreLookedAtAndTheRestIsCounted(t *testing.T) {
	b := newBench(t)
	for i := range skills.MaxSkills + 3 {
		b.skill(t, fmt.Sprintf("s%03d", i), "x")
	}
	found, err := b.store.All()
	must(t, err)
	if n := len(found.Skills); n != skills.MaxSkills || found.More != 3 || found.Skills[n-1].Name != "s255" {
		t.Errorf("%d skills and %d more", n, found.More)
	}
	b.store.Prompt()
	if !strings.Contains(b.log.String(), "skills has 259 directories, and only the first 256 are looked at") {
		t.Errorf("the log has %s", b.log)
	}
}

func TestASkillWithoutWhatItRequiresIsNotInThePrompt(t *testing.T) {
	b := newBench(t)
	b.skill(t, "both", "x", "requires:", "- env: [KEY]", "- tools: [web.search]")
	b.skill(t, "no-key", "x", "always: true", "requires:", "- env: [KEY, OTHER_KEY]")
	b.skill(t, "no-tool", "x", "requires:", "- tools: [web.search, web.fetch]")
	found, err := b.store.All()
	must(t, err)
	missing := map[string]string{}
	for _, s := range found.Skills {
		missing[s.Name] = s.Missing.String()
	}
	if missing["both"] != "" || missing["no-key"] != "env OTHER_KEY" || missing["no-tool"] != "tool web.fetch" {
		t.Errorf("missing are %q", missing)
	}
	if prompt := b.store.Prompt(); !strings.HasSuffix(prompt, "\n\n- both: x\n") || b.log.Len() > 0 {
		t.Errorf("the prompt has %q, the log %q", prompt, b.log)
	}
}

func TestByDefaultTheEnvironmentIsThatOfTheProcessAndEmptyIsNotSet(t *testing.T) {
	t.Setenv("SKILL_KEY", "a-secret-value")
	t.Setenv("SKILL_EMPTY", "")
	b := newBench(t)
	root, err := rootfs.New(b.dir)
	must(t, err)
	defer root.Close()
	store, err := skills.New(root, skills.Options{})
	must(t, err)
	b.skill(t, "set", "x", "requires:", "- env: [SKILL_KEY]")
	b.skill(t, "unset", "x", "requires:", "- env: [SKILL_EMPTY]")
	prompt := store.Prompt()
	if !strings.HasSuffix(prompt, "\n\n- set: x\n") || strings.Contains(prompt, "SKILL_KEY") ||
		strings.Contains(prompt, "a-secret-value") {
		t.Errorf("the prompt has %q", prompt)
	}
}

func TestAPageIsReadAsItIsNow(t *testing.T) {
	b := newBench(t)
	b.skill(t, "tea", "Makes tea.")
	for _, want := range []string{"# How\n", "other"} {
		skill, page, err := b.store.Read("tea")
		if err != nil || page != want || skill.Name != "tea" || !skill.Usable() {
			t.Errorf("read %+v with %q, %v; want %q", skill, page, err, want)
		}
		b.write(t, "tea", "---\nname: tea\ndescription: x\n---\nother")
	}
	for _, name := range []string{
		"coffee", "", ".", "..", "../skills/tea", "tea/", "Tea", "tea\x00",
		strings.Repeat("a", 10000),
	} {
		if _, _, err := b.store.Read(name); !errors.Is(err, corebot.ErrNotFound) || corebot.HintOf(err) == "" ||
			len(err.Error()) > 300 {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

func TestAStoreWantsADirectory(t *testing.T) {
	if _, err := skills.New(nil, skills.Options{}); !errors.Is(err, corebot.ErrInvalid) {
		t.Error(err)
	}
}
