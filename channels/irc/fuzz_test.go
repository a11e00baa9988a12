package irc_test

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/irc"
)

// speaker is a server in memory that says anything. It says the first text to whoever connects, and the second one in
// answer to each question. It hangs up behind its answer to a message.
func speaker(first, answer string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go speak(server, first, answer)
		return client, nil
	}
}

// patient is how long a server waits for a question. A client that has understood it asks at once.
const patient = 20 * time.Millisecond

func speak(server net.Conn, first, answer string) {
	defer server.Close() //nolint:errcheck // in memory
	_ = server.SetDeadline(time.Now().Add(2 * time.Second))
	heard := make(chan string, 64)
	go func() {
		defer close(heard)
		for in := bufio.NewScanner(server); in.Scan(); {
			select {
			case heard <- in.Text():
			default: // nobody listens any more
			}
		}
	}()
	if _, err := server.Write([]byte(first)); err != nil || !strings.Contains(first, " 422 ") {
		return
	}
	timer := time.NewTimer(patient)
	defer timer.Stop()
	for message := false; ; {
		select {
		case line, goes := <-heard:
			if !goes {
				return
			}
			message = message || strings.HasPrefix(line, "PRIVMSG ")
			if token, asks := strings.CutPrefix(line, "PING "); asks {
				_, err := server.Write([]byte(answer + "\r\n:s PONG s " + token + "\r\n"))
				if err != nil || message {
					return
				}
				timer.Reset(patient)
			}
		case <-timer.C:
			return
		}
	}
}

// FuzzServer has a server say anything: from its first line on, and in answer to a join, to the question who somebody
// is, and to a message. Each message that comes in can be stored, and the password is not said to a server that takes
// no password.
func FuzzServer(f *testing.F) {
	const begins = ":s CAP * LS :sasl=PLAIN account-tag message-tags\r\n" +
		":s CAP * ACK :sasl account-tag message-tags\r\n" +
		"AUTHENTICATE +\r\n:s 900 corebot corebot!c@h corebot :in\r\n:s 903 corebot :ok\r\n:s 001 corebot :hi\r\n" +
		":s 005 corebot CHANTYPES=# NICKLEN=9 :are\r\n:s 422 corebot :no motd\r\n"
	for _, seed := range []struct {
		first, answer string
		private       bool
	}{
		{begins + "@account=ann;msgid=1 :ann!~a@h PRIVMSG corebot :hello\r\n", "", false},
		{
			begins + "PING :1\r\n",
			":s 352 corebot * ~a h s ann H :0 x\r\n:s 354 corebot x ann\r\n:s 315 corebot ann :end\r\n", true,
		},
		{
			begins,
			":s 311 corebot ann ~a h * :Ann\r\n:s 330 corebot ann ann :is logged in as\r\n:s 318 corebot ann :End\r\n",
			true,
		},
		{begins, ":s 401 corebot ann :No such nick\r\n:s 318 corebot ann :End\r\n", true},
		{begins + ":corebot!c@h JOIN #c\r\n:s 353 corebot = #c :@a corebot\r\n", ":s 404 corebot #c :no\r\n", false},
		{begins, ":s 404 corebot #c :Your message contained color codes, and the channel has +c\r\n", false},
		{begins, ":s 263 corebot PRIVMSG :Please wait 9999 sec\r\n", false},
		{begins, "FAIL PRIVMSG TEXT_TOO_LONG :no\r\n:s 412 corebot :none\r\n:s 417 corebot :long\r\n", false},
		{begins, "@msgid=m1;account=corebot :corebot!c@h PRIVMSG #c :hello\r\n:s 396 corebot x :host\r\n", false},
		{
			begins + ":ann!~a@h INVITE corebot #d\r\n:a!b@c KICK #c corebot :out\r\n:corebot!c@h NICK other\r\n", "",
			false,
		},
		{begins + "BATCH +1 chathistory #c\r\n@batch=1 :ann!~a@h PRIVMSG #c :old\r\nBATCH -1\r\n", "", false},
		{begins + ":a!b@h PRIVMSG corebot :\x01VERSION\x01\r\n:a!b@h NOTICE corebot :\x01ACTION x\x01\r\n", "", false},
		{":s CAP * LS * :a\r\n:s CAP * LS :\r\n:s CAP * NAK :sasl\r\n", "", false},
		{":s 433 * corebot :taken\r\n:s 432 * corebot :bad\r\n", "", false},
		{":s 904 * :no\r\n", "", false},
		{":s 465 * :banned\r\n", "", false},
		{"ERROR :Closing Link: throttled\r\n", "", false},
		{"\r\n", "", false},
		{"@\r\n:\r\n", "", false},
		{"AUTHENTICATE\r\n", "", false},
		{":s CAP\r\n:s CAP *\r\n:s CAP * ACK\r\n:s CAP * DEL :sasl\r\n", "", false},
		{":s 001\r\n:s 005\r\n:s 396\r\n:s 900\r\n:s 376\r\n", "", false},
		{"ERROR :" + strings.Repeat("\u00e4", 4000) + "\r\n", "", false},
		{"@a=" + strings.Repeat("b", 9000) + " :s 422\r\n", "", false},
	} {
		f.Add(seed.first, seed.answer, seed.private)
	}
	const password = "the-password"
	f.Fuzz(func(t *testing.T, first, answer string, private bool) {
		c, err := irc.New(irc.Settings{
			Addr: "127.0.0.1:1", Nick: "corebot", User: "corebot", Password: password, Pace: time.Millisecond,
			Hourly: 9, Ping: time.Minute, Channels: []string{"#c"},
		}, channels.Site{Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		channel, d := c.(*irc.Channel), &channeltest.Door{}
		channel.DialBy(speaker(first, answer))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		chat := "#c"
		if private {
			chat = "@ann"
		}
		sent := make(chan error, 1)
		go func() {
			_, err := channel.Send(ctx, channels.Outbound{
				Key:  corebot.Key{Agent: "main", Channel: "irc", Account: "main", Chat: chat},
				Kind: corebot.KindReply, IdempotencyKey: "r", Parts: corebot.TextPart("*hello*"),
			})
			sent <- err
		}()
		channeltest.RequireBearable(t, channel.Run(ctx, d), password)
		if ctx.Err() != nil {
			t.Error("the connection does not end")
		}
		cancel() // nothing is sent without a connection
		channeltest.RequireBearable(t, <-sent, password)
		for _, in := range d.Got() {
			if corebot.CheckName(in.ID) != nil || corebot.CheckName(in.Chat) != nil || !utf8.ValidString(in.Text()) {
				t.Errorf("it came in: %+v", in)
			}
		}
		_, err = channel.Check(t.Context())
		channeltest.RequireBearable(t, err, password)
	})
}
