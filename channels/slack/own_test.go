package slack

import "testing"

func TestTheTokenGoesToHostsOfSlackAlone(t *testing.T) {
	for address, want := range map[string]bool{
		"https://files.slack.com/files-pri/T1-F1/a.txt": true, "https://slack.com/x": true,
		"http://files.slack.com/x": false, "https://files.slack.com.evil.test/x": false,
		"https://evil.test/files.slack.com": false, "https://files.slack.com:8443/x": false,
		"https://x@files.slack.com/x": false, "//files.slack.com/x": false,
	} {
		if _, err := (client{base: standardURL + "/"}).own(address); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := (client{base: "https://proxy.test/api/"}).own("https://files.slack.com/x"); err == nil {
		t.Error("a server of the settings has another host for files")
	}
}
