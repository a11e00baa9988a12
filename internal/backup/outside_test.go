package backup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/corebot/corebot"
)

// A path is in a home however it is spelled, and whether something is there already or not.
func TestAPathIsInAHomeHoweverItIsSpelled(t *testing.T) {
	top := t.TempDir()
	home := filepath.Join(top, "home")
	must(t, os.MkdirAll(filepath.Join(home, "workspace"), 0o700))
	must(t, os.MkdirAll(filepath.Join(top, "else", "where"), 0o700))
	must(t, os.Symlink(home, filepath.Join(top, "link")))
	must(t, os.Symlink("../link/workspace", filepath.Join(top, "else", "in")))
	must(t, os.Symlink(filepath.Join(top, "else", "where"), filepath.Join(home, "out")))
	for _, c := range []struct {
		at, home, path string
		inside         bool
	}{
		{top, home, filepath.Join(home, "new"), true},
		{top, home, home, true},
		{top, home, "home", true},
		{top, home, "home/workspace/new/new", true},
		{top, home, "./home/../home/new", true},
		{filepath.Join(home, "workspace"), home, "new", true},
		{filepath.Join(home, "workspace"), home, ".", true},
		{filepath.Join(home, "workspace"), home, "../new", true},
		{top, home, "link/new", true},
		{top, home, "else/in/new", true},
		{top, filepath.Join(top, "link"), "home/new", true},
		{top, "link", "home/new", true},
		{top, home, home + "/out/../new", true}, // a directory is made at the shortened path
		{top, home, "else/new", false},
		{top, home, "home2", false},
		{top, home, "home/out/new", false},
		{filepath.Join(home, "workspace"), home, "../../new", false},
	} {
		t.Chdir(c.at)
		err := Outside([]Tree{{Dir: c.home}}, c.path)
		if errors.Is(err, corebot.ErrInvalid) != c.inside || err != nil && corebot.HintOf(err) == "" {
			t.Errorf("%s in %s, from %s: %v", c.path, c.home, c.at, err)
		}
	}
}
