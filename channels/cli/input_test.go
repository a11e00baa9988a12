package cli

import "testing"

func TestAControlIsWhatTheDoorTakesForOne(t *testing.T) {
	for text, want := range map[string]bool{
		"/stop": true, " /STOP\tnow": true, "/stop\nplease": true,
		"/stopped": true, "/unknown": true, "/help": false, "/new day": false, "stop": false, "//stop": false,
		"/tmp/stop": false, "": false,
	} {
		if got := isControl(text); got != want {
			t.Errorf("isControl(%q) is %v", text, got)
		}
	}
}
