package builtin

import (
	"errors"
	"slices"
	"testing"

	"github.com/corebot/corebot"
)

func FuzzAChildTurnGetsNoToolThatItsParentLacks(f *testing.F) {
	has := []string{"agent.run", "fs.read", "fs.write", "mcp__x__y", "web.fetch"}
	for _, pattern := range []string{"*", "fs.*", "*.fetch", "web.fetch", "", "fs.re*", "**", "shell.exec"} {
		f.Add(pattern, "web.fetch")
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		got, err := among(has, []string{one, other})
		if err != nil {
			if !errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "" {
				t.Fatalf("%v has no hint", err)
			}
			return
		}
		for i, name := range got {
			if !slices.Contains(has, name) || slices.Contains(got[:i], name) {
				t.Fatalf("%q and %q give %q", one, other, got)
			}
		}
		if len(got) == 0 {
			t.Fatalf("%q and %q give nothing, and are not refused", one, other)
		}
	})
}
