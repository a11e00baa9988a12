package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/corebot/corebot/internal/egress"
)

// names answers look-ups: each name has its addresses, one answer for each look-up of IPv4; the last one stays.
type names struct {
	mu      sync.Mutex
	answers map[string][]string
}

func (n *names) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go n.serve(ours)
		return theirs, nil
	}}
}

// serve answers questions as DNS over TCP.
func (n *names) serve(c net.Conn) {
	defer c.Close() //nolint:errcheck // the end of a test's connection
	buf := make([]byte, 4096)
	for {
		if _, err := c.Read(buf[:2]); err != nil {
			return
		}
		size := int(buf[0])<<8 | int(buf[1])
		read, err := c.Read(buf[:size])
		var m dnsmessage.Message
		if err != nil || m.Unpack(buf[:read]) != nil {
			return
		}
		packed, err := n.reply(m)
		if err != nil {
			return
		}
		if _, err := c.Write(append([]byte{byte(len(packed) >> 8), byte(len(packed))}, packed...)); err != nil {
			return
		}
	}
}

func (n *names) reply(m dnsmessage.Message) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	question := m.Questions[0]
	name := strings.TrimSuffix(question.Name.String(), ".")
	list, known := n.answers[name]
	if !known {
		m.RCode = dnsmessage.RCodeNameError
		return m.Pack()
	}
	for address := range strings.FieldsSeq(list[0]) {
		ip, header := netip.MustParseAddr(address), dnsmessage.ResourceHeader{
			Name:  question.Name,
			Class: dnsmessage.ClassINET,
		}
		switch {
		case ip.Is4() && question.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}})
		case ip.Is6() && question.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: header,
				Body:   &dnsmessage.AAAAResource{AAAA: ip.As16()},
			})
		}
	}
	if question.Type == dnsmessage.TypeA && len(list) > 1 {
		n.answers[name] = list[1:]
	}
	return m.Pack()
}

// server is a web server on a loopback address that counts who comes.
type server struct {
	*httptest.Server
	port  int
	came  atomic.Int32
	asked func(http.ResponseWriter, *http.Request)
}

func serve(t *testing.T, handler http.HandlerFunc, tls bool) *server {
	t.Helper()
	s := &server{asked: handler}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		s.asked(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.came.Add(1)
		}
	}
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	s.port = s.Listener.Addr().(*net.TCPAddr).Port
	return s
}

// at is an address of the server under another name.
func (s *server) at(host, path string) string {
	return fmt.Sprintf("http://%s:%d%s", host, s.port, path)
}

