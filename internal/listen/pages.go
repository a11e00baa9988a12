package listen

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/corebot/corebot"
)

// Pages tells requests that a web page made from those of programs. The zero value checks origins only.
//
// A page can reach a listener on its reader's own machine in two ways. It may ask it across origins: then the browser
// says so in Origin or Sec-Fetch-Site. Or its name may be made to resolve to 127.0.0.1 (DNS rebinding): then that name
// is in Host, where programs of the machine write an address or localhost. Other machines may know a listener by any
// name, so Host is checked on loopback only; elsewhere a credential is needed.
type Pages struct {
	loopback bool
	all      bool
	names    []string // as fold writes them
}

// NewPages makes the check for a listener. The names are those under which it is known besides, such as that of a proxy
// in front of it, without scheme and port; "*" is all, for Host and for origins. A name that is none is
// [corebot.ErrInvalid].
func NewPages(l net.Listener, names []string) (Pages, error) {
	if err := CheckNames(names); err != nil {
		return Pages{}, err
	}
	p := Pages{loopback: isLoopback(l.Addr()), all: slices.Contains(names, "*")}
	for _, name := range names {
		p.names = append(p.names, fold(name))
	}
	return p, nil
}

// CheckNames finds what is no name of a host, and not "*".
func CheckNames(names []string) error {
	for _, name := range names {
		if name != "*" && (strings.ContainsAny(name, "/:@*? \t") || fold(name) == "") {
			err := fmt.Errorf("%w: allowed_hosts has %q, which is no name of a host", corebot.ErrInvalid, name)
			return corebot.WithHint(err, "write names without scheme and port, such as bot.example.com")
		}
	}
	return nil
}

// isLoopback judges by the address that was bound.
func isLoopback(a net.Addr) bool {
	at, ok := a.(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// Refuse says why a request is not served, and with which status: 421 for a Host that is not this listener's, 403 for a
// page of another origin. A status of zero: it is served.
func (p Pages) Refuse(r *http.Request) (status int, why string) {
	switch {
	case p.all:
		return 0, ""
	case p.loopback && !p.known(r.Host):
		return http.StatusMisdirectedRequest, "Host is not a name of this listener: an address and localhost are, " +
			"and what allowed_hosts of its settings has"
	case !p.sameOrigin(r):
		return http.StatusForbidden, "web pages may not ask here: Origin or Sec-Fetch-Site names another site"
	}
	return 0, ""
}

// Link says whether somebody followed a link, and his browser shows the answer in a tab of its own. No frame has the
// answer, and no page can read it. The page with the link can be of another site. So who serves such a request must
// change nothing by it. A load in advance is no link that was followed.
func Link(r *http.Request) bool {
	h := r.Header
	return r.Method == http.MethodGet && len(h["Origin"]) == 0 && h.Get("Sec-Fetch-Mode") == "navigate" &&
		h.Get("Sec-Fetch-Dest") == "document" && h.Get("Sec-Purpose") == "" && h.Get("Purpose") == ""
}

// known holds for an address, localhost, and the names. No browser leaves Host out.
func (p Pages) known(hostport string) bool {
	name := hostname(hostport)
	if name == "" || name == "localhost" || slices.Contains(p.names, name) {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

func (p Pages) sameOrigin(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		site := r.Header.Get("Sec-Fetch-Site")
		return site == "" || site == "none" || site == "same-origin"
	}
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Host != r.Host && !slices.Contains(p.names, hostname(u.Host)) {
			return false
		}
	}
	return true
}

// hostname is a host without its port, as fold writes it.
func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		hostport = host
	}
	return fold(strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]"))
}

// fold is the one spelling of a name.
func fold(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
