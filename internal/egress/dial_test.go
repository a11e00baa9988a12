package egress_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/egress"
)

func TestWhoeverDialsIsHeldToTheRulesOfAFetch(t *testing.T) {
	s := serve(t, hello, false)
	n := &names{answers: map[string][]string{"inside.test": {"127.0.0.1"}, "good.test": {"127.0.0.1"}}}
	c := strict(t, egress.Options{Resolver: n.resolver()}, s.port)
	for _, host := range []string{
		"127.0.0.1", "localhost", "inside.test", "[::1]", "169.254.169.254", "0x7f.1", "",
		"in\x00side.test",
	} {
		conn, err := c.Dial(t.Context(), "tcp", strings.TrimPrefix(s.at(host, ""), "http://"))
		if !errors.Is(err, egress.ErrRefused) || conn != nil {
			t.Errorf("%s: %v", host, err)
		}
		if host == "inside.test" && err != nil && strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("the error tells what is inside: %v", err)
		}
	}
	for _, network := range []string{"udp", "unix"} {
		if _, err := c.Dial(t.Context(), network, "127.0.0.1:80"); err == nil {
			t.Errorf("a connection over %s", network)
		}
	}
	if s.came.Load() != 0 {
		t.Errorf("%d connections", s.came.Load())
	}
	named, err := egress.New(egress.Targets{Domains: []string{"other.test"}, Ports: []int{80}}, egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := named.Dial(t.Context(), "tcp", "good.test:80"); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("another domain: %v", err)
	}
	conn, err := lenient(t, egress.Options{}, s.port).Dial(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close() // that it is there is all
}

func TestConnectionsCanBeMadeBySomebodyElse(t *testing.T) {
	s := serve(t, hello, false)
	asked := ""
	c := strict(t, egress.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		asked = network + " " + address
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(s.URL, "http://"))
	}}, s.port)
	r, err := get(t, c, s.at("elsewhere.test", "/a"))
	if err != nil || string(r.Body) != "hello" || !strings.HasPrefix(asked, "tcp elsewhere.test:") {
		t.Errorf("asked for %q: %+v, %v", asked, r, err)
	}
	asked = ""
	if _, err := get(t, c, "http://127.0.0.1/"); !errors.Is(err, egress.ErrRefused) || asked != "" {
		t.Errorf("an address that is written out is not checked: asked for %q, %v", asked, err)
	}
}
