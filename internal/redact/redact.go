// Package redact takes secrets out of what Corebot shows, stores or hands to a model.
//
// It knows the exact secrets of the configuration, the looks of the keys in rules.toml, and in JSON the names of fields
// that hold secrets. Time is linear in the input.
//
// It is a net, not a wall: a secret of a shape that nobody knows, in a field with an innocent name, passes.
package redact

import (
	"cmp"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/lazy"
)

// Mark stands where a secret stood.
const Mark = "[redacted]"

// MinSecret is the shortest exact secret, in bytes. A shorter one would blot out ordinary words.
const MinSecret = 8

// OfHeader are the exact secrets in the value of a header that may have some. They are the whole value, and the part
// behind the scheme of an Authorization, as in "Bearer abc". A text shorter than [MinSecret] is no secret.
func OfHeader(value string) []string {
	_, credentials, _ := strings.Cut(value, " ")
	return slices.DeleteFunc([]string{value, credentials}, func(s string) bool { return len(s) < MinSecret })
}

// Redactor is safe for use by several goroutines.
type Redactor struct {
	learning   sync.Mutex
	known      []string // the exact secrets, guarded by learning
	exact      atomic.Pointer[strings.Replacer]
	literals   atomic.Pointer[literals] // the same as exact, for streams
	rules      []rule
	assignment *regexp.Regexp
}

// New takes the exact secrets to look for. One shorter than [MinSecret] is [corebot.ErrInvalid]; empty ones are left
// out. The error never spells the secret.
func New(secrets []string) (*Redactor, error) {
	r := &Redactor{rules: builtIn(), assignment: assignment()}
	return r, r.Learn(secrets)
}

// Learn adds exact secrets to those that are known; one that was replaced stays one. The rules are those of [New], and
// an error adds nothing.
func (r *Redactor) Learn(secrets []string) error {
	for i, s := range secrets {
		if s != "" && len(s) < MinSecret {
			return fmt.Errorf("%w: secret number %d has %d bytes: want at least %d", corebot.ErrInvalid, i+1, len(s),
				MinSecret)
		}
	}
	r.learning.Lock()
	defer r.learning.Unlock()
	for _, s := range secrets {
		if s != "" {
			quoted := quote(s)
			r.known = append(r.known, s, quoted[1:len(quoted)-1]) // as it stands in JSON, such as a line of the log
			r.known = append(r.known, inPages(s)...)
		}
	}
	// The replacer prefers the earlier of two that start at one place: the longer must come first, or its rest would
	// show.
	slices.SortFunc(r.known, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	r.known = slices.Compact(r.known)
	var pairs []string
	for _, s := range r.known {
		pairs = append(pairs, s, Mark)
	}
	r.exact.Store(strings.NewReplacer(pairs...))
	r.literals.Store(newLiterals(slices.Clone(r.known)))
	return nil
}

// inPages is a secret as pages of the console have it: in text, in attributes, and in addresses.
func inPages(s string) []string {
	text, address := html.EscapeString(s), strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
	lower := escapes().ReplaceAllStringFunc(address, strings.ToLower)
	return []string{text, strings.ReplaceAll(text, "+", "&#43;"), address, lower}
}

var escapes = lazy.Regexp(`%[0-9A-F]{2}`)

// Text returns s with every secret replaced by [Mark].
func (r *Redactor) Text(s string) string { return r.within(s, false) }

// within redacts what stands behind the character of a word, or behind another. No pattern matches an underscore that
// it begins with.
func (r *Redactor) within(s string, inWord bool) string {
	s = r.exact.Load().Replace(s)
	if inWord {
		s = "_" + s
	}
	for i := range r.rules {
		s = r.rules[i].redact(s)
	}
	if inWord {
		s = s[1:]
	}
	return s
}

// assignment finds name=value and "name":"value" with a name that [Sensitive] would find, in text that is not JSON
// after all.
func assignment() *regexp.Regexp {
	names := strings.Join(slices.Sorted(slices.Values(sensitiveWords())), "|")
	return regexp.MustCompile(`(?i)((?:` + names + `)["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"?|[^\s,}"]+)`)
}
