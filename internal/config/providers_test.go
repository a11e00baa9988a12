package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestAListIsTheSameInEveryFormatAndInAVariable(t *testing.T) {
	want := []Provider{newProvider(), newProvider()}
	want[0].Name, want[0].Models, want[0].Headers = "near", []string{"a", "b"},
		map[string]Secret{"X-Title": NewSecret("a bot"), "x-key": NewSecret("k")}
	want[1].Name, want[1].Kind, want[1].Models, want[1].IdleTimeout = "far", "anthropic", []string{"c"}, 90e9
	for name, content := range map[string]string{
		"corebot.yaml": "llm:\n  providers:\n  - name: near\n    Models: [a, b]\n    headers: {X-Title: a bot, " +
			"x-key: k}\n    timeout:\n  - {name: far, kind: anthropic, models: [c], idle_timeout: 90s}\n",
		"corebot.toml": "[[llm.providers]]\nname = 'near'\nmodels = ['a', 'b']\nheaders = {X-Title = 'a bot', x-key " +
			"= 'k'}\n[[llm.providers]]\nname = 'far'\nkind = 'anthropic'\nmodels = ['c']\nidle_timeout = '90s'\n",
		"corebot.json": `{"llm":{"providers":[{"name":"near","models":["a","b"],"headers":{"X-Title":"a bot",` +
			`"x-key":"k"}},{"name":"far","kind":"anthropic","models":["c"],"idle_timeout":"90s"}]}}`,
	} {
		clean(t)
		if got := load(t, homeWith(t, name, content)).LLM.Providers.List(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	t.Setenv("COREBOT_LLM_PROVIDERS",
		`[{"name":"near","models":["a","b"],"headers":{"X-Title":"a bot","x-key":"k"}},{"name":"far",`+
			`"kind":"anthropic","models":["c"],"idle_timeout":"1m30s"}]`)
	if got := load(t, t.TempDir()).LLM.Providers.List(); !reflect.DeepEqual(got, want) {
		t.Errorf("by a variable: got %+v", got)
	}
}

func TestListsAreTheSameIfTheirEntriesAre(t *testing.T) {
	one := NewProviders(everyProvider())
	other := everyProvider()
	other.Headers["X-Title"] = NewSecret("another")
	if one != NewProviders(everyProvider()) || one == NewProviders(other) || one == (Providers{}) ||
		NewProviders() != (Providers{}) {
		t.Error("lists do not compare as their entries do")
	}
	if got := one.List(); len(got) != 1 || !reflect.DeepEqual(got[0], everyProvider()) {
		t.Errorf("%+v came back as %+v", everyProvider(), got)
	}
}

func TestMistakesInAListAreRefusedWithTheirPlaceAndWhatToDo(t *testing.T) {
	const ok = "name: a, models: [b]"
	for entries, says := range map[string]string{
		"text":                                    "llm.providers is not a list",
		"{name: a}":                               "llm.providers is not a list",
		"[text]":                                  "llm.providers[0] is not an entry",
		"[{" + ok + "}, 3]":                       "llm.providers[1] is not an entry",
		"[{" + ok + ", modles: [b]}]":             `llm.providers[0]: unknown key "modles"`,
		"[{" + ok + ", Name: b}]":                 `llm.providers[0]: key "name" is there twice`,
		"[{" + ok + ", timeout: 5}]":              "llm.providers[0].timeout is not a duration",
		"[{" + ok + ", vision: maybe}]":           "llm.providers[0].vision is not yes or no",
		"[{name: a, models: b}]":                  "llm.providers[0].models is not a list of texts",
		"[{name: a, models: [1]}]":                "llm.providers[0].models is not a list of texts",
		"[{" + ok + ", headers: [x]}]":            "llm.providers[0].headers is not names with their values",
		"[{" + ok + ", headers: {A: 1}}]":         "llm.providers[0].headers is not names with their values",
		"[{models: [b]}]":                         "llm.providers[0] has no name",
		"[{name: ' ', models: [b]}]":              "llm.providers[0] has no name",
		"[{name: a}]":                             "llm.providers[0] names no model",
		"[{name: a, models: ['']}]":               "llm.providers[0] names no model",
		"[{name: a, models: [b, b]}]":             `llm.providers[0] has the model "b" twice`,
		"[{" + ok + "}, {" + ok + "}]":            `llm.providers[1].name is "a", and so is another's`,
		"[{" + ok + ", kind: gemini}]":            `llm.providers[0].kind is "gemini"`,
		"[{" + ok + ", base_url: 'u:hunter2@h'}]": "llm.providers[0].base_url is not an address",
		"[{" + ok + ", api_key: 'hunter2 x'}]":    "llm.providers[0].api_key has a character",
		"[{" + ok +
			", api_key: env:NOT_THERE}]": "llm.providers[0].api_key: env:NOT_THERE: the variable is not set",
		"[{" + ok + ", headers: {A: file:gone}}]":       "llm.providers[0].headers.A: file:gone: ",
		"[{" + ok + `, headers: {'A b': x}}]`:           `llm.providers[0].headers: "A b" is not the name of a header`,
		"[{" + ok + `, headers: {A: "hunter2\nB: c"}}]`: "llm.providers[0].headers.A has a character",
		"[{" + ok + ", timeout: -1s}]":                  "llm.providers[0].timeout is -1s",
		"[{" + ok + ", thinking_tokens: -1}]":           "llm.providers[0].thinking_tokens is -1",
		"[{" + ok + ", thinking_tokens: 1000}]":         "llm.providers[0].thinking_tokens is 1000",
	} {
		clean(t)
		_, err := Load(homeWith(t, "corebot.yaml", "llm: {providers: "+entries+"}"))
		if err == nil || !strings.Contains(err.Error(), says) || corebot.HintOf(err) == "" ||
			strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v (hint %q), want %s", entries, err, corebot.HintOf(err), says)
		}
	}
	t.Setenv("COREBOT_LLM_PROVIDERS", "a, b")
	if _, err := Load(t.TempDir()); err == nil || !strings.HasPrefix(err.Error(),
		"COREBOT_LLM_PROVIDERS is not a list") {
		t.Errorf("%v", err)
	}
}

func TestSecretsOfAListAreResolvedAndNeverShown(t *testing.T) {
	clean(t)
	t.Setenv("KEY", "hunter2-of-the-key")
	home := homeWith(t, "corebot.yaml", "llm: {providers: [{name: a, models: [b], api_key: env:KEY, base_url: "+
		"'http://h/v1?key=hunter2', headers: {X-Key: hunter2-of-the-header, X-File: file:x}}]}")
	write(t, filepath.Join(home, "x"), "hunter2-of-the-file\n", 0o600)
	if err := os.Chmod(filepath.Join(home, "corebot.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	e, err := Explain(home)
	if err != nil {
		t.Fatal(err)
	}
	got := e.Config.LLM.Providers.List()[0]
	if got.APIKey.Reveal() != "hunter2-of-the-key" || got.Headers["X-Key"].Reveal() != "hunter2-of-the-header" ||
		got.Headers["X-File"].Reveal() != "hunter2-of-the-file" {
		t.Errorf("the secrets are %q", []string{
			got.APIKey.Reveal(), got.Headers["X-Key"].Reveal(),
			got.Headers["X-File"].Reveal(),
		})
	}
	at := slices.IndexFunc(e.Values, func(v Value) bool { return v.Key == "llm.providers" })
	shown, err := json.Marshal(e.Values[at])
	const want = `[{"api_key":"env:KEY","base_url":"http://h/v1?***","headers":{"X-File":"file:x","X-Key":"***"},` +
		`"kind":"openai","models":["b"],"name":"a"}]`
	if err != nil || !strings.Contains(string(shown), want) || fmt.Sprint(e.Values[at].Value) != want {
		t.Errorf("shown as %s", shown)
	}
	if len(e.Warnings) != 1 || !strings.HasPrefix(e.Warnings[0], "llm.providers: every user") {
		t.Errorf("warnings: %q", e.Warnings)
	}
	for _, v := range []any{e.Config, e.Config.LLM.Providers, struct{ p Providers }{e.Config.LLM.Providers}} {
		text, err := json.Marshal(v)
		if said := fmt.Sprintf("%v %+v %#v %s", v, v, v, text); err != nil || strings.Contains(said, "hunter2") {
			t.Errorf("a secret shows in %s", said)
		}
	}
}

func TestTheTagsOfAnEntryAreWellFormed(t *testing.T) {
	for _, l := range providerLeaves() {
		if l.doc == "" || strings.HasSuffix(l.doc, ".") || strings.Contains(l.doc, "|") || l.reload || l.also != "" {
			t.Errorf("%s: %q is not a line of a table, or it promises what a list cannot keep", l.key, l.doc)
		}
	}
}
