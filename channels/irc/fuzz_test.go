package irc_test

import (
	"context"
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

// FuzzServer has a server say anything from its first line: to the registration, to a send, and behind them. Each
// message can be stored, and the password is not said to a server that takes no password.
func FuzzServer(f *testing.F) {
	const begins = ":s CAP * LS :sasl=PLAIN account-tag message-tags\r\n" +
		":s CAP * ACK :sasl account-tag message-tags\r\n" +
		"AUTHENTICATE +\r\n:s 900 corebot corebot!c@h corebot :in\r\n:s 903 corebot :ok\r\n:s 001 corebot :hi\r\n" +
		":s 005 corebot CHANTYPES=# NICKLEN=9 :are\r\n:s 422 corebot :no motd\r\n"
	for _, seed := range []string{
		begins + "@account=ann;msgid=1 :ann!~a@h PRIVMSG corebot :hello\r\n",
		begins + ":s 352 corebot * ~a h s ann H :0 x\r\n:s 354 corebot x ann\r\n:s 315 corebot ann :end\r\nPING :1\r\n",
		begins + ":corebot!c@h JOIN #c\r\n:s 353 corebot = #c :@a corebot\r\n" +
			":s 404 corebot #c :no\r\n:s 401 corebot b :no\r\n",
		":s CAP * LS * :a\r\n:s CAP * LS :\r\n:s CAP * NAK :sasl\r\n",
		":s 433 * corebot :taken\r\n:s 432 * corebot :bad\r\n",
		":s 904 * :no\r\n", ":s 465 * :banned\r\n", "ERROR :Closing Link: throttled\r\n", "\r\n", "@\r\n:\r\n",
		"AUTHENTICATE\r\n",
		":s CAP\r\n:s CAP *\r\n:s CAP * ACK\r\n:s CAP * DEL :sasl\r\n",
		":s 001\r\n:s 005\r\n:s 396\r\n:s 900\r\n:s 376\r\n",
		"ERROR :" + strings.Repeat("ä", 4000) + "\r\n", "@a=" + strings.Repeat("b", 9000) + " :s 422\r\n",
	} {
		f.Add(seed)
	}
	const password = "the-password"
	s := channeltest.NewLines(f)
	f.Fuzz(func(t *testing.T, says string) {
		s.Say(says)
		c, err := irc.New(irc.Settings{
			Addr: s.Addr(), Nick: "corebot", User: "corebot", Password: password, Pace: time.Millisecond, Hourly: 9,
			Ping: time.Minute,
		}, channels.Site{Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		channel, d := c.(*irc.Channel), &channeltest.Door{}
		sent := make(chan error, 1)
		go func() {
			_, err := channel.Send(ctx, channels.Outbound{
				Key:  corebot.Key{Agent: "main", Channel: "irc", Account: "main", Chat: "#c"},
				Kind: corebot.KindReply, IdempotencyKey: "r", Parts: corebot.TextPart("hello"),
			})
			sent <- err
		}()
		channeltest.RequireBearable(t, channel.Run(ctx, d), password)
		channeltest.RequireBearable(t, <-sent, password)
		for _, in := range d.Got() {
			if corebot.CheckName(in.ID) != nil || corebot.CheckName(in.Chat) != nil || !utf8.ValidString(in.Text()) {
				t.Errorf("it came in: %+v", in)
			}
		}
		_, err = channel.Check(ctx)
		channeltest.RequireBearable(t, err, password)
	})
}
