package egress

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// here is a machine with a public address, its network, and a prefix that it takes for its own.
func here() local {
	var l local
	l.add(netip.MustParseAddr("20.1.2.3"), 20)
	l.add(netip.MustParseAddr("2a01:4f8:1:2::3"), 64)
	l.add(netip.MustParseAddr("31.1.2.3"), 1) // a tunnel to everywhere
	l.add(netip.MustParseAddr("2a02::3"), 3)
	l.addresses = append(l.addresses, netip.MustParsePrefix("33.0.0.0/24"))
	return l
}

func TestAPublicAddressOfThisMachineOrItsNetworkIsRefused(t *testing.T) {
	for address, want := range map[string]string{
		"20.1.2.3": "an address of this machine", "20.1.0.1": "a network that this machine is on",
		"20.1.15.255": "a network that this machine is on", "20.1.16.0": "",
		"2a01:4f8:1:2::3": "an address of this machine", "2a01:4f8:1:2:ffff::1": "a network that this machine is on",
		"2a01:4f8:1:3::1": "",
		"31.1.2.3":        "an address of this machine", "31.1.2.4": "", "2a02::3": "an address of this machine",
		"2a02::4":    "",
		"33.0.0.200": "an address of this machine", "33.0.1.0": "",
	} {
		checked, err := Targets{Domains: []string{"*"}, Ports: []int{80}}.parse()
		if err != nil {
			t.Fatal(err)
		}
		checked.locals = &locals{read: func() (local, error) { return here(), nil }}
		network := "tcp4"
		if strings.Contains(address, ":") {
			network = "tcp6"
		}
		to := netip.AddrPortFrom(netip.MustParseAddr(address), 80).String()
		err = checked.guard(context.Background(), network, to, nil)
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrRefused) ||
			!strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
		checked.private = []netip.Prefix{netip.MustParsePrefix(address + map[bool]string{
			true:  "/32",
			false: "/128",
		}[network == "tcp4"])}
		if err := checked.guard(context.Background(), network, to, nil); err != nil {
			t.Errorf("%s, which is opened: %v", address, err)
		}
	}
}

func TestWhereNobodyKnowsTheOwnAddressesNoneIsDialled(t *testing.T) {
	checked, err := Targets{Ports: []int{80}}.parse()
	if err != nil {
		t.Fatal(err)
	}
	checked.locals = &locals{read: func() (local, error) { return local{}, errors.New("no netlink") }}
	if err := checked.guard(context.Background(), "tcp4", "8.8.8.8:80", nil); !errors.Is(err, ErrRefused) ||
		corebot.HintOf(err) == "" {
		t.Errorf("got %v (%s)", err, corebot.HintOf(err))
	}
}

func TestAnAddressThatTheMachineGetsIsItsOwnWithinASecond(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		reads, now := 0, local{}
		l := &locals{read: func() (local, error) { reads++; return now, nil }}
		ask := func() string {
			known, err := l.now()
			if err != nil {
				t.Fatal(err)
			}
			return known.special(netip.MustParseAddr("20.1.2.3"))
		}
		for range 100 {
			if got := ask(); got != "" {
				t.Errorf("got %q", got)
			}
		}
		if reads != 1 {
			t.Errorf("%d reads in a moment", reads)
		}
		now = here()
		time.Sleep(localAge)
		if got := ask(); got == "" {
			t.Error("a new address is not known")
		}
		now = local{}
		time.Sleep(localAge)
		if got := ask(); got != "" {
			t.Error("an address that is gone is still refused")
		}
	})
}

func TestTheAddressesOfThisMachineAreKnown(t *testing.T) {
	l, err := readLocal()
	if err != nil {
		t.Fatal(err)
	}
	if l.special(netip.MustParseAddr("127.0.0.1")) == "" || l.special(netip.MustParseAddr("8.8.8.8")) != "" {
		t.Errorf("got %+v", l)
	}
}
