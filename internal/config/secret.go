package config

import (
	"fmt"
	"io"
	"unique"
)

// mask stands where a secret would be.
const mask = "***"

// Secret is text that is never shown: whatever prints or encodes it gets "***", or nothing if it is empty. Only [Secret.Reveal] gives
// it away, so that every place that does can be found by that name. The zero value is the empty secret. Two secrets can be compared
// with ==, which takes no constant time: it is for seeing a change, not for letting anyone in.
//
// The text is behind a pointer, because package fmt does not ask the methods of a value in an unexported field: it prints what
// it finds there, and finds an address.
type Secret struct {
	text unique.Handle[string]
}

// NewSecret makes a secret of a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{unique.Make(text)}
}

// Reveal gives the secret itself.
func (s Secret) Reveal() string {
	if s == (Secret{}) {
		return ""
	}
	return s.text.Value()
}

// String gives "***", or nothing for the empty secret.
func (s Secret) String() string {
	if s == (Secret{}) {
		return ""
	}
	return mask
}

// GoString is [Secret.String] in quotes.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format prints [Secret.String] under every verb, those that would go around it included.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		text = s.GoString()
	}
	_, _ = io.WriteString(f, text) // package fmt writes into memory
}

// MarshalText encodes [Secret.String], in JSON and YAML too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
