package app

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/redact"
)

func TestTheContextIsWhatEveryModelTakes(t *testing.T) {
	provider := func(name string, models ...string) config.Provider {
		return config.Provider{Name: name, Kind: "openai", BaseURL: "http://127.0.0.1:1/v1", Models: models}
	}
	for name, c := range map[string]struct {
		llm    config.LLM
		tokens string
	}{
		"the offline model": {config.LLM{Offline: true}, `"tokens":32000,"estimated":true`},
		"one that is known": {settings(provider("a", "gpt-4o")), `"tokens":64000,"estimated":false`},
		"a small one behind a large one": {
			settings(provider("a", "gpt-4o"), provider("b", "gpt-4")),
			`"tokens":8192,"estimated":false`,
		},
		"one of them is not known": {
			settings(provider("a", "gpt-4o", "llama3")),
			`"tokens":32000,"estimated":true`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := chooseModel(t.Context(), c.llm, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			hide, err := redact.New([]string{"hunter2hunter2"})
			if err != nil {
				t.Fatal(err)
			}
			a := &App{log: zerolog.New(&log), redactor: hide}
			o := a.agentOptions(config.AgentEntry{}, chosen, nil)
			if shown := o.Redactor.Text("hunter2hunter2"); shown != redact.Mark {
				t.Errorf("an answer shows the secret of the settings: %q", shown)
			}
			if !strings.Contains(log.String(), c.tokens) {
				t.Errorf("the log has %s, want %s", log.String(), c.tokens)
			}
			if o.Compaction.Extract != c.llm.Offline {
				t.Errorf("summaries without the model: %v", o.Compaction.Extract)
			}
			chosen.settings.ContextTokens = 9_000
			if a.agentOptions(config.AgentEntry{}, chosen, nil).ContextTokens != 9_000 {
				t.Errorf("the setting does not hold")
			}
		})
	}
}
