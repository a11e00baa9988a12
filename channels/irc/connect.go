package irc

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

var (
	refused = corebot.WithHint(errors.New("the server refuses the services account and its password"),
		"look at channels.irc.ACCOUNT.user and password; NickServ of the network can set a new password")
	noLogin = corebot.WithHint(errors.New("the server offers no login by SASL PLAIN"),
		"its services may be away; without password Corebot connects without an account")
	banned = corebot.WithHint(errors.New("the server has banned this address or this nick"),
		"ask the operators of the network; Corebot tries again every 10 minutes, so that the ban does not grow")
	throttled = corebot.WithHint(errors.New("the server wants no new connection from here for now"),
		"nothing: Corebot tries again in 2 minutes")
	badNick = corebot.WithHint(errors.New("the server does not take the nick"),
		"look at channels.irc.ACCOUNT.nick: it may be reserved or too long, or have characters of another server")
)

// heldOff is an error that is not to be tried again at once: each try makes it worse.
type heldOff struct {
	error
	until time.Time
}

// holds remembers an error of which the server wants no further try for a while.
func (c *Channel) holds(err error) error {
	wait := time.Duration(0)
	switch {
	case errors.Is(err, banned), errors.Is(err, refused):
		wait = 10 * time.Minute
	case errors.Is(err, throttled):
		wait = 2 * time.Minute
	default:
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = &heldOff{err, time.Now().Add(wait)}
	return err
}

// held is the error that still holds. It does not outlive the time that it was meant for, also by a clock set back.
func (c *Channel) held() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.holding; h != nil {
		if left := time.Until(h.until); left > 0 && left <= 10*time.Minute {
			return h.error
		}
		c.holding = nil
	}
	return nil
}

const (
	dialTime   = 20 * time.Second
	greetTime  = 60 * time.Second // services and look-ups of the server can be slow
	greetLines = 5000             // a message of the day can be long
)

// wanted are the abilities of servers that Corebot uses.
var wanted = []string{"account-tag", "batch", "echo-message", "message-tags", "server-time"}

// connect connects and registers. The connection ends with ctx.
func (c *Channel) connect(ctx context.Context) (_ *session, err error) {
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := c.dial(dialing, "tcp", c.settings.Addr)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("connect to %s: %w", c.settings.Addr, err),
			"look at the network, and at channels.irc.ACCOUNT.addr")
	}
	if c.settings.TLS {
		host, _, _ := net.SplitHostPort(c.settings.Addr)
		secure := tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
		if err := secure.HandshakeContext(dialing); err != nil {
			_ = conn.Close()
			return nil, corebot.WithHint(fmt.Errorf("begin TLS with %s: %w", c.settings.Addr, err),
				channels.TLSHint(err, "use the port that begins with TLS, mostly 6697"))
		}
		conn = secure
	}
	s := &session{
		of: c, conn: conn, in: bufio.NewReaderSize(conn, maxRead), id: rand.Text(), caps: map[string]bool{},
		joined: map[string]bool{}, removed: map[string]bool{}, batches: map[string]bool{},
		turn: make(chan struct{}, 1), dead: make(chan struct{}),
		checked: map[string]found{},
	}
	s.unbind = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := s.register(ctx); err != nil {
		s.close()
		return nil, c.holds(err)
	}
	return s, nil
}

// greeting is a registration on its way.
type greeting struct {
	*session
	offered map[string]string // abilities, with what the server says of each
	tries   int               // nicks that were taken
	plain   bool              // the password may be sent
}

// register tells the server who Corebot is, until the server has said all that it says at the beginning.
func (s *session) register(ctx context.Context) error {
	if err := s.conn.SetReadDeadline(time.Now().Add(greetTime)); err != nil {
		return err
	}
	g := greeting{session: s, offered: map[string]string{}}
	s.nick = s.of.settings.Nick
	err := s.write(ctx, "CAP LS 302", "NICK "+s.nick, "USER corebot 0 * :Corebot, a program that answers")
	for range greetLines {
		if err != nil {
			break
		}
		var l line
		if l, err = next(s.in); err != nil {
			err = fmt.Errorf("the server did not greet: %w", err)
			break
		}
		var done bool
		if done, err = g.hear(ctx, l); done && err == nil {
			return s.conn.SetReadDeadline(time.Time{})
		}
	}
	if err == nil {
		err = fmt.Errorf("the server did not greet within %d lines", greetLines)
	}
	return err
}

