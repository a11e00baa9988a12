package skills

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/nearest"
	"github.com/corebot/corebot/internal/redact"
)

const (
	maxDescription = 1024 // characters
	maxListed      = 64   // entries of a list
)

// The keys of front matter that mean something here.
const (
	keyName        = "name"
	keyDescription = "description"
	keyAlways      = "always"
	keyRequires    = "requires"
	keyTools       = "tools"
	keyTrigger     = "trigger"
	keyKeywords    = "keywords"
	keyEnv         = "env" // of an entry of requires
)

func knownKeys() []string {
	return []string{keyName, keyDescription, keyAlways, keyRequires, keyTools, keyTrigger, keyKeywords}
}

// What names may be. A tool's is that of tools.Tool.
const (
	skillName = `^[a-z0-9][a-z0-9-]{0,63}$`
	envName   = `^[A-Za-z_][A-Za-z0-9_]{0,127}$`
	keyword   = `^\S(.{0,62}\S)?$`
	toolName  = `^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$`
)

func parseFrontMatter(front string) (m FrontMatter, err error) {
	entries, err := parseMapping(front)
	if err != nil {
		return m, err
	}
	for _, e := range entries {
		if err := m.take(e.key, e.value); err != nil {
			return FrontMatter{}, at(e.node, err)
		}
	}
	return m, m.validate()
}

// take sets what a key says. A key without a value says nothing.
func (m *FrontMatter) take(key string, value ast.Node) (err error) {
	if _, empty := value.(*ast.NullNode); empty {
		return nil
	}
	switch key {
	case keyName:
		m.Name, err = text(key, value)
	case keyDescription:
		m.Description, err = text(key, value)
		m.Description = strings.Join(strings.Fields(redact.Visible(m.Description)), " ")
	case keyAlways:
		m.Always, err = boolean(key, value)
	case keyRequires:
		m.Requires, err = requirements(value)
	case keyTools:
		m.Tools, err = names(key, value, toolName)
	case keyTrigger:
		m.Trigger, err = trigger(value)
	case keyKeywords:
		m.Keywords, err = names(key, value, keyword)
	default:
		return misspelt(key)
	}
	return err
}

func (m *FrontMatter) validate() error {
	switch {
	case m.Name == "":
		return corebot.WithHint(fmt.Errorf("%w: it has no name", corebot.ErrInvalid),
			"write name: and the name of the directory")
	case !regexp.MustCompile(skillName).MatchString(m.Name):
		return corebot.WithHint(fmt.Errorf("%w: the name %q", corebot.ErrInvalid, clip(m.Name)),
			"want 1 to 64 of a-z, 0-9 and -, the first not a -, as the directory is called")
	case m.Description == "":
		return corebot.WithHint(fmt.Errorf("%w: it has no description", corebot.ErrInvalid),
			"say in a line what the skill does and when to use it: the model chooses by that")
	}
	if (m.Trigger == Keyword) != (len(m.Keywords) > 0) {
		return corebot.WithHint(fmt.Errorf("%w: keywords belong to the trigger keyword, and it needs some",
			corebot.ErrInvalid), "write trigger: keyword and keywords: [one, other]")
	}
	if m.Always && m.Trigger != Auto {
		return corebot.WithHint(fmt.Errorf("%w: its page is always there, and its trigger is %s", corebot.ErrInvalid,
			m.Trigger), "leave one of the two out")
	}
	if n := utf8.RuneCountInString(m.Description); n > maxDescription {
		return corebot.WithHint(fmt.Errorf("%w: the description has %d characters, the limit is %d",
			corebot.ErrTooLarge, n, maxDescription), "move details behind the front matter")
	}
	return nil
}

// requirements reads a list of entries, each with env or tools or both. An entry that cannot be judged is an error: the
// skill would be taken for usable.
func requirements(value ast.Node) (n Needs, err error) {
	const hint = "write requires: and below it, each in a line, - env: [NAME] and - tools: [web.search]"
	list, ok := value.(*ast.SequenceNode)
	if !ok {
		return n, corebot.WithHint(fmt.Errorf("%w: requires is not a list", corebot.ErrInvalid), hint)
	}
	for _, item := range list.Values {
		entries, err := mapping(item)
		if err != nil {
			return n, corebot.WithHint(fmt.Errorf("an entry of requires: %w", err), hint)
		}
		for _, e := range entries {
			if err := n.take(e); err != nil {
				return n, corebot.WithHint(fmt.Errorf("an entry of requires: %w", err), hint)
			}
		}
	}
	if len(n.Env) > maxListed || len(n.Tools) > maxListed {
		return n, fmt.Errorf("%w: requires names more than %d things of a kind", corebot.ErrTooLarge, maxListed)
	}
	return n, nil
}

