package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/corebot/corebot"
)

// Provider is one entry of llm.providers. Its fields and tags are read as those of [Config] are.
type Provider struct {
	Name             string            `mapstructure:"name"`
	Kind             string            `mapstructure:"kind" oneof:"openai,anthropic"`
	BaseURL          string            `mapstructure:"base_url"`
	APIKey           Secret            `mapstructure:"api_key"`
	Models           []string          `mapstructure:"models"`
	Headers          map[string]Secret `mapstructure:"headers"`
	Vision           bool              `mapstructure:"vision"`
	ThinkingTokens   int               `mapstructure:"thinking_tokens" min:"0"`
	Timeout          time.Duration     `mapstructure:"timeout" min:"0s"`
	FirstByteTimeout time.Duration     `mapstructure:"first_byte_timeout" min:"0s"`
	IdleTimeout      time.Duration     `mapstructure:"idle_timeout" min:"0s"`
}

// newProvider has what an entry need not say.
func newProvider() Provider { return Provider{Kind: "openai"} }

// Providers are the entries of llm.providers, in order. The zero value is the empty list. Two lists can be compared
// with ==, and like a [Secret], which entries hold, a list prints nothing of itself.
type Providers struct {
	text unique.Handle[string] // the entries as JSON, as a file could say them
}

// NewProviders makes a list.
func NewProviders(list ...Provider) Providers {
	if len(list) == 0 {
		return Providers{}
	}
	entries := make([]map[string]any, len(list))
	for i, p := range list {
		entries[i] = p.spell(func(s Secret) string { return s.Reveal() })
	}
	text, err := json.Marshal(entries)
	if err != nil {
		panic(err) // texts, numbers and maps of them always marshal
	}
	return Providers{unique.Make(string(text))}
}

// List gives the entries.
func (p Providers) List() []Provider {
	if p == (Providers{}) {
		return nil
	}
	list, err := readProviders("", p.text.Value())
	if err != nil {
		panic(err) // what NewProviders has spelt can be read
	}
	return list
}

// providerLeaves are the settings of one entry.
func providerLeaves() []leaf { return entryLeaves(newProvider()) }

// spell writes an entry as a file could say it, without empty fields. hide says how a secret is spelt.
func (p Provider) spell(hide func(Secret) string) map[string]any {
	entry := map[string]any{}
	v := reflect.ValueOf(p)
	for _, l := range providerLeaves() {
		field := v.FieldByIndex(l.index)
		if field.IsZero() {
			continue
		}
		switch value := field.Interface().(type) {
		case Secret:
			entry[l.key] = hide(value)
		case map[string]Secret:
			headers := map[string]string{}
			for name, secret := range value {
				headers[name] = hide(secret)
			}
			entry[l.key] = headers
		default:
			entry[l.key] = written(value)
		}
	}
	return entry
}