// hear answers one line of the registration. done says that the registration is over.
func (g *greeting) hear(ctx context.Context, l line) (done bool, err error) {
	switch l.command {
	case "PING":
		return false, g.write(ctx, "PONG :"+l.last())
	case "CAP":
		return false, g.abilities(ctx, l)
	case "AUTHENTICATE":
		return false, g.login(ctx)
	case "900":
		g.account = l.param(2)
	case "903":
		return false, g.write(ctx, "CAP END")
	case "902", "904", "905", "906", "907":
		return false, fmt.Errorf("%w; it says: %.300q", refused, l.last())
	case "432":
		return false, fmt.Errorf("%w %q; it says: %.300q", badNick, g.nick, l.last())
	case "433", "436", "437":
		return false, g.rename(ctx, l)
	case "001":
		g.nick = l.param(0)
	case "005", "396":
		g.learn(l)
	case "376", "422":
		if g.of.settings.Password != "" && g.account == "" {
			return false, noLogin
		}
		return true, nil
	case "465", "ERROR":
		return false, ended(l)
	}
	return false, nil
}

// abilities agrees on what both sides can do.
func (g *greeting) abilities(ctx context.Context, l line) error {
	password := g.of.settings.Password != ""
	switch strings.ToUpper(l.param(1)) {
	case "LS":
		for word := range strings.FieldsSeq(l.last()) {
			name, value, _ := strings.Cut(word, "=")
			g.offered[name] = value
		}
		if l.param(2) == "*" { // more follows
			return nil
		}
		ask := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { _, is := g.offered[name]; return !is })
		if how, is := g.offered["sasl"]; password {
			if !is || how != "" && !slices.Contains(strings.Split(how, ","), "PLAIN") {
				return noLogin
			}
			ask = append(ask, "sasl")
		}
		if len(ask) == 0 {
			return g.write(ctx, "CAP END")
		}
		return g.write(ctx, "CAP REQ :"+strings.Join(ask, " "))
	case "ACK":
		for name := range strings.FieldsSeq(l.last()) {
			g.caps[name] = true
		}
		if g.caps["sasl"] {
			g.plain = true
			return g.write(ctx, "AUTHENTICATE PLAIN")
		}
		return g.write(ctx, "CAP END")
	case "NAK":
		if password {
			return noLogin
		}
		return g.write(ctx, "CAP END")
	}
	return nil
}

// login sends the password, once, after the server has agreed to take it.
func (g *greeting) login(ctx context.Context) error {
	if !g.plain {
		return nil
	}
	g.plain = false
	c := g.of.settings
	text := base64.StdEncoding.EncodeToString([]byte("\x00" + c.User + "\x00" + c.Password))
	const most = 400 // of one line; a full one says that more follows
	var lines []string
	for ; len(text) >= most; text = text[most:] {
		lines = append(lines, "AUTHENTICATE "+text[:most])
	}
	if text == "" {
		text = "+"
	}
	return g.write(ctx, append(lines, "AUTHENTICATE "+text)...)
}

const maxRenames = 6

// rename takes another nick where the wanted one is taken.
func (g *greeting) rename(ctx context.Context, l line) error {
	if g.tries++; g.tries > maxRenames {
		return fmt.Errorf("%w %q, and %d others; it says: %.300q", badNick, g.of.settings.Nick, maxRenames, l.last())
	}
	g.nick = g.of.settings.Nick + strings.Repeat("_", g.tries)
	if g.tries > 2 {
		g.nick = g.of.settings.Nick + "-" + fold(rand.Text()[:4])
	}
	return g.write(ctx, "NICK "+g.nick)
}

// ended is the error of a server that ends the connection.
func ended(l line) error {
	words := fold(l.last())
	err := errors.New("the server has ended the connection")
	for _, sign := range []struct {
		word string
		err  error
	}{
		{"throttl", throttled},
		{"too fast", throttled},
		{"too many", throttled},
		{"-lined", banned},
		{"-line:", banned},
		{"banned", banned},
	} {
		if strings.Contains(words, sign.word) {
			err = sign.err
			break
		}
	}
	if l.command == "465" {
		err = banned
	}
	return fmt.Errorf("%w; it says: %.300q", err, l.last())
}
