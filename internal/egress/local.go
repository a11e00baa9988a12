package egress

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// localAge is how long what is known of this machine's addresses is used. They come and go: with a lease, a tunnel, a
// container.
const localAge = time.Second

// The least lengths of a prefix that is taken for a network which this machine is on. A shorter one is a way to the
// rest of the world.
const (
	leastNetwork4 = 8
	leastNetwork6 = 16
)

// local is where this machine itself answers, and what it reaches without a router: services there trust their
// neighbours. An address behind a tunnel's route is not local: a VPN may route the whole internet so.
type local struct {
	addresses, networks []netip.Prefix
}

// special says what an address is if it is this machine's own or a neighbour's.
func (l local) special(ip netip.Addr) string {
	for _, p := range l.addresses {
		if p.Contains(ip) {
			return "an address of this machine"
		}
	}
	for _, p := range l.networks {
		if p.Contains(ip) {
			return "an address of a network that this machine is on"
		}
	}
	return ""
}

// locals knows what is local now.
type locals struct {
	read func() (local, error)

	mu   sync.Mutex
	last local     // guarded by mu
	at   time.Time // when it was read; guarded by mu
}

// now gives what is local, as of a second ago at most. Without an answer nothing can be told from this machine.
func (l *locals) now() (local, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := time.Since(l.at); age >= 0 && age < localAge {
		return l.last, nil
	}
	fresh, err := l.read()
	if err != nil {
		return local{}, corebot.WithHint(fmt.Errorf("%w: the addresses of this machine cannot be read: %w", ErrRefused,
			err),
			"let Corebot use netlink sockets (systemd: RestrictAddressFamilies with AF_NETLINK)")
	}
	l.last, l.at = fresh, time.Now()
	return fresh, nil
}

// CheckLocal says why nothing can be fetched where the addresses of this machine cannot be read.
func CheckLocal() error {
	_, err := (&locals{read: readLocal}).now()
	return err
}

// readLocal asks the system.
func readLocal() (local, error) {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return local{}, err
	}
	var l local
	for _, a := range interfaces {
		n, ok := a.(*net.IPNet)
		if !ok {
			return local{}, fmt.Errorf("an interface has %v", a)
		}
		ip, _ := netip.AddrFromSlice(n.IP)
		bits, _ := n.Mask.Size()
		l.add(ip.Unmap(), bits)
	}
	own, direct, err := localRoutes()
	l.addresses = append(l.addresses, own...)
	for _, p := range direct {
		l.addNetwork(p)
	}
	return l, err
}

// add notes the address of an interface and the network behind it.
func (l *local) add(ip netip.Addr, bits int) {
	if !ip.IsValid() {
		return
	}
	l.addresses = append(l.addresses, netip.PrefixFrom(ip, ip.BitLen()))
	l.addNetwork(netip.PrefixFrom(ip, bits).Masked())
}

// addNetwork notes a prefix that is reached without a router, unless it is too wide for a network.
func (l *local) addNetwork(p netip.Prefix) {
	if p.Addr().Is4() && p.Bits() >= leastNetwork4 || p.Addr().Is6() && p.Bits() >= leastNetwork6 {
		l.networks = append(l.networks, p)
	}
}
