package mail_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/mail"
	"github.com/corebot/corebot/channels/mail/mailtest"
)

// The words of a server up to the answer to the login, and from there up to the fetch of the first mail.
const (
	hello    = "* OK [CAPABILITY IMAP4rev1] Dovecot (Debian) ready.\r\n" + piece
	loggedIn = "T1 OK [CAPABILITY IMAP4rev1] in (at last)\r\n" + piece
	inInbox  = "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\n* OK [UIDNEXT 2] n\r\nT2 OK [READ-WRITE] open\r\n" + piece
	found    = "* 2 EXISTS\r\nT3 OK noop\r\n" + piece + "* SEARCH 2\r\nT4 OK\r\n" + piece
)

// received is how a reception from a server ended that says something.
func received(t *testing.T, says string) (*channeltest.Door, error) {
	t.Helper()
	boxes, d := channeltest.NewLines(t), &channeltest.Door{}
	boxes.Say(strings.Split(says, piece)...)
	s := mail.Network().Standard.(mail.Settings)
	s.Address, s.Password, s.AuthServID = mailtest.Address, mailtest.Password, mailtest.AuthServID
	s.IMAP, s.SMTP = boxes.Addr(), boxes.Addr()
	c, err := mail.New(s, channels.Site{Account: account, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, d) }()
	t.Cleanup(cancel)
	select {
	case err = <-ended:
	case <-time.After(8 * time.Second):
		t.Fatal("the reception does not end")
	}
	return d, err
}

// The library reads a parenthesis among the capabilities for ever, and keeps what a server lists without a limit.
func TestAServerThatSaysWhatNoMailServerSaysIsLeft(t *testing.T) {
	many := func(s string) string { return strings.Repeat(s, (300<<10)/len(s)) }
	for name, c := range map[string]struct{ says, means string }{
		"a parenthesis in the greeting":  {"* OK [capability IMAP4rev1 (", "a parenthesis"},
		"a parenthesis behind the word":  {"* OK [CAPABILITY(", "a parenthesis"},
		"a parenthesis in an own line":   {hello + "* CAPABILITY  IMAP4rev1  (x", "a parenthesis"},
		"a parenthesis behind the login": {hello + "T1 OK [CAPABILITY (", "a parenthesis"},
		"in a literal that is none":      {hello + "* FOO {99}\r\n* CAPABILITY (", "a parenthesis"},
		"in a quoted string of several":  {hello + "* LIST () \"{99}\r\n\" (", "a quoted string"},
		"behind a mail": {
			hello + loggedIn + inInbox + found + "* 2 FETCH (BODY[]<0> {2}\r\nxx)\r\n* CAPABILITY (",
			"a parenthesis",
		},
		"a line without an end": {hello + "* OK " + many("x"), "more than"},
		"a search that never ends": {
			hello + loggedIn + inInbox + "T3 OK\r\n" + piece + "* SEARCH" + many(" 7"),
			"more than",
		},
		"lists that never end": {hello + loggedIn + many("* LIST () \"/\" x\r\n"), "more than"},
		"a folder with a name of megabytes": {
			hello + loggedIn + "* LIST () \"/\" {300000}\r\n" + many("x"),
			"more than",
		},
		"an envelope of megabytes": {
			hello + loggedIn + "* 1 FETCH (ENVELOPE (\"d\" {300000}\r\n" + many("x"),
			"more than",
		},
		"news without an end between orders": {
			hello + loggedIn + many("* OK "+strings.Repeat("x", 1000)+"\r\n"),
			"more than",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d, err := received(t, c.says); err == nil || !strings.Contains(err.Error(), c.means) {
				t.Errorf("it ends with %.300v and took in %q", err, d.Texts())
			}
		})
	}
}

// A mail may say anything, and may be as large as its server wants to give it.
func TestAMailIsNoAnswerOfItsServer(t *testing.T) {
	for name, text := range map[string]string{
		"words of the protocol": "* CAPABILITY (\n[CAPABILITY (\n* 1 FETCH (BODY[] {9}\n\"",
		"megabytes":             strings.Repeat("a line of a mail\n", 10<<20/18),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := mailtest.Said{Text: text}.Raw()
			d, err := received(t, hello+loggedIn+inInbox+found+fmt.Sprintf(
				"* 2 FETCH (UID 2 INTERNALDATE \"01-Jan-2026 00:00:00 +0000\" BODY[]<0> {%d}\r\n%s)\r\nT5 OK\r\n",
				len(text), text))
			if got := d.Got(); len(got) != 1 || len(got[0].Text()) < 30 {
				t.Errorf("it came in: %.300q; %v", d.Texts(), err)
			}
		})
	}
}

// The library keeps what a server answers without a limit.
func TestAServerThatSendsAndAnswersWithoutAnEndIsLeft(t *testing.T) {
	line := strings.Repeat("x", 1000) + "\r\n"
	many := strings.Repeat("250-"+line, 2000)
	for name, says := range map[string][]string{
		"a greeting of one line": {"220 " + strings.Repeat("x", 2<<20)},
		"a greeting of many":     {strings.Repeat("220-"+line, 2000)},
		"what it can do":         {"220 hello\r\n", many},
		"the recipient":          {"220 hello\r\n", "250 AUTH PLAIN\r\n", "235 in\r\n", "250 ok\r\n", many},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, out := platform(t), channeltest.NewLines(t)
			out.Say(says...)
			c := open(t, settings(s, func(x *mail.Settings) { x.SMTP = out.Addr() }))
			_, err := c.Send(t.Context(), answer("x"))
			if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Cancelled ||
				!strings.Contains(err.Error(), "bytes of answers") {
				t.Errorf("it ends with %.300v", err)
			}
		})
	}
}
