package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A backup takes secrets out of the settings, and only them.
func TestEverySettingIsKnownAsASecretOrNot(t *testing.T) {
	texts := 0
	all := slices.Concat(leaves(), providerLeaves())
	for _, l := range leaves() {
		all = append(all, l.entries()...)
	}
	for _, l := range all {
		isText := l.isSecret() || l.kind.Kind() == reflect.String
		if isText && IsSecret(strings.Split(l.key, ".")) != l.isSecret() {
			t.Errorf("%s: a secret is %v", l.key, l.isSecret())
		}
		if isText {
			texts++
		}
	}
	if texts < 20 {
		t.Errorf("only %d settings were looked at", texts)
	}
	custom := Network{Kind: "pager", Standard: struct {
		Door string `mapstructure:"door" secret:"yes"`
	}{}}
	for path, want := range map[string]bool{
		"llm.providers.0.headers.X-Title": true, "channels.pager.main.door": true, "channels.pager.main.DOOR": true,
		"channels.pager.main.allowlist": false,
	} {
		if got := IsSecret(strings.Split(path, "."), custom); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// Every setting that is a secret is known to be one, whichever is added.
func TestEverySecretOfTheSettingsIsKnown(t *testing.T) {
	c := Defaults()
	var want []string
	for _, l := range leaves() {
		if l.isSecret() {
			text := "the-secret-of-" + l.key
			l.put(&c, NewSecret(text))
			want = append(want, text)
		}
	}
	c.LLM.Providers = NewProviders(Provider{
		Name: "a", APIKey: NewSecret("the-key-of-a"),
		Headers: map[string]Secret{"Authorization": NewSecret("Basic credentials-of-a"), "X-A": NewSecret("short")},
	})
	t.Setenv("SOME_API_KEY", "the-key-of-the-environment")
	t.Setenv("SOME_TOKEN", "short")
	t.Setenv("SOME_TOKEN_FILE", "/run/secrets/token")
	t.Setenv("OTHER_TOKEN", "file:/run/secrets/token")
	t.Setenv("SOME_NAME", "nothing-that-is-secret")
	want = append(want, "the-key-of-a", "Basic credentials-of-a", "credentials-of-a", "the-key-of-the-environment")
	got := c.Secrets()
	for _, s := range want {
		if !slices.Contains(got, s) {
			t.Errorf("%q is not known", s)
		}
	}
	for _, s := range []string{"", "short", "/run/secrets/token", "file:/run/secrets/token", "nothing-that-is-secret"} {
		if slices.Contains(got, s) {
			t.Errorf("%q is taken for a secret", s)
		}
	}
}
