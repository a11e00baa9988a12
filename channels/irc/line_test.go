package irc

import (
	"bufio"
	"context"
	"crypto/rand"
	"net"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
)

func TestALineIsTakenApart(t *testing.T) {
	for raw, want := range map[string]string{
		":ann!~a@h PRIVMSG #c :hello : all":       "ann ~a h PRIVMSG [#c hello : all]",
		"@a=b;c;+d=1\\s2\\:3\\\\4 :s 001 me  :hi": "s   001 [me hi]",
		"PING token":                        "   PING [token]",
		"x a b c d e f g h i j k l m n o p": "   X [a b c d e f g h i j k l m n o p]",
		":s 1 :":                            "s   1 []",
	} {
		l, err := parse([]byte(raw))
		got := strings.Join([]string{l.source.nick, l.source.user, l.source.host, l.command}, " ") + " [" +
			strings.Join(l.params, " ") + "]"
		if err != nil || got != want {
			t.Errorf("%q is %q, %v", raw, got, err)
		}
		if len(l.tags) > 0 && (l.tags["a"] != "b" || l.tags["+d"] != "1 2;3\\4") {
			t.Errorf("the tags are %q", l.tags)
		}
	}
	for _, raw := range []string{"", " ", "@a=b", ":s", "@a :s ", "é x", "@" + strings.Repeat("x", 9000) + " PING"} {
		if l, err := parse([]byte(raw)); err == nil {
			t.Errorf("%.40q is %+v", raw, l)
		}
	}
}

// FuzzHear says anything to Corebot: it never panics, and what it takes for a message can be stored. Nobody is called
// by the name of an account that the server did not put on the line.
func FuzzHear(f *testing.F) {
	for _, seed := range []string{
		"@account=ann;msgid=1 :ann!~a@h PRIVMSG corebot :hello", ":a!b@c PRIVMSG #c :\x01ACTION x\x01",
		":a!b@c PRIVMSG #c :corebot: !status", "BATCH +a chathistory #c\n@batch=a :a!b@c PRIVMSG #c :x", "PING :a",
		":corebot!x@y NICK z", ":a!b@c KICK #c corebot :x", ":s 005 me HOSTLEN=99", "ERROR :x", ":s 433 a b :c",
		"@account=\u0085 :é!~a@h PRIVMSG corebot :\xff\x03\x04", ":a!b@c INVITE corebot #c",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := New(Settings{Addr: "127.0.0.1:1", Nick: "corebot", Pace: 1, Hourly: 9, Ping: 1}, channels.Site{
			Log: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		mine, theirs := net.Pipe()
		defer mine.Close()   //nolint:errcheck // a pipe
		defer theirs.Close() //nolint:errcheck // a pipe
		go func() { _, _ = bufio.NewReader(theirs).WriteTo(nowhere{}) }()
		s := &session{
			of: c.(*Channel), conn: mine, id: rand.Text(), nick: "corebot", joined: map[string]bool{},
			removed: map[string]bool{},
			batches: map[string]bool{}, caps: map[string]bool{"account-tag": true, "message-tags": true},
		}
		heard := make(chan channels.Incoming, 1000)
		in := bufio.NewReaderSize(strings.NewReader(string(data)+"\n"), 4096)
		for {
			l, err := next(in)
			if err != nil || s.hear(context.Background(), &channeltest.Door{}, heard, l) != nil {
				break
			}
			if o := s.overhead("#room"); o < 20 || o > maxLine+maxRead {
				t.Errorf("the overhead is %d", o)
			}
		}
		close(heard)
		for in := range heard {
			for _, name := range []string{in.ID, in.Chat, in.SenderID, in.Envelope.ReplyTo} {
				if corebot.CheckName(name) != nil {
					t.Errorf("it has the name %q", name)
				}
			}
			if in.ID == "" || in.Chat == "" || !utf8.ValidString(in.Text()+in.SenderName) || in.Text() == "" ||
				strings.ContainsFunc(in.Text(), isControl) {
				t.Errorf("it is %+v", in)
			}
			if in.SenderID != "" && !strings.Contains(strings.ToLower(string(data)), "account=") {
				t.Errorf("nobody said that it is %q", in.SenderID)
			}
		}
	})
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
