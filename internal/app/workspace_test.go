package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
)

func TestAWorkspaceHasNothingOfCorebotsOwnInIt(t *testing.T) {
	for name, c := range map[string]struct {
		to string // where the link leads, seen from the home
		ok bool
	}{
		"a directory elsewhere": {"../elsewhere", true},
		"one in the home":       {"texts", true},
		"the home":              {".", false},
		"what the home is in":   {"..", false},
		"the data":              {"data", false},
	} {
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			for _, dir := range []string{
				home, DataDir(home), filepath.Join(home, "texts"),
				filepath.Join(home, "../elsewhere"),
			} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(c.to, filepath.Join(home, "workspace")); err != nil {
				t.Fatal(err)
			}
			n, err := openWorkspace(place{home, corebot.DefaultAgent}, rootfs.Quota{}, nil, zerolog.Nop())
			if err == nil {
				defer n.root.Close() //nolint:errcheck // it was only opened
			}
			if (err == nil) != c.ok || err != nil && (!errors.Is(err, corebot.ErrInvalid) ||
				corebot.HintOf(err) == "") {
				t.Errorf("got %v (%s)", err, corebot.HintOf(err))
			}
		})
	}
}
