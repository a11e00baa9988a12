package mail

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"strings"

	"golang.org/x/net/html/charset"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/runes"
)

const (
	maxDepth = 12  // of parts in parts
	maxParts = 200 // that are looked at
	maxFiles = 20  // that are named
	maxName  = 255 // bytes of the name of a file
)

// content is what a mail says.
type content struct {
	plain, page string
	files       []corebot.Part
	bytes       []channels.Attached // of the files, or why there are none
	left        int                 // parts that were not looked at, or not named
	status      string
}

// reader walks through the parts of a mail.
type reader struct {
	content
	parts int
	cut   bool // the end of the mail was not read
}

// readBody reads the parts of a mail, as far as the bounds let it. A damaged part ends where the damage begins.
func readBody(h header, body []byte, whole bool) content {
	r := &reader{cut: !whole}
	r.part(h.text("content-type"), h.text("content-transfer-encoding"), h.text("content-disposition"),
		bytes.NewReader(body), 0)
	return r.content
}

func (r *reader) part(contentType, encoding, disposition string, body io.Reader, depth int) {
	if r.parts++; r.parts > maxParts || depth > maxDepth {
		r.left++
		return
	}
	media, params, err := mime.ParseMediaType(contentType)
	if media == "" || err != nil && !strings.Contains(media, "/") {
		media = "text/plain"
	}
	how, about, _ := mime.ParseMediaType(disposition)
	name := about["filename"]
	if name == "" {
		name = params["name"]
	}
	switch {
	case strings.HasPrefix(media, "multipart/") && params["boundary"] != "":
		r.each(multipart.NewReader(body, params["boundary"]), depth)
	case media == "message/delivery-status" || media == "text/rfc822-headers":
		r.status += r.decoded(body, encoding, "") + "\n"
	case how == "attachment" || name != "" || !strings.HasPrefix(media, "text/"):
		r.file(media, name, body, encoding)
	case media == "text/html":
		r.page = joined(r.page, r.decoded(body, encoding, params["charset"]))
	default:
		r.plain = joined(r.plain, r.decoded(body, encoding, params["charset"]))
	}
}

func (r *reader) each(parts *multipart.Reader, depth int) {
	for r.parts <= maxParts {
		p, err := parts.NextRawPart()
		if err != nil {
			return
		}
		r.part(p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"),
			p.Header.Get("Content-Disposition"), p, depth+1)
	}
	r.left++
}

// file notes an attachment with its bytes, or with the reason why it has none.
func (r *reader) file(media, name string, body io.Reader, encoding string) {
	if len(r.files) == maxFiles {
		r.left++
		return
	}
	kind := corebot.PartFile
	switch {
	case strings.HasPrefix(media, "image/"):
		kind = corebot.PartImage
	case strings.HasPrefix(media, "audio/"):
		kind = corebot.PartAudio
	}
	if name = words(name); strings.ContainsAny(name, `/\`) {
		name = name[strings.LastIndexAny(name, `/\`)+1:]
	}
	r.files = append(r.files, corebot.Part{
		Type: kind, Name: runes.Head(name, maxName), MediaType: runes.Head(clean(media), maxName),
	})
	a := channels.Attached{Part: len(r.files) - 1}
	data, err := io.ReadAll(unwrapped(body, encoding)) // the whole mail is bounded, and so is this
	switch {
	case err != nil && r.cut:
		a.Missing = fmt.Sprintf("it is not kept: it ends behind the first %d bytes of the mail", maxMail)
	case err != nil:
		a.Missing = "it is not kept: it came damaged"
	case len(data) == 0:
		a.Missing = "it is empty"
	default:
		a.Fetch = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	}
	r.bytes = append(r.bytes, a)
}

// unwrapped undoes the encoding of a part.
func unwrapped(body io.Reader, encoding string) io.Reader {
	switch word1(encoding) {
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		return quotedprintable.NewReader(body)
	}
	return body
}

func joined(all, more string) string {
	switch {
	case all == "":
		return more
	case len(all) >= maxText:
		return all
	}
	return all + "\n" + more
}

// decoded is the text of a part, in UTF-8. A charset that nobody knows is taken for UTF-8.
func (r *reader) decoded(body io.Reader, encoding, label string) string {
	body = unwrapped(body, encoding)
	raw, _ := io.ReadAll(io.LimitReader(body, 4*maxText)) // what is damaged ends early
	if e, name := charset.Lookup(label); e != nil && name != "utf-8" {
		if text, err := e.NewDecoder().Bytes(raw); err == nil {
			raw = text
		}
	}
	text := strings.Map(func(c rune) rune {
		if c == 0 || c == '\ufeff' {
			return -1
		}
		return c
	}, strings.ToValidUTF8(string(raw), "\ufffd"))
	return runes.Head(text, maxText)
}

// text is what the mail says, without the old mails below it.
func (c content) text() string {
	all := c.plain
	if strings.TrimSpace(all) == "" {
		all = pageText([]byte(c.page))
	}
	all = runes.Head(strings.ReplaceAll(all, "\r\n", "\n"), maxText)
	if forwarded().MatchString(all) {
		return strings.TrimSpace(all)
	}
	return own(all)
}
