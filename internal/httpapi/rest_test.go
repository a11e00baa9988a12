package httpapi

import (
	"io"
	"net/http"
	"testing"

	"github.com/rs/zerolog"
)

func TestTheRestHasAllPathsButThoseOfTheAPI(t *testing.T) {
	s, err := NewServer(Options{
		Addr: "127.0.0.1:0", Log: zerolog.Nop(), Redact: func(s string) string { return s },
		Rest: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "rest") }),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	defer s.Close() //nolint:errcheck // of a test
	for path, want := range map[string]int{
		"/": 200, "/login": 200, "/apis": 200, "/static/x.js": 200, "/api": 404, "/api/": 404, "/api/x": 404,
		"/api/status": 401,
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for _, origin := range []string{"", "http://evil.example"} {
			r.Header.Set("Origin", origin)
			if origin == "" {
				r.Header.Del("Origin")
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close() // it was read
			if origin == "" && (resp.StatusCode != want || (string(text) == "rest") != (want == 200)) {
				t.Errorf("%s is %d, %s", path, resp.StatusCode, text)
			}
			if origin != "" && resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s is %d for another origin", path, resp.StatusCode)
			}
		}
	}
}
