// Package addresses knows to which addresses of the web a turn may go after it has read text from outside.
//
// A hijacked model writes what it has read into an address, and sends it out by fetching a page. So such a turn goes
// only to addresses that stood somewhere before, exactly as they stood:
//
//   - in the words of the turn's principal, as often as the model likes;
//   - in search results of the turn, and in links of pages that the turn has read.
//
// An attacker can prepare links and have the model tell him something by its choice. So links are bounded: [MaxLinks]
// of one result count, and a turn follows at most [MaxFollowed] of them. Each choice tells at most 8 bits, and a turn
// at most 8 bytes.
//
// Addresses are compared in a normal form. It changes nothing that a server is told: the case of scheme and host, the
// usual port, the fragment, and a missing path.
package addresses

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/corebot/corebot/internal/lazy"
)

const (
	// MaxLinks is how many addresses of one result count.
	MaxLinks = 256
	// MaxFollowed is how many links a turn follows without an approval.
	MaxFollowed = 8
	// maxLength bounds one address, in bytes.
	maxLength = 2_048
	// maxWords bounds the addresses of people's words in a turn.
	maxWords = 4_096
)

// Normal is the normal form of an address; empty: the text is no plain address of the web.
func Normal(address string) string {
	if len(address) > maxLength {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Opaque != "" || u.Hostname() == "" {
		return ""
	}
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	switch {
	case scheme != "http" && scheme != "https":
		return ""
	case scheme == "http" && port == "80", scheme == "https" && port == "443":
		port = ""
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" {
		host += ":" + port
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if u.RawQuery != "" || u.ForceQuery {
		path += "?" + u.RawQuery
	}
	return scheme + "://" + host + path
}

// Origin is the scheme, the host and an unusual port of an address, such as https://docs.example; empty: the text is no
// plain address of the web.
func Origin(address string) string {
	scheme, rest, found := strings.Cut(Normal(address), "://")
	if !found {
		return ""
	}
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

// IsPlain says whether an address has no query, and a path of at most longest bytes.
func IsPlain(address string, longest int) bool {
	n := Normal(address)
	return n != "" && !strings.Contains(n, "?") && len(n)-len(Origin(address)) <= longest
}

var (
	inWords = lazy.Regexp(`(?i)https?://[^\s<>"]+` +
		`|\b(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}(?::[0-9]+)?(?:/[^\s<>"]*)?`)
	inLinks = lazy.Regexp(`(?i)(?:\]\(<?|^\s*|<)(https?://[^\s<>"]+)`)
)

// InWords are the addresses in what a person said, in their normal form. A name without a scheme stands for both
// schemes. Signs behind an address can be the sentence's or the address's, so that both forms count.
func InWords(text string) (all []string) {
	if !mayName(text) {
		return nil
	}
	add := func(address string) {
		if n := Normal(address); n != "" {
			all = append(all, n)
		}
	}
	for _, found := range inWords().FindAllString(text, maxWords) {
		for _, form := range []string{found, strings.TrimRight(found, ".,;:!?)]}'*_`")} {
			if strings.Contains(form, "://") {
				add(form)
				continue
			}
			add("https://" + form)
			add("http://" + form)
		}
	}
	return all
}

// mayName says whether an address can be in a text. Most of what people say has none, and the expression is slow.
func mayName(text string) bool {
	for i := range len(text) - 1 {
		if next := text[i+1]; text[i] == '.' && (next >= utf8.RuneSelf || isAlnum(next)) {
			return true
		}
	}
	return strings.Contains(text, "://")
}

func isAlnum(b byte) bool { return '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z' }

// InLinks are the addresses of links in Markdown, and those that begin a line, in their normal form: the first
// [MaxLinks].
func InLinks(text string) (all []string) {
	for line := range strings.Lines(text) {
		for _, m := range inLinks().FindAllStringSubmatch(line, MaxLinks) {
			if len(all) == MaxLinks {
				return all
			}
			if n := Normal(linkTarget(m[1])); n != "" {
				all = append(all, n)
			}
		}
	}
	return all
}

// linkTarget cuts off what closes a link. Parentheses within an address come in pairs.
func linkTarget(s string) string {
	depth := 0
	for i, r := range s {
		switch r {
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return s[:i]
			}
		}
	}
	return s
}

// Turn is what a turn knows of addresses. The zero Turn knows none.
type Turn struct {
	said, linked map[string]bool
	followed     int
}

// Say adds the addresses in words of the turn's principal.
func (t *Turn) Say(text string) {
	for _, a := range InWords(text) {
		if len(t.said) < maxWords {
			put(&t.said, a)
		}
	}
}

// Offer adds links of a result.
func (t *Turn) Offer(links []string) {
	for _, a := range links {
		put(&t.linked, a)
	}
}

func put(set *map[string]bool, a string) {
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[a] = true
}

// Follow notes that the turn has followed a link.
func (t *Turn) Follow() { t.followed++ }

// Knows says whether the turn may go to an address, and whether it follows a link by that.
func (t *Turn) Knows(address string) (known, follows bool) {
	n := Normal(address)
	switch {
	case n == "":
		return false, false
	case t.said[n]:
		return true, false
	case t.linked[n] && t.followed < MaxFollowed:
		return true, true
	}
	return false, false
}
