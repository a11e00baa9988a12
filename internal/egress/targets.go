package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/corebot/corebot"
)

// maxURL bounds an address, in bytes.
const maxURL = 8 << 10

// Targets are where a [Client] may go. The zero value is nowhere.
type Targets struct {
	Domains []string // a name or an address is itself, *.x is every name below x but not x, * is all
	Ports   []int
	Private []netip.Prefix // addresses that may be dialled though they are not public
}

// targets are [Targets] that were checked.
type targets struct {
	all     bool
	exact   []string
	below   []string // with the leading dot
	ports   []int
	private []netip.Prefix
	locals  *locals
}

// Check says what is wrong with targets, without making a client.
func (t Targets) Check() error {
	_, err := t.parse()
	return err
}

func (t Targets) parse() (targets, error) {
	out := targets{locals: &locals{read: readLocal}}
	for _, entry := range t.Domains {
		if entry == "*" {
			out.all = true
			continue
		}
		name, wild := strings.CutPrefix(entry, "*.")
		host, err := normalHost(name)
		if err != nil || strings.Contains(host, "*") || wild && isAddress(host) {
			return targets{}, fmt.Errorf("%w: %q is no domain: want a name, *.name for the names below it, or *",
				corebot.ErrInvalid, entry)
		}
		if wild {
			out.below = append(out.below, "."+host)
		} else {
			out.exact = append(out.exact, host)
		}
	}
	for _, port := range t.Ports {
		if port < 1 || port > 65535 {
			return targets{}, fmt.Errorf("%w: %d is no port: want 1 to 65535", corebot.ErrInvalid, port)
		}
	}
	for _, p := range t.Private {
		if !p.IsValid() || p.Addr().Is4In6() {
			return targets{}, fmt.Errorf("%w: %q is no range of addresses: want one such as 10.0.0.0/8 or fd00::/8",
				corebot.ErrInvalid, p)
		}
		out.private = append(out.private, p.Masked())
	}
	out.ports = slices.Clone(t.Ports)
	return out, nil
}

// parseURL reads an address and checks what can be known without a look-up.
func (t targets) parseURL(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if len(raw) > maxURL || !utf8.ValidString(raw) {
		return nil, fmt.Errorf("%w: an address of %d bytes: want text of at most %d", ErrRefused, len(raw), maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil { // not wrapped: it quotes what may have a password in it
		return nil, fmt.Errorf("%w: the address cannot be read as one: want https://host/path", ErrRefused)
	}
	return u, t.check(u)
}

// check refuses what may not be asked, and writes the host in its plain form, so that what was checked is what is
// looked up.
func (t targets) check(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%w: the scheme %q: want http or https", ErrRefused, u.Scheme)
	}
	if u.User != nil {
		return fmt.Errorf("%w: an address with a name or a password in it", ErrRefused)
	}
	host, err := normalHost(u.Hostname())
	if err != nil || u.Opaque != "" {
		return fmt.Errorf("%w: %q has no host that can be asked", ErrRefused, u.Redacted())
	}
	if !t.allows(host) {
		return fmt.Errorf("%w: %s is not among the allowed domains", ErrRefused, host)
	}
	port, err := portOf(u)
	if err != nil || !slices.Contains(t.ports, port) {
		return fmt.Errorf("%w: %s is not on an allowed port", ErrRefused, u.Host)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if err := t.permit(ip); err != nil {
			return err
		}
	}
	u.Host = hostPort(host, u.Port())
	u.Fragment, u.RawFragment = "", ""
	return nil
}

func (t targets) allows(host string) bool {
	return t.all || slices.Contains(t.exact, host) ||
		slices.ContainsFunc(t.below, func(suffix string) bool {
			return strings.HasSuffix(host, suffix) &&
				!isAddress(host)
		})
}

var errHost = errors.New("no host")

// normalHost gives the one spelling of a host. It is an IP address as netip writes it, or a name in ASCII, in lower
// case, without the dot of the root. It refuses a number that is not written as an IP address: resolvers differ about
// what 0x7f.1 is.
func normalHost(host string) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String(), nil
	}
	ascii, err := toASCII(host)
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(strings.ToLower(ascii), ".")
	if ip, err := netip.ParseAddr(name); err == nil { // it was in other digits, or had a dot behind it
		return ip.String(), nil
	}
	if name == "" || len(name) > 253 || strings.ContainsFunc(name, notInName) {
		return "", errHost
	}
	labels := strings.Split(name, ".")
	if slices.ContainsFunc(labels, func(l string) bool { return l == "" || len(l) > 63 }) ||
		isNumber(labels[len(labels)-1]) {
		return "", errHost
	}
	return name, nil
}

// toASCII is what net/http does before it looks a name up.
func toASCII(host string) (string, error) {
	if strings.IndexFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return host, nil
	}
	return idna.Lookup.ToASCII(host)
}

// notInName: names of hosts are letters, digits and hyphens, and those of some are written with underscores.
func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// isNumber holds for a last label with which resolvers take a name for an IPv4 address.
func isNumber(label string) bool {
	_, err := strconv.ParseUint(label, 0, 64)
	return err == nil || strings.Trim(label, "0123456789") == "" || strings.HasPrefix(label, "0x")
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func portOf(u *url.URL) (int, error) {
	switch {
	case u.Port() != "":
		return strconv.Atoi(u.Port())
	case u.Scheme == "https":
		return 443, nil
	}
	return 80, nil
}

func hostPort(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" {
		return host
	}
	return host + ":" + port
}
