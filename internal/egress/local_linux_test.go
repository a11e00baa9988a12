package egress_test

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/corebot/corebot/internal/egress"
)

// inNamespace is the variable by which the test below knows that it has a network of its own.
const inNamespace = "EGRESS_TEST_NAMESPACE"

// TestItsOwnPublicAddressIsOutOfReach is the real thing: a machine whose interface has a public address, with a listener there, and one that takes a
// whole prefix for its own.
func TestItsOwnPublicAddressIsOutOfReach(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		inOwnNetwork(t)
		return
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", "20.1.2.3/24", "dev", "lo"},
		{"address", "add", "2a01:4f8::3/64", "dev", "lo", "nodad"},
		{"route", "add", "local", "33.0.0.0/24", "dev", "lo"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
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
	if r, err := get(t, lenient(t, egress.Options{Redirects: 5}, redirects.port, 80), redirects.URL); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("%s behind a redirect: %d %q, %v", address, r.Status, r.Body, err)
	}
	opened, err := egress.New(egress.Targets{Domains: []string{"*"}, Ports: []int{80}, Private: []netip.Prefix{netip.PrefixFrom(ip, ip.BitLen())}}, egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := get(t, opened, "http://"+address+"/"); errors.Is(err, egress.ErrRefused) {
		t.Errorf("%s, which is opened: %d, %v", address, r.Status, err)
	}
}

// inOwnNetwork runs the same test once more, in a network namespace.
func inOwnNetwork(t *testing.T) {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("there is no ip here (iproute2)")
	}
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
		t.Skip("this kernel gives no network namespace")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
