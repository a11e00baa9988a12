package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestTheEnvironmentComesBeforeTheFileAndOurNameBeforeTheCommonOne(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"the file alone", nil, "from the file"},
		{"the common name before the file", map[string]string{"OPENAI_MODEL": "common"}, "common"},
		{"our name before both", map[string]string{"OPENAI_MODEL": "common", "COREBOT_LLM_MODEL": "ours"}, "ours"},
		{"an empty variable is none", map[string]string{"OPENAI_MODEL": "", "COREBOT_LLM_MODEL": ""}, "from the file"},
		{
			"an empty one of ours hides nothing",
			map[string]string{"OPENAI_MODEL": "common", "COREBOT_LLM_MODEL": ""},
			"common",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			clean(t)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			if got := load(t, homeWith(t, "corebot.yaml", "llm: {model: from the file}")).LLM.Model; got != c.want {
				t.Errorf("the model is %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheCommonNamesOfAModelAreRead(t *testing.T) {
	clean(t)
	t.Setenv("OPENAI_API_KEY", "key")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
	t.Setenv("OPENAI_MODEL", "model")
	if got := load(t, t.TempDir()).LLM; got.APIKey.Reveal() != "key" || got.BaseURL != "http://127.0.0.1:1/v1" ||
		got.Model != "model" {
		t.Errorf("got %+v", got)
	}
}

func TestAnUnknownVariableIsRefusedWithTheNearestOne(t *testing.T) {
	clean(t)
	for name, near := range map[string]string{
		"COREBOT_LLM_MODLE": "COREBOT_LLM_MODEL", "COREBOT_BUS_LEASES": "COREBOT_BUS_LEASE",
		"COREBOT_": "no such setting", "COREBOT_HOMES": "COREBOT_HOME",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "")
			_, err := Load(t.TempDir())
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(corebot.HintOf(err), near) {
				t.Errorf("got %v (hint %q)", err, corebot.HintOf(err))
			}
		})
	}
}

func TestAVariableOfTheWrongTypeIsNamed(t *testing.T) {
	clean(t)
	for name, value := range map[string]string{
		"COREBOT_BUS_LEASE": "5", "COREBOT_BUS_MAX_ATTEMPTS": "3.5", "COREBOT_LLM_OFFLINE": "maybe",
		"COREBOT_BUS_TOTAL_BYTES": "4GB",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if _, err := Load(t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), name+" is not ") ||
				corebot.HintOf(err) == "" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTheHomeIsWhatWasGivenThenTheVariableThenTheUsersOwn(t *testing.T) {
	clean(t)
	user := t.TempDir()
	t.Setenv("HOME", user)
	check := func(given, want string) {
		t.Helper()
		if got, err := Home(given); err != nil || got != want {
			t.Errorf("Home(%q) is %q, %v; want %q", given, got, err, want)
		}
	}
	check("", filepath.Join(user, ".corebot"))
	t.Setenv("COREBOT_HOME", "/variable")
	check("", "/variable")
	check("/given", "/given")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	check("relative", filepath.Join(here, "relative"))
	t.Setenv("COREBOT_HOME", "")
	t.Setenv("HOME", "")
	if _, err := Home(""); err == nil || !strings.Contains(corebot.HintOf(err), "--home") {
		t.Errorf("without any home: %v", err)
	}
}

// TestAServerOfAnotherCorebotStarts: the one that runs it as an MCP server marks it.
func TestAServerOfAnotherCorebotStarts(t *testing.T) {
	clean(t)
	t.Setenv("COREBOT_MCP_SERVER", "0123456789abcdef")
	load(t, t.TempDir())
}
