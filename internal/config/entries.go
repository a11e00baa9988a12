package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unique"

	"github.com/corebot/corebot"
)

// entry is one entry of a list of [Entries]. The fields of its struct and their tags describe its settings, as those of
// [Config] do.
type entry[T any] interface {
	standard() T // what an entry need not say
	validate(where string) error
}

// Entries is a list of entries, in order. The zero value is the empty list. Two lists can be compared with ==.
//
// In the environment a list is JSON. Entries have no secrets: a list that has some is a type of its own, as [Providers]
// is.
type Entries[T entry[T]] struct {
	text unique.Handle[string] // the entries as JSON, as a file could have them
}

// NewEntries makes a list.
func NewEntries[T entry[T]](list ...T) Entries[T] {
	if len(list) == 0 {
		return Entries[T]{}
	}
	spelt := make([]map[string]any, len(list))
	for i, e := range list {
		spelt[i] = spell(e, e.standard())
	}
	text, err := json.Marshal(spelt)
	if err != nil {
		panic(err) // texts, numbers and lists of them always marshal
	}
	return Entries[T]{unique.Make(string(text))}
}

// List gives the entries.
func (e Entries[T]) List() []T {
	if e == (Entries[T]{}) {
		return nil
	}
	list, err := readEntries[T]("", e.text.Value())
	if err != nil {
		panic(err) // what NewEntries has spelt can be read
	}
	return list
}

// String gives the list as JSON.
func (e Entries[T]) String() string {
	if e == (Entries[T]{}) {
		return "[]"
	}
	return e.text.Value()
}

// MarshalJSON gives the list itself.
func (e Entries[T]) MarshalJSON() ([]byte, error) { return []byte(e.String()), nil }

// entryList is a list of [Entries] whatever its entries are.
type entryList interface {
	leaves() []leaf
	read(where string, raw any) (any, error)
	check(key string) error
}

func (e Entries[T]) leaves() []leaf {
	var zero T
	return entryLeaves(zero.standard())
}

// read reads a list from a settings file, or from a text in JSON. where names the source, for errors.
func (e Entries[T]) read(where string, raw any) (any, error) {
	list, err := readEntries[T](where, raw)
	return NewEntries(list...), err
}

// check refuses entries that the tags rule out, or that mean nothing.
func (e Entries[T]) check(key string) error {
	for i, one := range e.List() {
		where := fmt.Sprintf("%s[%d]", key, i)
		v := reflect.ValueOf(one)
		for _, l := range e.leaves() {
			l.key = where + "." + l.key
			if err := l.check(v.FieldByIndex(l.index).Interface()); err != nil {
				return err
			}
		}
		if err := one.validate(where); err != nil {
			return err
		}
	}
	return nil
}

func readEntries[T entry[T]](where string, raw any) ([]T, error) {
	entries, ok := entriesOf(raw)
	if !ok {
		return nil, corebot.WithHint(fmt.Errorf("%s is not a list", where),
			"write it as a list of entries, each with settings of its own; in a variable in JSON")
	}
	var list []T
	for i, raw := range entries {
		var one T
		one = one.standard()
		if err := readEntry(fmt.Sprintf("%s[%d]", where, i), raw, entryLeaves(one), &one); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// spell writes an entry as a file could have it, without what is as the standard has it.
func spell(entry, standard any) map[string]any {
	spelt := map[string]any{}
	v, usual := reflect.ValueOf(entry), reflect.ValueOf(standard)
	for _, l := range entryLeaves(standard) {
		value := v.FieldByIndex(l.index).Interface()
		if value == usual.FieldByIndex(l.index).Interface() {
			continue
		}
		into, name := spelt, l.key
		if section, rest, part := strings.Cut(name, "."); part {
			if spelt[section] == nil {
				spelt[section] = map[string]any{}
			}
			into, name = spelt[section].(map[string]any), rest
		}
		into[name] = written(value)
	}
	return spelt
}

// entryLeaves are the settings of one entry of a list. An entry may have sections, one below the other.
func entryLeaves(standard any) []leaf {
	return leavesOf("", nil, reflect.ValueOf(standard))
}

func leavesOf(prefix string, index []int, v reflect.Value) (all []leaf) {
	owner := v.FieldByIndex(index).Type()
	for _, f := range reflect.VisibleFields(owner) {
		f.Index = append(slices.Clone(index), f.Index...)
		if isPart(f.Type) {
			all = append(all, leavesOf(prefix+f.Tag.Get("mapstructure")+".", f.Index, v)...)
			continue
		}
		all = append(all, newLeaf(strings.TrimSuffix(prefix, "."), owner, f, v))
	}
	return all
}

// entriesOf are the entries of a list as a settings file has them, or a text in JSON.
func entriesOf(raw any) (entries []any, ok bool) {
	if text, is := raw.(string); is {
		if raw = nil; json.Unmarshal([]byte(text), &raw) != nil {
			return nil, false
		}
	}
	switch list := raw.(type) {
	case []any:
		return list, true
	case []map[string]any: // of TOML
		for _, entry := range list {
			entries = append(entries, entry)
		}
		return entries, true
	}
	return nil, false
}

// readEntry reads one entry into a pointer to its struct. Errors never quote a value.
func readEntry(where string, raw any, leaves []leaf, into any) error {
	entry, is := asSection(raw)
	if !is {
		return corebot.WithHint(fmt.Errorf("%s is not an entry", where),
			fmt.Sprintf("write it as settings with their values, such as %s: text", leaves[0].key))
	}
	known := map[string]leaf{}
	for _, l := range leaves {
		known[l.key] = l
	}
	return readLeaves(where, "", entry, known, map[string]bool{}, reflect.ValueOf(into).Elem())
}

// readLeaves reads the settings of an entry, or of a section of it whose name and a dot are the prefix.
func readLeaves(where, prefix string, tree map[string]any, known map[string]leaf, seen map[string]bool,
	into reflect.Value,
) error {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		key := prefix + strings.ToLower(name)
		l, isKnown := known[key]
		section, isSection := asSection(tree[name])
		switch {
		case !isKnown && isSection && isSectionOf(known, key):
			if err := readLeaves(where, key+".", section, known, seen, into); err != nil {
				return err
			}
			continue
		case !isKnown:
			return corebot.WithHint(fmt.Errorf("%s: unknown key %q", where, key),
				hintOfEntry(key, slices.Sorted(maps.Keys(known))))
		case seen[key]:
			return corebot.WithHint(fmt.Errorf("%s: key %q is there twice", where, key), "keep one of them")
		case tree[name] == nil:
			continue
		}
		seen[key] = true
		value, want := parse(tree[name], l.kind)
		if want != nil {
			return corebot.WithHint(fmt.Errorf("%s.%s is not %s", where, key, want.what), "write it as "+want.like)
		}
		into.FieldByIndex(l.index).Set(reflect.ValueOf(value).Convert(l.kind))
	}
	return nil
}

func isSectionOf(known map[string]leaf, key string) bool {
	for name := range known {
		if strings.HasPrefix(name, key+".") {
			return true
		}
	}
	return false
}

func hintOfEntry(key string, known []string) string {
	if near := nearestOf(key, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "an entry can have: " + strings.Join(known, ", ")
}
