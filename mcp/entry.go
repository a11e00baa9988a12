package mcp

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/corebot/corebot"
)

// reading puts the value of one key into a spec.
type reading func(r *entryReader, key string, n *node, s *Spec) error

// entryKeys are the keys of an entry.
func entryKeys() map[string]reading {
	return map[string]reading{
		"type":     text(func(s *Spec) *string { return &s.Transport }),
		"command":  text(func(s *Spec) *string { return &s.Command }),
		"args":     texts(func(s *Spec) *[]string { return &s.Args }),
		"env":      pairs(func(s *Spec) *map[string]string { return &s.Env }),
		"cwd":      text(func(s *Spec) *string { return &s.Dir }),
		"url":      text(func(s *Spec) *string { return &s.URL }),
		"headers":  pairs(func(s *Spec) *map[string]string { return &s.Headers }),
		"disabled": truth(func(s *Spec, v bool) { s.Disabled = v }),

		"passEnv":        texts(func(s *Spec) *[]string { return &s.PassEnv }),
		"connectTimeout": duration(func(s *Spec) *time.Duration { return &s.ConnectTimeout }),
		"timeout":        duration(func(s *Spec) *time.Duration { return &s.Timeout }),
		"maxTime":        duration(func(s *Spec) *time.Duration { return &s.MaxTime }),
		"maxCalls":       number(func(s *Spec) *int { return &s.MaxCalls }),
		"allowTools":     patterns(func(s *Spec) *[]string { return &s.AllowTools }),
		"denyTools":      patterns(func(s *Spec) *[]string { return &s.DenyTools }),
		"readOnlyTools":  patterns(func(s *Spec) *[]string { return &s.ReadOnlyTools }),
		"pinTools":       truth(func(s *Spec, v bool) { s.Pin = &v }),
	}
}

// entry reads one server.
func (r *entryReader) entry(key string, f fieldNode) (Spec, error) {
	s, keys, at := Spec{Name: f.name}, entryKeys(), map[string]int{}
	if f.value.kind != '{' {
		return s, r.wrong(f.value.at, key, errors.New("want an object"))
	}
	for _, field := range f.value.fields {
		read, ok := keys[field.name]
		if !ok {
			return s, r.unknown(field.at, key+"."+field.name, slices.Sorted(maps.Keys(keys)))
		}
		at[field.name] = field.at
		if err := read(r, key+"."+field.name, field.value, &s); err != nil {
			return s, err
		}
	}
	if bad, err := s.complete(at, r.dir); err != nil {
		where, ok := at[bad]
		if !ok {
			return s, r.wrong(f.at, key, err)
		}
		return s, r.wrong(where, key+"."+bad, err)
	}
	return s, nil
}

// complete checks what keys mean together, and settles the kind of the connection. It names the key that is wrong.
func (s *Spec) complete(given map[string]int, dir string) (key string, err error) {
	_, command := given["command"]
	_, address := given["url"]
	switch {
	case command && address:
		return "url", errors.New("there is a command and a url: want one of them")
	case !command && !address:
		return "", errors.New("there is neither a command nor a url")
	case command && s.Transport != "" && s.Transport != Stdio, address && s.Transport != "" && s.Transport != HTTP &&
		s.Transport != SSE:
		return "type", fmt.Errorf("the type %q does not fit: want %q with a command, and %q (streamable HTTP) or %q "+
			"with a url", clip(s.Transport, 40), Stdio, HTTP, SSE)
	case s.MaxTime > 0 && s.MaxTime < s.Timeout:
		return "maxTime", fmt.Errorf("it is shorter than the timeout, %v", s.Timeout)
	}
	of, others := []string{"url", "headers"}, []string{"command", "args", "env", "cwd", "passEnv"}
	if command {
		of, others = others, of
	}
	for _, name := range others {
		if _, ok := given[name]; ok {
			return name, fmt.Errorf("it does not go with %s", of[0])
		}
	}
	if command {
		return s.completeProgram(dir)
	}
	if s.Transport == "" {
		s.Transport = HTTP
	}
	return s.checkAddress()
}

func (s *Spec) completeProgram(dir string) (string, error) {
	s.Transport = Stdio
	if s.Command == "" {
		return "command", errors.New("it is empty")
	}
	if !filepath.IsAbs(s.Dir) {
		s.Dir = filepath.Join(dir, s.Dir)
	}
	for name := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return "env", fmt.Errorf("%q is no name of a variable", clip(name, 60))
		}
	}
	return "", nil
}

// checkAddress refuses a name or password in the address: it would show in logs, and a header does the same.
func (s *Spec) checkAddress() (string, error) {
	u, err := url.Parse(s.URL)
	switch {
	// not quoted: it may have a key in it
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "":
		return "url", errors.New("want an http or https address, such as http://127.0.0.1:3001/mcp")
	case u.User != nil:
		return "url", errors.New("it has a user in it: write an Authorization header instead")
	}
	for name, value := range s.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return "headers", fmt.Errorf("%q is no header, or its value cannot be one", clip(name, 60))
		}
	}
	return "", nil
}

