package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/egress"
)

// proxyTo serves a proxy for some domains and ports. Loopback is open to it, as the place of servers that stand in for
// domains.
func proxyTo(t *testing.T, domains []string, n *names, ports ...int) (at string, v *egress.Visits) {
	t.Helper()
	return proxyFor(t, egress.Targets{
		Domains: domains, Ports: ports, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}, n)
}

func proxyFor(t *testing.T, to egress.Targets, n *names) (at string, v *egress.Visits) {
	t.Helper()
	p, err := egress.NewProxy(to, egress.Options{Resolver: n.resolver()})
	if err != nil {
		t.Fatal(err)
	}
	return served(t, p)
}

func served(t *testing.T, p *egress.Proxy) (at string, v *egress.Visits) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v = &egress.Visits{}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done }) //nolint:errcheck // the end of the test
	go func() { p.Serve(l, v); close(done) }()
	return l.Addr().String(), v
}

// through is an HTTP client whose only way is a proxy.
func through(at string) *http.Client {
	proxy := &url.URL{Scheme: "http", Host: at}
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		Proxy: http.ProxyURL(proxy), DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
}

// connect says CONNECT and gives the status.
func connect(t *testing.T, at, target string) int {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the end of the test
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return 0
	}
	return answer.StatusCode
}

func TestAProxyLeadsToItsDomains(t *testing.T) {
	plain, secret := serve(t, hello, false), serve(t, hello, true)
	n := &names{answers: map[string][]string{"good.test": {"127.0.0.1"}, "api.good.test": {"127.0.0.1"}}}
	at, v := proxyTo(t, []string{"good.test", "*.good.test"}, n, plain.port, secret.port)
	for _, address := range []string{
		plain.at("good.test", "/"), plain.at("GOOD.test.", "/"), plain.at("api.good.test", "/"),
		strings.Replace(secret.at("good.test", "/"), "http:", "https:", 1),
	} {
		answer, err := through(at).Get(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil || string(body) != "hello" {
			t.Errorf("%s: %q, %v", address, body, err)
		}
		_ = answer.Body.Close()
	}
	if said := v.String(); !strings.Contains(said, "api.good.test") || strings.Contains(said, "refused") {
		t.Errorf("the visits: %q", said)
	}
}

// TestAProxyLeadsNowhereElse: whatever a target is called, nobody is reached and no refused name is looked up.
func TestAProxyLeadsNowhereElse(t *testing.T) {
	s := serve(t, hello, false)
	n := &names{answers: map[string][]string{
		"inside.test": {"127.0.0.1"}, "meta.test": {"169.254.169.254"}, "mapped.test": {"::ffff:127.0.0.1"},
		"ten.test": {"10.0.0.1"}, "six.test": {"::1"}, "other.test": {"127.0.0.1"},
		"rebinds.test": {"127.0.0.1 10.0.0.1"},
	}}
	listed := []string{"inside.test", "meta.test", "mapped.test", "ten.test", "six.test", "rebinds.test", "localhost"}
	at, v := proxyFor(t, egress.Targets{Domains: listed, Ports: []int{s.port, 80, 443}}, n)
	everywhere, _ := proxyFor(t, egress.Targets{Domains: []string{"*"}, Ports: []int{s.port, 80, 443}}, n)
	port := fmt.Sprint(s.port)
	for _, host := range []string{
		"inside.test", "meta.test", "mapped.test", "ten.test", "six.test", "rebinds.test", "other.test",
		"localhost", "localhost.", "LOCALHOST", "127.0.0.1", "127.1", "0x7f.1", "2130706433", "0", "0.0.0.0", "[::1]",
		"[::ffff:127.0.0.1]", "[::]", "[fe80::1%25lo]", "169.254.169.254", "10.0.0.1", "192.168.0.1", "１２７.0.0.1",
		"127.0.0.1.", "inside.test\\@good.test", "", "*", "inside.test%00", "xn--", "in side.test",
		strings.Repeat("a", 300) + ".test",
	} {
		for _, at := range []string{at, everywhere} {
			if status := connect(t, at, host+":"+port); status == http.StatusOK {
				t.Errorf("CONNECT %s: %d", host, status)
			}
		}
	}
	for _, target := range []string{
		"inside.test:22", "inside.test:0", "inside.test:65536", "inside.test:", "inside.test", "/", "inside.test:http",
		"8.8.8.8:443", "[2001:4860:4860::8888]:443", "http://inside.test:80/",
	} {
		if status := connect(t, everywhere, target); status == http.StatusOK {
			t.Errorf("CONNECT %s: %d", target, status)
		}
	}
	for _, address := range []string{
		s.at("inside.test", "/"), s.at("127.0.0.1", "/"), s.at("localhost", "/"), s.at("meta.test", "/"),
	} {
		answer, err := through(at).Get(address)
		if err == nil && answer.StatusCode == http.StatusOK {
			t.Errorf("GET %s was answered", address)
		}
	}
	if s.came.Load() != 0 {
		t.Errorf("%d connections arrived", s.came.Load())
	}
	said := v.String()
	if strings.Count(said, "(refused") != strings.Count(said, "(") || strings.Contains(said, "dial tcp") ||
		!strings.Contains(said, "a loopback address") {
		t.Errorf("the visits: %q", said)
	}
}

// TestAProxyDoesNotFollowARedirect: the program gets it as it is, and asks for the next address itself.
func TestAProxyDoesNotFollowARedirect(t *testing.T) {
	s := serve(t, nil, false)
	s.asked = func(w http.ResponseWriter, r *http.Request) {
		if r.Host != fmt.Sprintf("good.test:%d", s.port) || r.Header.Get("X-Forwarded-For") != "" ||
			r.Header.Get("Proxy-Authorization") != "" {
			t.Errorf("asked as %s with %v", r.Host, r.Header)
		}
		http.Redirect(w, r, s.at("inside.test", "/secret"), http.StatusFound)
	}
	n := &names{answers: map[string][]string{"good.test": {"127.0.0.1"}, "inside.test": {"127.0.0.1"}}}
	at, _ := proxyTo(t, []string{"good.test"}, n, s.port)
	client := through(at)
	answer, err := client.Get(s.at("good.test", "/"))
	if err != nil || answer.StatusCode != http.StatusForbidden || s.came.Load() != 1 {
		t.Errorf("%+v, %v; %d connections arrived", answer, err, s.came.Load())
	}
}

func TestAProxyWantsARequestToSomebodyElse(t *testing.T) {
	at, _ := proxyTo(t, []string{"*"}, &names{}, 80)
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n", "GET https://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"GET ftp://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"GET http://ann:pw@good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"GET http:///x HTTP/1.1\r\nHost: good.test\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(conn, request)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %+v, %v", request, answer, err)
		}
		_ = conn.Close()
	}
}

