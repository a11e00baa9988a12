package egress

import (
	"context"
	"net/netip"
	"net/url"
	"time"
)

// NewHastyProxy is a proxy that waits no longer than this.
func NewHastyProxy(t Targets, o Options, most time.Duration) (*Proxy, error) {
	return newProxy(t, o, patience{ask: most, answer: most, idle: most})
}

// CheckURL is what is let through to the look-up.
func CheckURL(t Targets, raw string) (*url.URL, error) {
	checked, err := t.parse()
	if err != nil {
		return nil, err
	}
	return checked.parseURL(raw)
}

// Permit is what the guard of the dialler asks.
func Permit(t Targets, ip netip.Addr) error {
	checked, err := t.parse()
	if err != nil {
		return err
	}
	return checked.permit(ip)
}

// Dial is what the dialler asks before it connects.
func Dial(t Targets, network, address string) error {
	checked, err := t.parse()
	if err != nil {
		return err
	}
	return checked.guard(context.Background(), network, address, nil)
}

// Special is what this machine knows of an address now.
func Special(ip netip.Addr) (string, error) {
	l, err := readLocal()
	return l.special(ip), err
}
