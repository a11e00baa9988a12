package webpage

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"

	"github.com/corebot/corebot/internal/lazy"
	"github.com/corebot/corebot/internal/runes"
)

// declared is the encoding that an XML document names in its first line, which is looked for in its first bytes.
var declared = lazy.Regexp(`^(?:\x{FEFF})?\s*<\?xml[^>]*\sencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// Decode gives text in UTF-8. The encoding is the one that the header, the byte order mark or the document itself
// names, or else the likeliest one. Bytes that are no text in it are replaced.
func Decode(body []byte, contentType string) string {
	if e := encodingOf(body, contentType); e != nil {
		if text, err := e.NewDecoder().Bytes(body); err == nil {
			body = text
		}
	}
	return strings.TrimPrefix(strings.ToValidUTF8(string(body), "\uFFFD"), "\uFEFF")
}

// encodingOf is nil for UTF-8.
func encodingOf(body []byte, contentType string) encoding.Encoding {
	e, name, certain := charset.DetermineEncoding(body, contentType)
	if _, params, err := mime.ParseMediaType(contentType); !certain || err != nil || params["charset"] == "" {
		if m := declared().FindSubmatch(body[:min(len(body), 512)]); m != nil {
			// it is not, or this could not be read
			if said, as := charset.Lookup(string(m[1])); said != nil && as != "utf-16be" && as != "utf-16le" {
				e, name, certain = said, as, true
			}
		}
	}
	// the guess was made from the first kilobyte, which may be plain ASCII
	if name == "utf-8" || !certain && looksLikeUTF8(body) {
		return nil
	}
	return e
}

// looksLikeUTF8 forgives a last character that was cut off, if another one shows that there are such.
func looksLikeUTF8(body []byte) bool {
	whole := runes.Whole(body)
	return utf8.Valid(whole) && (len(whole) == len(body) || bytes.ContainsFunc(whole,
		func(r rune) bool { return r >= utf8.RuneSelf }))
}
