package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestNothingPrintsOrEncodesASecret(t *testing.T) {
	const hidden = "hunter2-hunter2"
	c := Defaults()
	for _, l := range leaves() {
		if l.isSecret() {
			l.put(&c, NewSecret(hidden))
		}
	}
	type keeper struct{ config Config } // what an unexported field holds is printed without its methods
	values := map[string]any{
		"a secret": c.LLM.APIKey, "a pointer": &c.LLM.APIKey, "the settings": c,
		"settings in an unexported field": keeper{c}, "a list": []Secret{c.LLM.APIKey},
		"a map": map[Secret]Secret{c.LLM.APIKey: c.LLM.APIKey},
	}
	for name, v := range values {
		for _, verb := range []string{
			"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T", "%10s", "%.3s",
			"%w",
		} {
			text := fmt.Sprintf(verb, v)
			if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) ||
				strings.Contains(text, fmt.Sprintf("%X", "hunter2")) {
				t.Errorf("%s by %s: %s", name, verb, text)
			}
		}
		for kind, encode := range map[string]func(any) ([]byte, error){"JSON": json.Marshal, "YAML": yaml.Marshal} {
			if text, err := encode(v); err != nil || strings.Contains(string(text), "hunter2") {
				t.Errorf("%s as %s: %s, %v", name, kind, text, err)
			}
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "value", v)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "value", v)
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("%s in a log: %s", name, log.String())
		}
	}
}

func TestASecretShowsWhetherItIsSetAndRevealsItselfOnlyByName(t *testing.T) {
	for text, shows := range map[string]string{"": "", "hunter2": "***", "***": "***"} {
		s := NewSecret(text)
		if s.Reveal() != text || s.String() != shows || s.GoString() != `"`+shows+`"` ||
			fmt.Sprintf("%v|%s|%q|%#v", s, s, s, s) != fmt.Sprintf("%s|%s|%q|%q", shows, shows, shows, shows) {
			t.Errorf("%q: reveals %q, shows %q, %#v", text, s.Reveal(), s.String(), s)
		}
		for _, verb := range []string{"%d", "%x", "%t"} { // that are not for texts, and would show what is inside
			if got := fmt.Sprintf(verb, s); got != shows {
				t.Errorf("%q: %s gives %q, want %q", text, verb, got, shows)
			}
		}
	}
}

func TestSecretsAreTheSameIfTheirTextIs(t *testing.T) {
	one, same := NewSecret("one"), NewSecret(strings.Join([]string{"o", "ne"}, ""))
	if one != same || one == NewSecret("two") || one == (Secret{}) || NewSecret("") != (Secret{}) {
		t.Error("secrets do not compare as their texts do")
	}
}
