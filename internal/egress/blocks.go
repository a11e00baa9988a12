package egress

import "net/netip"

// block is a range of addresses that are not ordinary ones of the public internet.
type block struct {
	prefix netip.Prefix
	what   string
}

const embedded = "an IPv4 address inside IPv6"

// globalUnicast is all of IPv6 that is given out. Every address outside of it is refused.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// reserved names what is outside of globalUnicast, for the error.
var reserved = blocks(
	"::/128", "an unspecified address",
	"::1/128", "a loopback address",
	"::/96", embedded, // IPv4-compatible
	"64:ff9b::/96", embedded, // NAT64
	"64:ff9b:1::/48", embedded, // NAT64 of one's own network
	"100::/64", "an address that discards",
	"fc00::/7", "a private address", // with the metadata service at fd00:ec2::254
	"fe80::/10", "a link-local address",
	"fec0::/10", "a private address", // site-local
	"ff00::/8", "a multicast address",
)

// carvedOut are the special parts of IPv4 and of globalUnicast: the special-purpose registries of IANA (RFC 6890 and
// its successors), and what clouds have put in between.
var carvedOut = blocks(
	"0.0.0.0/8", "an unspecified address",
	"10.0.0.0/8", "a private address",
	"100.64.0.0/10", "a private address", // shared by the customers of a provider
	"127.0.0.0/8", "a loopback address",
	"168.63.129.16/32", "the service address of a cloud",
	"169.254.0.0/16", "a link-local address", // with the metadata service at 169.254.169.254
	"172.16.0.0/12", "a private address",
	"192.0.0.0/24", "a reserved address",
	"192.0.2.0/24", "a documentation address",
	"192.31.196.0/24", "a reserved address", // AS112
	"192.52.193.0/24", "a reserved address", // multicast relays
	"192.88.99.0/24", "a reserved address", // 6to4 relays
	"192.168.0.0/16", "a private address",
	"192.175.48.0/24", "a reserved address", // AS112
	"198.18.0.0/15", "a benchmark address",
	"198.51.100.0/24", "a documentation address",
	"203.0.113.0/24", "a documentation address",
	"224.0.0.0/4", "a multicast address",
	"240.0.0.0/4", "a reserved address", // with the broadcast address

	"2001::/32", embedded, // Teredo
	"2001::/23", "a reserved address", // protocol assignments, benchmarks, identifiers that are no places
	"2001:db8::/32", "a documentation address",
	"2002::/16", embedded, // 6to4
	"2620:4f:8000::/48", "a reserved address", // AS112
	"3ffe::/16", "a reserved address", // given back
	"3fff::/20", "a documentation address",
)

// blocks makes a table of prefixes, each followed by what it is.
func blocks(pairs ...string) []block {
	var out []block
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, block{netip.MustParsePrefix(pairs[i]), pairs[i+1]})
	}
	return out
}
