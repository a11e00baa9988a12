package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// server is where to connect to.
type server struct {
	addr, host string
	implicit   bool // TLS begins with the connection
	loopback   bool // it is this machine, where TLS is not required
}

func parseServer(s string) (server, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return server{}, err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" ||
		strings.ContainsAny(host, " /@") {
		return server{}, fmt.Errorf("%q is no HOST:PORT", s)
	}
	return server{
		addr: s, host: host, implicit: port == "993" || port == "465",
		loopback: channels.Loopback(host),
	}, nil
}

func (s server) tls() *tls.Config {
	return &tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12}
}

const dialTime = 20 * time.Second

// dial connects. The connection ends with ctx.
func (s server) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := channels.Dial(ctx, "tcp", s.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.addr, err)
	}
	if !s.implicit {
		return conn, nil
	}
	secure := tls.Client(conn, s.tls())
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("begin TLS with %s: %w", s.addr, err)
	}
	return secure, nil
}

// untrusted is the error of a STARTTLS that the server took and that went wrong.
func (s server) untrusted(err error, key string) error {
	err = fmt.Errorf("begin TLS with %s: %w", s.addr, err)
	return corebot.WithHint(err, channels.TLSHint(err, "look at the network, and at channels.mail.ACCOUNT."+key))
}

// mailbox is a connection to the IMAP server.
type mailbox struct {
	*imapclient.Client
	news   chan struct{} // has something when the server has said that there is mail
	unbind func() bool
}

var readOnly = &imap.SelectOptions{ReadOnly: true}

var refused = corebot.WithHint(errors.New("the mail server refuses user and password"),
	"look at channels.mail.ACCOUNT.user and password; many providers want an app password, and IMAP switched on")

var unsafe = corebot.WithHint(errors.New("the mail server offers no TLS"),
	"use the port that begins with TLS: 993 for imap, 465 for smtp")

// login connects to the mailbox. The connection ends with ctx.
func (c *Channel) login(ctx context.Context) (_ *mailbox, err error) {
	conn, err := c.imap.dial(ctx)
	if err != nil {
		return nil, corebot.WithHint(err,
			channels.TLSHint(err, "look at the network, and at channels.mail.ACCOUNT.imap"))
	}
	m := &mailbox{news: make(chan struct{}, 1)}
	news := func(*imapclient.UnilateralDataMailbox) { m.ring() }
	m.unbind = context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		if err != nil {
			m.unbind()
			_ = conn.Close()
		}
	}()
	options := &imapclient.Options{
		UnilateralDataHandler: &imapclient.UnilateralDataHandler{Mailbox: news},
	}
	if m.Client, err = c.secured(conn, options); err != nil {
		return nil, err
	}
	if err := m.Login(c.settings.User, c.settings.Password).Wait(); err != nil {
		if no := (*imap.Error)(nil); errors.As(err, &no) {
			return nil, fmt.Errorf("%w; it says: %.300s", refused, clean(no.Text))
		}
		return nil, fmt.Errorf("log in to %s: %w", c.imap.addr, err)
	}
	return m, nil
}

// secured begins IMAP on a connection. A connection without TLS is used on this machine only.
func (c *Channel) secured(conn net.Conn, options *imapclient.Options) (*imapclient.Client, error) {
	if !c.imap.implicit && !c.imap.loopback {
		secure, err := c.imap.startTLS(conn)
		if err != nil {
			return nil, err
		}
		conn = newGreeted(secure)
	}
	client := imapclient.New(&guard{Conn: conn}, options)
	if err := client.WaitGreeting(); err != nil {
		return nil, fmt.Errorf("greet %s: %w", c.imap.addr, err)
	}
	return client, nil
}

func (m *mailbox) ring() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

func (m *mailbox) close() {
	m.unbind()
	_ = m.Close()
}

// within ends the connection if something on it takes longer than the time. A server that does not answer must not hold
// up its caller.
func (m *mailbox) within(d time.Duration, do func() error) error {
	late := time.AfterFunc(d, func() { _ = m.Close() })
	defer late.Stop()
	return do()
}

// headOf is the header of the mail with this number in the open folder.
func (m *mailbox) headOf(n uint32) (header, error) {
	return m.head(imap.SeqSetNum(n))
}

func (m *mailbox) head(which imap.NumSet) (h header, err error) {
	section := &imap.FetchItemBodySection{
		Specifier: imap.PartSpecifierHeader, Peek: true, Partial: &imap.SectionPartial{Size: maxHeader},
	}
	got := m.Fetch(which, &imap.FetchOptions{UID: true, BodySection: []*imap.FetchItemBodySection{section}})
	defer func() { err = errors.Join(err, got.Close()) }()
	for one := got.Next(); one != nil; one = got.Next() {
		for item := one.Next(); item != nil; item = one.Next() {
			if body, is := item.(imapclient.FetchItemDataBodySection); is && body.Literal != nil {
				text, err := bounded(body.Literal, maxHeader)
				if err != nil {
					return h, err
				}
				h, _ = split(text)
			}
		}
	}
	return h, nil
}

// bounded reads a literal to its end and keeps no more than its beginning.
func bounded(r io.Reader, most int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)))
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	return text, err
}
