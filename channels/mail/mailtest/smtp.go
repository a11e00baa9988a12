package mailtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// session is a connection that sends.
type session struct {
	server *Server
	line   net.Conn
	in     bool
	to     []string
}

func (x *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (x *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != Address || password != Password || x.server.isRevoked() {
			return smtp.ErrAuthFailed
		}
		x.in = true
		return nil
	}), nil
}

func (x *session) Mail(from string, _ *smtp.MailOptions) error {
	if !x.in || from != Address {
		return smtp.ErrAuthRequired
	}
	return nil
}

// Rcpt refuses as mox does: by the end of the local part.
func (x *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	local, _, _ := strings.Cut(to, "@")
	switch {
	case strings.HasSuffix(local, "temperror"):
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 0, 0}, Message: "come again"}
	case strings.HasSuffix(local, "permerror"):
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "there is nobody"}
	}
	x.to = append(x.to, to)
	return nil
}

func (x *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	lose, err := x.server.take(x.to, raw)
	if lose {
		_ = x.line.Close() // before the answer
	}
	return err
}

// take keeps a mail for each of its recipients, or refuses it for now. lose says that its answer is to be lost.
func (s *Server) take(to []string, raw []byte) (lose bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tried++
	now := func(each int) bool { return each > 0 && s.tried%each == 0 }
	if s.refuse > 0 || now(s.each[1]) {
		s.refuse = max(s.refuse-1, 0)
		return false, &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "too many mails"}
	}
	if s.limit > 0 && len(raw) > s.limit {
		return false, &smtp.SMTPError{Code: 552, EnhancedCode: smtp.EnhancedCode{5, 3, 4}, Message: "message too big"}
	}
	for _, to := range to {
		if to != Address {
			s.sent = append(s.sent, Mail{to, raw})
			continue
		}
		at := time.Now()
		s.inbox = append(s.inbox, stored{raw, at})
		_, err := s.user.Append("INBOX", literal{bytes.NewReader(raw)}, &imap.AppendOptions{Time: at})
		must(err)
	}
	if s.drop > 0 || now(s.each[0]) {
		s.drop = max(s.drop-1, 0)
		s.lost++
		return true, errors.New("too late")
	}
	return false, nil
}

func (x *session) Reset()        { x.to = nil }
func (x *session) Logout() error { return nil }

// Silence has the server answer nothing, or answer again.
func (s *Server) Silence(silent bool) {
	s.wire.Lock()
	defer s.wire.Unlock()
	s.silent = silent
}

// Cut breaks every connection.
func (s *Server) Cut() {
	s.wire.Lock()
	all := s.conns
	s.conns = map[*conn]struct{}{}
	s.wire.Unlock()
	for c := range all {
		_ = c.Conn.Close()
	}
}

type listener struct {
	net.Listener
	s *Server
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	of := &conn{Conn: c, s: l.s}
	l.s.wire.Lock()
	defer l.s.wire.Unlock()
	l.s.conns[of] = struct{}{}
	return of, nil
}

// conn is a connection that can fall silent.
type conn struct {
	net.Conn
	s *Server
}

func (c *conn) Write(b []byte) (int, error) {
	for {
		c.s.wire.Lock()
		silent, there := c.s.silent, false
		_, there = c.s.conns[c]
		c.s.wire.Unlock()
		if !silent || !there {
			return c.Conn.Write(b)
		}
		time.Sleep(time.Millisecond)
	}
}

func (c *conn) Close() error {
	c.s.wire.Lock()
	delete(c.s.conns, c)
	c.s.wire.Unlock()
	return c.Conn.Close()
}
