package mail_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"flag"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels/mail"
	"github.com/corebot/corebot/channels/mail/mailtest"
)

// trusted is the TLS of a server on this machine. TestMain makes its certificate one that Corebot trusts.
var trusted *tls.Config

func TestMain(m *testing.M) {
	os.Exit(func() int {
		server := httptest.NewTLSServer(nil)
		defer server.Close()
		trusted = server.TLS.Clone()
		trusted.NextProtos = nil // those are of HTTP
		dir, err := os.MkdirTemp("", "mail")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary one
		file := filepath.Join(dir, "roots.pem")
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		if err := os.WriteFile(file, text, 0o600); err != nil {
			panic(err)
		}
		if err := os.Setenv("SSL_CERT_FILE", file); err != nil {
			panic(err)
		}
		// Parallel tests wait for mails that never come: more of them at once than there are processors.
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// modes are the two ways to begin TLS.
var modes = map[string]bool{"implicit TLS": true, "STARTTLS": false}

// secure is a channel whose servers are taken for servers elsewhere.
func secure(t *testing.T, s *mailtest.Server, implicit bool, change ...func(*mail.Settings)) *mail.Channel {
	t.Helper()
	c := open(t, settings(s, change...))
	c.Secure(implicit)
	return c
}

func TestMailIsReceivedAndSentUnderTLS(t *testing.T) {
	for name, implicit := range modes {
		t.Run(name, func(t *testing.T) {
			s, p := mailtest.NewTLS(trusted, implicit), newPorter()
			t.Cleanup(s.Close)
			c := secure(t, s, implicit)
			if says, err := c.Check(t.Context()); err != nil || !strings.Contains(says, "0 mails") {
				t.Fatalf("%q %v", says, err)
			}
			run(t, c, p)
			s.Awaited()
			s.Say(mailtest.Said{Text: "hello"})
			until(t, "the mail is there", func() bool { return slices.Equal(p.texts(), []string{"hello"}) })
			if _, err := send(t, c, answer("x")); err != nil || len(s.Sent()) != 1 {
				t.Errorf("%d were sent: %v", len(s.Sent()), err)
			}
		})
	}
}

func TestAPasswordThatIsRefusedUnderTLSIsSaid(t *testing.T) {
	for name, implicit := range modes {
		s := mailtest.NewTLS(trusted, implicit)
		t.Cleanup(s.Close)
		c := secure(t, s, implicit, func(x *mail.Settings) { x.Password = "wrong-password" })
		_, err := c.Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), "refuses user and password") {
			t.Errorf("%s: IMAP says %v", name, err)
		}
		_, err = send(t, c, answer("x"))
		if err == nil || !strings.Contains(err.Error(), "refuses user and password") {
			t.Errorf("%s: SMTP says %v", name, err)
		}
	}
}

// strangeTLS has a certificate for this machine that nobody knows.
func strangeTLS(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
}

func TestAServerWhoseCertificateIsNotTrustedGetsNoPassword(t *testing.T) {
	strange := strangeTLS(t)
	for name, implicit := range modes {
		s := mailtest.NewTLS(strange, implicit)
		t.Cleanup(s.Close)
		c := secure(t, s, implicit)
		_, err := c.Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), "begin TLS with") ||
			!strings.Contains(corebot.HintOf(err), "SSL_CERT_FILE") {
			t.Errorf("%s: IMAP says %v, and %q", name, err, corebot.HintOf(err))
		}
		_, err = send(t, c, answer("x"))
		if err == nil || !strings.Contains(err.Error(), "begin TLS with") ||
			!strings.Contains(corebot.HintOf(err), "SSL_CERT_FILE") || len(s.Sent()) != 0 {
			t.Errorf("%s: SMTP says %v, and %q", name, err, corebot.HintOf(err))
		}
	}
}

