package config

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/corebot/corebot"
)

// FuzzASettingsFileIsReadWholeOrRefused: whatever a file says, reading it does not panic, an error is one line with a hint, and what is
// read has no key that is unknown.
func FuzzASettingsFileIsReadWholeOrRefused(f *testing.F) {
	for _, seed := range []string{
		"", "llm: {model: x}", "llm:\n  model: x\nzzz: {}\n", "bus: 3", "llm: {zzz: }", "llm.model: x", "? [a]\n: b", "1: {2: 3}", "a: &a [*a]",
		"a: &x {b: 1}\nllm:\n  <<: *x\n", "bus: {lease: 1s, LEASE: 2s}", "!!binary x", "- a", "bus:\n  lease: !!float 5", "\xff\xfe", "~: ~",
		`{"bus":{"max_attempts":1e3}}`, "[bus]\nlease = 1979-05-27", "llm = {model.x = 1}",
	} {
		f.Add(seed)
	}
	known := newSettings(Defaults())
	f.Fuzz(func(t *testing.T, content string) {
		for _, name := range []string{"corebot.yaml", "corebot.toml", "corebot.json"} {
			s := newSettings(Defaults())
			tree := map[string]any{}
			err := decode(name, []byte(content), tree)
			if err == nil {
				err = s.merge(name, "", tree, map[string]bool{})
			}
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Fatalf("%q: %q has more than one line", content, err)
				}
				continue
			}
			c := Defaults()
			if err := s.values.UnmarshalExact(&c); err != nil {
				t.Fatalf("%q was taken and does not fit: %v", content, err)
			}
			_ = c.validate()
		}
		var top map[string]any
		if yaml.Unmarshal([]byte(content), &top) != nil {
			return
		}
		for key := range top {
			if low := strings.ToLower(key); known.types[low] == nil && !known.isSection(low) {
				checkRefused(t, content)
			}
		}
	})
}

// checkRefused: the file has an unknown key at its top.
func checkRefused(t *testing.T, content string) {
	t.Helper()
	tree := map[string]any{}
	err := decode("corebot.yaml", []byte(content), tree)
	if err == nil {
		err = newSettings(Defaults()).merge("corebot.yaml", "", tree, map[string]bool{})
		if err != nil && corebot.HintOf(err) == "" {
			t.Fatalf("%q: no hint with %v", content, err)
		}
	}
	if err == nil {
		t.Fatalf("%q has an unknown key and was taken", content)
	}
}
