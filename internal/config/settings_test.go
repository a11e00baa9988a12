package config

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

func TestEveryFieldOfTheSettingsHasItsTextAndEveryTextItsField(t *testing.T) {
	unused := maps.Clone(texts())
	var visit func(reflect.Type)
	visit = func(owner reflect.Type) {
		for _, f := range reflect.VisibleFields(owner) {
			name := f.Tag.Get("mapstructure")
			if name == "" || name == "-" {
				continue
			}
			inEntry := owner == reflect.TypeFor[AgentEntry]() // the page shows its sections without a text
			if textOf(owner, f) == "" && !(inEntry && isPart(f.Type)) {
				t.Errorf("%s.%s has no text in settings.txt", owner.Name(), name)
			}
			delete(unused, owner.Name()+"."+name)
			if isPart(f.Type) {
				visit(f.Type)
			}
		}
	}
	for _, root := range []any{Config{}, Common{}, AgentEntry{}, Route{}, OpenRoot{}, Provider{}, Grant{}} {
		visit(reflect.TypeOf(root))
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("settings.txt has a text for %s, and there is no such field", name)
	}
}