// wire is a server that says what it is told to, and remembers what it heard. Somebody in between looks like this: he
// takes the offer of TLS away.
type wire struct {
	addr string

	mu    sync.Mutex
	heard strings.Builder
}

func newWire(t *testing.T, greets string, says func(line string) string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String()}
	var running sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close() //nolint:errcheck // nothing depends on it
				_, _ = conn.Write([]byte(greets))
				for in := bufio.NewScanner(conn); in.Scan(); {
					w.mu.Lock()
					w.heard.WriteString(in.Text() + "\n")
					w.mu.Unlock()
					answer := says(in.Text())
					if answer == "" {
						return
					}
					_, _ = conn.Write([]byte(answer))
				}
			})
		}
	})
	return w
}

// secrets says whether a password was sent, in any of its forms.
func (w *wire) secrets() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	plain := base64.StdEncoding.EncodeToString([]byte("\x00" + mailtest.Address + "\x00" + mailtest.Password))
	for _, secret := range []string{mailtest.Password, plain, "LOGIN", "AUTH"} {
		if strings.Contains(strings.ToUpper(w.heard.String()), strings.ToUpper(secret)) {
			return true
		}
	}
	return false
}

func TestWithoutTLSNoPasswordGoesToAServerElsewhere(t *testing.T) {
	tag := func(line string) string { tag, _, _ := strings.Cut(line, " "); return tag }
	for name, c := range map[string]struct {
		greets string
		says   func(line string) string
		no     bool // the server says that it offers no TLS
	}{
		"IMAP without it": {"* OK [CAPABILITY IMAP4rev1] hi\r\n", func(line string) string {
			return tag(line) + " NO no TLS here\r\n"
		}, true},
		"IMAP that does not know it": {"* OK hi\r\n", func(line string) string {
			return tag(line) + " BAD what\r\n"
		}, true},
		"IMAP that lets everybody in": {"* PREAUTH [CAPABILITY IMAP4rev1] hi\r\n", func(line string) string {
			return tag(line) + " BAD too late\r\n"
		}, true},
		"IMAP that speaks on in the clear": {"* OK hi\r\n", func(line string) string {
			return tag(line) + " OK go\r\n* CAPABILITY IMAP4rev1\r\n"
		}, false},
		"IMAP that hangs up": {"* OK hi\r\n", func(string) string { return "" }, false},
	} {
		w := newWire(t, c.greets, c.says)
		s := platform(t)
		ch := open(t, settings(s, func(x *mail.Settings) { x.IMAP = w.addr }))
		ch.Secure(false)
		_, err := ch.Check(t.Context())
		if err == nil || c.no != strings.Contains(err.Error(), "offers no TLS") || w.secrets() {
			t.Errorf("%s: %v; it heard %q", name, err, w.heard.String())
		}
	}
	for name, c := range map[string]struct {
		says func(line string) string
		no   bool
	}{
		"SMTP without it": {func(string) string { return "250-corebot.test\r\n250 AUTH PLAIN\r\n" }, true},
		"SMTP that refuses it": {func(line string) string {
			if strings.HasPrefix(line, "STARTTLS") {
				return "454 not now\r\n"
			}
			return "250-corebot.test\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n"
		}, false},
		"SMTP that speaks on in the clear": {func(line string) string {
			if strings.HasPrefix(line, "STARTTLS") {
				return "220 go\r\n250-corebot.test\r\n250 AUTH PLAIN\r\n"
			}
			return "250-corebot.test\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n"
		}, false},
	} {
		w := newWire(t, "220 corebot.test\r\n", c.says)
		s := platform(t)
		ch := open(t, settings(s, func(x *mail.Settings) { x.SMTP = w.addr; x.SentCopy = "server" }))
		ch.Secure(false)
		_, err := send(t, ch, answer("x"))
		if err == nil || c.no != strings.Contains(err.Error(), "offers no TLS") || w.secrets() {
			t.Errorf("%s: %v; it heard %q", name, err, w.heard.String())
		}
	}
}