func text(to func(*Spec) *string) reading {
	return func(r *entryReader, key string, n *node, s *Spec) (err error) {
		*to(s), err = r.text(key, n)
		return err
	}
}

// text is a text with its variables put in.
func (r *entryReader) text(key string, n *node) (string, error) {
	if n.kind != '"' {
		return "", r.wrong(n.at, key, errors.New("want a text"))
	}
	out, err := expand(n.text, r.env)
	if err == nil && strings.Contains(out, "\x00") {
		err = errors.New("a NUL byte")
	}
	if err != nil {
		return "", corebot.WithHint(r.wrong(n.at, key, err), corebot.HintOf(err))
	}
	return out, nil
}

func texts(to func(*Spec) *[]string) reading {
	return func(r *entryReader, key string, n *node, s *Spec) error {
		if n.kind != '[' {
			return r.wrong(n.at, key, errors.New("want a list of texts"))
		}
		all := []string{}
		for i, item := range n.items {
			text, err := r.text(fmt.Sprintf("%s[%d]", key, i), item)
			if err != nil {
				return err
			}
			all = append(all, text)
		}
		*to(s) = all
		return nil
	}
}

func patterns(to func(*Spec) *[]string) reading {
	read := texts(to)
	return func(r *entryReader, key string, n *node, s *Spec) error {
		if err := read(r, key, n, s); err != nil {
			return err
		}
		for i, p := range *to(s) {
			if p == "" || strings.Contains(strings.TrimSuffix(p, "*"), "*") {
				return r.wrong(n.items[i].at, fmt.Sprintf("%s[%d]", key, i),
					errors.New("want the name of a tool, or the beginning of names and *"))
			}
		}
		return nil
	}
}

func pairs(to func(*Spec) *map[string]string) reading {
	return func(r *entryReader, key string, n *node, s *Spec) error {
		if n.kind != '{' {
			return r.wrong(n.at, key, errors.New("want an object of texts"))
		}
		all := map[string]string{}
		for _, f := range n.fields {
			text, err := r.text(key+"."+f.name, f.value)
			if err != nil {
				return err
			}
			all[f.name] = text
		}
		*to(s) = all
		return nil
	}
}

func truth(put func(*Spec, bool)) reading {
	return func(r *entryReader, key string, n *node, s *Spec) error {
		if n.kind != 't' && n.kind != 'f' {
			return r.wrong(n.at, key, errors.New("want true or false"))
		}
		put(s, n.kind == 't')
		return nil
	}
}

func duration(to func(*Spec) *time.Duration) reading {
	return func(r *entryReader, key string, n *node, s *Spec) error {
		d, err := time.ParseDuration(n.text)
		if n.kind != '"' || err != nil || d < time.Millisecond || d > 24*time.Hour {
			return r.wrong(n.at, key, errors.New(`want a time such as "30s" or "5m", at most "24h"`))
		}
		*to(s) = d
		return nil
	}
}

func number(to func(*Spec) *int) reading {
	return func(r *entryReader, key string, n *node, s *Spec) error {
		v, err := strconv.Atoi(n.text)
		if n.kind != '0' || err != nil || v < 1 || v > 1_000 {
			return r.wrong(n.at, key, errors.New("want a whole number from 1 to 1000"))
		}
		*to(s) = v
		return nil
	}
}

// maxValue bounds one text of the file after its variables were put in, in bytes.
const maxValue = 64 << 10

// expand puts variables of Corebot's environment into a text: ${NAME}, which must be set, and ${NAME:-default}, which
// takes the default if NAME is not set or empty. Expanded values are not expanded again, and a "$" without a brace
// stays. No error spells a value.
func expand(text string, env func(string) (string, bool)) (string, error) {
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	var out strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "${")
		out.WriteString(before)
		if !found {
			break
		}
		inner, behind, closed := strings.Cut(after, "}")
		if !closed {
			return "", fmt.Errorf("%w: a ${ without its }", corebot.ErrInvalid)
		}
		variable, fallback, hasFallback := strings.Cut(inner, ":-")
		if !name.MatchString(variable) {
			return "", fmt.Errorf("%w: ${%.40s}: want ${NAME} or ${NAME:-default}", corebot.ErrInvalid, inner)
		}
		value, set := env(variable)
		switch {
		case hasFallback && value == "":
			value = fallback
		case !set:
			return "", corebot.WithHint(fmt.Errorf("%w: the variable %s is not set", corebot.ErrInvalid, variable),
				"set it where Corebot is started, or write ${"+variable+":-default}")
		}
		out.WriteString(value)
		rest = behind
	}
	if out.Len() > maxValue {
		return "", fmt.Errorf("%w: more than %d bytes", corebot.ErrInvalid, maxValue)
	}
	return out.String(), nil
}
