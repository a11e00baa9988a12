package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/internal/strictjson"
)

// sensitiveWords are the words of a field's name that make its value a secret.
func sensitiveWords() []string {
	return []string{
		"apikey", "auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "jwt", "key",
		"keys", "otp",
		"passphrase", "passwd", "password", "passwords", "pin", "privatekey", "pwd", "secret", "secrets", "token",
		"tokens",
	}
}

// Sensitive says whether a field of this name holds a secret: one of its words, told apart by case, digits and
// punctuation, is such a word. "bootstrapKey" and "x-api-key" are; "monkey" is not.
func Sensitive(name string) bool {
	words := sensitiveWords()
	return slices.ContainsFunc(splitWords(name), func(w string) bool { return slices.Contains(words, w) })
}

// splitWords splits snake, kebab and camel case. A run of capitals is one word, less its last letter where a lower case
// one follows: "APIKey" is api and key.
func splitWords(name string) []string {
	var words []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
			word = nil
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			flush()
			continue
		case unicode.IsUpper(r) && i > 0 && unicode.IsLower(runes[i-1]),
			unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1]):
			flush()
		}
		word = append(word, r)
	}
	flush()
	return words
}

// Args returns what a model wrote as arguments, fit to be stored: always one JSON value in valid UTF-8, with secrets
// replaced. Order and doubled fields are kept. Text that is not JSON, is nested deeper than [MaxDepth], or is longer
// than limit bytes once redacted becomes a JSON string with its beginning. The limit counts the text before it is
// quoted.
func (r *Redactor) Args(raw []byte, limit int) string {
	text, err := r.json(raw)
	if err != nil {
		text = r.assignment.ReplaceAllString(r.Text(string(raw)), `${1}"`+Mark+`"`)
	}
	if err == nil && len(text) <= limit && depth(text) <= MaxDepth {
		return text
	}
	return quote(cut(strings.ToValidUTF8(text, "\uFFFD"), limit))
}

// MaxDepth is how deep JSON that others wrote may be nested where Corebot prints it. Readers have limits of their own:
// jq stops at 256 levels and then shows no later row either. No tool takes arguments of more than 32 levels.
const MaxDepth = 64

// Shallow returns JSON that others wrote, fit to be part of a row. A value that is nested deeper than [MaxDepth]
// becomes a JSON string with its whole text.
func Shallow(raw json.RawMessage) json.RawMessage {
	if depth(string(raw)) <= MaxDepth {
		return raw
	}
	return json.RawMessage(quote(strings.ToValidUTF8(string(raw), "\uFFFD")))
}

// depth is how deep the arrays and objects of a JSON text are nested.
func depth(text string) (deepest int) {
	scan(text, func(now int, _ byte, _ int) { deepest = max(deepest, now) })
	return deepest
}

// json copies a document word by word: unlike decoding and encoding, that keeps the order and the doubled fields that
// an auditor wants to see.
func (r *Redactor) json(raw []byte) (string, error) {
	text, err := strictjson.Rewrite(raw, strictjson.Rules{BadUTF8: true, DoubledNames: true}, strictjson.Edit{
		Name: func(name string) (string, error) { return r.Text(name), nil },
		Text: func(_, text string) (string, error) { return r.Text(text), nil },
		Hide: func(member string, value strictjson.Kind) (string, bool) {
			return Mark, Sensitive(member) && value != 't' && value != 'f' && value != 'n' // those are no secrets
		},
	})
	return string(text), err
}

// quote writes a JSON string without escaping <, > and &: people read it.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes, and a buffer always takes it
	return strings.TrimSuffix(b.String(), "\n")
}

// cut keeps the first limit bytes of a text, at a rune boundary, and says that it did.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return runes.Head(s, limit) + "…"
}
