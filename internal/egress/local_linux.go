package egress

import (
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"
)

// localRoutes are the addresses that this machine takes for its own by its tables of routes, in all of them: those of its
// interfaces, and whole prefixes that no interface has ("ip route add local 192.0.2.0/24 dev lo").
func localRoutes() ([]netip.Prefix, error) {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETROUTE, syscall.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("read the routes: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return nil, fmt.Errorf("read the routes: %w", err)
	}
	var all []netip.Prefix
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWROUTE || len(m.Data) < syscall.SizeofRtMsg {
			continue
		}
		route := (*syscall.RtMsg)(unsafe.Pointer(&m.Data[0]))
		switch route.Type {
		case syscall.RTN_LOCAL, syscall.RTN_BROADCAST, syscall.RTN_ANYCAST:
		default:
			continue
		}
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, fmt.Errorf("read a route: %w", err)
		}
		for _, a := range attributes {
			if a.Attr.Type != syscall.RTA_DST {
				continue
			}
			if ip, ok := netip.AddrFromSlice(a.Value); ok {
				all = append(all, netip.PrefixFrom(ip, int(route.Dst_len)).Masked())
			}
		}
	}
	return all, nil
}