// readProviders reads a list from a settings file, or from JSON text, as a variable has it. where names the source, for
// errors. No error quotes a value.
func readProviders(where string, raw any) ([]Provider, error) {
	entries, ok := entriesOf(raw)
	if !ok {
		return nil, corebot.WithHint(fmt.Errorf("%s is not a list", where),
			`write it as a list of entries, such as [{"name": "main", "models": ["gpt-4o-mini"]}]; in a variable in `+
				`JSON`)
	}
	var out []Provider
	for i, entry := range entries {
		p := newProvider()
		if err := readEntry(fmt.Sprintf("%s[%d]", where, i), entry, providerLeaves(), &p); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// resolve puts secrets in the places of their references.
func (p Providers) resolve(key string, r *resolver) (Providers, error) {
	list := p.List()
	for i := range list {
		where := fmt.Sprintf("%s[%d]", key, i)
		resolve := func(name string, s Secret) (Secret, error) {
			text, _, err := r.resolve(where+"."+name, s.Reveal())
			return NewSecret(text), err
		}
		var err error
		if list[i].APIKey, err = resolve("api_key", list[i].APIKey); err != nil {
			return p, err
		}
		for _, name := range slices.Sorted(maps.Keys(list[i].Headers)) {
			if list[i].Headers[name], err = resolve("headers."+name, list[i].Headers[name]); err != nil {
				return p, err
			}
		}
	}
	return NewProviders(list...), nil
}

// shown is an unresolved list as everyone may see it: references stand as they were written. open says that a secret
// was written out.
func (p Providers) shown() (text shownList, open bool) {
	entries := []map[string]any{}
	for _, entry := range p.List() {
		spelt := entry.spell(func(s Secret) string {
			if isReference(s.Reveal()) {
				return s.Reveal()
			}
			open = open || s != (Secret{})
			return s.String()
		})
		if url, has := spelt["base_url"]; has {
			spelt["base_url"] = shown(url)
		}
		entries = append(entries, spelt)
	}
	b, err := json.Marshal(entries)
	if err != nil {
		panic(err) // texts, numbers and maps of them always marshal
	}
	return shownList(b), open
}

// shownList is a list as JSON that everyone may see.
type shownList string

// MarshalJSON gives the list itself.
func (s shownList) MarshalJSON() ([]byte, error) { return []byte(s), nil }

// check refuses entries that the tags rule out, and what concerns several settings.
func (p Providers) check(key string) error {
	seen := map[string]bool{}
	for i, entry := range p.List() {
		where := fmt.Sprintf("%s[%d]", key, i)
		v := reflect.ValueOf(entry)
		for _, l := range providerLeaves() {
			name := l.key
			l.key = where + "." + name
			if err := l.check(v.FieldByIndex(l.index).Interface()); err != nil {
				return err
			}
		}
		if err := entry.validate(where); err != nil {
			return err
		}
		if seen[entry.Name] {
			return corebot.WithHint(fmt.Errorf("%s.name is %q, and so is another's", where, entry.Name),
				"give each a name of its own")
		}
		seen[entry.Name] = true
	}
	return nil
}

// leastThinking is what Anthropic's API takes.
const leastThinking = 1024

func (p Provider) validate(where string) error {
	switch {
	case strings.TrimSpace(p.Name) == "":
		return corebot.WithHint(fmt.Errorf("%s has no name", where), "give it one, such as name: main")
	case len(p.Models) == 0 || slices.Contains(p.Models, ""):
		return corebot.WithHint(fmt.Errorf("%s names no model", where), `name them, such as models: ["gpt-4o-mini"]`)
	case p.BaseURL != "" && !isHTTP(p.BaseURL): // not quoted: an address may have a password in it
		return corebot.WithHint(fmt.Errorf("%s.base_url is not an address", where),
			"it must be an http or https address, such as http://127.0.0.1:11434/v1")
	case p.ThinkingTokens != 0 && p.ThinkingTokens < leastThinking:
		return corebot.WithHint(fmt.Errorf("%s.thinking_tokens is %d", where, p.ThinkingTokens),
			fmt.Sprintf("it must be 0 or at least %d", leastThinking))
	}
	if duplicate, is := firstTwice(p.Models); is {
		return corebot.WithHint(fmt.Errorf("%s has the model %q twice", where, duplicate), "keep one of them")
	}
	return nil
}

func firstTwice(names []string) (string, bool) {
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			return name, true
		}
		seen[name] = true
	}
	return "", false
}

const (
	// DefaultModel is asked for at an endpoint when nobody named a model.
	DefaultModel = "gpt-4o-mini"
	// OnlyProvider is what metrics call the provider of base_url, api_key and model.
	OnlyProvider = "default"
)

// Of is the section with those of its providers that an agent can ask.
func (l LLM) Of(a AgentEntry) LLM {
	l.Providers = NewProviders(slices.DeleteFunc(l.Providers.List(), func(p Provider) bool {
		return !a.HasProvider(p.Name)
	})...)
	return l
}

// providerNames are those of the list, or of the one endpoint.
func (l LLM) providerNames() []string {
	list := l.Providers.List()
	if len(list) == 0 {
		return []string{OnlyProvider}
	}
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name
	}
	return names
}

// ProvidersOf are the names of the providers that an agent asks, in their order.
func (l LLM) ProvidersOf(a AgentEntry) []string { return l.Of(a).providerNames() }

// KnownModels are what a chat or an agent may ask for: names, and PROVIDER/NAME. It is empty if the settings leave open
// who answers.
func (l LLM) KnownModels() []string {
	var names []string
	for _, p := range l.Providers.List() {
		for _, m := range p.Models {
			names = append(names, m, p.Name+"/"+m)
		}
	}
	if len(names) == 0 && (l.BaseURL != "" || l.APIKey.Reveal() != "") {
		m := cmp.Or(l.Model, DefaultModel)
		names = []string{m, OnlyProvider + "/" + m}
	}
	return names
}
