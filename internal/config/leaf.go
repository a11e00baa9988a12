package config

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
)

// leaf is one setting, as its field and the field's tags describe it.
type leaf struct {
	key      string // such as "bus.lease"
	doc      string
	kind     reflect.Type
	standard any      // the default
	least    *int64   // nil: none; of a duration in nanoseconds
	oneOf    []string // empty: anything
	also     string   // a variable that sets it beside ours
	reload   bool     // a running Corebot takes a new value
	secret   bool     // a text that is a secret, of an account
	index    []int    // of the field
}

// section is a group of settings. One that is part of another has the other's name and a dot before its own.
type section struct {
	name, doc string
	leaves    []leaf
}

// isList says whether the section is a single setting: a list of entries that stands by itself.
func (s section) isList() bool { return len(s.leaves) == 1 && s.leaves[0].key == s.name }

// sections are all settings, in the order of [Config]; a section comes before those that are part of it.
func sections() []section {
	defaults := reflect.ValueOf(Defaults())
	var all []section
	for _, f := range reflect.VisibleFields(defaults.Type()) {
		if f.Tag.Get("mapstructure") != "-" {
			all = append(all, sectionsOf("", defaults.Type(), f, defaults)...)
		}
	}
	return all
}

// sectionsOf is the section that a field of owner holds, and those that are part of it.
func sectionsOf(prefix string, owner reflect.Type, f reflect.StructField, defaults reflect.Value) []section {
	s := section{name: prefix + f.Tag.Get("mapstructure"), doc: textOf(owner, f)}
	if !isPart(f.Type) { // a list of entries stands by itself
		l := newLeaf("", owner, f, defaults)
		l.doc = strings.TrimSuffix(s.doc, ".")
		s.leaves = []leaf{l}
		return []section{s}
	}
	var parts []section
	for _, setting := range reflect.VisibleFields(f.Type) {
		setting.Index = append(slices.Clone(f.Index), setting.Index[0])
		if isPart(setting.Type) {
			parts = append(parts, sectionsOf(s.name+".", f.Type, setting, defaults)...)
			continue
		}
		s.leaves = append(s.leaves, newLeaf(s.name, f.Type, setting, defaults))
	}
	return append([]section{s}, parts...)
}

// isPart says whether a field of a section is a section too. Values that are structs, such as a [Secret], keep their
// fields to themselves.
func isPart(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() > 0 && t.Field(0).IsExported()
}

func newLeaf(section string, owner reflect.Type, f reflect.StructField, defaults reflect.Value) leaf {
	l := leaf{
		key: strings.TrimPrefix(section+"."+f.Tag.Get("mapstructure"), "."), doc: textOf(owner,
			f), kind: f.Type, index: f.Index,
		standard: defaults.FieldByIndex(f.Index).Interface(), also: f.Tag.Get("also"),
		reload: f.Tag.Get("reload") == "yes", secret: f.Tag.Get("secret") == "yes",
	}
	if all := f.Tag.Get("oneof"); all != "" {
		l.oneOf = strings.Split(all, ",")
	}
	if text, has := f.Tag.Lookup("min"); has {
		if value, wrong := parse(text, f.Type); wrong == nil {
			least := reflect.ValueOf(value).Int()
			l.least = &least
		}
	}
	return l
}

// leaves are all settings without their sections. Nobody changes the list: it is made once.
var leaves = sync.OnceValue(func() []leaf {
	var all []leaf
	for _, s := range sections() {
		all = append(all, s.leaves...)
	}
	return slices.Clip(all)
})

// in gives the setting's value in c. It takes a pointer, because reflection would copy the whole of c for each setting.
func (l leaf) in(c *Config) any { return reflect.ValueOf(c).Elem().FieldByIndex(l.index).Interface() }

// put changes the setting in c.
func (l leaf) put(c *Config, value any) {
	reflect.ValueOf(c).Elem().FieldByIndex(l.index).Set(reflect.ValueOf(value))
}

