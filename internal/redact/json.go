package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/corebot/corebot/internal/runes"
)

// sensitiveWords are the words of a field's name that make its value a secret.
func sensitiveWords() []string {
	return []string{
		"apikey", "auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "jwt", "key", "keys", "otp",
		"passphrase", "passwd", "password", "passwords", "pin", "privatekey", "pwd", "secret", "secrets", "token", "tokens",
	}
}

// Sensitive says whether a field of this name holds a secret: one of its words, told apart by case, digits and punctuation,
// is such a word. "bootstrapKey" and "x-api-key" are; "monkey" is not.
func Sensitive(name string) bool {
	words := sensitiveWords()
	return slices.ContainsFunc(splitWords(name), func(w string) bool { return slices.Contains(words, w) })
}

// splitWords splits snake, kebab and camel case. A run of capitals is one word, less its last letter where a lower case one
// follows: "APIKey" is api and key.
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

// Args returns what a model wrote as arguments, fit to be stored: always one JSON value in valid UTF-8, with secrets replaced.
// Order and doubled fields are kept. Text that is not JSON, is nested deeper than [MaxDepth], or is longer than limit bytes
// once redacted becomes a JSON string with its beginning. The limit counts the text before it is quoted.
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

// MaxDepth is how deep JSON that others wrote may be nested where Corebot prints it. Readers have limits of their own: jq
// stops at 256 levels and then shows no later row either. No tool takes arguments of more than 32 levels.
const MaxDepth = 64

// Shallow returns JSON that others wrote, fit to be part of a row: a value that is nested deeper than [MaxDepth] becomes a
// JSON string with its whole text.
func Shallow(raw json.RawMessage) json.RawMessage {
	if depth(string(raw)) <= MaxDepth {
		return raw
	}
	return json.RawMessage(quote(strings.ToValidUTF8(string(raw), "\uFFFD")))
}

// depth is how deep the arrays and objects of a JSON text are nested.
func depth(text string) (deepest int) {
	open, quoted, escaped := 0, false, false
	for i := range len(text) {
		switch c := text[i]; {
		case escaped:
			escaped = false
		case quoted:
			quoted, escaped = c != '"', c == '\\'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}

var errTrailing = errors.New("more than one JSON value")

// json copies a document token by token: unlike decoding and encoding, that keeps the order and the doubled fields that an
// auditor wants to see, and needs no recursion.
func (r *Redactor) json(raw []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	w := &writer{redactor: r}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) && len(w.open) == 0 && w.values == 1 {
			return w.out.String(), nil
		}
		if err != nil {
			return "", err
		}
		if w.values == 1 && len(w.open) == 0 {
			return "", errTrailing
		}
		w.token(tok)
	}
}

// writer writes tokens back as JSON.
type writer struct {
	redactor *Redactor
	out      strings.Builder
	open     []container
	values   int // at the top
	hidden   int // depth inside a value that is being left out; 0 when none is
}

type container struct {
	object  bool
	count   int  // names and values so far
	secret  bool // the value that comes next is a secret
	element byte // the closing bracket
}

func (w *writer) token(tok json.Token) {
	delim, isDelim := tok.(json.Delim)
	switch {
	case isDelim && (delim == '}' || delim == ']'):
		w.end()
	case isDelim:
		w.begin(delim)
	case w.hidden > 0:
	case w.atName():
		name, _ := tok.(string)
		w.separate()
		w.out.WriteString(quote(w.redactor.Text(name)))
		w.top().secret = Sensitive(name)
	default:
		w.scalar(tok)
	}
}

func (w *writer) begin(delim json.Delim) {
	if w.hidden > 0 {
		w.hidden++
		return
	}
	if w.secretNext() {
		w.separate()
		w.out.WriteString(quote(Mark))
		w.hidden = 1
		return
	}
	w.separate()
	w.out.WriteString(delim.String())
	c := container{object: delim == '{', element: ']'}
	if c.object {
		c.element = '}'
	}
	w.open = append(w.open, c)
}

func (w *writer) end() {
	if w.hidden > 0 {
		w.hidden--
		return
	}
	w.out.WriteByte(w.top().element)
	w.open = w.open[:len(w.open)-1]
}

func (w *writer) scalar(tok json.Token) {
	secret := w.secretNext()
	w.separate()
	switch v := tok.(type) {
	case string:
		if secret {
			v = Mark
		}
		w.out.WriteString(quote(w.redactor.Text(v)))
	case json.Number:
		if secret {
			w.out.WriteString(quote(Mark))
			return
		}
		w.out.WriteString(v.String())
	case bool:
		w.out.WriteString(map[bool]string{true: "true", false: "false"}[v])
	default:
		w.out.WriteString("null")
	}
}

func (w *writer) top() *container { return &w.open[len(w.open)-1] }

func (w *writer) atName() bool {
	return len(w.open) > 0 && w.top().object && w.top().count%2 == 0
}

func (w *writer) secretNext() bool { return len(w.open) > 0 && w.top().object && w.top().secret }

// separate writes what stands before the next name or value, and counts it.
func (w *writer) separate() {
	if len(w.open) == 0 {
		w.values++
		return
	}
	c := w.top()
	switch {
	case c.object && c.count%2 == 1:
		w.out.WriteByte(':')
	case c.count > 0:
		w.out.WriteByte(',')
	}
	c.count++
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
