package mail

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
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
	files           []enclosed
}

// enclosed is a file of a mail.
type enclosed struct {
	part    corebot.Part
	content []byte
}

const (
	maxSubject = 200 // bytes
	// maxEnclosed is how many bytes of files a mail has: many servers take mails of 25 MB, and base64 makes a third
	// more of them.
	maxEnclosed = 18_000_000
	// lettersAtOnce is how many mails with files are made at once: each is in memory three times, with its base64.
	lettersAtOnce = 2
)

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
	spans, _ := markup.Of(o.Kind, o.Text()).Piece(0, 1<<30, func(s string) int { return len(s) })
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

// enclose reads the files of a send. A file that the mail has no room for, or that is not kept any more, is named below
// the text.
func (c *Channel) enclose(ctx context.Context, o channels.Outbound, l *letter) error {
	room := int64(maxEnclosed)
	for _, p := range corebot.Attachments(o.Parts) {
		f, size, err := c.site.Open(ctx, o.Key, p, room)
		if failed := (*corebot.Failure)(nil); errors.As(err, &failed) && failed.Class == corebot.Permanent {
			l.name(p, "is not in this mail: "+failed.Err.Error())
			continue
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(io.LimitReader(f, size))
		if err = errors.Join(err, f.Close()); err != nil {
			return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: unsent, Err: err}
		}
		room -= size
		l.files = append(l.files, enclosed{p, content})
		if p.Text != "" {
			l.add(fmt.Sprintf("%s: %s", p.Name, p.Text))
		}
	}
	return nil
}

// name tells of a file that is not in the mail.
func (l *letter) name(p corebot.Part, why string) { l.add(channels.Named(p, why)) }

// add puts a line below the text.
func (l *letter) add(line string) {
	l.text = strings.TrimLeft(strings.TrimRight(l.text, "\n")+"\n\n"+line+"\n", "\n")
	if l.page != "" {
		l.page = strings.Replace(l.page, "</div></body>", "<p>"+html.EscapeString(line)+"</p></div></body>", 1)
	}
}

// without is the letter with its files named and not enclosed, because the server refuses them.
func (l letter) without(why error) letter {
	files := l.files
	l.files = nil
	for _, f := range files {
		l.name(f.part, "is not in this mail: "+runes.Head(why.Error(), maxWhy))
	}
	return l
}

const maxWhy = 300 // bytes

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
	if len(l.files) == 0 {
		header, body, err := l.body()
		for _, name := range []string{"Content-Type", "Content-Transfer-Encoding"} {
			field(name, header.Get(name))
		}
		b.WriteString("\r\n")
		b.Write(body)
		return b.Bytes(), err
	}
	parts := multipart.NewWriter(&b)
	field("Content-Type", `multipart/mixed; boundary="`+parts.Boundary()+`"`)
	b.WriteString("\r\n")
	header, body, err := l.body()
	if err == nil {
		err = part(parts, header, func(w io.Writer) error {
			_, err := w.Write(body)
			return err
		})
	}
	for _, f := range l.files {
		if err != nil {
			return nil, err
		}
		err = f.write(parts)
	}
	if err == nil {
		err = parts.Close()
	}
	return b.Bytes(), err
}

func part(to *multipart.Writer, header textproto.MIMEHeader, write func(io.Writer) error) error {
	w, err := to.CreatePart(header)
	if err == nil {
		err = write(w)
	}
	return err
}

// body is the text of the mail, and the page beside it.
func (l letter) body() (textproto.MIMEHeader, []byte, error) {
	var b bytes.Buffer
	if l.page == "" {
		err := quoted(&b, l.text)
		return textproto.MIMEHeader{
			"Content-Type": {"text/plain; charset=utf-8"}, "Content-Transfer-Encoding": {"quoted-printable"},
		}, b.Bytes(), err
	}
	parts := multipart.NewWriter(&b)
	for _, alternative := range []struct{ media, text string }{{"text/plain", l.text}, {"text/html", l.page}} {
		err := part(parts, textproto.MIMEHeader{
			"Content-Type":              {alternative.media + "; charset=utf-8"},
			"Content-Transfer-Encoding": {"quoted-printable"},
		}, func(w io.Writer) error { return quoted(w, alternative.text) })
		if err != nil {
			return nil, nil, err
		}
	}
	err := parts.Close()
	return textproto.MIMEHeader{
		"Content-Type": {`multipart/alternative; boundary="` + parts.Boundary() + `"`},
	}, b.Bytes(), err
}

// write puts a file into a mail, in lines of base64.
func (f enclosed) write(to *multipart.Writer) error {
	name := cmp.Or(f.part.Name, "file")
	media := mime.FormatMediaType(cmp.Or(f.part.MediaType, "application/octet-stream"), map[string]string{"name": name})
	if strings.HasPrefix(f.part.MediaType, "multipart/") || strings.HasPrefix(f.part.MediaType, "message/") {
		media = "" // which would be a part of the mail itself
	}
	return part(to, textproto.MIMEHeader{
		"Content-Type":              {cmp.Or(media, "application/octet-stream")},
		"Content-Disposition":       {mime.FormatMediaType("attachment", map[string]string{"filename": name})},
		"Content-Transfer-Encoding": {"base64"},
	}, func(w io.Writer) error {
		const line = 57 // bytes, which are 76 characters
		text := make([]byte, base64.StdEncoding.EncodedLen(line)+2)
		for rest := f.content; len(rest) > 0; rest = rest[min(line, len(rest)):] {
			piece := rest[:min(line, len(rest))]
			n := base64.StdEncoding.EncodedLen(len(piece))
			base64.StdEncoding.Encode(text, piece)
			if _, err := w.Write(append(text[:n], "\r\n"...)); err != nil {
				return err
			}
		}
		return nil
	})
}

func quoted(to interface{ Write([]byte) (int, error) }, text string) error {
	w := quotedprintable.NewWriter(to)
	if _, err := w.Write([]byte(strings.ReplaceAll(text, "\n", "\r\n"))); err != nil {
		return err
	}
	return w.Close()
}
