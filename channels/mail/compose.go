package mail

import (
	"bytes"
	"fmt"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/textproto"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/markup"
	"github.com/corebot/corebot/internal/runes"
)

// letter is a mail of Corebot on its way out.
type letter struct {
	id, to, subject string
	parent, root    string // ids of mails; empty: it answers none
	at              time.Time
	text, page      string
}

const maxSubject = 200 // bytes

// looks are the elements of a page.
var looks = markup.HTML{Bold: "b", Italic: "i", Struck: "s"}

// letter makes the mail of a send.
func (c *Channel) letter(o channels.Outbound, to address, subject string) letter {
	l := letter{id: c.names.of(o.Key, o.IdempotencyKey), to: to.String(), at: o.CreatedAt}
	if l.at.IsZero() {
		l.at = time.Now()
	}
	if isMessageID(o.Key.Thread) {
		l.root, l.parent = o.Key.Thread, o.Key.Thread
	}
	if isMessageID(o.InReplyTo) {
		l.parent = o.InReplyTo
	}
	document := markup.Plain(o.Text())
	if o.Kind == corebot.KindReply { // a notice is shown as it is: it quotes what a call would do
		document = markup.Parse(o.Text())
	}
	spans, _ := document.Piece(0, 1<<30, func(s string) int { return len(s) })
	l.text = markup.Text(spans)
	if o.Kind == corebot.KindReply {
		l.page = `<html><body><div style="white-space: pre-wrap">` + looks.Write(spans) + "</div></body></html>\n"
	}
	if l.subject = clean(subject); l.subject != "" && l.parent != "" {
		for len(l.subject) >= 3 && strings.EqualFold(l.subject[:3], "re:") {
			l.subject = strings.TrimSpace(l.subject[3:])
		}
		l.subject = "Re: " + l.subject
	}
	if l.subject == "" {
		first, _, _ := strings.Cut(strings.TrimSpace(l.text), "\n")
		l.subject = first
	}
	l.subject = runes.Head(clean(l.subject), maxSubject)
	return l
}

// write is the mail as it goes over the line. All that stands in its header is made here, or is of one line.
func (l letter) write(from address) ([]byte, error) {
	var b bytes.Buffer
	field := func(name, value string) {
		if value = strings.NewReplacer("\r", "", "\n", "").Replace(value); value != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	field("From", from.String())
	field("To", l.to)
	field("Subject", strings.ReplaceAll(mime.QEncoding.Encode("utf-8", l.subject), "?= =?", "?=\r\n =?"))
	field("Date", l.at.Format(time.RFC1123Z))
	field("Message-ID", l.id)
	field("In-Reply-To", l.parent)
	if l.root != "" && l.root != l.parent {
		field("References", l.root+" "+l.parent)
	} else {
		field("References", l.parent)
	}
	field("Auto-Submitted", "auto-replied")
	field("X-Auto-Response-Suppress", "All")
	field("MIME-Version", "1.0")
	if l.page == "" {
		field("Content-Type", "text/plain; charset=utf-8")
		field("Content-Transfer-Encoding", "quoted-printable")
		b.WriteString("\r\n")
		err := quoted(&b, l.text)
		return b.Bytes(), err
	}
	parts := multipart.NewWriter(&b)
	field("Content-Type", `multipart/alternative; boundary="`+parts.Boundary()+`"`)
	b.WriteString("\r\n")
	for _, alternative := range []struct{ media, text string }{{"text/plain", l.text}, {"text/html", l.page}} {
		w, err := parts.CreatePart(textproto.MIMEHeader{
			"Content-Type":              {alternative.media + "; charset=utf-8"},
			"Content-Transfer-Encoding": {"quoted-printable"},
		})
		if err == nil {
			err = quoted(w, alternative.text)
		}
		if err != nil {
			return nil, err
		}
	}
	err := parts.Close()
	return b.Bytes(), err
}

func quoted(to interface{ Write([]byte) (int, error) }, text string) error {
	w := quotedprintable.NewWriter(to)
	if _, err := w.Write([]byte(strings.ReplaceAll(text, "\n", "\r\n"))); err != nil {
		return err
	}
	return w.Close()
}
