package main

import (
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/corebot/corebot/agent/llm/llmtest"
)

// halting is a home whose model says a few words and then falls silent.
func halting(t *testing.T) *service {
	t.Helper()
	model := httptest.NewServer(llmtest.New(llmtest.Always(llmtest.Text(
		"these words were streamed and then nothing came any more").Stall(4))))
	t.Cleanup(model.Close)
	s := newHome(t)
	s.env = []string{"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1"}
	return s
}

func TestCtrlCKeepsWhatWasStreamedAndThenLeaves(t *testing.T) {
	t.Parallel()
	s := halting(t)
	sc := s.chat()
	sc.press("hello\r")
	sc.await(0, "these words")
	mark := sc.mark()
	sc.press(ctrlC)
	sc.await(mark, "stopped)")
	sc.await(mark, "Stopped.")
	after := sc.seen()[mark:]
	if words, note := strings.LastIndex(after, "these words"), strings.Index(after,
		"(partial answer, stopped)"); words < 0 || note < words {
		t.Errorf("what was streamed is not kept above its mark:\n%s", after)
	}
	sc.press(ctrlC)
	if code := sc.ends(); code != 0 {
		t.Errorf("it left with %d", code)
	}
	if shown := s.output("chats", "show", "main:cli:local:main"); !strings.Contains(shown, "these words") {
		t.Errorf("the books have:\n%s", shown)
	}
}

func TestCtrlCTwiceLeavesATurnThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	s := halting(t)
	sc := s.chat()
	sc.press("hello\r")
	sc.await(0, "these words")
	sc.press(ctrlC + ctrlC)
	if code := sc.ends(); code != 0 {
		t.Errorf("it left with %d", code)
	}
}

func TestCtrlCClearsTypedTextBeforeItStopsOrLeaves(t *testing.T) {
	t.Parallel()
	s := halting(t)
	sc := s.chat()
	sc.press("hello\r")
	sc.await(0, "these words")
	sc.press("a thought")
	sc.await(0, "a thought")
	sc.press(ctrlC)
	sc.await(0, "the input is cleared")
	if strings.Contains(sc.seen(), "stopping") {
		t.Error("clearing the input stopped the turn")
	}
	mark := sc.mark()
	sc.press(ctrlC)
	sc.await(mark, "Stopped.")
	sc.press(ctrlC)
	sc.ends()
}

func TestASignalDoesNotLoseWhatIsTyped(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	sc := s.chat()
	sc.press("unfinished business")
	sc.await(0, "unfinished business")
	mark := sc.mark()
	if err := sc.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	sc.await(mark, "not sent: unfinished business")
	sc.ends()
	next := s.chat()
	mark = next.mark()
	next.press(keyUp)
	next.await(mark, "unfinished business")
}

func TestATerminalThatDoesNotKnowItsSizeIsDrawnOn(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	sc := startScreen(t, s.command(t.Context(), "chat"), 0, 0)
	sc.await(0, "say something")
	sc.say("hello", "Hello! I am Corebot's")
}

func TestALineThatIsTypedBeforeTheChatBeginsIsAMessage(t *testing.T) {
	t.Parallel()
	s := newHome(t)
	s.output("send", "hello") // a first start takes longer
	sc := startScreen(t, s.command(t.Context(), "chat"), 100, 30)
	sc.press("/help\rhello\r")
	sc.await(0, "Commands of this chat")
	sc.await(0, "Hello! I am Corebot's")
}