func (n *Needs) take(e entry) (err error) {
	var more []string
	switch e.key {
	case keyEnv:
		more, err = names(e.key, e.value, envName)
		n.Env = distinct(append(n.Env, more...))
	case keyTools:
		more, err = names(e.key, e.value, toolName)
		n.Tools = distinct(append(n.Tools, more...))
	default:
		err = fmt.Errorf("%w: the key %q is not known", corebot.ErrInvalid, clip(e.key))
	}
	return err
}

func trigger(value ast.Node) (Trigger, error) {
	word, err := text(keyTrigger, value)
	switch {
	case err != nil:
		return Auto, err
	case word == "auto":
		return Auto, nil
	case Trigger(word) == Manual, Trigger(word) == Keyword:
		return Trigger(word), nil
	}
	return Auto, corebot.WithHint(fmt.Errorf("%w: the trigger %q", corebot.ErrInvalid, clip(word)),
		"want auto, manual or keyword")
}

// names reads a list of names.
func names(key string, value ast.Node, shape string) (all []string, err error) {
	list, ok := value.(*ast.SequenceNode)
	if !ok {
		return nil, corebot.WithHint(fmt.Errorf("%w: %s is not a list", corebot.ErrInvalid, key),
			"write it as [one, other]")
	}
	if len(list.Values) > maxListed {
		return nil, fmt.Errorf("%w: %s has %d entries, the limit is %d", corebot.ErrTooLarge, key, len(list.Values),
			maxListed)
	}
	want := regexp.MustCompile(shape)
	for _, item := range list.Values {
		name, err := text("an entry of "+key, item)
		if err != nil {
			return nil, err
		}
		if !want.MatchString(name) {
			return nil, fmt.Errorf("%w: %q, an entry of %s, is no name of one", corebot.ErrInvalid, clip(name), key)
		}
		all = append(all, name)
	}
	return distinct(all), nil
}

// distinct leaves the first of each.
func distinct(all []string) []string {
	var once []string
	for _, s := range all {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}

// misspelt is an error for a key that is nearly a known one. Others are of other programs.
func misspelt(key string) error {
	if known, edits := nearest.Name(strings.ToLower(key), knownKeys()); edits <= 1 {
		return corebot.WithHint(fmt.Errorf("%w: the key %q is not known", corebot.ErrInvalid, clip(key)),
			fmt.Sprintf("did you mean %s?", known))
	}
	return nil
}

// clip keeps what a file says short in an error.
func clip(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// String is the front matter as a SKILL.md has it, with its fences and without the keys of other programs. [Parse]
// reads it back as it was.
func (m FrontMatter) String() string {
	var b strings.Builder
	b.WriteString(fence + "\n")
	fmt.Fprintf(&b, "%s: %s\n%s: %s\n", keyName, quoted(m.Name), keyDescription, quoted(m.Description))
	if m.Always {
		b.WriteString(keyAlways + ": true\n")
	}
	if !m.Requires.None() {
		b.WriteString(keyRequires + ":\n")
	}
	if len(m.Requires.Env) > 0 {
		fmt.Fprintf(&b, "  - %s: %s\n", keyEnv, quoted(m.Requires.Env))
	}
	if len(m.Requires.Tools) > 0 {
		fmt.Fprintf(&b, "  - %s: %s\n", keyTools, quoted(m.Requires.Tools))
	}
	if len(m.Tools) > 0 {
		fmt.Fprintf(&b, "%s: %s\n", keyTools, quoted(m.Tools))
	}
	if m.Trigger != Auto {
		fmt.Fprintf(&b, "%s: %s\n", keyTrigger, m.Trigger)
	}
	if len(m.Keywords) > 0 {
		fmt.Fprintf(&b, "%s: %s\n", keyKeywords, quoted(m.Keywords))
	}
	b.WriteString(fence + "\n")
	return b.String()
}

// quoted is a text, or a list of texts, as JSON, which is YAML too.
func quoted(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // texts can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
