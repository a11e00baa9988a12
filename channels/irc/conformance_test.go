package irc_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/irc"
	"github.com/corebot/corebot/channels/irc/irctest"
)

var account = channels.Account{Kind: "irc", Name: "main"}

// secured is the TLS of a server on this machine. TestMain makes its certificate one that Corebot trusts.
var secured *tls.Config

func TestMain(m *testing.M) {
	os.Exit(func() int {
		server := httptest.NewTLSServer(nil)
		defer server.Close()
		secured = server.TLS
		dir, err := os.MkdirTemp("", "irc")
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
		return m.Run()
	}())
}

// platform is a server that ends with the test, about whose client it has nothing to complain.
func platform(t *testing.T) *irctest.Server {
	t.Helper()
	s := irctest.New(nil)
	t.Cleanup(func() {
		s.Close()
		for _, c := range s.Complaints() {
			t.Errorf("the platform complains: %s", c)
		}
	})
	return s
}

func settings(s *irctest.Server) irc.Settings {
	return irc.Settings{
		Addr: s.Addr(), Nick: "corebot", Pace: time.Millisecond, Hourly: 1000, Ping: time.Minute,
		Channels: []string{"#Room"},
	}
}

// open makes the channel of an account on the server.
func open(t *testing.T, s irc.Settings) *irc.Channel {
	t.Helper()
	c, err := irc.New(s, channels.Site{Account: account, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return c.(*irc.Channel)
}

func TestIRCKeepsTheGuaranteesOfAChannel(t *testing.T) {
	for name, chat := range map[string]string{"in private": "@ann", "in a channel": "#room"} {
		t.Run(name, func(t *testing.T) {
			channeltest.Run(t, func(t *testing.T) channeltest.Subject { return subject(t, chat) })
		})
	}
}

func TestIRCGetsOverMisfortunes(t *testing.T) {
	channeltest.Misfortunes(t, func(t *testing.T) channeltest.Subject {
		return subject(t, "@ann")
	})
}

func subject(t *testing.T, chat string) channeltest.Subject {
	t.Helper()
	return subjectOf(t, platform(t), chat)
}

func subjectOf(t *testing.T, s *irctest.Server, chat string) channeltest.Subject {
	names := &channeltest.Names{}
	target, begin := "corebot", ""
	if chat == "#room" {
		target, begin = chat, "corebot: "
	}
	shown := "ann"
	if chat == "#room" {
		shown = chat
	}
	return channeltest.Subject{
		Revoke: func() { s.Ban("Closing link: K-Lined"); s.Cut() }, Restore: func() { s.Ban("") },
		Revoked: "the server has banned this address", Secret: "K-Lined by",
		Closed: "#closed", Refused: "no member of the channel",
		Account: account, Chat: chat, ID: names.Of, Forgets: true,
		Open: func() channels.Channel { return open(t, settings(s)) },
		Say: func(_ channels.Accepter, id, text string) {
			names.Is(id, s.Say(irctest.Ann, target, begin+text))
		},
		Shown: func() (texts []string) {
			for _, l := range s.Shown(shown) {
				texts = append(texts, strings.TrimPrefix(l, "\x0f"))
			}
			return texts
		},
		Pose: func(id, text string) {
			s.Leave(irctest.Ann.Nick)
			other := irctest.Person{Nick: irctest.Ann.Nick, Account: "mallory"}
			names.Is(id, s.Say(other, target, begin+text))
		},
		NoFiles: "IRC has no files: people write addresses",
		Cut:     s.Cut, Silence: s.Silence, Refuse: s.Refuse,
	}
}

// running is a channel that receives into a door, and a server.
type running struct {
	*irctest.Server
	t       *testing.T
	channel *irc.Channel
	door    *channeltest.Door
}

func run(t *testing.T, s *irctest.Server, set irc.Settings) *running {
	t.Helper()
	r := &running{s, t, open(t, set), &channeltest.Door{}}
	r.start()
	return r
}

// start runs the channel until the test ends; stop ends it before, with the error of the run.
func (r *running) start() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.channel.Run(ctx, r.door) }()
	done := false
	stop = func() error {
		if done {
			return nil
		}
		done = true
		cancel()
		return <-ended
	}
	r.t.Cleanup(func() { _ = stop() })
	return stop
}

// until waits for something to become true.
func (r *running) until(what string, is func() bool) {
	r.t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			r.t.Fatalf("10 s pass without: %s; there is %+v", what, r.door.Got())
		}
	}
}

// got waits for so many messages.
func (r *running) got(n int) []channels.Incoming {
	r.t.Helper()
	r.until("the messages came", func() bool { return len(r.door.Got()) >= n })
	return r.door.Got()
}

func keyOf(chat string) corebot.Key {
	return corebot.Key{Agent: "main", Channel: "irc", Account: "main", Chat: chat}
}

// reply sends a whole text, line by line, as the outbox does.
func (r *running) reply(chat, text string) error {
	o := channels.Outbound{ID: "r1", Key: keyOf(chat), Kind: corebot.KindReply}
	for at := 0; ; {
		o.Before, o.Parts = text[:at], corebot.TextPart(text[at:])
		receipt, err := r.channel.Send(r.t.Context(), o)
		if err != nil {
			return err
		}
		if receipt.Reached == 0 || at+receipt.Reached >= len(text) {
			return nil
		}
		at += receipt.Reached
	}
}
