// Package mailtest is a mail server for tests: a mailbox behind IMAP, and SMTP that takes mails to send. It keeps
// everything in memory, can fail as servers fail, and begins again at the same addresses with what it has.
package mailtest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/emersion/go-smtp"

	"github.com/corebot/corebot/channels/channeltest/platform"
)

// The one account of the server, and the name under which it checks senders.
const (
	Address    = "bot@corebot.test"
	Password   = "the-password-of-the-bot"
	AuthServID = "mx.corebot.test"
)

// Server is a mail server on loopback.
type Server struct {
	mu       sync.Mutex
	user     *imapmemserver.User
	inbox    []stored // what is in the folder of new mail, to number it anew
	sent     []Mail
	said     int
	refuse   int // sends that are refused for now
	limit    int // bytes of a mail; 0: none
	drop     int // sends that are taken, and whose answer is lost
	tried    int // sends
	each     [2]int
	lost     int                      // how many were
	fetches  func(uid imap.UID) error // refuses to give a mail; nil: none is refused
	idles    int                      // how often somebody has begun to wait for mail
	wire     sync.Mutex               // of what follows: the mailbox writes to connections while it is locked
	silent   bool
	conns    map[*conn]struct{}
	imapAddr string
	smtpAddr string
	tls      *tls.Config // nil: none is offered
	implicit bool        // TLS begins with each connection
	stop     func()
	revoked  bool // no password is right
}

type stored struct {
	raw []byte
	at  time.Time
}

// Mail is one that the server has taken to send.
type Mail struct {
	To  string
	Raw []byte
}

// New starts a server that offers no TLS.
func New() *Server { return NewTLS(nil, false) }

// NewTLS starts a server with TLS from the first byte, or by STARTTLS. It takes no password without TLS.
func NewTLS(config *tls.Config, implicit bool) *Server {
	s := &Server{user: newUser(), conns: map[*conn]struct{}{}, tls: config, implicit: implicit}
	s.start("127.0.0.1:0", "127.0.0.1:0")
	return s
}

func newUser() *imapmemserver.User {
	u := imapmemserver.NewUser(Address, Password)
	must(u.Create("INBOX", nil))
	must(u.Create("Sent", &imap.CreateOptions{SpecialUse: []imap.MailboxAttr{imap.MailboxAttrSent}}))
	return u
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// start listens, at the same addresses as before if there was a before.
func (s *Server) start(imapAddr, smtpAddr string) {
	boxes, outs := s.listen(imapAddr), s.listen(smtpAddr)
	s.imapAddr, s.smtpAddr = boxes.Addr().String(), outs.Addr().String()
	boxServer := imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			all := imapmemserver.New()
			all.AddUser(s.user)
			return watched{all.NewSession().(imapserver.SessionIMAP4rev2), s}, nil, nil
		},
		Caps: imap.CapSet{
			imap.CapIMAP4rev1: {}, imap.CapIMAP4rev2: {}, imap.CapSpecialUse: {},
			imap.CapMove: {},
		},
		InsecureAuth: s.tls == nil, TLSConfig: s.tls, Logger: quiet{},
	})
	outServer := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &session{server: s, line: c.Conn()}, nil
	}))
	outServer.Domain, outServer.AllowInsecureAuth, outServer.ErrorLog = "corebot.test", s.tls == nil, quiet{}
	outServer.TLSConfig = s.tls
	go func() { _ = boxServer.Serve(boxes) }()
	go func() { _ = outServer.Serve(outs) }()
	s.stop = func() {
		_ = boxServer.Close()
		_ = outServer.Close()
		_, _ = boxes.Close(), outs.Close()
		s.Cut()
	}
}

// watched is a session that counts.
type watched struct {
	imapserver.SessionIMAP4rev2
	s *Server
}

// Login knows nobody while the password is revoked.
func (w watched) Login(user, password string) error {
	if w.s.isRevoked() {
		return imapserver.ErrAuthFailed
	}
	return w.SessionIMAP4rev2.Login(user, password)
}

// Revoke has no password be right, or the right one again.
func (s *Server) Revoke(revoked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = revoked
}

func (s *Server) isRevoked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revoked
}

func (w watched) Idle(out *imapserver.UpdateWriter, stop <-chan struct{}) error {
	w.s.mu.Lock()
	w.s.idles++
	w.s.mu.Unlock()
	if err := w.Poll(out, true); err != nil { // what came before the wait is told now
		return err
	}
	return w.SessionIMAP4rev2.Idle(out, stop)
}

// Fetch gives mails, or refuses all if one of them is refused. The error [ErrCut] breaks the connection.
func (w watched) Fetch(out *imapserver.FetchWriter, of imap.NumSet, o *imap.FetchOptions) error {
	w.s.mu.Lock()
	refuses := w.s.fetches
	w.s.mu.Unlock()
	if uids, is := of.(imap.UIDSet); is && refuses != nil {
		all, _ := uids.Nums()
		for _, uid := range all {
			switch err := refuses(uid); {
			case err == ErrCut:
				w.s.Cut()
				return err
			case err != nil:
				return err
			}
		}
	}
	return w.SessionIMAP4rev2.Fetch(out, of, o)
}

