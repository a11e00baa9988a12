package egress

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// guard runs after the look-up and before the connection, for every address that is tried: nothing can change in
// between. Beside what is not public it refuses what is local now.
func (t targets) guard(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: a connection over %s", ErrRefused, network)
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q is not an address", ErrRefused, address)
	}
	if !slices.Contains(t.ports, int(to.Port())) {
		return fmt.Errorf("%w: port %d is not allowed", ErrRefused, to.Port())
	}
	ip := to.Addr()
	if err := t.permit(ip); err != nil || t.opens(ip) {
		return err
	}
	here, err := t.locals.now()
	if err != nil {
		return err
	}
	if what := here.special(ip); what != "" {
		return fmt.Errorf("%w: it leads to %s", ErrRefused, what)
	}
	return nil
}

// opens says whether the operator has opened an address.
func (t targets) opens(ip netip.Addr) bool {
	plain := ip.Unmap()
	// never of an address with a zone
	return slices.ContainsFunc(t.private, func(p netip.Prefix) bool { return p.Contains(plain) })
}

// permit refuses an address that is neither public nor opened.
func (t targets) permit(ip netip.Addr) error {
	if t.opens(ip) {
		return nil
	}
	if what := special(ip); what != "" {
		return fmt.Errorf("%w: it leads to %s", ErrRefused, what)
	}
	return nil
}

// special says what an address is if it is not an ordinary one of the public internet.
func special(ip netip.Addr) string {
	switch {
	case !ip.IsValid():
		return "no address"
	case ip.Zone() != "":
		return "an address with a zone"
	case ip.Is4In6(), ip.Is6() && isISATAP(ip):
		return embedded
	case ip.Is6() && !globalUnicast.Contains(ip):
		return cmp.Or(find(ip, reserved), "a reserved address")
	}
	return find(ip, carvedOut)
}

func find(ip netip.Addr, blocks []block) string {
	for _, b := range blocks {
		if b.prefix.Contains(ip) {
			return b.what
		}
	}
	return ""
}

// isISATAP holds for the interface ids 0:5efe:a.b.c.d and 200:5efe:a.b.c.d, which tunnel to that IPv4 address under any
// prefix.
func isISATAP(ip netip.Addr) bool {
	b := ip.As16()
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
