package pack

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// versions are two of one skill: the second ends with "Well."
func versions(t *testing.T) (first, second Pack) {
	t.Helper()
	first, err := Read(unfolded(t, entry{name: "SKILL.md", data: page}), "")
	must(t, err)
	second, err = Read(unfolded(t, entry{name: "SKILL.md", data: page + "Well.\n"}), "")
	must(t, err)
	return first, second
}

// An editor saves a skill, or somebody makes or removes one, after the last look of an install and before the exchange.
func TestWhatComesBetweenTheLookAndTheExchangeOfAnInstallIsPutBack(t *testing.T) {
	for name, c := range map[string]struct {
		first  bool // there is a skill before
		change func(place string) error
		is     string // what SKILL.md ends with afterwards; empty: there is none
	}{
		"an edit": {true, func(place string) error {
			return os.WriteFile(filepath.Join(place, "SKILL.md"), []byte(page+"Mine.\n"), 0o600)
		}, "Mine.\n"},
		"a new file": {true, func(place string) error {
			return os.WriteFile(filepath.Join(place, "mine.txt"), []byte("Mine."), 0o600)
		}, page},
		"a repository": {true, func(place string) error { return os.Mkdir(filepath.Join(place, ".git"), 0o700) }, page},
		"a removal":    {true, os.RemoveAll, ""},
		"a skill of that name": {false, func(place string) error {
			return errors.Join(os.Mkdir(place, 0o700),
				os.WriteFile(filepath.Join(place, "SKILL.md"), []byte(page+"Mine.\n"), 0o600))
		}, "Mine.\n"},
		"nothing, at an upgrade":  {true, func(string) error { return nil }, "Well.\n"},
		"nothing, at a first one": {false, func(string) error { return nil }, "Well.\n"},
	} {
		for how, swap := range map[string]func(fresh, place string) error{
			"at once": exchange, "in turn": func(fresh, place string) error {
				if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
					return os.Rename(fresh, place)
				}
				return inTurn(os.Rename, fresh, place)
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				among, staging := t.TempDir(), t.TempDir()
				first, second := versions(t)
				was := ""
				if c.first {
					was = first.Hash
					must(t, Install(among, staging, first, "", time.Now()))
				}
				changes := 0
				err := install(among, staging, second, was, time.Now(), func(fresh, place string) error {
					if changes++; changes == 1 {
						must(t, c.change(place))
					}
					return swap(fresh, place)
				})
				said := errors.Is(err, corebot.ErrInvalid) && strings.Contains(err.Error(), "nothing was installed")
				if installed := c.is == "Well.\n"; installed != (err == nil) || installed == said {
					t.Errorf("the install says %v", err)
				}
				text, err := os.ReadFile(filepath.Join(among, "knots", "SKILL.md"))
				if !strings.HasSuffix(string(text), c.is) || errors.Is(err, fs.ErrNotExist) != (c.is == "") {
					t.Errorf("the skill is %q: %v", text, err)
				}
				if left, _ := os.ReadDir(staging); len(left) > 0 {
					t.Errorf("left is %v", left)
				}
			})
		}
	}
}

// The disk can fail as the skill is put back.
func TestAChangedSkillThatCannotBePutBackIsKeptAndNamed(t *testing.T) {
	among, staging := t.TempDir(), t.TempDir()
	first, second := versions(t)
	must(t, Install(among, staging, first, "", time.Now()))
	fails, n := errors.New("the disk fails"), 0
	err := install(among, staging, second, first.Hash, time.Now(), func(fresh, place string) error {
		if n++; n > 1 {
			return fails
		}
		must(t, os.WriteFile(filepath.Join(place, "SKILL.md"), []byte(page+"Mine.\n"), 0o600))
		return exchange(fresh, place)
	})
	kept, _ := filepath.Glob(filepath.Join(staging, "skill-*", "knots.old"))
	if len(kept) != 1 || !errors.Is(err, fails) || !strings.Contains(corebot.HintOf(err), kept[0]) {
		t.Fatalf("kept is %q: %v (%s)", kept, err, corebot.HintOf(err))
	}
	sweep(staging, time.Now().Add(2*time.Hour))
	text, err := os.ReadFile(filepath.Join(kept[0], "SKILL.md"))
	if err != nil || !strings.HasSuffix(string(text), "Mine.\n") {
		t.Errorf("later it is %q: %v", text, err)
	}
}
