package config

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Source is what kind of place a value comes from.
type Source string

// The sources, each before the one above it.
const (
	FromDefault     Source = "default"
	FromFile        Source = "file"
	FromEnvironment Source = "environment"
)

// Value is one setting in force, fit for showing: secrets are masked.
type Value struct {
	Key   string `json:"key"`
	Value any    `json:"value"` // as one would write it into a file
	From  Source `json:"from"`
	// the path of the file, or the name of the variable; empty for a default
	Where string `json:"where,omitempty"`
	// where a secret really is, such as "env:NAME"; empty if it was written out
	Reference string `json:"reference,omitempty"`
}

// Explanation is what a home's settings are, and why.
type Explanation struct {
	Config   Config
	Values   []Value  // of every setting, in the order of [Config]
	Warnings []string // of what works and should not stay so
}

// Explain is [Load] with the reasons. With an error the values are not complete.
func Explain(home string, networks ...Network) (Explanation, error) {
	e := Explanation{Config: Defaults()}
	e.Config.Home = home
	s := newSettings()
	s.networks = networks
	if err := s.readFile(home); err != nil {
		return e, err
	}
	if err := s.readEnvironment(os.Environ()); err != nil {
		return e, err
	}
	if err := s.values.UnmarshalExact(&e.Config); err != nil {
		return e, fmt.Errorf("read the settings: %w", err)
	}
	r := &resolver{home: home, variable: os.Getenv}
	if err := e.resolve(s, r); err != nil {
		return e, err
	}
	if err := e.resolveAccounts(s, r); err != nil {
		return e, err
	}
	e.Warnings = append(e.Warnings, r.warnings...)
	for key := range s.from {
		e.Config.ConsoleAsked = e.Config.ConsoleAsked || strings.HasPrefix(key, "console.")
	}
	return e, cmp.Or(e.Config.validate(), s.validateMemory(e.Config))
}

// resolve puts the secrets in the places of their references, and notes where every value comes from.
func (e *Explanation) resolve(s *settings, r *resolver) error {
	for _, l := range leaves() {
		from, set := s.from[l.key]
		if !set {
			from.source = FromDefault
		}
		v := Value{Key: l.key, From: from.source, Where: from.place}
		v.Value = shown(l.in(&e.Config))
		var err error
		switch raw := l.in(&e.Config).(type) {
		case Secret:
			err = e.resolveSecret(&v, l, raw, r)
		case Providers:
			err = e.resolveProviders(v, l, raw, r)
		}
		if err != nil {
			return err
		}
		e.Values = append(e.Values, v)
	}
	return nil
}

func (e *Explanation) resolveSecret(v *Value, l leaf, raw Secret, r *resolver) error {
	text, reference, err := r.resolve(l.key, raw.Reveal())
	l.put(&e.Config, NewSecret(text))
	v.Value, v.Reference = NewSecret(text), reference
	e.warnOfOpenFile(*v, text != "")
	return err
}

func (e *Explanation) resolveProviders(v Value, l leaf, raw Providers, r *resolver) error {
	resolved, err := raw.resolve(l.key, r)
	l.put(&e.Config, resolved)
	_, open := raw.shown()
	e.warnOfOpenFile(v, open)
	return err
}

// warnOfOpenFile: a secret that is written out is as open as the settings file.
func (e *Explanation) warnOfOpenFile(v Value, open bool) {
	if !open || v.From != FromFile || v.Reference != "" {
		return
	}
	if info, err := os.Stat(v.Where); err == nil && readableByOthers(info.Mode()) {
		e.Warnings = append(e.Warnings, fmt.Sprintf("%s: every user of this machine can read %s (chmod o-r)", v.Key,
			v.Where))
	}
}

// shown is a value as everyone may see it. An address may have a password or a key in it.
func shown(value any) any {
	if list, is := value.(Providers); is {
		text, _ := list.shown()
		return text
	}
	text, is := value.(string)
	if !is || !isHTTP(text) {
		return written(value)
	}
	u, err := url.Parse(text)
	if err != nil {
		return mask
	}
	if u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		return text
	}
	safe := u.Scheme + "://"
	if u.User != nil {
		safe += mask + "@"
	}
	safe += u.Host + u.EscapedPath()
	if u.RawQuery != "" || u.Fragment != "" {
		safe += "?" + mask
	}
	return safe
}

// Live are the keys of the settings that a running Corebot takes when they change, in the order of [Config].
func Live() (keys []string) {
	for _, l := range leaves() {
		if l.reload {
			keys = append(keys, l.key)
		}
	}
	return keys
}

// WithLive is c with the live settings of fresh. If those do not fit the other settings of c, which need a restart, it
// is an error, as at a load.
func (c Config) WithLive(fresh Config) (Config, error) {
	for _, l := range leaves() {
		if l.reload {
			l.put(&c, l.in(&fresh))
		}
	}
	return c, c.validate()
}

// Diff lists the keys whose values differ, in the order of [Config]: those that a running Corebot can apply, and those
// that need a restart.
func Diff(old, new Config) (reloadable, restart []string) {
	for _, l := range leaves() {
		switch {
		case l.in(&old) == l.in(&new):
		case l.reload:
			reloadable = append(reloadable, l.key)
		default:
			restart = append(restart, l.key)
		}
	}
	return reloadable, append(restart, old.Accounts.changed(new.Accounts)...)
}
