package main

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/channels/mail"
	"github.com/corebot/corebot/channels/mail/mailtest"
	"github.com/corebot/corebot/internal/long"
)

// mailPatience is how long a test waits for what a bot says by mail: a reply whose sending was cut off waits for a late
// copy first.
const mailPatience = mail.MostArrives + siegePatience

// mailPlatform is a mail server that loses answers to sends, refuses some for now, and is started anew meanwhile. Each
// person has one conversation: the mails of one thread.
type mailPlatform struct {
	*mailtest.Server
	t *testing.T
}

func openMail(t *testing.T, _ int) networkPlatform {
	p := &mailPlatform{mailtest.New(), t}
	t.Cleanup(p.Close)
	p.Faults(long.Or(11, 23), long.Or(13, 61))
	return p
}

func (p *mailPlatform) settings() string {
	return fmt.Sprintf("{address: %q, password: %q, imap: %q, smtp: %q, authserv_id: %q, hourly: 1000000, "+
		"access: open}", mailtest.Address, mailtest.Password, p.IMAP(), p.SMTP(), mailtest.AuthServID)
}

func mailPerson(chat int) string { return fmt.Sprintf("person%d@people.test", chat) }

func (p *mailPlatform) say(chat int, text string) {
	p.Say(mailtest.Said{From: mailPerson(chat), Text: text, Headers: fmt.Sprintf("References: %s\n", mailRoot(chat))})
}

// mailRoot is the first mail of a person's conversation.
func mailRoot(chat int) string { return fmt.Sprintf("<root%d@people.test>", chat) }

func (p *mailPlatform) shown(chat int) (texts []string) {
	for _, m := range p.Sent() {
		if m.To == mailPerson(chat) {
			texts = append(texts, plainOf(p.t, m.Raw))
		}
	}
	return texts
}

func (p *mailPlatform) away(meanwhile func()) {
	p.Silence(true)
	p.Cut()
	meanwhile()
	time.Sleep(300 * time.Millisecond)
	p.Silence(false)
	p.Restart(300 * time.Millisecond)
}

func (p *mailPlatform) lost() (n int, once bool) { return p.Lost(), true }
func (p *mailPlatform) complaints() []string     { return nil }

// plainOf is the text of a mail of the bot.
func plainOf(t *testing.T, raw []byte) string {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	media, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	body := m.Body
	if media != "text/plain" {
		part, err := multipart.NewReader(m.Body, params["boundary"]).NextRawPart()
		if err != nil {
			t.Fatal(err)
		}
		body = part
	}
	text, err := io.ReadAll(quotedprintable.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
}
