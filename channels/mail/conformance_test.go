package mail_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/mail"
	"github.com/corebot/corebot/channels/mail/mailtest"
)

var account = channels.Account{Kind: "mail", Name: "main"}

const ann = "ann@people.test"

// platform is a server that ends with the test.
func platform(t *testing.T) *mailtest.Server {
	t.Helper()
	s := mailtest.New()
	t.Cleanup(s.Close)
	return s
}

// settings are those of the account on a server, with changes.
func settings(s *mailtest.Server, change ...func(*mail.Settings)) mail.Settings {
	all := mail.Network().Standard.(mail.Settings)
	all.Address, all.Password, all.AuthServID = mailtest.Address, mailtest.Password, mailtest.AuthServID
	all.IMAP, all.SMTP = s.IMAP(), s.SMTP()
	for _, c := range change {
		c(&all)
	}
	return all
}

// open makes the channel of an account.
func open(t *testing.T, s mail.Settings) *mail.Channel {
	t.Helper()
	return openWith(t, s, nil)
}

func openWith(t *testing.T, s mail.Settings, files channels.FileOpener) *mail.Channel {
	t.Helper()
	c, err := mail.New(s, channels.Site{
		Account: account,
		Log:     zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel),
		Files:   files,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.(*mail.Channel)
}

// opened is a mail of the bot as its reader sees it.
type opened struct {
	to, text, page string
	header         netmail.Header
}

func read(t *testing.T, m mailtest.Mail) (o opened) {
	t.Helper()
	got, err := netmail.ReadMessage(bytes.NewReader(m.Raw))
	if err != nil {
		t.Fatalf("%v in %s", err, m.Raw)
	}
	o.to, o.header = m.To, got.Header
	media, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	decoded := func(r io.Reader) string {
		text, err := io.ReadAll(quotedprintable.NewReader(r))
		if err != nil {
			t.Error(err)
		}
		return strings.TrimSuffix(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	}
	if media == "text/plain" {
		o.text = decoded(got.Body)
		return o
	}
	for parts := multipart.NewReader(got.Body, params["boundary"]); ; {
		p, err := parts.NextRawPart()
		if err != nil {
			return o
		}
		if strings.HasPrefix(p.Header.Get("Content-Type"), "text/plain") {
			o.text = decoded(p)
		} else {
			o.page = decoded(p)
		}
	}
}

// texts are the mails that an address got.
func texts(t *testing.T, s *mailtest.Server, to string) (all []string) {
	for _, m := range s.Sent() {
		if m.To == to {
			all = append(all, read(t, m).text)
		}
	}
	return all
}

// mailWith is a mail with a file in it.
func mailWith(id, text string, f channeltest.SentFile) []byte {
	named := mime.FormatMediaType("attachment", map[string]string{"filename": f.Name})
	if f.Name == "" {
		named = "attachment"
	}
	data := base64.StdEncoding.EncodeToString(f.Content)
	var lines strings.Builder
	for ; len(data) > 76; data = data[76:] {
		lines.WriteString(data[:76] + "\n")
	}
	return mailtest.Said{
		ID: id, Headers: "References: <thread@people.test>\nContent-Type: multipart/mixed; boundary=x\n",
		Text: "--x\nContent-Type: text/plain\n\n" + text + "\n--x\nContent-Type: " + f.MediaType +
			"\nContent-Transfer-Encoding: base64\nContent-Disposition: " + named + "\n\n" + lines.String() + data +
			"\n--x--\n",
	}.Raw()
}

func TestMailKeepsTheGuaranteesOfAChannel(t *testing.T) {
	for name, copies := range map[string]string{"copy to self": "self", "copy by append": "append"} {
		t.Run(name, func(t *testing.T) {
			channeltest.Run(t, func(t *testing.T) channeltest.Subject {
				t.Parallel() // some wait for a copy that never comes
				return subject(t, copies)
			})
		})
	}
}

func TestMailGetsOverMisfortunes(t *testing.T) {
	channeltest.Misfortunes(t, func(t *testing.T) channeltest.Subject {
		return subject(t, "self")
	})
}

func TestMailGivesAMessageAgainAndItIsAnsweredOnce(t *testing.T) {
	channeltest.Redelivery(t, mail.Network().Redelivers, func(t *testing.T) channeltest.Subject {
		return subject(t, "self")
	})
}

func subject(t *testing.T, copies string) channeltest.Subject {
	t.Helper()
	return subjectOf(t, platform(t), copies)
}

func subjectOf(t *testing.T, s *mailtest.Server, copies string) channeltest.Subject {
	said := &sync.Map{}
	return channeltest.Subject{
		Revoke: func() { s.Revoke(true); s.Cut() }, Restore: func() { s.Revoke(false) },
		Revoked: "the mail server refuses user and password", Secret: mailtest.Password,
		Closed: "permerror@people.test", Refused: "there is nobody",
		Account: account, Chat: ann, Thread: "<thread@people.test>",
		ID: func(id string) string {
			if _, is := said.Load(id); is {
				return "<" + id + "@people.test>"
			}
			return id
		},
		Open: func() channels.Channel { return open(t, settings(s, func(s *mail.Settings) { s.SentCopy = copies })) },
		Say: func(_ channels.Accepter, id, text string) {
			s.Awaited()
			said.Store(id, true)
			s.Say(mailtest.Said{ID: id, Text: text, Headers: "References: <thread@people.test>\n"})
		},
		FilesInMessages: true, Again: func(string) { s.Renumber() }, // all of it
		Attach: func(_ channels.Accepter, id, text string, f channeltest.SentFile) string {
			s.Awaited()
			said.Store(id, true)
			s.Deliver(mailWith(id, text, f), time.Time{})
			return ""
		},
		Shown: func() []string { return texts(t, s, ann) },
		Cut:   s.Cut, Silence: s.Silence, Refuse: s.Refuse,
	}
}
