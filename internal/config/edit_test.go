package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/config"
)

func TestAnEditKeepsTheRestOfTheFile(t *testing.T) {
	changes := []config.Change{
		{Key: "llm.model", Value: "new-model"},
		{Key: "llm.api_key", Value: "file:provider.key"},
		{Key: "approvals.mode", Value: "always"},
		{Key: "tools.shell.enabled", Value: true},
	}
	for name, c := range map[string]struct{ before, after string }{
		"an empty file": {"", "llm:\n  api_key: \"file:provider.key\"\n  model: \"new-model\"\n"},
		"comments only": {"# mine\n\n# llm:\n#   model: x\n", "# mine\n\n# llm:\n#   model: x\nllm:\n"},
		"a section": {
			"# head\nllm:   # models\n    # which\n    model: old # why\n    timeout: 90s\n\n# tail\nlog:\n" +
				"  level: warn\n",
			"# head\nllm:   # models\n    api_key: \"file:provider.key\"\n    # which\n" +
				"    model: \"new-model\" # why\n" +
				"    timeout: 90s\n\n# tail\nlog:\n  level: warn\napprovals:\n",
		},
		"another case": {"LLM:\n  Model: old\n", "LLM:\n  api_key: \"file:provider.key\"\n  Model: \"new-model\"\n"},
		"a list at the key's own indent": {
			"approvals:\n  always:\n  - web.fetch\n  mode: tainted\nllm: {}\n", "",
		},
		"a flow section": {"llm: {model: old}\n", ""},
		"a deep section": {
			"tools:\n  shell:\n    # off\n    enabled: false\n  timeout: 5s\n",
			"tools:\n  shell:\n    # off\n    enabled: true\n  timeout: 5s\nllm:\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			path := filepath.Join(home, "corebot.yaml")
			if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
			e, err := config.PlanEdit(home, "", changes)
			if c.after == "" {
				if err == nil || !strings.Contains(corebot.HintOf(err), `llm.model: "new-model"`) {
					t.Errorf("a file that cannot be changed: %v (%s)\n%s", err, corebot.HintOf(err), e.After)
				}
				return
			}
			if err != nil || !strings.HasPrefix(e.After, c.after) {
				t.Fatalf("%v\n%s", err, e.After)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != c.before {
				t.Errorf("a plan has written %q, %v", text, err)
			}
			if err := e.Apply(); err != nil {
				t.Fatal(err)
			}
			again, err := config.PlanEdit(home, "", changes)
			if err != nil || again.Changed() {
				t.Errorf("the same changes again: %v\n%s", err, again.After)
			}
		})
	}
}

// TestAListIsChangedItemByItem: an item that stays keeps its comments, and so does one whose values change.
func TestAListIsChangedItemByItem(t *testing.T) {
	open := func(path, mode string) any { return map[string]any{"path": path, "mode": mode} }
	for name, c := range map[string]struct {
		roots         []any
		before, after string
	}{
		"one more": {
			[]any{open("/a", "read"), open("/b", "write")},
			"  roots: # places\n    # first\n    - {path: /a, mode: read} # a\n    # tail\n",
			"  roots: # places\n    # first\n    - {path: /a, mode: read} # a\n" +
				"    - {\"mode\":\"write\",\"path\":\"/b\"}\n    # tail\n",
		},
		"one before": {
			[]any{open("/b", "write"), open("/a", "read")},
			"  roots:\n  # first\n  - path: /a # a\n    mode: read # m\n",
			"  roots:\n  - {\"mode\":\"write\",\"path\":\"/b\"}\n  # first\n  - path: /a # a\n    mode: read # m\n",
		},
		"one changed": {
			[]any{open("/a", "write"), open("/b", "read")},
			"  roots:\n  # first\n  - {path: /a, mode: read} # a\n  - {path: /b, mode: read} # b\n",
			"  roots:\n  # first\n  - {\"mode\":\"write\",\"path\":\"/a\"} # a\n  - {path: /b, mode: read} # b\n",
		},
		"one gone": {
			[]any{open("/b", "read")},
			"  roots:\n  - {path: /a, mode: read} # a\n  # second\n  - {path: /b, mode: read} # b\n",
			"  roots:\n  # second\n  - {path: /b, mode: read} # b\n",
		},
		"all gone": {[]any{}, "  roots: # none\n  - {path: /a, mode: read} # a\n", "  roots: [] # none\n"},
		"in one line": {
			[]any{open("/b", "read")},
			"  roots: [{path: /a}] # flow\n",
			"  roots: [{\"mode\":\"read\",\"path\":\"/b\"}] # flow\n",
		},
		"a block that looks like items": {
			[]any{open("/b", "read")},
			"  roots:\n  - path: |-\n      a\n      # b\n    mode: read\n",
			"  roots:\n  - {\"mode\":\"read\",\"path\":\"/b\"}\n",
		},
		"an anchor": {
			[]any{open("/b", "read")},
			"  roots: &places\n  - {path: /a, mode: read}\n",
			"  roots: &places\n  - {\"mode\":\"read\",\"path\":\"/b\"}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			home, rest := t.TempDir(), "  # of my own\n  timeout: 5s # short\n"
			text := "tools:\n" + c.before + rest
			if err := os.WriteFile(filepath.Join(home, "corebot.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			e, err := config.PlanEdit(home, "", []config.Change{{Key: "tools.roots", Value: c.roots}})
			if err != nil || e.After != "tools:\n"+c.after+rest {
				t.Errorf("%v\n%s", err, e.After)
			}
		})
	}
}

func TestAHomeWithoutASettingsFileGetsTheFreshOne(t *testing.T) {
	home := t.TempDir()
	e, err := config.PlanEdit(home, "# fresh\n", []config.Change{{Key: "llm.offline", Value: true}})
	if err != nil || e.Before != "" || e.After != "# fresh\nllm:\n  offline: true\n" || !e.Changed() {
		t.Fatalf("%v %+v", err, e)
	}
	if err := e.Apply(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(e.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
