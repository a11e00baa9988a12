package mail

import "testing"

func TestThePortSaysHowTLSBegins(t *testing.T) {
	for addr, want := range map[string]server{
		"imap.example.org:993": {host: "imap.example.org", implicit: true},
		"smtp.example.org:465": {host: "smtp.example.org", implicit: true},
		"imap.example.org:143": {host: "imap.example.org"},
		"smtp.example.org:587": {host: "smtp.example.org"},
		"127.0.0.1:1143":       {host: "127.0.0.1", loopback: true},
		"localhost:993":        {host: "localhost", loopback: true, implicit: true},
		"[::1]:25":             {host: "::1", loopback: true},
	} {
		want.addr = addr
		if got, err := parseServer(addr); err != nil || got != want {
			t.Errorf("%s is %+v, %v", addr, got, err)
		}
	}
}
