package app

import (
	"strings"
	"testing"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/config"
)

func TestASmallContextIsNamedByDoctorAndConfigCheck(t *testing.T) {
	for _, c := range []struct {
		context, output int
		level, says     string
	}{
		{64_000, 4_096, "ok", "Corebot's own tools take "},
		{64_000, 4_096, "ok", "shell.exec and the tools of MCP servers come on top"},
		{12_000, 4_096, "warn", "the descriptions of Corebot's own tools are shortened from "},
		{5_000, 4_096, "warn", "the context is too small for the tools: a prompt has 904 tokens"},
	} {
		settings := config.Defaults()
		settings.LLM.ContextTokens, settings.LLM.OutputTokens = c.context, c.output
		f := checkRoom(settings, choice{tokenizer: llm.Estimate{}})
		if f.Level != c.level || !strings.Contains(f.What, c.says) || c.level == "warn" &&
			!strings.Contains(f.Hint, "llm.context_tokens") {
			t.Errorf("%d tokens: %+v", c.context, f)
		}
		if told := WarnOfRoom(settings); (told == "") != (c.level == "ok") {
			t.Errorf("%d tokens: config check says %q", c.context, told)
		}
	}
	if told := WarnOfRoom(config.Defaults()); told != "" {
		t.Errorf("a context that is not set: %q", told)
	}
}

func TestCorebotsOwnToolsAreDescribedWithoutAStore(t *testing.T) {
	offered, err := ownTools(config.Defaults())
	if err != nil || len(offered) < 17 {
		t.Fatalf("%d tools, %v", len(offered), err)
	}
	for _, tool := range offered {
		if tool.Name == "" || tool.Description == "" || len(tool.Schema) == 0 {
			t.Errorf("%+v", tool)
		}
	}
}
