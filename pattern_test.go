package corebot_test

import (
	"testing"

	"github.com/corebot/corebot"
)

func TestAPatternMeansANameOrAllWithItsBeginning(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"fs.read", "fs.read", true},
		{"fs.*", "fs.read", true},
		{"fs.*", "fs.", true},
		{"*", "", true},
		{"*", "fs.read", true},
		{"fs.*", "fs", false},
		{"fs.read", "fs.reads", false},
		{"fs.read", "FS.read", false},
		{"", "fs.read", false},
		{"a*c", "abc", false},
	} {
		if got := corebot.MatchesName(c.pattern, c.name); got != c.want {
			t.Errorf("%q means %q: %v", c.pattern, c.name, got)
		}
	}
	for pattern, want := range map[string]bool{
		"a": true, "a*": true, "*": true, "": false, "*a": false, "a**": false,
		"a*b": false,
	} {
		if got := corebot.IsNamePattern(pattern); got != want {
			t.Errorf("%q is a pattern: %v", pattern, got)
		}
	}
}
