package llmtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"
)

// Fault is one way in which a provider misbehaves. Those of the network show before any request is read; all others are
// a script.
type Fault struct {
	Name    string
	script  Script
	network network
}

// network is how the connection to a provider fails.
type network uint8

const (
	works     network = iota
	plainTLS          // https is asked for, and http is spoken
	strange           // a certificate that nobody vouches for
	nameless          // the name does not resolve
	refused           // nobody listens
	deaf              // the connection is there, and nobody is at its other end
	blackhole         // packets vanish: there is never a connection
)

// Start serves the fault in memory until the test ends; see the function Start. In a synctest bubble it costs no time.
func (f Fault) Start(t testing.TB) *Running {
	t.Helper()
	listener := NewListener()
	r := &Running{Server: New(f.served()), URL: "http://model.test/v1"}
	r.Transport = f.spoil(listener.Transport(), r)
	f.serve(t, r, listener)
	return r
}

// Listen serves the fault on a port of loopback until the test ends.
func (f Fault) Listen(t testing.TB) *Running {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Running{Server: New(f.served()), URL: "http://" + listener.Addr().String() + "/v1"}
	r.Transport = f.spoil(&http.Transport{DisableCompression: true}, r)
	f.serve(t, r, listener)
	return r
}

func (f Fault) served() Script {
	if f.script == nil {
		return Always(Fail(http.StatusInternalServerError, "llmtest: a fault of the network reached the server"))
	}
	return f.script
}

// serve runs the server until the test ends, and leaves no goroutine behind.
func (f Fault) serve(t testing.TB, r *Running, listener net.Listener) {
	t.Helper()
	server := &http.Server{Handler: r.Server, ErrorLog: log.New(io.Discard, "", 0)}
	switch f.network {
	case refused, deaf:
		_ = listener.Close() // what is dialled is no server of ours
	case strange:
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate(t)}})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends by Close below, or at once if nobody is to be there
	}()
	t.Cleanup(func() {
		r.Transport.CloseIdleConnections()
		_ = server.Close()
		_ = listener.Close()
		<-done
	})
}

// spoil makes the client's side of a fault of the network.
func (f Fault) spoil(tr *http.Transport, r *Running) *http.Transport {
	switch f.network {
	case plainTLS, strange:
		r.URL = "https" + r.URL[len("http"):]
	case nameless:
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
				Err: "no such host", Name: "model.test",
				IsNotFound: true,
			}}
		}
	case deaf:
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
			client, _ := net.Pipe() // whose other end nobody reads
			return client, nil
		}
	case blackhole:
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: context.Cause(ctx)}
		}
	}
	return tr
}

// certificate is one that signs itself.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"model.test"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