// lenient goes to 127.0.0.1 as well, and to any of these ports.
func lenient(t *testing.T, o egress.Options, ports ...int) *egress.Client {
	t.Helper()
	c, err := egress.New(egress.Targets{
		Domains: []string{"*"}, Ports: ports,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// strict is a client as it is by default, but for the ports.
func strict(t *testing.T, o egress.Options, ports ...int) *egress.Client {
	t.Helper()
	c, err := egress.New(egress.Targets{Domains: []string{"*"}, Ports: append(ports, 80, 443)}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func get(t *testing.T, c *egress.Client, address string) (egress.Response, error) {
	t.Helper()
	return c.Get(t.Context(), egress.Request{URL: address})
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

func TestAPageIsFetched(t *testing.T) {
	s := serve(t, hello, false)
	r, err := get(t, lenient(t, egress.Options{}, s.port), " "+s.URL+"/a?b=c#d ")
	if err != nil || string(r.Body) != "hello" || r.Status != 200 || r.MediaType != "text/plain" || r.Cut ||
		r.URL.String() != s.URL+"/a?b=c" {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestTheSameServerIsRefusedWithoutItsPrefix(t *testing.T) {
	s := serve(t, hello, false)
	n := &names{answers: map[string][]string{
		"inside.test": {"127.0.0.1"}, "both.test": {"127.0.0.1 ::1"},
		"mapped.test": {"::ffff:127.0.0.1"},
	}}
	c := strict(t, egress.Options{Resolver: n.resolver()}, s.port)
	for _, host := range []string{"127.0.0.1", "localhost", "inside.test", "INSIDE.test.", "both.test", "mapped.test"} {
		_, err := get(t, c, s.at(host, "/"))
		if !errors.Is(err, egress.ErrRefused) {
			t.Errorf("%s: %v", host, err)
		}
		if host != "127.0.0.1" && err != nil && strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: the error tells what is inside: %v", host, err)
		}
	}
	if s.came.Load() != 0 {
		t.Errorf("%d connections", s.came.Load())
	}
}

// TestANameThatChangesItsAddressGainsNothing: whoever looks the name up and then fetches it meets two answers.
func TestANameThatChangesItsAddressGainsNothing(t *testing.T) {
	s := serve(t, hello, false)
	n := &names{answers: map[string][]string{"rebind.test": {"93.184.216.34", "127.0.0.1"}}}
	resolver := n.resolver()
	first, err := resolver.LookupHost(t.Context(), "rebind.test")
	if err != nil || first[0] != "93.184.216.34" {
		t.Fatalf("the first answer is %v, %v", first, err)
	}
	if _, err := get(t, strict(t, egress.Options{Resolver: resolver}, s.port),
		s.at("rebind.test", "/")); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("got %v", err)
	}
	if s.came.Load() != 0 {
		t.Error("the second answer was dialled")
	}
}

func TestARedirectIsHeldToTheRulesOfTheFirstRequest(t *testing.T) {
	inside := serve(t, hello, false)
	var to string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chain" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}, false)
	n := &names{answers: map[string][]string{"inside.test": {"127.0.0.2"}}}
	c := lenient(t, egress.Options{Redirects: 5, Resolver: n.resolver()}, s.port, 80, 443)
	for _, to = range []string{
		s.at("127.0.0.2", "/"), s.at("inside.test", "/"), s.at("[::1]", "/"), s.at("[::ffff:127.0.0.2]", "/"),
		"http://169.254.169.254/latest/meta-data/", "//10.0.0.1/",
		"http://[fd00:ec2::254]/", "http://user:pass@127.0.0.1:" + fmt.Sprint(s.port), inside.URL, "file:///etc/passwd",
		"ftp://127.0.0.1/", "gopher://127.0.0.1:6379/_x",
		"javascript:alert(1)", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http:///", "http://[::1",
		"unix:/run/x.sock",
	} {
		for _, path := range []string{"/", "/chain"} {
			if _, err := get(t, c, s.URL+path); err == nil || !errors.Is(err, egress.ErrRefused) &&
				!strings.Contains(err.Error(), "Location") {
				t.Errorf("%s led to %s: %v", path, to, err)
			}
		}
	}
	if inside.came.Load() != 0 {
		t.Error("another port was dialled")
	}
}

func TestRedirectsAreCountedAndNeverLeadFromHTTPSToHTTP(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var left int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &left); err == nil && left > 0 {
			http.Redirect(w, r, fmt.Sprintf("/%d", left-1), http.StatusFound)
		}
	}, false)
	c := lenient(t, egress.Options{Redirects: 5}, s.port)
	if r, err := get(t, c, s.URL+"/5"); err != nil || r.URL.Path != "/0" {
		t.Errorf("five hops: %v, %v", r.URL, err)
	}
	if _, err := get(t, c, s.URL+"/6"); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("six hops: %v", err)
	}
	if r, err := get(t, lenient(t, egress.Options{}, s.port), s.URL+"/1"); err != nil || r.Status != http.StatusFound {
		t.Errorf("none is followed by default: %d, %v", r.Status, err)
	}
	secure := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, s.URL, http.StatusFound) },
		true)
	roots := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	c = lenient(t, egress.Options{Redirects: 5, RootCAs: roots}, s.port, secure.port)
	if _, err := get(t, c, secure.URL); !errors.Is(err, egress.ErrRefused) ||
		!strings.Contains(err.Error(), "https to http") {
		t.Errorf("from https to http: %v", err)
	}
	s.asked = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, secure.URL+"/done", http.StatusFound)
	}
	secure.asked = hello
	if r, err := get(t, c, s.URL); err != nil || string(r.Body) != "hello" {
		t.Errorf("from http to https: %+v, %v", r, err)
	}
	if _, err := get(t, lenient(t, egress.Options{}, secure.port), secure.URL); err == nil {
		t.Error("a certificate of nobody was trusted")
	}
}