func (l leaf) isDuration() bool { return l.kind == reflect.TypeFor[time.Duration]() }
func (l leaf) isSecret() bool   { return l.secret || l.kind == reflect.TypeFor[Secret]() }
func (l leaf) isTexts() bool    { return l.kind == reflect.TypeFor[List[string]]() }
func (l leaf) isNumbers() bool  { return l.kind == reflect.TypeFor[List[int]]() }

// entries are the settings of an entry, where the setting is a list of such; else there are none.
func (l leaf) entries() []leaf {
	if list, is := l.standard.(entryList); is {
		return list.leaves()
	}
	switch l.kind {
	case reflect.TypeFor[Providers]():
		return providerLeaves()
	case reflect.TypeFor[Grants]():
		return grantLeaves()
	}
	return nil
}

// check refuses a value that the tags rule out.
func (l leaf) check(value any) error {
	switch v := value.(type) {
	case string:
		if len(l.oneOf) > 0 {
			return oneOf(l.key, v, l.oneOf...)
		}
	case List[string]:
		for _, text := range v.Values() {
			if len(l.oneOf) > 0 && !slices.Contains(l.oneOf, text) {
				return oneOf(l.key, text, l.oneOf...)
			}
		}
	case Secret:
		return checkSecret(l.key, v)
	case map[string]Secret:
		return checkHeaders(l.key, v)
	case Providers:
		return v.check(l.key)
	case entryList:
		return v.check(l.key)
	case Number:
		return v.check(l.key)
	case time.Duration:
		if l.least != nil {
			return atLeast(l.key, v, time.Duration(*l.least))
		}
	case int:
		if l.least != nil {
			return atLeast(l.key, int64(v), *l.least)
		}
	case int64:
		if l.least != nil {
			return atLeast(l.key, v, *l.least)
		}
	}
	return nil
}

// checkSecret: every secret travels in a header of HTTP, which carries no line break; a file with two lines is the
// usual way to one.
func checkSecret(key string, s Secret) error {
	if !strings.ContainsFunc(s.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("%s has a character that a header of HTTP cannot carry", key),
		"use visible ASCII characters, in one line without spaces")
}

// checkHeaders: a name is a token of RFC 9110, a value is visible ASCII with spaces inside.
func checkHeaders(key string, headers map[string]Secret) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r > '~' ||
				strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
		}) {
			return corebot.WithHint(fmt.Errorf("%s: %q is not the name of a header", key, name),
				"names are letters, digits and hyphens, such as X-Title")
		}
		if strings.ContainsFunc(headers[name].Reveal(), func(r rune) bool { return r < ' ' || r > '~' }) {
			return corebot.WithHint(fmt.Errorf("%s.%s has a character that a header of HTTP cannot carry", key, name),
				"use visible ASCII characters, in one line")
		}
	}
	return nil
}

// written is a value as one would write it into a file.
func written(value any) any {
	switch v := value.(type) {
	case time.Duration:
		return durationText(v)
	case Providers:
		text, _ := v.shown()
		return text
	}
	return value
}

// durationText is a duration without the zero units that Go spells out: 10m, not 10m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if short, cut := strings.CutSuffix(text, "m0s"); cut {
		text = short + "m"
	}
	if short, cut := strings.CutSuffix(text, "h0m"); cut {
		text = short + "h"
	}
	return text
}

//go:embed settings.txt
var settingsText string

// texts are the texts of settings.txt, by struct and setting, such as "Bus.lease". Indented lines are the text of the
// name above them.
var texts = sync.OnceValue(func() map[string]string {
	all, name := map[string]string{}, ""
	for line := range strings.Lines(settingsText) {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(line, "#"):
		case text == strings.TrimRight(line, "\n"):
			name = text
		case all[name] == "":
			all[name] = text
		default:
			all[name] += " " + text
		}
	}
	return all
})

// textOf says what a setting or a section of a struct is for. A network's own settings stand in a struct of another
// package. They have their texts in the tag doc.
func textOf(owner reflect.Type, f reflect.StructField) string {
	return cmp.Or(f.Tag.Get("doc"), texts()[owner.Name()+"."+f.Tag.Get("mapstructure")])
}
