package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// faultPoints are the step boundaries of a turn with two tool calls that have side effects, from the publish of the
// message to the settling of its reply. "#n" is the nth time that the point is reached.
var faultPoints = []string{
	"publish.before", "publish.after", "claim.after#1",
	"model.before#1", "model.after#1", "step.model.done.before#1", "step.model.done.after#1",
	"step.tool.intended.before#1", "step.tool.intended.after#1", "tool.before#1", "tool.after#1",
	"step.tool.done.before#1", "step.tool.done.after#1",
	"model.before#2", "model.after#2", "step.model.done.before#2", "step.model.done.after#2",
	"step.tool.intended.before#2", "step.tool.intended.after#2", "tool.before#2", "tool.after#2",
	"step.tool.done.before#2", "step.tool.done.after#2",
	"model.before#3", "model.after#3", "turn.before", "turn.after", "send.before", "send.after", "settle.before",
	"settle.after",
}

// shortFaultPoints are those at which something is done and not yet stored, or stored and not yet said.
var shortFaultPoints = []string{"tool.after#2", "turn.after", "send.after"}

const finalReply = "Both notes are written."

// twoNotes is a model that writes two notes, one after the other, and then says so. It decides by what it has been
// shown, as a real one does: a resumed turn goes on where it was.
func twoNotes(r llmtest.Request) llmtest.Answer {
	switch results := toolResults(r); {
	case strings.HasPrefix(lastUser(r), "say hello"):
		return llmtest.Text("hello")
	case results == 0:
		return llmtest.ToolCalls(llmtest.Call{
			ID: "first", Name: "memory_write",
			Args: `{"scope":"chat","content":"FIRST NOTE"}`,
		})
	case results == 1:
		return llmtest.ToolCalls(llmtest.Call{
			ID: "second", Name: "memory_write",
			Args: `{"scope":"chat","content":"SECOND NOTE"}`,
		})
	}
	return llmtest.Text(finalReply)
}

// toolResults counts the results since the last message of the user.
func toolResults(r llmtest.Request) int {
	n := 0
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			n = 0
		case "tool":
			n++
		}
	}
	return n
}

func lastUser(r llmtest.Request) string {
	text := ""
	for _, m := range r.Messages {
		if m.Role == "user" {
			text = string(m.Content)
		}
	}
	return text
}

// TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect kills the real program with SIGKILL at every step
// boundary of a turn and starts it again (guarantees G1, G2, G4, G5).
func TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect(t *testing.T) {
	t.Parallel()
	binary := realProgram(t)
	model := httptest.NewServer(llmtest.New(twoNotes))
	t.Cleanup(model.Close)
	for _, point := range long.Or(shortFaultPoints, faultPoints) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := &crash{t: t, binary: binary, home: t.TempDir(), model: model.URL + "/v1"}
			c.killedAt(point)
			c.checkAfterRestart(point)
		})
	}
}

// crash is one home whose Corebot is killed and started again.
type crash struct {
	t                   *testing.T
	binary, home, model string
	env                 []string // more settings
	printed             string   // by all processes
}

// command prepares a run of the program on the home.
func (c *crash) command(fault string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.t.Context(), c.binary, args...)
	cmd.Env = append(os.Environ(), "COREBOT_HOME="+c.home, "OPENAI_BASE_URL="+c.model, "OPENAI_MODEL=scripted",
		"OPENAI_API_KEY=", "COREBOT_FAULT="+fault)
	cmd.Env = append(cmd.Env, c.env...)
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// killedAt sends the message to a Corebot that dies at the point.
func (c *crash) killedAt(point string) {
	c.t.Helper()
	out, err := c.command(point, "send", "--id", "job", "--wait", "write two notes").CombinedOutput()
	c.printed += string(out)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		c.t.Fatalf("the point was not reached: %v\n%s", err, out)
	}
}

