package egress_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/egress"
)

// goodTest is a name that leads to this machine.
func goodTest() *names { return &names{answers: map[string][]string{"good.test": {"127.0.0.1"}}} }

// say sends bytes to a proxy and gives the answer.
func say(t *testing.T, at, request string) (*http.Response, error) {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck // the end of the test
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, request)
	return http.ReadResponse(bufio.NewReader(conn), nil)
}

// TestAProxyAddsNothingToARequest: the address says which host is asked, and no header can say another.
func TestAProxyAddsNothingToARequest(t *testing.T) {
	var hosts, headers []string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		headers = append(headers, slices.Sorted(maps.Keys(r.Header))...)
	}, false)
	at, _ := proxyTo(t, []string{"good.test"}, goodTest(), s.port)
	for range 2 {
		answer, err := say(t, at, "GET "+s.at("good.test", "/")+" HTTP/1.1\r\nHost: inside.test\r\nX-Mine: a\r\n"+
			"Proxy-Authorization: Basic x\r\nConnection: X-Hop\r\nX-Hop: b\r\n\r\n")
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%+v, %v", answer, err)
		}
	}
	good := fmt.Sprintf("good.test:%d", s.port)
	if !slices.Equal(hosts, []string{good, good}) || !slices.Equal(headers, []string{
		"Connection", "X-Mine", "Connection",
		"X-Mine",
	}) {
		t.Errorf("it asked %q with %q", hosts, headers)
	}
	// Each request has a connection of its own, whose address was checked.
	if s.came.Load() != 2 {
		t.Errorf("%d connections arrived", s.came.Load())
	}
}

func TestAProxyBoundsTheHeadersOfAnAnswer(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("a", 100<<10))
	}, false)
	at, _ := proxyTo(t, []string{"good.test"}, goodTest(), s.port)
	answer, err := through(at).Get(s.at("good.test", "/"))
	if err != nil || answer.StatusCode != http.StatusBadGateway {
		t.Errorf("%+v, %v", answer, err)
	}
}

func TestAProxyServesSoManyConnectionsAndNoMore(t *testing.T) {
	s := serve(t, hello, false)
	at, _ := proxyTo(t, []string{"good.test"}, goodTest(), s.port)
	var open []net.Conn
	for range 64 {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // the end of the test
		open = append(open, conn)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := through(at).Get(s.at("good.test", "/"))
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("one more is answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	_ = open[0].Close()
	if err := <-answered; err != nil {
		t.Errorf("once one has ended: %v", err)
	}
}

// TestTheVisitsAreFewAndShort: the last line of a result names them, and a program chooses the names.
func TestTheVisitsAreFewAndShort(t *testing.T) {
	at, v := proxyTo(t, []string{"good.test"}, goodTest(), 1)
	for i := range 40 {
		connect(t, at, fmt.Sprintf("%d-%s.test:443", i, strings.Repeat("a", 500)))
	}
	said := v.String()
	if !strings.HasSuffix(said, ", 8 more") || len(said) > 32*400 {
		t.Errorf("%d bytes, which end with %.20q", len(said), said[max(0, len(said)-20):])
	}
}

// TestAProxySaysNothingOfAddresses: what a name leads to, and why it does not answer, is nothing for a program.
func TestAProxySaysNothingOfAddresses(t *testing.T) {
	at, v := proxyTo(t, []string{"good.test"}, goodTest(), 1)
	answer, err := through(at).Get("http://good.test:1/")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if said := string(body) + v.String(); err != nil || strings.Contains(said, "127.0.0.1") ||
		answer.StatusCode != http.StatusBadGateway || strings.Count(said, "no connection") != 2 {
		t.Errorf("%d, %q, %v", answer.StatusCode, said, err)
	}
}

func TestAProxyWaitsForNobodyForEver(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() //nolint:errcheck // the end of the test
	port := silent.Addr().(*net.TCPAddr).Port
	p, err := egress.NewHastyProxy(egress.Targets{
		Domains: []string{"good.test"}, Ports: []int{port},
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}, egress.Options{Resolver: goodTest().resolver()}, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := served(t, p)
	answer, err := say(t, at, fmt.Sprintf("GET http://good.test:%d/ HTTP/1.1\r\nHost: a\r\n\r\n", port))
	if err != nil || answer.StatusCode != http.StatusBadGateway {
		t.Errorf("no answer: %+v, %v", answer, err)
	}
	for what, request := range map[string]string{
		"half a request":           "GET http://good.test/",
		"nothing in a tunnel":      fmt.Sprintf("CONNECT good.test:%d HTTP/1.1\r\n\r\n", port),
		"nothing behind a request": "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, request)
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays", what)
		}
		_ = conn.Close()
	}
}
