package main

import (
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/corebot/corebot/agent/llm/llmtest"
)

func TestAtTheTerminalAHeldCallWaitsAndOutputComesOnDemand(t *testing.T) {
	t.Parallel()
	model := httptest.NewServer(llmtest.New(listThenNote))
	t.Cleanup(model.Close)
	s := newHome(t)
	s.env = []string{"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_API_KEY=none"}
	s.output("admin", "grant", "cli:local:"+strconv.Itoa(os.Getuid()))
	sc := s.chat()
	sc.press("look around\r")
	sc.await(0, "✓ fs.search pattern=. [1]")
	sc.await(0, "y once, n deny, N stop · approval 1: a call waits")
	sc.await(0, "+NOTE <b>")
	if strings.Contains(sc.seen(), "✗") {
		t.Error("a call that waits looks as if it had failed")
	}
	mark := sc.mark()
	sc.say("/output", "output of call 1, fs.search:")
	sc.await(mark, "memory/")
	if strings.Contains(sc.seen(), "<data") {
		t.Error("the output has the marks that are for the model")
	}
	mark = sc.mark()
	sc.press("y")
	sc.await(mark, "done")
	sc.await(0, "✓ memory.write scope=global content=\"NOTE <b>\" [2]")
}
