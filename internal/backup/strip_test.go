package backup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var testStripper = Stripper{
	Secret: func(path []string) bool {
		return strings.HasSuffix(path[len(path)-1], "key") || slices.Contains(path, "headers")
	},
	Refers: func(text string) bool { return strings.HasPrefix(text, "file:") },
	Refer:  func(path []string) string { return "file:secrets/" + strings.Join(path, ".") },
	Hide:   func(text string) string { return strings.ReplaceAll(text, "hush", "[redacted]") },
}

func TestSettingsWithoutSecretsStayAsTheyAre(t *testing.T) {
	in := Settings{
		Path: "corebot.yaml", Text: []byte("a: 1 # a comment\nkey: file:x\n"), As: "corebot.json",
		Tree: map[string]any{"a": 1, "key": "file:x"},
	}
	out, err := testStripper.Strip(in)
	must(t, err)
	want := []Secret{{File: "corebot.yaml", Setting: "key", Reference: "file:x"}}
	if string(out.Data) != string(in.Text) || out.Path != "corebot.yaml" || !slices.Equal(out.Secrets, want) {
		t.Errorf("%+v\n%s", out, out.Data)
	}
}

func TestNoSecretOfTheSettingsIsInABackup(t *testing.T) {
	tree := map[string]any{
		"key": "hush1", "empty_key": "", "deep": map[any]any{7: map[string]any{"api_key": "x"}},
		"list":    []any{map[string]any{"key": "y"}, "plain", 3, true, nil},
		"headers": map[string]any{"X-A": "z"}, "url": "http://u:hush@h/", "plain": "text",
	}
	out, err := testStripper.Strip(Settings{
		Path: "corebot.yaml", Text: []byte("key: hush1"), Tree: tree,
		As: "corebot.json",
	})
	must(t, err)
	var got map[string]any
	must(t, json.Unmarshal(out.Data, &got))
	want := `map[deep:map[7:map[api_key:file:secrets/deep.7.api_key]] empty_key: ` +
		`headers:map[X-A:file:secrets/headers.X-A] key:file:secrets/key ` +
		`list:[map[key:file:secrets/list.0.key] plain 3 true <nil>] plain:text url:file:secrets/url]`
	if fmt.Sprint(got) != want || out.Path != "corebot.json" {
		t.Errorf("%s: %v", out.Path, got)
	}
	if len(out.Secrets) != 5 || !out.Secrets[4].LeftOut || out.Secrets[4].Setting != "url" {
		t.Errorf("%+v", out.Secrets)
	}
	if tree["key"] != "hush1" {
		t.Error("the settings themselves have changed")
	}
}

// A line that somebody has commented out is no setting. It can be a key all the same.
func TestASecretInACommentIsLeftOut(t *testing.T) {
	out, err := testStripper.Strip(Settings{
		Path: "corebot.yaml", Text: []byte("a: 1 # was hush"),
		Tree: map[string]any{"a": 1}, As: "corebot.json",
	})
	must(t, err)
	if strings.Contains(string(out.Data), "hush") || !strings.Contains(string(out.Data), `"a": 1`) {
		t.Errorf("%s", out.Data)
	}
}
