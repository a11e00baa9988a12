// Package irctest is a server of IRC for tests, with services accounts. It keeps everything in memory, holds clients to
// the rules of the protocol, and can fail as servers fail.
package irctest

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot/channels/channeltest/platform"
)

// The services account of Corebot.
const (
	Account  = "corebot"
	Password = "the-password-of-the-bot"
)

// Server is one server on loopback.
type Server struct {
	// Caps are the abilities that the server offers; New sets all. Set them before somebody connects.
	Caps     []string
	listener net.Listener
	serving  sync.WaitGroup

	mu         sync.Mutex
	people     map[string]Person // by folded nick
	conns      map[*client]struct{}
	shown      map[string][]string
	complaints []string
	modes      map[string]string // of channels: "c" refuses looks, "m" refuses all lines
	said       int
	waits      int // for a client that answers
	refuse     int
	drop       func() bool // whether the answer to a line is lost
	silent     bool
	ban        string
}

// Person is somebody on the server. Without an account nobody knows who that is.
type Person struct{ Nick, Account, Host string }

func (p Person) host() string {
	if p.Host == "" {
		return "people.test"
	}
	return p.Host
}

// Ann is a person with an account.
var Ann = Person{Nick: "ann", Account: "Ann"}

// New starts a server. Without a configuration of TLS it talks in the clear.
func New(secure *tls.Config) *Server {
	l, err := platform.Listener("127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	s := &Server{
		Caps: []string{
			"account-tag", "batch", "echo-message", "message-tags", "sasl=EXTERNAL,PLAIN", "server-time",
		},
		listener: l, people: map[string]Person{}, conns: map[*client]struct{}{}, shown: map[string][]string{},
		modes: map[string]string{},
	}
	s.Arrive(Ann)
	s.serving.Go(s.serve)
	return s
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.Cut()
	s.serving.Wait()
}

// Arrive has a person come, or come again under another account. Leave has a nick go.
func (s *Server) Arrive(p Person) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.people[strings.ToLower(p.Nick)] = p
}

func (s *Server) Leave(nick string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.people, strings.ToLower(nick))
}

// Say has a person write to the bot or into a channel, once the bot is there, and gives the id of the message.
func (s *Server) Say(p Person, target, text string) string {
	s.mu.Lock()
	s.said++
	id := fmt.Sprintf("said-%d", s.said)
	s.mu.Unlock()
	s.Line(p, target, "msgid="+id, "PRIVMSG", text)
	return id
}

// Line sends a line of a person to the bot, once the bot is there.
func (s *Server) Line(p Person, target, tags, command, text string) {
	s.bot(target, func(c *client) {
		if strings.HasPrefix(target, "#") || target == "" {
			s.raw(c, tags, p, command, target, text)
			return
		}
		s.raw(c, tags, p, command, c.nick, text)
	})
}

// raw writes a line with the tags that the client has asked for. The caller has the lock.
func (s *Server) raw(c *client, tags string, p Person, command, target, text string) {
	var all []string
	if tags != "" && c.caps["message-tags"] {
		all = append(all, tags)
	}
	if p.Account != "" && c.caps["account-tag"] {
		all = append(all, "account="+p.Account)
	}
	begin := ""
	if len(all) > 0 {
		begin = "@" + strings.Join(all, ";") + " "
	}
	c.send("%s:%s!~%s@%s %s %s :%s", begin, p.Nick, p.Nick, p.host(), command, target, text)
}

// comes is how long a bot can take to come. After several lost connections its supervisor pauses up to a minute.
const comes = 2 * time.Minute

// bot waits for a registered client that is in the channel, or anywhere, and that answers. A client that has closed its
// connection stays in the list until the server is told so, and would never hear what it gets then.
func (s *Server) bot(target string, then func(*client)) {
	s.mu.Lock()
	s.waits++
	token := fmt.Sprintf("are-you-there-%d", s.waits)
	s.mu.Unlock()
	for began := time.Now(); time.Since(began) < comes; time.Sleep(100 * time.Microsecond) {
		s.mu.Lock()
		for c := range s.conns {
			if c.registered && (!strings.HasPrefix(target, "#") || c.joined[strings.ToLower(target)]) &&
				(s.silent || c.answers(token)) {
				then(c)
				s.mu.Unlock()
				return
			}
		}
		s.mu.Unlock()
	}
	panic("the bot does not come")
}

// answers asks a client once whether it is there, and says whether it has answered. The caller has the lock.
func (c *client) answers(token string) bool {
	answered, asked := c.asked[token]
	if !asked {
		c.asked[token] = false
		c.send("PING :%s", token)
	}
	return answered
}

// Send sends a line of the server to the bot, once it is there.
func (s *Server) Send(format string, args ...any) {
	s.bot("", func(c *client) { c.send(format, args...) })
}

// Shown are the lines that a channel or a person has got.
func (s *Server) Shown(target string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.shown[strings.ToLower(target)])
}

// Mode sets the modes of a channel.
func (s *Server) Mode(channel, modes string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.modes[channel] = modes
}

// Kick removes the bot from a channel.
func (s *Server) Kick(channel string) {
	s.bot(channel, func(c *client) {
		delete(c.joined, channel)
		c.send(":op!~op@people.test KICK %s %s :enough", channel, c.nick)
	})
}

// Joined says whether the bot is in a channel.
func (s *Server) Joined(channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.registered && c.joined[channel] {
			return true
		}
	}
	return false
}

// Nick is what the bot is called; empty: it is not there.
func (s *Server) Nick() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.registered {
			return c.nick
		}
	}
	return ""
}

