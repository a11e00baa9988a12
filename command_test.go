package corebot_test

import (
	"testing"

	"github.com/corebot/corebot"
)

func TestACommandIsTheFirstWordWhateverFollowsIt(t *testing.T) {
	for text, want := range map[string]corebot.Command{
		"/stop":         {Name: "/stop"},
		"  /STOP\tnow ": {Name: "/stop", Args: "now"},
		"/new\nplease":  {Name: "/new", Args: "please"},
	} {
		if got, _, ok := corebot.ParseCommand(text); !ok || got != want {
			t.Errorf("%q is %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "stop", "/stopping", "/tool fs.list {}", "say /stop", "/"} {
		if got, kind, ok := corebot.ParseCommand(text); ok || kind != corebot.KindPrompt {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}