// checkAfterRestart starts Corebot again, sends the message again as a platform would that got no acknowledgement, and
// looks at what both runs left behind.
func (c *crash) checkAfterRestart(point string) {
	t := c.t
	t.Helper()
	if out, err := c.command("", "send", "--id", "job", "write two notes").CombinedOutput(); err != nil {
		t.Fatalf("sending again is not success: %v\n%s", err, out)
	}
	chat := c.command("", "chat")
	chat.Stdin = strings.NewReader("say hello\n")
	var stderr bytes.Buffer
	chat.Stderr = &stderr
	out, err := chat.Output()
	if err != nil {
		t.Fatalf("chat after the restart: %v\n%s%s", err, out, stderr.String())
	}
	c.printed += string(out)
	c.checkReplies(point)
	c.checkNotes(point)
	if out, err := inside(t.Context(), c.home, "db", "check"); err != nil {
		t.Errorf("db check: %v\n%s", err, out)
	}
}

// checkReplies wants one reply in the books, and one on the screen. At one point of the kill a terminal may show the
// reply twice, because a terminal cannot tell a repeated message.
func (c *crash) checkReplies(point string) {
	out, err := inside(c.t.Context(), c.home, "why", "--json", "job")
	if err != nil {
		c.t.Fatalf("why: %v", err)
	}
	var life struct {
		End     string
		Replies []struct{ Kind, End string }
	}
	if err := json.Unmarshal([]byte(out), &life); err != nil {
		c.t.Fatalf("why: %v\n%s", err, out)
	}
	replies := 0
	for _, r := range life.Replies { // a notice may be beside it, such as that the context is small
		if r.Kind == "reply" && r.End == "sent" {
			replies++
		} else if r.Kind != "notice" {
			c.t.Errorf("a reply of the message: %+v", r)
		}
	}
	if life.End != "answered" || replies != 1 {
		c.t.Errorf("the life of the message: %s", out)
	}
	shown := strings.Count(c.printed, finalReply)
	most := 1
	if point == "send.after" || point == "settle.before" {
		most = 2
	}
	if shown < 1 || shown > most {
		c.t.Errorf("the reply was shown %d times:\n%s", shown, c.printed)
	}
	if !strings.Contains(c.printed, "hello") {
		c.t.Errorf("the chat does not go on:\n%s", c.printed)
	}
}

// checkNotes: no note twice; each once, unless the crash came between a call's intent and its outcome.
func (c *crash) checkNotes(point string) {
	files, err := filepath.Glob(filepath.Join(c.home, "workspace", "chats", "*", "MEMORY.md"))
	if err != nil || len(files) > 1 {
		c.t.Fatalf("memory of the chat: %v %v", files, err)
	}
	var memory []byte
	if len(files) == 1 {
		if memory, err = os.ReadFile(files[0]); err != nil {
			c.t.Fatal(err)
		}
	}
	for i, note := range []string{"FIRST NOTE", "SECOND NOTE"} {
		n := bytes.Count(memory, []byte(note))
		unknown := point == fmt.Sprintf("step.tool.intended.after#%d", i+1) ||
			point == fmt.Sprintf("tool.before#%d", i+1)
		if n > 1 || n == 0 && !unknown {
			c.t.Errorf("%q stands %d times in the memory:\n%s", note, n, memory)
		}
	}
}

// realProgram is the program as it is released, but for two things. The linker has armed its fault points, which do
// nothing without COREBOT_FAULT. It was built without -trimpath, which would compile every package once more, for other
// names of files. All tests share it, so that it is linked once. The short form spares that link, which takes five
// seconds: its program is the binary of the tests, under the name corebot.
func realProgram(t *testing.T) string {
	t.Helper()
	find := long.Or(func() (string, error) { return exec.LookPath("corebot") }, buildProgram)
	if long.RaceDetector {
		find = buildProgram
	}
	path, err := find()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// programTags are the tags with which the program is built: those of the tests.
var programTags string

var buildProgram = sync.OnceValues(func() (string, error) {
	dir, err := sharedDir("corebot-test")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "corebot")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", programTags,
		"-ldflags", "-s -w -X github.com/corebot/corebot/internal/fault.armed=yes", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})