// ErrCut has a fetch break its connection.
var ErrCut = errors.New("cut")

// No is a refusal of a fetch with a code, such as SERVERBUG.
func No(code imap.ResponseCode) error {
	return &imap.Error{Type: imap.StatusResponseTypeNo, Code: code, Text: "cannot give it"}
}

// RefuseFetch has the server ask before it gives a mail.
func (s *Server) RefuseFetch(refuses func(uid imap.UID) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches = refuses
}

// Awaited waits until somebody waits for mail: what was there before the account's first start is not answered.
func (s *Server) Awaited() {
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		n := s.idles
		s.mu.Unlock()
		if n > 0 {
			return
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

func (s *Server) listen(addr string) net.Listener {
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		l, err := platform.Listener(addr)
		if err == nil {
			if s.implicit {
				return tls.NewListener(listener{l, s}, s.tls)
			}
			return listener{l, s}
		}
		if time.Since(began) > 10*time.Second {
			panic(err)
		}
	}
}

// IMAP and SMTP are where the server listens.
func (s *Server) IMAP() string { return s.imapAddr }
func (s *Server) SMTP() string { return s.smtpAddr }

// Close ends the server.
func (s *Server) Close() { s.Silence(false); s.stop() }

// Restart ends the server for a while and starts it again with all that it has.
func (s *Server) Restart(away time.Duration) {
	s.stop()
	time.Sleep(away)
	s.start(s.imapAddr, s.smtpAddr)
}

// Renumber gives the folder of new mail another UIDVALIDITY: all mails are there under other numbers.
func (s *Server) Renumber() {
	s.mu.Lock()
	must(s.user.Delete("INBOX"))
	must(s.user.Create("INBOX", nil))
	all := s.inbox
	s.inbox = nil
	s.mu.Unlock()
	s.Cut()
	for _, one := range all {
		s.Deliver(one.raw, one.at)
	}
}

// Said is a mail that somebody writes to the account.
type Said struct {
	From, ID, Subject, Text string
	Headers                 string    // further lines, which end with line feeds
	At                      time.Time // when it came; zero: now
	Unchecked               bool      // the server has not verified the sender
}

// Say has somebody write.
func (s *Server) Say(m Said) {
	s.mu.Lock()
	s.said++
	if m.ID == "" {
		m.ID = fmt.Sprintf("said-%d", s.said)
	}
	s.mu.Unlock()
	s.Deliver(m.Raw(), m.At)
}

// Raw is the mail as the server stores it.
func (m Said) Raw() []byte {
	var b bytes.Buffer
	if m.From == "" {
		m.From = "ann@people.test"
	}
	if m.Subject == "" {
		m.Subject = "A question"
	}
	_, domain, _ := bytes.Cut([]byte(m.From), []byte("@"))
	fmt.Fprintf(&b, "Return-Path: <%s>\n", m.From)
	if !m.Unchecked {
		fmt.Fprintf(&b, "Authentication-Results: %s; spf=pass smtp.mailfrom=%s;\n dmarc=pass (p=none) header.from=%s\n",
			AuthServID, m.From, domain)
	}
	fmt.Fprintf(&b, "From: <%s>\nTo: <%s>\nSubject: %s\nMessage-ID: <%s@people.test>\n%s\n%s\n", m.From, Address,
		m.Subject,
		m.ID, m.Headers, m.Text)
	return bytes.ReplaceAll(b.Bytes(), []byte("\n"), []byte("\r\n"))
}

// Deliver puts a mail into the folder of new mail.
func (s *Server) Deliver(raw []byte, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.IsZero() {
		at = time.Now()
	}
	s.inbox = append(s.inbox, stored{raw, at})
	_, err := s.user.Append("INBOX", literal{bytes.NewReader(raw)}, &imap.AppendOptions{Time: at})
	must(err)
}

type literal struct{ *bytes.Reader }

// Sent are the mails that the server has taken for others, in order.
func (s *Server) Sent() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.sent...)
}

// Count is how many mails a folder has, and how many of them are not flagged as seen.
func (s *Server) Count(folder string) (mails, unseen int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status, err := s.user.Status(folder, &imap.StatusOptions{NumMessages: true, NumUnseen: true})
	must(err)
	return int(*status.NumMessages), int(*status.NumUnseen)
}

// Limit has the server refuse mails of more bytes for good.
func (s *Server) Limit(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = bytes
}

// Refuse has the server refuse the next n sends for now.
func (s *Server) Refuse(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = n
}

// Drop has the server take the next n sends and lose the answer. Lost is how many it has lost.
func (s *Server) Drop(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop = n
}

// Faults has the server lose the answer to each so manieth send, and refuse each so manieth for now.
func (s *Server) Faults(drop, refuse int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each = [2]int{drop, refuse}
}

// Lost is how many answers were lost.
func (s *Server) Lost() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}
