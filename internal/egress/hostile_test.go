package egress_test

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/egress"
)

// hostileURLs lead inside, or nowhere that may be asked, in all spellings that somebody has tried on somebody.
var hostileURLs = []string{
	// loopback
	"http://127.0.0.1/", "http://127.0.0.1:443/", "http://127.1/", "http://127.0.1/", "http://127.255.255.254/",
	"http://0177.0.0.1/", "http://0177.0.0.01/", "http://0x7f.0.0.1/",
	"http://0x7f000001/", "http://0X7F000001/", "http://2130706433/", "http://017700000001/", "http://00000177.0.0.1/",
	"http://127.0.0.1./", "http://127.0.0.1../",
	"http://127.0.0.0x1/", "http://0/", "http://0.0.0.0/", "http://00/", "http://[::]/", "http://[::1]/",
	"http://[0:0:0:0:0:0:0:1]/", "http://[::1%25lo]/",
	"http://localhost/", "http://LOCALHOST./", "http://ⓛocalhost/", "http://１２７.０.０.１/", "http://①②⑦.⓪.⓪.①/",
	"http://127。0。0。1/", "http://127%2e0%2e0%2e1/", "http://%31%32%37.0.0.1/",
	// IPv4 inside IPv6
	"http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[::ffff:8.8.8.8]/", "http://[::127.0.0.1]/",
	"http://[::8.8.8.8]/", "http://[64:ff9b::7f00:1]/",
	"http://[64:ff9b::808:808]/", "http://[64:ff9b:1::a00:1]/", "http://[2002:7f00:1::]/", "http://[2002:a00:1::1]/",
	"http://[2001:0:7f00:1::]/", "http://[2001::1]/",
	"http://[2606:4700::5efe:10.0.0.1]/", "http://[2606:4700::200:5efe:a00:1]/", "http://[::ffff:0:127.0.0.1]/",
	// private, shared, link-local, metadata
	"http://10.0.0.1/", "http://10.255.255.255/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.0.1/",
	"http://100.64.0.1/", "http://100.100.100.200/",
	"http://169.254.169.254/latest/meta-data/", "http://169.254.1.1/", "http://0xa9fea9fe/", "http://2852039166/",
	"http://0251.0376.0251.0376/", "http://169.254.43518/", "http://[fd00:ec2::254]/",
	"http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fc00::1]/", "http://[fdff::1]/", "http://[fec0::1]/",
	"http://168.63.129.16/", "http://192.0.0.192/",
	// multicast, broadcast, documentation, benchmark, reserved
	"http://224.0.0.1/", "http://239.255.255.250/", "http://255.255.255.255/", "http://240.0.0.1/", "http://192.0.2.1/",
	"http://198.51.100.7/", "http://203.0.113.9/", "http://198.18.0.1/",
	"http://192.88.99.1/", "http://[ff02::1]/", "http://[2001:db8::1]/", "http://[3fff::1]/", "http://[2001:2::1]/",
	"http://[100::1]/", "http://[4000::1]/", "http://[2001:20::1]/", "http://[5f00::1]/",
	// schemes, credentials, ports, shapes
	"file:///etc/passwd", "ftp://example.com/", "gopher://example.com:70/_x", "dict://example.com:11211/stats",
	"ldap://example.com/", "javascript:alert(1)", "data:text/html,x", "unix:///run/docker.sock",
	"http+unix://%2frun%2fdocker.sock/", "ws://example.com/", "view-source:http://example.com/", "//example.com/",
	"example.com", "/etc/passwd", "", " ", "http:", "http://", "http:///x", "http:example.com",
	"http:/example.com", "http://user@example.com/", "http://user:pass@example.com/", "http://:@example.com/",
	"http://example.com@127.0.0.1/", "http://127.0.0.1#@example.com/", "http://127.0.0.1?@example.com/",
	"http://127.0.0.1\\@example.com/", "http://example.com:22/", "http://example.com:6379/", "http://example.com:0/",
	"http://example.com:99999/", "http://example.com:-80/", "http://example.com:80:80/",
	"http://example.com:８０/", "http://exa mple.com/", "http://example.com\r\nHost: inside/",
	"http://example.com/\r\nX: y", "http://exam\x00ple.com/", "http://example..com/", "http://.example.com/",
	"http://-/\x7f",
	"http://[::1/", "http://::1/", "http://[v1.x]/", "http://[example.com]/", "http://1.1.1.1.1/", "http://1.1.1/",
	"http://256.1.1.1/", "http://example.0x7f/", "http://a.b.123/", "http://\xff\xfe/",
}

func TestNoHostileURLIsAsked(t *testing.T) {
	if len(hostileURLs) < 60 {
		t.Fatalf("only %d", len(hostileURLs))
	}
	c := strict(t, egress.Options{Resolver: (&names{}).resolver(), Redirects: 5})
	for _, address := range hostileURLs {
		if r, err := get(t, c, address); !errors.Is(err, egress.ErrRefused) {
			t.Errorf("%q: %+v, %v", address, r.Status, err)
		}
	}
	if _, err := get(t, c, "http://example.com/"+strings.Repeat("x", 9<<10)); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("a very long one: %v", err)
	}
}