// Refuse has the server refuse the next n lines for now. Drop has it take a line and cut the connection before its
// answer, whenever the function says so. Ban has it refuse connections with these words; empty: no more.
func (s *Server) Refuse(n int)          { s.set(func() { s.refuse = n }) }
func (s *Server) Drop(when func() bool) { s.set(func() { s.drop = when }) }
func (s *Server) Ban(words string)      { s.set(func() { s.ban = words }) }

// Silence has the server answer nothing, or answer again.
func (s *Server) Silence(silent bool) { s.set(func() { s.silent = silent }) }

func (s *Server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Cut breaks every connection.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.conn.Close()
		delete(s.conns, c)
	}
}

// Complaints are what clients did wrong.
func (s *Server) Complaints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.complaints)
}

func (s *Server) complain(format string, args ...any) {
	s.complaints = append(s.complaints, fmt.Sprintf(format, args...))
}

func (s *Server) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := &client{of: s, conn: conn, caps: map[string]bool{}, joined: map[string]bool{}, asked: map[string]bool{}}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		if s.ban != "" {
			c.send("ERROR :%s", s.ban)
			_ = conn.Close()
		}
		s.mu.Unlock()
		s.serving.Go(func() {
			c.hear()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.conns, c)
			_ = conn.Close()
		})
	}
}

// client is one connection.
type client struct {
	of                  *Server
	conn                net.Conn
	caps                map[string]bool
	nick, user, account string
	negotiating, plain  bool
	registered          bool
	joined              map[string]bool
	asked               map[string]bool // questions whether it is there, and whether each was answered
}

const host = "bots.corebot.test"

// send writes a line. The caller has the lock of the server.
func (c *client) send(format string, args ...any) {
	if c.of.silent {
		return
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_, _ = fmt.Fprintf(c.conn, format+"\r\n", args...)
}

func (c *client) hear() {
	in := bufio.NewReader(c.conn)
	for {
		text, err := in.ReadString('\n')
		if err != nil {
			return
		}
		c.of.mu.Lock()
		c.line(text)
		c.of.mu.Unlock()
	}
}

// line checks the form of a line.
func (c *client) line(text string) {
	switch {
	case len(text) > 512:
		c.of.complain("a line of %d bytes", len(text))
	case !strings.HasSuffix(text, "\r\n") || strings.ContainsAny(text[:len(text)-2], "\r\n\x00\x01"):
		c.of.complain("a line with control characters: %q", text)
	case !utf8.ValidString(text):
		c.of.complain("a line that is no UTF-8: %q", text)
	}
	text = strings.TrimRight(text, "\r\n")
	head, last, has := strings.Cut(text, " :")
	words := strings.Fields(head)
	if has {
		words = append(words, last)
	}
	if len(words) == 0 {
		c.of.complain("an empty line")
		return
	}
	if _, here := c.of.conns[c]; here {
		c.command(strings.ToUpper(words[0]), append(words[1:], "", "", ""))
	}
}

func (c *client) command(name string, args []string) {
	switch name {
	case "CAP":
		c.abilities(strings.ToUpper(args[0]), args[1])
	case "AUTHENTICATE":
		c.authenticate(args[0])
	case "NICK":
		c.rename(args[0])
	case "USER":
		c.user = args[0]
	case "PING":
		c.send(":irc.test PONG irc.test :%s", args[0])
		return
	case "PONG":
		if _, asked := c.asked[args[0]]; asked {
			c.asked[args[0]] = true
		}
		return
	case "QUIT":
		return
	default:
		if !c.registered {
			c.of.complain("%s before the registration", name)
			return
		}
		c.act(name, args)
		return
	}
	if !c.registered && !c.negotiating && c.nick != "" && c.user != "" {
		c.registered = true
		c.send(":irc.test 001 %s :Welcome", c.nick)
		c.send(":irc.test 005 %s CASEMAPPING=ascii USERLEN=10 HOSTLEN=64 :are supported", c.nick)
		c.send(":irc.test 376 %s :End of the message of the day", c.nick)
	}
}

func (c *client) abilities(sub, words string) {
	switch sub {
	case "LS":
		c.negotiating = true
		half := len(c.of.Caps) / 2
		c.send(":irc.test CAP * LS * :%s", strings.Join(c.of.Caps[:half], " "))
		c.send(":irc.test CAP * LS :%s", strings.Join(c.of.Caps[half:], " "))
	case "REQ":
		for _, name := range strings.Fields(words) {
			if !slices.ContainsFunc(c.of.Caps, func(offered string) bool {
				return offered == name || strings.HasPrefix(offered, name+"=")
			}) {
				c.of.complain("the ability %s was not offered", name)
			}
			c.caps[name] = true
		}
		c.send(":irc.test CAP * ACK :%s", words)
	case "END":
		c.negotiating = false
	}
}

func (c *client) authenticate(text string) {
	switch {
	case !c.caps["sasl"]:
		c.of.complain("AUTHENTICATE without the ability")
	case text == "PLAIN":
		c.plain = true
		c.send("AUTHENTICATE +")
	case c.plain:
		said, _ := base64.StdEncoding.DecodeString(text)
		if string(said) != "\x00"+Account+"\x00"+Password {
			c.send(":irc.test 904 * :SASL authentication failed")
			return
		}
		c.account = Account
		c.send(":irc.test 900 * *!*@* %s :You are now logged in", Account)
		c.send(":irc.test 903 * :SASL authentication successful")
	}
}

func (c *client) rename(to string) {
	_, taken := c.of.people[strings.ToLower(to)]
	for other := range c.of.conns {
		taken = taken || other != c && strings.EqualFold(other.nick, to)
	}
	if taken {
		c.send(":irc.test 433 * %s :Nickname is already in use", to)
		return
	}
	if c.registered {
		c.send(":%s!%s@%s NICK :%s", c.nick, c.user, host, to)
	}
	c.nick = to
}
