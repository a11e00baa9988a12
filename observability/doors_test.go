package observability_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot/observability"
)

// watching is a server on a real port that is ready and has a status.
func watching(t *testing.T, o observability.Options) string {
	t.Helper()
	o.Addr, o.Gather, o.Log = "127.0.0.1:0", prometheus.NewRegistry(), zerolog.Nop()
	o.Ready = func(context.Context) []string { return nil }
	o.Status = func(context.Context) (any, error) { return map[string]string{"secret": "of this machine"}, nil }
	s, err := observability.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.Addr()
}

func look(t *testing.T, addr, path string, headers map[string]string) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Body.Close(); err != nil {
		t.Error(err)
	}
	return got.StatusCode, got.Header
}

func TestAWebPageSeesNeitherStatusNorMetrics(t *testing.T) {
	addr := watching(t, observability.Options{AllowedHosts: []string{"bot.example.com"}})
	for _, path := range []string{"/status", "/metrics", "/ready", "/health"} {
		for _, c := range []struct {
			header, value string
			status        int
		}{
			{"Host", "evil.example", 421},
			{"Origin", "https://evil.example", 403},
			{"Sec-Fetch-Site", "cross-site", 403},
			{"Host", "localhost", 200},
			{"Host", "bot.example.com", 200},
			{"X-Forwarded-Host", "evil.example", 200},
		} {
			status, header := look(t, addr, path, map[string]string{c.header: c.value})
			if status != c.status || header.Get("Access-Control-Allow-Origin") != "" ||
				header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s with %s: %s is answered %d with %v", path, c.header, c.value, status, header)
			}
		}
	}
}

func TestAForgedAddressOpensNothing(t *testing.T) {
	addr := watching(t, observability.Options{Token: "a-token-of-many-bytes"})
	for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "True-Client-Ip"} {
		if status, _ := look(t, addr, "/status",
			map[string]string{header: "127.0.0.1"}); status != http.StatusUnauthorized {
			t.Errorf("with %s it is answered %d", header, status)
		}
	}
}

func TestTwoHundredSlowCallersKeepNoScraperWaiting(t *testing.T) {
	addr := watching(t, observability.Options{})
	for i := range 200 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // gone with the test
		if _, err := io.WriteString(c, "GET /status HTTP/1.1\r\nHost: localhost\r\n"[:i%30]); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		began := time.Now()
		// behind 200 who take 5 s each it would be 1000 s
		if status, _ := look(t, addr, "/status", nil); status != http.StatusOK || time.Since(began) > 20*time.Second {
			t.Errorf("answered %d after %v", status, time.Since(began))
		}
	}
}

func TestMoreConnectionsThanThereAreAreTurnedAway(t *testing.T) {
	addr := watching(t, observability.Options{})
	open := 0
	for range 600 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // gone with the test
		open++
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // gone with the test
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.1 503") {
		t.Errorf("the one after %d is answered %q", open, b)
	}
}
