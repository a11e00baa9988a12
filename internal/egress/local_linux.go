package egress

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"unsafe"
)

// viaOther is RTA_VIA: a gateway of the other family. Package syscall does not have it.
const viaOther = 18

// localRoutes reads all tables of routes. The prefixes own are the addresses that this machine takes for its own. They
// are the addresses of its interfaces, and whole prefixes without an interface ("ip route add local 192.0.2.0/24 dev
// lo"). The prefixes direct are reached without a gateway. Some of them have no address of an interface ("ip route add
// 192.0.2.7/32 dev eth0").
func localRoutes() (own, direct []netip.Prefix, err error) {
	tunnels, err := tunnels()
	if err != nil {
		return nil, nil, err
	}
	table, err := syscall.NetlinkRIB(syscall.RTM_GETROUTE, syscall.AF_UNSPEC)
	if err != nil {
		return nil, nil, fmt.Errorf("read the routes: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return nil, nil, fmt.Errorf("read the routes: %w", err)
	}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWROUTE || len(m.Data) < syscall.SizeofRtMsg {
			continue
		}
		route := (*syscall.RtMsg)(unsafe.Pointer(&m.Data[0]))
		if route.Family != syscall.AF_INET && route.Family != syscall.AF_INET6 { // labels of MPLS are routes too
			continue
		}
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, nil, fmt.Errorf("read a route: %w", err)
		}
		to, ok := destination(attributes, int(route.Dst_len))
		if !ok {
			continue
		}
		switch route.Type {
		case syscall.RTN_LOCAL, syscall.RTN_BROADCAST, syscall.RTN_ANYCAST:
			own = append(own, to)
		case syscall.RTN_UNICAST:
			ways, err := hops(attributes)
			if err != nil {
				return nil, nil, fmt.Errorf("read the hops of a route: %w", err)
			}
			if slices.ContainsFunc(ways, func(h hop) bool { return h.isDirect(tunnels) }) {
				direct = append(direct, to)
			}
		}
	}
	return own, direct, nil
}

// tunnels are the interfaces with one other end, by their index. No neighbour is on a tunnel: a VPN has everything
// there without a gateway.
func tunnels() (map[int]bool, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("read the interfaces: %w", err)
	}
	all := map[int]bool{}
	for _, i := range interfaces {
		if i.Flags&net.FlagPointToPoint != 0 {
			all[i.Index] = true
		}
	}
	return all, nil
}

// destination is the prefix that a route leads to. The default route has none.
func destination(attributes []syscall.NetlinkRouteAttr, bits int) (netip.Prefix, bool) {
	for _, a := range attributes {
		if a.Attr.Type == syscall.RTA_DST {
			ip, ok := netip.AddrFromSlice(a.Value)
			return netip.PrefixFrom(ip, bits).Masked(), ok
		}
	}
	return netip.Prefix{}, false
}

// hop is one way on.
type hop struct {
	device  int // 0: none of its own
	gateway bool
}

// isDirect holds for a hop to neighbours.
func (h hop) isDirect(tunnels map[int]bool) bool {
	return h.device != 0 && !h.gateway && !tunnels[h.device]
}

// hops are the ways of a route: one, or several that share its traffic.
func hops(attributes []syscall.NetlinkRouteAttr) (all []hop, err error) {
	var h hop
	for _, a := range attributes {
		switch a.Attr.Type {
		case syscall.RTA_GATEWAY, viaOther:
			h.gateway = true
		case syscall.RTA_OIF:
			if len(a.Value) >= 4 {
				h.device = int(binary.NativeEndian.Uint32(a.Value))
			}
		case syscall.RTA_MULTIPATH:
			if all, err = several(a.Value); err != nil {
				return nil, err
			}
		}
	}
	return append(all, h), nil
}

// several reads the hops that stand one behind the other. Each is its length, flags, weight and interface, then
// attributes.
func several(raw []byte) (all []hop, err error) {
	for len(raw) >= syscall.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(raw))
		if size < syscall.SizeofRtNexthop || size > len(raw) {
			return nil, syscall.EINVAL
		}
		// which reads attributes behind the head of a route
		attributes, err := syscall.ParseNetlinkRouteAttr(&syscall.NetlinkMessage{
			Header: syscall.NlMsghdr{Type: syscall.RTM_NEWROUTE},
			Data:   append(make([]byte, syscall.SizeofRtMsg), raw[syscall.SizeofRtNexthop:size]...),
		})
		if err != nil {
			return nil, err
		}
		h := hop{device: int(binary.NativeEndian.Uint32(raw[4:]))}
		for _, a := range attributes {
			h.gateway = h.gateway || a.Attr.Type == syscall.RTA_GATEWAY || a.Attr.Type == viaOther
		}
		all = append(all, h)
		raw = raw[min((size+syscall.RTA_ALIGNTO-1)&^(syscall.RTA_ALIGNTO-1), len(raw)):]
	}
	return all, nil
}
