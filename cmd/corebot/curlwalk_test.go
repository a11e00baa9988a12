package main

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/needs"
)

// walkModel answers the walk of docs/api.md. It refuses one call, as a provider with a wrong key does.
type walkModel struct{ refused atomic.Bool }

func (m *walkModel) answer(r llmtest.Request) llmtest.Answer {
	said := lastUser(r)
	switch {
	case strings.Contains(said, "refuse") && m.refused.CompareAndSwap(false, true):
		return llmtest.Fail(401, "no such key")
	case strings.Contains(said, "never ends"):
		return llmtest.Text("Once upon a time").Stall(2)
	case toolResults(r) > 0:
		return llmtest.Text("The call has ended.").Usage(1000, 10)
	case strings.Contains(said, "files"):
		return llmtest.ToolCalls(llmtest.Call{ID: "a", Name: "fs_search", Args: `{"pattern":"."}`})
	case strings.Contains(said, "note"):
		return llmtest.ToolCalls(llmtest.Call{ID: "b", Name: "fs_write", Args: `{"path":"n.md","content":"tea"}`})
	}
	return llmtest.Text("I have read it.").Usage(1000, 10)
}

// The walk of docs/api.md is run as it stands there, by curl against the real program.
func TestTheWalkWithCurlGoesAsThePageSays(t *testing.T) {
	long.Only(t, "TestTheServiceStories")
	t.Parallel()
	if long.RaceDetector {
		t.Skip("curl and the real program have nothing of this process in them")
	}
	for _, program := range []string{"bash", "curl"} {
		needs.Program(t, program)
	}
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, walk, _ := strings.Cut(string(page), "## A walk with curl")
	_, walk, _ = strings.Cut(walk, "```sh\n")
	walk, _, found := strings.Cut(walk, "```")
	if !found {
		t.Fatal("docs/api.md has no walk")
	}
	provider := httptest.NewServer(llmtest.New((&walkModel{}).answer))
	t.Cleanup(provider.Close)
	addr := freeAddr(t)
	s := startService(t, "COREBOT_CONSOLE_ENABLED=true", "COREBOT_CONSOLE_ADDR="+addr, "COREBOT_LLM_OFFLINE=false",
		"OPENAI_BASE_URL="+provider.URL+"/v1", "OPENAI_MODEL=scripted", "OPENAI_API_KEY=none",
		"COREBOT_APPROVALS_ALWAYS=fs.write")
	app := s.output("tokens", "add", "app", "--scope", "send", "--as", "api::app", "--chats", "main")
	ops := s.output("tokens", "add", "ops", "--scope", "operate")
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	run := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", walk)
	run.Dir = t.TempDir()
	run.Env = append(os.Environ(), "URL=http://"+addr, "APP="+strings.TrimSpace(app), "OPS="+strings.TrimSpace(ops))
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("the walk ends with %v:\n%s", err, out)
	}
	rest := string(out)
	for _, want := range []string{ // in this order
		"I have read it.",
		"The call has ended.", `"type":"tool_start"`, `"type":"tool_end"`,
		`"path":"n.md"`, `{"changed":1}`, `"answered":true`, "The call has ended.",
		`"id":"w4"`, `"id":"w5"`, `"id":"w4"`,
		`"id":"w6"`, `What does the provider refuse?`, `{"changed":1}`, "I have read it.",
		"water the plants", `"name":"scripted"`,
	} {
		_, behind, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("behind the others, the walk lacks %s:\n%s", want, out)
		}
		rest = behind
	}
	if note, err := os.ReadFile(s.home + "/workspace/n.md"); err != nil || string(note) != "tea" {
		t.Errorf("the note is %q: %v", note, err)
	}
}