func TestANameThatLeadsInsideIsRefusedWhateverTheAddress(t *testing.T) {
	for _, address := range []string{
		"0.0.0.0", "10.1.2.3", "100.127.255.254", "127.0.0.53", "169.254.169.254", "172.20.0.1", "192.168.1.1",
		"198.19.0.1", "224.0.0.251", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "2001::a00:1", "fe80::1",
		"fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2a00::5efe:a00:1",
	} {
		n := &names{answers: map[string][]string{"inside.test": {address}}}
		c := strict(t, egress.Options{Resolver: n.resolver()})
		if _, err := get(t, c, "http://inside.test/"); !errors.Is(err, egress.ErrRefused) ||
			strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// FuzzAnAddressThatIsTakenIsPlain: whatever is let through to the look-up is a name in one spelling or a public
// address, by another reading than the one that let it through.
func FuzzAnAddressThatIsTakenIsPlain(f *testing.F) {
	for _, seed := range hostileURLs {
		f.Add(seed)
	}
	for _, seed := range []string{
		"https://example.com/a?b#c", "HTTP://BÜCHER.example.:80/",
		"http://[2606:4700::1111]/", "https://8.8.8.8", "http://xn--/", "http://a_b.example/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := egress.CheckURL(egress.Targets{Domains: []string{"*"}, Ports: []int{80, 443}}, raw)
		if err != nil {
			if !errors.Is(err, egress.ErrRefused) {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Hostname() != u.Hostname() || again.User != nil || again.Scheme != "http" &&
			again.Scheme != "https" {
			t.Fatalf("%q is taken for %q, which is read as %+v, %v", raw, u, again, err)
		}
		host := u.Hostname()
		if ip, err := netip.ParseAddr(host); err == nil {
			requirePublic(t, ip)
			return
		}
		if host != strings.ToLower(host) || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" ||
			strings.HasSuffix(host, ".") {
			t.Fatalf("%q has the host %q", raw, host)
		}
		if last := host[strings.LastIndex(host, ".")+1:]; strings.Trim(last, "0123456789") == "" ||
			strings.HasPrefix(last, "0x") {
			t.Fatalf("%q has the host %q, which some take for a number", raw, host)
		}
	})
}

// FuzzOnlyPublicAddressesAreDialled holds the tables to what the standard library knows of addresses.
func FuzzOnlyPublicAddressesAreDialled(f *testing.F) {
	for _, seed := range []string{
		"8.8.8.8", "10.0.0.1", "::1", "2606:4700::1111", "::ffff:10.0.0.1", "64:ff9b::a00:1",
		"2002:a00:1::", "2001:db8::", "3fff::", "ff02::1",
	} {
		f.Add(netip.MustParseAddr(seed).AsSlice())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		ip, ok := netip.AddrFromSlice(raw)
		if ok && egress.Permit(egress.Targets{}, ip) == nil {
			requirePublic(t, ip)
		}
	})
}

func requirePublic(t *testing.T, ip netip.Addr) {
	t.Helper()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() ||
		ip.IsUnspecified() || ip.Is4In6() || ip.Zone() != "" {
		t.Fatalf("%s is taken", ip)
	}
	if b := ip.As16(); ip.Is6() && b[0]&0xe0 != 0x20 {
		t.Fatalf("%s is taken, and is outside of what is given out", ip)
	}
}

func TestOrdinaryAddressesArePublic(t *testing.T) {
	for _, public := range []string{
		"1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0",
		"172.15.255.255", "172.32.0.0", "192.0.1.1", "169.253.1.1", "223.255.255.255", "2606:4700::1111",
		"2001:4860:4860::8888", "2a00:1450::1", "2003::1",
	} {
		if err := egress.Permit(egress.Targets{}, netip.MustParseAddr(public)); err != nil {
			t.Errorf("%s: %v", public, err)
		}
	}
}

func TestOnlyTCPToAnAllowedPortIsDialled(t *testing.T) {
	for address, want := range map[string]bool{
		"tcp4 8.8.8.8:443": true, "tcp6 [2606:4700::1111]:443": true, "tcp4 8.8.8.8:22": false,
		"udp4 8.8.8.8:443": false, "unix /run/x.sock": false, "tcp4 10.0.0.1:443": false, "tcp4 name:443": false,
	} {
		network, to, _ := strings.Cut(address, " ")
		if err := egress.Dial(egress.Targets{Ports: []int{443}}, network, to); (err == nil) != want || err != nil &&
			!errors.Is(err, egress.ErrRefused) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestARefusalSaysWhatKindOfAddressItIs(t *testing.T) {
	for address, want := range map[string]string{
		"::ffff:8.8.8.8": "an IPv4 address inside IPv6", "64:ff9b::808:808": "an IPv4 address inside IPv6",
		"2001::1": "an IPv4 address inside IPv6", "2a00::5efe:808:808": "an IPv4 address inside IPv6",
		"2606:4700::1111%eth0": "an address with a zone", "fe80::1": "a link-local address",
		"169.254.169.254": "a link-local address", "fd00:ec2::254": "a private address", "::1": "a loopback address",
		"2001:db8::1": "a documentation address", "8000::": "a reserved address", "198.18.0.1": "a benchmark address",
		"168.63.129.16": "the service address of a cloud",
	} {
		if err := egress.Permit(egress.Targets{}, netip.MustParseAddr(address)); err == nil ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}

func TestAnOpenedPrefixOpensNothingElse(t *testing.T) {
	opened := egress.Targets{Private: []netip.Prefix{
		netip.MustParsePrefix("10.1.2.0/24"),
		netip.MustParsePrefix("fd12::/16"),
	}}
	for address, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.1.3.1": false, "127.0.0.1": false, "fd12::1": true,
		"fd13::1": false, "fd12::1%eth0": false, "2002:a01:203::": false, "64:ff9b::a01:203": false,
	} {
		if err := egress.Permit(opened, netip.MustParseAddr(address)); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}
