package mail

import (
	"bytes"
	"io"
	"mime"
	netmail "net/mail"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/html/charset"

	"github.com/corebot/corebot/internal/lazy"
	"github.com/corebot/corebot/internal/runes"
)

const (
	maxHeader = 256 << 10 // bytes that are read of a header
	maxFields = 2000
	maxLine   = 998 // bytes that are kept of a subject or a name
)

// header is the fields of a mail, from the highest to the lowest. Names are in lower case, values are unfolded.
type header []field

type field struct{ name, value string }

// split reads the header of a mail, and gives what follows. A line that is no field is left out: a mail must not be
// unreadable for one line of a bad program.
func split(text []byte) (h header, body []byte) {
	head := text[:min(len(text), maxHeader)]
	var value []byte // of the last field, as far as it is known
	end := func() {
		if len(h) > 0 {
			h[len(h)-1].value = strings.TrimSpace(string(value))
		}
	}
	for at := 0; at < len(head); {
		line, next := cutLine(head, at)
		if len(line) == 0 {
			end()
			return h, text[next:]
		}
		at = next
		if line[0] == ' ' || line[0] == '\t' {
			value = append(append(value, ' '), bytes.TrimSpace(line)...)
			continue
		}
		end()
		name, first, is := strings.Cut(string(line), ":")
		name = strings.ToLower(strings.TrimRight(name, " \t"))
		if !is || name == "" || strings.ContainsAny(name, " \t") || len(h) == maxFields {
			name = "" // what follows belongs to no field
		}
		h, value = append(h, field{name: name}), []byte(first)
		if len(h) > maxFields {
			return h, nil
		}
	}
	end()
	return h, nil
}

func cutLine(text []byte, at int) (line []byte, next int) {
	end := bytes.IndexByte(text[at:], '\n')
	if end < 0 {
		return text[at:], len(text)
	}
	return bytes.TrimSuffix(text[at:at+end], []byte("\r")), at + end + 1
}

// get is the highest field of a name.
func (h header) get(name string) (value string, there bool) {
	for _, f := range h {
		if f.name == name {
			return f.value, true
		}
	}
	return "", false
}

// text is the highest field of a name, or nothing.
func (h header) text(name string) string {
	value, _ := h.get(name)
	return value
}

func (h header) count(name string) (n int) {
	for _, f := range h {
		if f.name == name {
			n++
		}
	}
	return n
}

// words decodes the encoded words of a field, in one clean line.
func words(value string) string {
	d := mime.WordDecoder{CharsetReader: decoder}
	if decoded, err := d.DecodeHeader(value); err == nil {
		value = decoded
	}
	return clean(value)
}

func decoder(label string, r io.Reader) (io.Reader, error) { return charset.NewReaderLabel(label, r) }

// clean is a text in one line, without characters that could turn or hide others.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != '\u200d', r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return runes.Head(strings.Join(strings.Fields(s), " "), maxLine)
}

// address is the address of a mailbox, in lower case.
type address struct{ local, domain string }

func (a address) String() string { return a.local + "@" + a.domain }

var addresses = lazy.Regexp(`^([a-z0-9!#$%&'*+/=?^_{|}~\x60-]+(?:\.[a-z0-9!#$%&'*+/=?^_{|}~\x60-]+)*)` +
	`@([a-z0-9-]+(?:\.[a-z0-9-]+)*)$`)

// parseAddress reads an address without a name. Quoted local parts, and addresses outside of ASCII, are nobody's here:
// two programs would read them in two ways.
func parseAddress(s string) (a address, ok bool) {
	if strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) { // in lower case some are ASCII
		return a, false
	}
	m := addresses().FindStringSubmatch(strings.ToLower(s))
	if m == nil || len(s) > 254 || len(m[1]) > 64 {
		return a, false
	}
	return address{m[1], m[2]}, true
}

// from is who says that he wrote the mail, and the name that he gives himself. A mail with several From, or several
// addresses in it, is of nobody.
func (h header) from() (a address, name string, ok bool) {
	if h.count("from") != 1 {
		return a, "", false
	}
	list := people(h.text("from"))
	if len(list) != 1 {
		return a, "", false
	}
	a, ok = parseAddress(list[0].Address)
	return a, clean(list[0].Name), ok
}

// person is a name with an address.
type person = netmail.Address

const maxPeople = 16 << 10 // bytes that are read of a list of addresses

// people are the addresses in a field; none, if it cannot be read.
func people(value string) []*person {
	if len(value) > maxPeople {
		return nil
	}
	p := netmail.AddressParser{WordDecoder: &mime.WordDecoder{CharsetReader: decoder}}
	list, err := p.ParseList(value)
	if err != nil {
		return nil
	}
	return list
}

// receivedAt is the time of a field Received. Some servers leave out the semicolon before the time.
var receivedAt = lazy.Regexp(`[0-9]{1,2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}`)

// onItsWay is how long a mail was on its way, from the first server that took it, whose Received is the lowest, to the
// mailbox. The clocks are those of the servers. It is 0 where nobody can tell.
func onItsWay(h header, arrived time.Time) time.Duration {
	for _, f := range slices.Backward(h) {
		if f.name != "received" {
			continue
		}
		all := receivedAt().FindAllString(f.value, -1)
		if len(all) == 0 {
			return 0
		}
		taken, err := time.Parse("2 Jan 2006 15:04:05 -0700", all[len(all)-1])
		if err != nil {
			return 0
		}
		return max(arrived.Sub(taken), 0)
	}
	return 0
}
