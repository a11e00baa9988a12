package console

import (
	"net/http"
	"strings"
	"testing"
)

func TestTheCookieOfAProxyGoesOverNothingButTLS(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:3211": false, "localhost:3211": false, "[::1]:3211": false, "127.0.0.2": false,
		"corebot.example": true, "corebot.example:443": true, "10.0.0.7:3211": true, "": true,
	} {
		r := &http.Request{Host: host}
		for _, c := range []*Console{{}, {opts: Options{Secure: true}}} {
			secure := want || c.opts.Secure
			if c.secure(r) != secure || strings.HasPrefix(c.cookieName(r), "__Host-") != secure {
				t.Errorf("at %q it is %v, and the cookie %q", host, c.secure(r), c.cookieName(r))
			}
		}
	}
}
