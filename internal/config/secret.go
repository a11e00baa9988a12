package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unique"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
	"github.com/corebot/corebot/internal/redact"
)

// mask stands where a secret would be.
const mask = "***"

// Secret is text that is never shown: printing and encoding give "***", or nothing if it is empty. Only [Secret.Reveal]
// gives the text, so a search for that name finds every use. The zero value is the empty secret. Two secrets can be
// compared with ==, to see a change. The comparison takes no constant time, so it must not authenticate anyone.
//
// The text is behind a pointer. Package fmt does not ask the methods of a value in an unexported field: it prints the
// field itself, which is an address.
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

// Secrets are the texts that must be shown nowhere: the secrets of the settings, and what the environment has under
// names of secrets. Those that are shorter than [redact.MinSecret] are left out: they are parts of ordinary words.
func (c Config) Secrets() []string {
	var all []string
	for _, l := range leaves() {
		switch v := l.in(&c).(type) {
		case Secret:
			all = append(all, v.Reveal())
		case Providers:
			for _, p := range v.List() {
				all = append(all, p.secrets()...)
			}
		}
	}
	all = append(all, c.Accounts.secrets()...)
	all = append(all, secretVariables(os.Environ())...)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return len(s) < redact.MinSecret })
}

// IsSecret says whether the text at a path of a settings file is a secret, or a reference to one: by the settings, and
// by its name. All headers of a provider are.
func IsSecret(path []string, networks ...Network) bool {
	name := strings.ToLower(path[len(path)-1])
	if redact.Sensitive(name) || slices.Contains(path[:len(path)-1], "headers") {
		return true
	}
	known := func(all []leaf) bool {
		return slices.ContainsFunc(all, func(l leaf) bool {
			return l.isSecret() && l.key[strings.LastIndexByte(l.key, '.')+1:] == name
		})
	}
	return known(leaves()) || slices.ContainsFunc(networks, func(n Network) bool { return known(n.leaves()) })
}

// IsReference says whether a text in the place of a secret names where the secret is.
func IsReference(text string) bool { return isReference(text) }

func (p Provider) secrets() []string {
	all := []string{p.APIKey.Reveal()}
	for _, header := range p.Headers {
		all = append(all, redact.OfHeader(header.Reveal())...)
	}
	return all
}

// secretVariables are the values of variables with names of secrets. A reference, such as file:NAME, is no secret, and
// neither is a path.
func secretVariables(environ []string) []string {
	var all []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if redact.Sensitive(name) && !strings.HasPrefix(value, "file:") && !strings.HasPrefix(value, "env:") &&
			!strings.HasPrefix(value, "/") {
			all = append(all, value)
		}
	}
	return all
}

// maxSecretFile bounds the file of a secret, in bytes.
const maxSecretFile = 64 << 10

// A reference is what stands in a setting in the place of a secret: "file:PATH", the whole file without its last line
// break, or "env:NAME". A relative path is relative to the home.
const (
	fileReference     = "file:"
	variableReference = "env:"
)

// resolver looks up references.
type resolver struct {
	home     string
	variable func(name string) string
	warnings []string // about secrets that were found and are not kept well
}

// isReference says whether a text in the place of a secret names where it is.
func isReference(raw string) bool {
	return strings.HasPrefix(raw, fileReference) || strings.HasPrefix(raw, variableReference)
}

// resolve gives the secret that a setting means. reference is empty where the setting is the secret itself. An error
// names the reference, and never the secret.
func (r *resolver) resolve(key, raw string) (secret, reference string, err error) {
	if name, is := strings.CutPrefix(raw, variableReference); is {
		secret, err = r.fromVariable(key, name)
		return secret, raw, err
	}
	if path, is := strings.CutPrefix(raw, fileReference); is {
		secret, err = r.fromFile(key, path)
		return secret, raw, err
	}
	return raw, "", nil
}

func (r *resolver) fromVariable(key, name string) (string, error) {
	if !isVariableName(name) { // not quoted: it may be a secret that was pasted there
		return "", corebot.WithHint(fmt.Errorf("%s: what follows %q is not the name of a variable", key,
			variableReference),
			"write it as env:NAME, with letters, digits and _; a secret that begins with env: can be put in a file "+
				"and named as file:PATH")
	}
	secret := r.variable(name)
	if secret == "" {
		return "", corebot.WithHint(fmt.Errorf("%s: %s%s: the variable is not set", key, variableReference, name),
			fmt.Sprintf("set %s where Corebot is started", name))
	}
	return secret, nil
}

func (r *resolver) fromFile(key, path string) (string, error) {
	// a control character would drive the terminal that shows the error
	if path == "" || strings.ContainsFunc(path, unicode.IsControl) {
		return "", corebot.WithHint(fmt.Errorf("%s: what follows %q is not a path", key, fileReference),
			"write it as file:PATH; a relative path begins at the home")
	}
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(r.home, full)
	}
	secret, mode, err := readSecret(full)
	if err != nil {
		return "", corebot.WithHint(fmt.Errorf("%s: %s%s: %w", key, fileReference, path, err),
			cmp.Or(corebot.HintOf(err),
				fmt.Sprintf("make it a readable file of at most %d bytes that holds the secret and nothing else; a "+
					"relative path begins at the home", maxSecretFile)))
	}
	if readableByOthers(mode) {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: every user of this machine can read %s (chmod o-r)", key,
			full))
	}
	return secret, nil
}

// readSecret reads a plain file that nobody else can change: a secret that others write lets them in.
func readSecret(path string) (_ string, mode os.FileMode, err error) {
	f, info, err := owned.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	switch {
	case err != nil:
		return "", 0, err
	case len(data) > maxSecretFile:
		return "", 0, errors.New("it is too long")
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if secret == "" {
		return "", 0, errors.New("it is empty")
	}
	return secret, info.Mode(), nil
}

func readableByOthers(mode os.FileMode) bool { return mode.Perm()&0o004 != 0 }

func isVariableName(name string) bool {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name)
}
