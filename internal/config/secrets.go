package config

import (
	"os"
	"slices"
	"strings"

	"github.com/corebot/corebot/internal/redact"
)

// Secrets are the texts that must be shown nowhere: the secrets of the settings, and what the environment has under names of secrets. Those that
// are shorter than [redact.MinSecret] are left out: they are parts of ordinary words.
func (c Config) Secrets() []string {
	var all []string
	for _, l := range leaves() {
		switch v := l.in(c).(type) {
		case Secret:
			all = append(all, v.Reveal())
		case Providers:
			for _, p := range v.List() {
				all = append(all, p.secrets()...)
			}
		}
	}
	all = append(all, secretVariables(os.Environ())...)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return len(s) < redact.MinSecret })
}

func (p Provider) secrets() []string {
	all := []string{p.APIKey.Reveal()}
	for _, header := range p.Headers {
		all = append(all, redact.OfHeader(header.Reveal())...)
	}
	return all
}

// secretVariables are the values of variables with names of secrets. What stands for a secret, as file:NAME does, and what is a path, is none.
func secretVariables(environ []string) []string {
	var all []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if redact.Sensitive(name) && !strings.HasPrefix(value, "file:") && !strings.HasPrefix(value, "env:") && !strings.HasPrefix(value, "/") {
			all = append(all, value)
		}
	}
	return all
}
