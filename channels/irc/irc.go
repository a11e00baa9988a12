package irc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// Settings are what an account needs, under channels.irc.ACCOUNT.
type Settings struct {
	Addr     string        `mapstructure:"addr" doc:"the server, HOST:PORT"`
	TLS      bool          `mapstructure:"tls" doc:"whether it begins with TLS; without: this machine only"`
	Nick     string        `mapstructure:"nick" doc:"the nick of Corebot"`
	User     string        `mapstructure:"user" doc:"the services account to log in to; empty: the nick"`
	Password string        `mapstructure:"password" secret:"yes" doc:"the password of that account (SASL PLAIN)"`
	Channels []string      `mapstructure:"channels" doc:"the channels to join, such as #help, or #help KEY"`
	Pace     time.Duration `mapstructure:"pace" min:"1ms" doc:"how long between two lines, after a burst of 3"`
	Hourly   int           `mapstructure:"hourly" min:"1" doc:"how many messages of a sender are answered in an hour"`
	Ping     time.Duration `mapstructure:"ping" min:"1s" doc:"how often to ask if the server is there; at most 5m"`
}

const (
	standardPace   = 2 * time.Second
	standardHourly = 120
	standardPing   = time.Minute
	maxPing        = 5 * time.Minute
	maxJoined      = 50 // channels of the settings
	maxNick        = 30
)

// Validate refuses settings that cannot work.
func (s Settings) Validate() error {
	host, port, err := net.SplitHostPort(s.Addr)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" ||
		strings.ContainsAny(host, " /@") {
		return corebot.WithHint(fmt.Errorf("addr %q is no HOST:PORT", s.Addr),
			"write the address of the server, such as irc.libera.chat:6697")
	}
	if !s.TLS && !channels.Loopback(host) {
		return corebot.WithHint(fmt.Errorf("addr %q would be talked to in the clear", s.Addr),
			"leave tls out: somebody in between could speak as anybody; without TLS is for a server on this machine")
	}
	if s.Nick == "" || len(s.Nick) > maxNick || !isNick(s.Nick) {
		return corebot.WithHint(fmt.Errorf("nick %q is no nick", s.Nick),
			"use letters, digits, - and _, a letter first, such as corebot")
	}
	if len(s.User)+len(s.Password) > 250 || strings.ContainsFunc(s.User+s.Password, isControl) {
		return corebot.WithHint(errors.New("user or password has a form that SASL cannot send"),
			"use at most 250 bytes without control characters")
	}
	if s.User != "" && s.Password == "" {
		return corebot.WithHint(errors.New("user is set and password is empty"),
			"keep the password of the services account in a file and set password to file:irc.password")
	}
	for _, name := range s.Channels {
		if _, _, err := parseJoin(name); err != nil {
			return err
		}
	}
	if len(s.Channels) > maxJoined {
		return corebot.WithHint(fmt.Errorf("%d channels", len(s.Channels)), fmt.Sprintf("at most %d", maxJoined))
	}
	if s.Ping > maxPing {
		return corebot.WithHint(fmt.Errorf("ping is %v", s.Ping),
			"a dead connection would be noticed too late: at most 5m")
	}
	return nil
}

// parseJoin reads the name of a channel with its key.
func parseJoin(s string) (name, key string, err error) {
	name, key, _ = strings.Cut(strings.TrimSpace(s), " ")
	if !isChannel(name) || strings.ContainsAny(key, " ,:") || strings.ContainsFunc(key, isControl) {
		return "", "", corebot.WithHint(fmt.Errorf("channels: %q is no channel", s),
			`write the name with its #, in quotes, such as "#help", or "#help KEY"`)
	}
	return name, key, nil
}

// isChannel says whether a target is a channel, by the prefixes that servers use.
func isChannel(s string) bool {
	return len(s) > 1 && len(s) <= 200 && strings.ContainsRune("#&+!", rune(s[0])) && !strings.ContainsAny(s, " ,\a") &&
		!strings.ContainsFunc(s, isControl) && utf8.ValidString(s)
}

// isNick says whether a name can be a nick. Servers differ; none of them takes what begins like a channel, an account
// of ours or a mode, or has what separates the parts of a line.
func isNick(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsAny(s, " ,*?!@:.\x00") && !strings.ContainsFunc(s, isControl) &&
		!strings.ContainsRune("#&+~%$-0123456789", rune(s[0])) && utf8.ValidString(s)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// Network describes IRC for the list of networks in package internal/app.
func Network() channels.Network {
	return channels.NewNetwork(channels.Kind{
		Name: "irc", People: true, About: "a nick on IRC",
		Questions: []channels.Question{
			{Key: "addr", Text: "Server, HOST:PORT", Hint: "Such as irc.libera.chat:6697, with a port for TLS."},
			{Key: "nick", Text: "Nick of Corebot"},
		},
	}, Settings{
		TLS: true, Nick: "corebot", Channels: []string{}, Pace: standardPace, Hourly: standardHourly,
		Ping: standardPing,
	}, New)
}

// Channel is one nick on one server.
type Channel struct {
	settings Settings
	site     channels.Site
	pace     pacer
	hourly   channels.Hourly
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	lastTime time.Duration

	mu      sync.Mutex
	now     *session            // registered; nil: none
	came    chan struct{}       // closed when there is a session
	nicks   names               // accounts to the nicks under which they spoke last
	kept    []channels.Incoming // received and not stored yet
	holding *heldOff            // why the server is not to be asked again for a while

	// Messages of channels to the nicks that said them: those that address Corebot, and the others, of which there are
	// many more. A reply to a message that is forgotten names nobody.
	askers, speakers names
}

var (
	_ channels.Periodic = (*Channel)(nil)
	_ channels.Checker  = (*Channel)(nil)
)

// New makes the channel of an account. It connects to nothing.
func New(s Settings, site channels.Site) (channels.Channel, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.User == "" {
		s.User = s.Nick
	}
	return &Channel{
		settings: s, site: site, pace: newPacer(s.Pace), came: make(chan struct{}),
		hourly: channels.Hourly{Most: s.Hourly}, dial: channels.Dial, lastTime: lastTime,
	}, nil
}

// slack is how long the server has for an answer.
const slack = 15 * time.Second

// Period implements [channels.Periodic].
func (c *Channel) Period() time.Duration { return c.settings.Ping + slack }

// Check implements [channels.Checker]. The nick of a running Corebot is taken, so the check gets another.
func (c *Channel) Check(ctx context.Context) (string, error) {
	s, err := c.connect(ctx)
	if err != nil {
		return "", err
	}
	defer s.close()
	says := "known as " + s.nick
	if s.account != "" {
		says += ", logged in as " + s.account
	}
	if !s.caps["account-tag"] {
		says += "; the server names no accounts (account-tag), so nobody there has a role"
	}
	_ = s.write(ctx, "QUIT :checked")
	return says, nil
}

// names maps up to 1,000 names to nicks. The oldest is forgotten.
type names struct {
	nick  map[string]string
	order []string
}

const maxNames = 1000

func (n *names) is(name, nick string) {
	if n.nick == nil {
		n.nick = map[string]string{}
	}
	if _, known := n.nick[name]; !known {
		if len(n.order) >= maxNames {
			delete(n.nick, n.order[0])
			n.order = n.order[1:]
		}
		n.order = append(n.order, name)
	}
	n.nick[name] = nick
}