func TestWhatWasMeantForTheFirstAddressStaysThere(t *testing.T) {
	var got http.Header
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header }, false)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "secret" {
			t.Error("the first address did not get the header")
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		http.Redirect(w, r, other.URL, http.StatusFound)
	}, false)
	c := lenient(t, egress.Options{Redirects: 1}, s.port, other.port)
	_, err := c.Get(t.Context(), egress.Request{
		URL:    s.URL + "/?q=private",
		Header: http.Header{"X-Token": {"secret"}, "Authorization": {"Bearer x"}, "Accept": {"text/html"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"X-Token", "Authorization", "Cookie", "Referer"} {
		if got.Get(name) != "" {
			t.Errorf("%s: %s", name, got.Get(name))
		}
	}
	if got.Get("Accept") != "text/html" || got.Get("User-Agent") == "" {
		t.Errorf("the next address got %v", got)
	}
}

// TestNoProxyIsUsed runs once more in a process of its own: net/http reads the variables once in the life of a process.
func TestNoProxyIsUsed(t *testing.T) {
	if os.Getenv("HTTP_PROXY") != unreachable {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxyIsUsed$")
		for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
			cmd.Env = append(cmd.Env, name+"="+unreachable)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	s := serve(t, hello, false)
	// net/http takes no proxy to a loopback address that is written as one
	n := &names{answers: map[string][]string{"page.test": {"127.0.0.1"}}}
	if r, err := get(t, lenient(t, egress.Options{Resolver: n.resolver()}, s.port, 1),
		s.at("page.test", "/")); err != nil || string(r.Body) != "hello" {
		t.Errorf("%q, %v", r.Body, err)
	}
}

const unreachable = "http://127.0.0.1:1"

func TestOnlyAllowedDomainsAndPortsAreAsked(t *testing.T) {
	for pattern, hosts := range map[string]map[string]bool{
		"example.com": {
			"example.com": true, "EXAMPLE.com.": true, "www.example.com": false,
			"example.com.evil.test": false, "notexample.com": false,
		},
		"*.example.com": {
			"a.example.com": true, "a.b.Example.com": true, "example.com": false,
			"aexample.com": false,
		},
		"*":               {"anything.test": true},
		"bücher.example":  {"xn--bcher-kva.example": true, "BÜCHER.example": true, "bucher.example": false},
		"93.184.216.34":   {"93.184.216.34": true, "93.184.216.35": false},
		"2606:4700::1111": {"[2606:4700::1111]": true, "[2606:4700:0::1111]": true, "[2606:4700::1112]": false},
		"":                {"example.com": false}, // no entry at all
	} {
		targets := egress.Targets{Ports: []int{80, 8080}}
		if pattern != "" {
			targets.Domains = []string{pattern}
		}
		ended, end := context.WithCancelCause(t.Context())
		end(errors.New("asked")) // the end of the context comes after the check and before the network
		c, err := egress.New(targets, egress.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for host, want := range hosts {
			for port, open := range map[string]bool{
				"": true, ":80": true, ":8080": true, ":81": false, ":0": false,
				":65536": false,
			} {
				_, err := c.Get(ended, egress.Request{URL: "http://" + host + port + "/"})
				if got := !errors.Is(err, egress.ErrRefused); got != (want && open) {
					t.Errorf("%q asked for %s%s: %v", pattern, host, port, err)
				}
			}
		}
	}
}

func TestTargetsThatMeanNothingAreRefused(t *testing.T) {
	for _, bad := range []egress.Targets{
		{Domains: []string{""}},
		{Domains: []string{"http://example.com"}},
		{Domains: []string{"example.com/x"}},
		{Domains: []string{"example.com:80"}},
		{Domains: []string{"a b"}},
		{Domains: []string{"*.*"}},
		{Domains: []string{"ex*mple.com"}},
		{Domains: []string{"*.10.0.0.1"}},
		{Domains: []string{"0x7f.1"}},
		{Domains: []string{"**"}},
		{Domains: []string{"*."}},
		{Ports: []int{0}},
		{Ports: []int{-1}},
		{Ports: []int{65536}},
		{Private: []netip.Prefix{{}}},
		{Private: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	for _, bad := range []egress.Options{{Timeout: -1}, {MaxBody: -1}, {Redirects: -1}} {
		if _, err := egress.New(egress.Targets{}, bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestTheDeadlineHoldsEverywhere(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	slow := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		for r.Context().Err() == nil {
			fmt.Fprint(w, "x")
			w.(http.Flusher).Flush()
			select {
			case <-release:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"before the answer": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		},
		"within the body": slow,
	} {
		s := serve(t, handler, false)
		began := time.Now()
		_, err := get(t, lenient(t, egress.Options{Timeout: 60 * time.Millisecond}, s.port), s.URL)
		if err == nil || !strings.Contains(err.Error(), "too long") || time.Since(began) > 10*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(began))
		}
		stopped, stop := context.WithCancelCause(t.Context())
		cause := errors.New("stopped by the user")
		time.AfterFunc(20*time.Millisecond, func() { stop(cause) })
		if _, err := lenient(t, egress.Options{}, s.port).Get(stopped, egress.Request{URL: s.URL}); !errors.Is(err,
			cause) {
			t.Errorf("%s, stopped: %v", name, err)
		}
	}
}

func TestAnErrorDoesNotSpellAPassword(t *testing.T) {
	for _, address := range []string{
		"http://me:hunter2@example.com/", "http://me:hunter2@exa mple.com/",
		"ftp://me:hunter2@example.com",
	} {
		if _, err := get(t, strict(t, egress.Options{}), address); !errors.Is(err, egress.ErrRefused) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
	var failed *url.Error
	if _, err := get(t, lenient(t, egress.Options{}, 1), "http://127.0.0.1:1/"); err == nil || errors.As(err, &failed) {
		t.Errorf("nobody listens: %v", err)
	}
}
