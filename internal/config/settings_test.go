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
	for _, root := range []any{Config{}, Common{}, AgentEntry{}, Route{}, ChatRule{}, OpenRoot{}, Provider{}, Grant{}} {
		visit(reflect.TypeOf(root))
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("settings.txt has a text for %s, and there is no such field", name)
	}
}

// TestTheModeOfProgramsDecidesAndElseTheOlderSwitch: a file that says off runs nothing, whatever else it says.
func TestTheModeOfProgramsDecidesAndElseTheOlderSwitch(t *testing.T) {
	for _, c := range []struct {
		shell Shell
		want  string
	}{
		{Shell{}, ShellOff},
		{Shell{Enabled: true}, ShellListed},
		{Shell{Mode: "off", Enabled: true}, ShellOff},
		{Shell{Mode: "sandbox"}, ShellSandbox},
		{Shell{Mode: "sandbox", Enabled: true}, ShellSandbox},
		{Shell{Mode: "host"}, ShellHost},
		{Shell{Mode: "host", Enabled: true}, ShellHost},
	} {
		if got := c.shell.Runs(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.shell, got, c.want)
		}
	}
	for domain, valid := range map[string]bool{
		"proxy.golang.org": true, "*.npmjs.org": true, "*": true, "https://a.example": false, "a.example/x": false,
		"a.example:443": false, "": false, "*.": false, "a*.example": false,
	} {
		if err := (Shell{Domains: NewList(domain)}).validate(); (err == nil) != valid {
			t.Errorf("%q: %v", domain, err)
		}
	}
}
