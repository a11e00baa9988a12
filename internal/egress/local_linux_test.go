package egress_test

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/corebot/corebot/internal/egress"
	"github.com/corebot/corebot/internal/needs"
)

// inNamespace is the variable by which the test below knows that it has a network of its own.
const inNamespace = "EGRESS_TEST_NAMESPACE"

// TestItsOwnPublicAddressIsOutOfReach is the real thing: a machine whose interface has a public address, with a
// listener there, and one that takes a whole prefix for its own.
func TestItsOwnPublicAddressIsOutOfReach(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		inOwnNetwork(t)
		return
	}
	configure(t, "link set lo up", "address add 20.1.2.3/24 dev lo", "address add 2a01:4f8::3/64 dev lo nodad",
		"route add local 33.0.0.0/24 dev lo")
	for _, address := range []string{"20.1.2.3", "33.0.0.77", "2a01:4f8::3"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, "80"))
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(hello)}
		go s.Serve(l)   //nolint:errcheck // until it is closed
		defer s.Close() //nolint:errcheck // the end of the test
		requireShut(t, l.Addr().String(), netip.MustParseAddr(address))
	}
	requireShut(t, "20.1.2.200:80", netip.MustParseAddr("20.1.2.200")) // which lo answers too, as a neighbour
}

// TestWhatIsReachedWithoutAGatewayIsOutOfReach has real routes to places where no interface has an address.
func TestWhatIsReachedWithoutAGatewayIsOutOfReach(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		inOwnNetwork(t)
		return
	}
	configure(t,
		"link set lo up",
		"link add veth0 type veth peer name veth1", "link set veth0 up", "link set veth1 up",
		"address add 10.9.0.1/24 dev veth0", "address add fd00:9::1/64 dev veth0 nodad",
		// a host beside it, as clouds have them
		"route add 34.0.0.7/32 dev veth0",
		"route add 36.0.0.0/24 dev veth0 table 77",                                // only a rule leads there
		"route add 35.0.0.0/24 nexthop dev veth0 nexthop via 10.9.0.2 dev veth0",  // one of two ways is direct
		"route add 37.0.0.0/24 via 10.9.0.2", "route add 2a03::/64 via fd00:9::2", // behind a gateway
		"route add 38.0.0.0/24 nexthop via 10.9.0.2 nexthop via 10.9.0.3", // behind two
		"route add 39.0.0.0/24 via inet6 fd00:9::2 dev veth0",             // behind one of the other family
		"route add 40.0.0.0/7 dev veth0", "route add 2a00::/15 dev veth0", // too wide for a network
		"route add default dev veth0", "route add unreachable 43.0.0.0/24", // nowhere in particular
		"route add 2a04::/64 dev veth0", // a direct route of IPv6
	)
	requireSpecial(t, map[string]bool{
		"34.0.0.7": true, "34.0.0.8": false, "36.0.0.9": true, "35.0.0.9": true, "37.0.0.9": false, "2a03::9": false,
		"38.0.0.9": false, "39.0.0.9": false,
		"41.0.0.9": false, "2a01::9": false, "42.0.0.1": false, "43.0.0.9": false, "2a04::9": true,
	})
	if conn, err := strict(t, egress.Options{}).Dial(t.Context(), "tcp", "34.0.0.7:80"); !errors.Is(err,
		egress.ErrRefused) || conn != nil {
		t.Errorf("it was dialled: %v", err)
	}
}

func TestATunnelToEverywhereClosesNothing(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		inOwnNetwork(t)
		return
	}
	if out, err := exec.Command("ip", "tuntap", "add", "mode", "tun", "name", "tun0").CombinedOutput(); err != nil {
		needs.Missing(t, "tunnels", string(out))
	}
	configure(t,
		"link set tun0 up", "address add 44.0.0.1/24 dev tun0",
		"route add 0.0.0.0/1 dev tun0", "route add 128.0.0.0/1 dev tun0", // OpenVPN
		"route add default dev tun0 table 51820", // WireGuard
		"route add 35.0.0.0/8 dev tun0", "route add 36.0.0.7/32 dev tun0",
		"route add 37.0.0.0/24 nexthop dev tun0 nexthop dev tun0", "route add 2a00::/16 dev tun0",
	)
	requireSpecial(t, map[string]bool{
		"8.8.8.8": false, "200.0.0.1": false, "35.0.0.9": false, "36.0.0.7": false, "37.0.0.9": false, "2a00::9": false,
		"44.0.0.1": true, "44.0.0.9": true, // its own, and the network of its own address
	})
}

// configure runs the commands of ip.
func configure(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", c, err, out)
		}
	}
}

// requireSpecial: these addresses are this machine's or its neighbours', or are not.
func requireSpecial(t *testing.T, want map[string]bool) {
	t.Helper()
	for address, want := range want {
		if got, err := egress.Special(netip.MustParseAddr(address)); err != nil || (got != "") != want {
			t.Errorf("%s: %q, %v; want it refused: %t", address, got, err, want)
		}
	}
}

// requireShut: neither a fetch nor whoever makes connections for a worker gets to an address, unless it is opened.
func requireShut(t *testing.T, address string, ip netip.Addr) {
	t.Helper()
	c := strict(t, egress.Options{})
	if r, err := get(t, c, "http://"+address+"/"); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("%s: %d %q, %v", address, r.Status, r.Body, err)
	}
	if conn, err := c.Dial(t.Context(), "tcp", address); !errors.Is(err, egress.ErrRefused) || conn != nil {
		t.Errorf("%s for a worker: %v", address, err)
	}
	redirects := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+address+"/", http.StatusFound)
	}, false)
	if r, err := get(t, lenient(t, egress.Options{Redirects: 5}, redirects.port, 80), redirects.URL); !errors.Is(err,
		egress.ErrRefused) {
		t.Errorf("%s behind a redirect: %d %q, %v", address, r.Status, r.Body, err)
	}
	opened, err := egress.New(egress.Targets{
		Domains: []string{"*"}, Ports: []int{80},
		Private: []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())},
	}, egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := get(t, opened, "http://"+address+"/"); errors.Is(err, egress.ErrRefused) {
		t.Errorf("%s, which is opened: %d, %v", address, r.Status, err)
	}
}

// inOwnNetwork runs the same test once more, in a network namespace.
func inOwnNetwork(t *testing.T) {
	needs.Program(t, "ip")
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		needs.Missing(t, "networks", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
