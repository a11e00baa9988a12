package exchange

import (
	"net"
	"net/http"
	"time"
)

// NewTransport keeps as many connections to its one host as there may be turns at work: with the two of net/http's default, most
// calls would pay for a TLS handshake. Compression is off because a compressed stream comes in lumps. Proxies of the environment are
// not used: the key goes to the configured host and nowhere else.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
		WriteBufferSize:     32 << 10, // most requests go out in one write; copied past a smaller buffer, each would allocate one of its own size
	}
}
