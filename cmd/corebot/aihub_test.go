package main

import (
	"bufio"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/needs"
)

// A client that was written from the description of AIHub's protocol alone talks to Corebot. It goes on after its
// socket is cut and after Corebot is killed, and shows nothing twice.
func TestAClientOfAIHubsProtocolTalksToCorebot(t *testing.T) {
	long.Only(t, "TestTheServiceStories")
	if long.RaceDetector {
		t.Skip("a client and the real program have nothing of this process in them")
	}
	node := needs.Program(t, "node")
	t.Parallel()
	provider := httptest.NewServer(llmtest.New((&pagesModel{}).answer))
	t.Cleanup(provider.Close)
	addr := freeAddr(t)
	s := startService(t, "COREBOT_CONSOLE_ENABLED=true", "COREBOT_CONSOLE_ADDR="+addr, "COREBOT_LLM_OFFLINE=false",
		"OPENAI_BASE_URL="+provider.URL+"/v1", "OPENAI_MODEL=scripted", "OPENAI_API_KEY=none")
	token := s.output("tokens", "add", "app", "--scope", "send,read", "--as", "api::app", "--chats", "*")
	program, err := os.Open("testdata/aihub.mjs") // and not a name for node: the test cache knows the file
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	client := exec.CommandContext(t.Context(), node, "--input-type=module", "-", "http://"+addr,
		strings.TrimSpace(token))
	client.Stdin = program
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var failure strings.Builder
	client.Stderr = &failure
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	said, last := "", ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last = lines.Text()
		said += last + "\n"
		if last == "KILL" {
			s.restart()
		}
	}
	if err := client.Wait(); err != nil || last != "OK" {
		t.Fatalf("the client ends with %v after\n%s%s", err, said, failure.String())
	}
}
