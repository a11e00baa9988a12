package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
)

// maxSecretFile bounds the file of a secret, in bytes.
const maxSecretFile = 64 << 10

// A reference is what stands in a setting in the place of a secret: "file:PATH", the whole file without its last line break, or
// "env:NAME". A relative path is relative to the home.
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

// resolve gives the secret that a setting means. reference is empty where the setting is the secret itself. An error names the
// reference, and never the secret.
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
		return "", corebot.WithHint(fmt.Errorf("%s: what follows %q is not the name of a variable", key, variableReference),
			"write it as env:NAME, with letters, digits and _; a secret that begins with env: can be put in a file and named as file:PATH")
	}
	secret := r.variable(name)
	if secret == "" {
		return "", corebot.WithHint(fmt.Errorf("%s: %s%s: the variable is not set", key, variableReference, name), fmt.Sprintf("set %s where Corebot is started", name))
	}
	return secret, nil
}

func (r *resolver) fromFile(key, path string) (string, error) {
	if path == "" || strings.ContainsFunc(path, unicode.IsControl) { // a control character would drive the terminal that shows the error
		return "", corebot.WithHint(fmt.Errorf("%s: what follows %q is not a path", key, fileReference), "write it as file:PATH; a relative path begins at the home")
	}
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(r.home, full)
	}
	secret, mode, err := readSecret(full)
	if err != nil {
		return "", corebot.WithHint(fmt.Errorf("%s: %s%s: %w", key, fileReference, path, err), cmp.Or(corebot.HintOf(err),
			fmt.Sprintf("make it a readable file of at most %d bytes that holds the secret and nothing else; a relative path begins at the home", maxSecretFile)))
	}
	if readableByOthers(mode) {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: every user of this machine can read %s (chmod o-r)", key, full))
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
