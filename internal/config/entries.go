package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/corebot/corebot"
)

// entryLeaves are the settings of one entry of a list, which the fields of a struct and their tags describe as those of [Config] do.
func entryLeaves(standard any) []leaf {
	v := reflect.ValueOf(standard)
	var all []leaf
	for _, f := range reflect.VisibleFields(v.Type()) {
		all = append(all, newLeaf("", f, v))
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
		return corebot.WithHint(fmt.Errorf("%s is not an entry", where), fmt.Sprintf("write it as settings with their values, such as %s: text", leaves[0].key))
	}
	known := map[string]leaf{}
	for _, l := range leaves {
		known[l.key] = l
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		key := strings.ToLower(name)
		l, isKnown := known[key]
		switch {
		case !isKnown:
			return corebot.WithHint(fmt.Errorf("%s: unknown key %q", where, key), hintOfEntry(key, slices.Sorted(maps.Keys(known))))
		case seen[key]:
			return corebot.WithHint(fmt.Errorf("%s: key %q is there twice", where, key), "keep one of them")
		case entry[name] == nil:
			continue
		}
		seen[key] = true
		value, want := parse(entry[name], l.kind)
		if want != nil {
			return corebot.WithHint(fmt.Errorf("%s.%s is not %s", where, key, want.what), "write it as "+want.like)
		}
		reflect.ValueOf(into).Elem().FieldByIndex(l.index).Set(reflect.ValueOf(value).Convert(l.kind))
	}
	return nil
}

func hintOfEntry(key string, known []string) string {
	if near := nearestOf(key, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "an entry can have: " + strings.Join(known, ", ")
}
