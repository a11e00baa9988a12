package config

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/corebot/corebot"
)

// FuzzASettingsFileIsReadWholeOrRefused: whatever a file says, reading it does not panic, an error is one line with a
// hint, and what is read has no key that is unknown.
func FuzzASettingsFileIsReadWholeOrRefused(f *testing.F) {
	for _, seed := range []string{
		"", "llm: {model: x}", "llm:\n  model: x\nzzz: {}\n", "bus: 3", "llm: {zzz: }", "llm.model: x", "? [a]\n: b",
		"1: {2: 3}", "a: &a [*a]",
		"a: &x {b: 1}\nllm:\n  <<: *x\n", "bus: {lease: 1s, LEASE: 2s}", "!!binary x", "- a",
		"bus:\n  lease: !!float 5", "\xff\xfe", "~: ~",
		`{"bus":{"max_attempts":1e3}}`, "[bus]\nlease = 1979-05-27", "llm = {model.x = 1}",
		"webhook: {enabled: true, token: 0123456789abcdef, retention: 1h}", "webhook: {token: env:NAME}",
		"webhook: {token: env:a=b}",
		"webhook: {enabled: true, secret: whsec_MDEyMzQ1Njc4OWFiY2RlZg==}", "webhook: {enabled: true, secret: whsec_!}",
		"llm: {api_key: file:}",
		"webhook:\n  enabled: yes\n  callback_url: http://a:b@c/?d\n  callback_secret: |\n    x\n    y\n  token: " +
			"0123456789abcdef\n",
		"llm: {providers: [{name: a, models: [b], api_key: hunter2-hunter2}]}",
		"llm: {providers: [{headers: {A: hunter2-hunter2}}, {}]}",
		"[[llm.providers]]\nname = 'a'\nmodels = ['b']\n", "llm: {providers: '[]'}", "llm: {providers: [~]}",
		`{"llm":{"providers":[{"Name":"x","name":"y"}]}}`,
	} {
		f.Add(seed)
	}
	known := newSettings()
	f.Fuzz(func(t *testing.T, content string) {
		for _, name := range []string{"corebot.yaml", "corebot.toml", "corebot.json"} {
			s := newSettings()
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
			checkSecretsStayHidden(t, c)
		}
		var top map[string]any
		if yaml.Unmarshal([]byte(content), &top) != nil {
			return
		}
		for key := range top {
			if low := strings.ToLower(key); !known.isKnown(low) && !known.isSection(low) {
				checkRefused(t, content)
			}
		}
	})
}

// checkSecretsStayHidden: neither prints nor errors have a secret that is long enough to be told from other words, and
// that no open setting has too.
func checkSecretsStayHidden(t *testing.T, c Config) {
	t.Helper()
	shown := fmt.Sprintf("%v %+v %#v", c, c, c)
	if err := c.validate(); err != nil {
		shown += err.Error() + corebot.HintOf(err)
	}
	open := ""
	for _, l := range leaves() {
		if text, is := l.in(&c).(string); is {
			open += text + fmt.Sprintf("%q", text)
		}
	}
	for _, l := range leaves() {
		secret, is := l.in(&c).(Secret)
		if is && len(secret.Reveal()) > 12 && strings.Contains(shown, secret.Reveal()) &&
			!strings.Contains(open, secret.Reveal()) {
			t.Fatalf("%s shows in %s", l.key, shown)
		}
	}
}

// FuzzAReferenceIsFollowedOrRefused: text in the place of a secret is the secret, or a reference to a variable; an
// error is one line with a hint. Files are left out: a fuzzer has no business opening what it makes up.
func FuzzAReferenceIsFollowedOrRefused(f *testing.F) {
	for _, seed := range []string{
		"", "secret", "env:NAME", "env:", "env:A=B", "env:\x00", "ENV:NAME", " env:NAME",
		"env:\u00e9", "env:NAME\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if strings.HasPrefix(raw, fileReference) {
			return
		}
		r := &resolver{variable: func(name string) string { return "value of " + name }}
		secret, reference, err := r.resolve("llm.api_key", raw)
		name, isReference := strings.CutPrefix(raw, variableReference)
		switch {
		case err != nil && (!isReference || strings.Contains(err.Error(), "\n") || corebot.HintOf(err) == ""):
			t.Fatalf("%q: %v (hint %q)", raw, err, corebot.HintOf(err))
		case err == nil && isReference && (secret != "value of "+name || reference != raw):
			t.Fatalf("%q gave %q by %q", raw, secret, reference)
		case err == nil && !isReference && (secret != raw || reference != ""):
			t.Fatalf("%q gave %q by %q", raw, secret, reference)
		}
	})
}

// checkRefused: the file has an unknown key at its top.
func checkRefused(t *testing.T, content string) {
	t.Helper()
	tree := map[string]any{}
	err := decode("corebot.yaml", []byte(content), tree)
	if err == nil {
		err = newSettings().merge("corebot.yaml", "", tree, map[string]bool{})
		if err != nil && corebot.HintOf(err) == "" {
			t.Fatalf("%q: no hint with %v", content, err)
		}
	}
	if err == nil {
		t.Fatalf("%q has an unknown key and was taken", content)
	}
}
