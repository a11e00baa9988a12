package listen_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/listen"
)

// bound is a listener that is only known to be somewhere.
type bound struct {
	net.Listener
	at string
}

func (b bound) Addr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(b.at), Port: 8788} }

func pages(t *testing.T, at string, names ...string) listen.Pages {
	t.Helper()
	p, err := listen.NewPages(bound{at: at}, names)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func refused(p listen.Pages, host string, headers ...string) int {
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	status, _ := p.Refuse(r)
	return status
}

func TestOnLoopbackOnlyAddressesLocalhostAndConfiguredNamesAreHosts(t *testing.T) {
	p := pages(t, "127.0.0.1", "Bot.example.com")
	for _, host := range []string{
		"127.0.0.1:8788", "127.0.0.1", "localhost", "LOCALHOST:8788", "localhost.",
		"[::1]:8788", "[::1]", "10.1.2.3", "bot.example.com", "BOT.example.com.:443", "",
	} {
		if got := refused(p, host); got != 0 {
			t.Errorf("Host %q is refused with %d", host, got)
		}
	}
	for _, host := range []string{
		"evil.example", "evil.example:8788", "localhost.evil.example", "127.0.0.1.nip.io",
		"bot.example.com.evil.example", "xlocalhost", "2130706433", "0x7f000001", "127.1",
		"localhost@evil.example", "evil.example#localhost", "::1]evil", "[evil.example]", "localhost:1:2", " localhost",
		"127.0.0.1, evil.example",
	} {
		if got := refused(p, host); got != http.StatusMisdirectedRequest {
			t.Errorf("Host %q is answered %d", host, got)
		}
	}
	if got := refused(pages(t, "192.168.0.7"), "bot.lan:8788"); got != 0 {
		t.Errorf("a name of a listener elsewhere is refused with %d", got)
	}
}

func TestPagesOfOtherOriginsAreRefusedWhereverTheListenerIs(t *testing.T) {
	for _, at := range []string{"127.0.0.1", "0.0.0.0"} {
		p := pages(t, at, "bot.example.com")
		for _, headers := range [][]string{
			{"Origin", "http://evil.example"},
			{"Origin", "null"},
			{"Origin", ""},
			{"Origin", "http://localhost:3000"},
			{"Origin", "http://127.0.0.1"},
			{"Origin", "http://127.0.0.1:8788.evil.example"},
			{"Origin", "http://127.0.0.1:8788", "Origin", "http://evil.example"},
			{"Origin", "file://"},
			{"Origin", "%zz"},
			{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"},
		} {
			if got := refused(p, "127.0.0.1:8788", headers...); got != http.StatusForbidden {
				t.Errorf("%v at %s is answered %d", headers, at, got)
			}
		}
		for _, headers := range [][]string{
			nil,
			{"Origin", "http://127.0.0.1:8788"},
			{"Origin", "https://bot.example.com"},
			{"Sec-Fetch-Site", "none"},
			{"Sec-Fetch-Site", "same-origin"},
		} {
			if got := refused(p, "127.0.0.1:8788", headers...); got != 0 {
				t.Errorf("%v at %s is refused with %d", headers, at, got)
			}
		}
	}
}

// A link that a person follows is the one request of another site's page that can be answered.
func TestOnlyALinkThatSomebodyFollowsIsOne(t *testing.T) {
	ask := func(method string, headers ...string) bool {
		r := httptest.NewRequest(method, "/", nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return listen.Link(r)
	}
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	if !ask("GET", link...) || !ask("GET", append(link, "Sec-Fetch-User", "?1")...) {
		t.Error("a link is none")
	}
	for _, other := range [][]string{
		{"POST"},
		{"HEAD"},
		{"DELETE"},
		{"GET", "Origin", "http://evil.example"},
		{"GET", "Origin", "null"},
		{"GET", "Sec-Purpose", "prefetch"},
		{"GET", "Sec-Purpose", "prefetch;prerender"},
		{"GET", "Purpose", "prefetch"},
		{"GET", "Sec-Fetch-Mode", "no-cors"},
		{"GET", "Sec-Fetch-Mode", "cors"},
		{"GET", "Sec-Fetch-Mode", "websocket"},
		{"GET", "Sec-Fetch-Mode", ""},
		{"GET", "Sec-Fetch-Dest", "iframe"},
		{"GET", "Sec-Fetch-Dest", "frame"},
		{"GET", "Sec-Fetch-Dest", "embed"},
		{"GET", "Sec-Fetch-Dest", "object"},
		{"GET", "Sec-Fetch-Dest", "fencedframe"},
		{"GET", "Sec-Fetch-Dest", "image"},
		{"GET", "Sec-Fetch-Dest", "script"},
		{"GET", "Sec-Fetch-Dest", "empty"},
		{"GET", "Sec-Fetch-Dest", ""},
	} {
		if ask(other[0], append(slices.Clone(link), other[1:]...)...) {
			t.Errorf("%v is a link", other)
		}
	}
}

func TestAStarAllowsAllAndWhatIsNoNameIsRefused(t *testing.T) {
	if got := refused(pages(t, "127.0.0.1", "*"), "any.example", "Origin", "http://other.example"); got != 0 {
		t.Errorf("with * it is refused with %d", got)
	}
	for _, name := range []string{"http://a", "a:1", "", ".", "*.a", "a b", "a/b", "u@a"} {
		if _, err := listen.NewPages(bound{at: "127.0.0.1"}, []string{name}); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func FuzzNoOtherHostIsTakenForThisListener(f *testing.F) {
	for _, s := range []string{
		"localhost", "127.0.0.1:1", "[::1]:8788", "evil.example", "localhost%00", "[::1%25lo]",
		"ⓛocalhost", "localhost\n",
	} {
		f.Add(s)
	}
	p, err := listen.NewPages(bound{at: "127.0.0.1"}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if refused(p, host) != 0 {
			return
		}
		// The served host has only letters of localhost and of an IPv6 address, so nobody could register it as a name.
		rest := strings.NewReplacer("localhost", "").Replace(strings.ToLower(host))
		if at := strings.IndexByte(rest, '%'); at >= 0 { // a zone
			rest = rest[:at]
		}
		if name, _, err := net.SplitHostPort(rest); err == nil {
			rest = name
		}
		if strings.Trim(rest, "0123456789abcdef.:[]") != "" {
			t.Errorf("Host %q is served", host)
		}
	})
}