// TestTheEndOfAProxyEndsItsTunnels: a program that is gone leaves no connection behind.
func TestTheEndOfAProxyEndsItsTunnels(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close() //nolint:errcheck // the end of the test
	port := upstream.Addr().(*net.TCPAddr).Port
	p, err := egress.NewProxy(egress.Targets{
		Domains: []string{"good.test"}, Ports: []int{port},
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}, egress.Options{Resolver: (&names{answers: map[string][]string{"good.test": {"127.0.0.1"}}}).resolver()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { p.Serve(l, &egress.Visits{}); close(done) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the end of the test
	fmt.Fprintf(conn, "CONNECT good.test:%d HTTP/1.1\r\n\r\n", port)
	there, err := upstream.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close() //nolint:errcheck // the end of the test
	in := bufio.NewReader(conn)
	if answer, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect}); err != nil ||
		answer.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", answer, err)
	}
	_, _ = io.WriteString(conn, "ping")
	if text := make([]byte, 4); readAll(there, text) != nil || string(text) != "ping" {
		t.Errorf("%q arrived", text)
	}
	_, _ = io.WriteString(there, "pong")
	if text := make([]byte, 4); readAll(in, text) != nil || string(text) != "pong" {
		t.Errorf("%q came back", text)
	}
	_ = l.Close()
	<-done
	for _, c := range []net.Conn{conn, there} {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("a tunnel stays open: %d, %v", n, err)
		}
	}
}

func readAll(r io.Reader, into []byte) error {
	_, err := io.ReadFull(r, into)
	return err
}
