package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// TestKilledDuringAForkOrARewindThereIsTheOldOrTheNew kills the real program with SIGKILL around the commit of a
// command that changes a session. After the next start the command is done once, and its sender is told once.
func TestKilledDuringAForkOrARewindThereIsTheOldOrTheNew(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	binary := realProgram(t)
	model := httptest.NewServer(llmtest.New(func(llmtest.Request) llmtest.Answer { return llmtest.Text("hm") }))
	t.Cleanup(model.Close)
	for _, point := range long.Every(3, []string{
		"fork.before", "fork.after", "turn.before", "turn.after", "rewind.before", "rewind.after",
	}) {
		for _, command := range []string{"/fork pets", "/rewind 2"} {
			if name, _, _ := strings.Cut(point, "."); name != "turn" && !strings.HasPrefix(command, "/"+name) {
				continue
			}
			t.Run(point+" of "+command, func(t *testing.T) {
				t.Parallel()
				c := &crash{t: t, binary: binary, home: t.TempDir(), model: model.URL + "/v1"}
				chat := c.command("", "chat")
				chat.Stdin = strings.NewReader("one\ntwo\nthree\n")
				if out, err := chat.CombinedOutput(); err != nil {
					t.Fatalf("chat: %v\n%s", err, out)
				}
				if out, err := c.command(point, "send", "--id", "c", "--wait", command).CombinedOutput(); err == nil {
					t.Fatalf("the point was not reached:\n%s", out)
				}
				if out, err := c.command("", "send", "--id", "c", command).CombinedOutput(); err != nil { // a copy
					t.Fatalf("sending again: %v\n%s", err, out)
				}
				if out, err := c.command("", "send", "--wait", "--id", "d", "/help").CombinedOutput(); err != nil {
					t.Fatalf("the chat does not go on: %v\n%s", err, out)
				}
				c.wantChanged(command)
			})
		}
	}
}

// A link that is cut off has copied all or nothing, and so has its end.
func TestKilledDuringALinkThereIsTheOldOrTheNew(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	binary := realProgram(t)
	model := httptest.NewServer(llmtest.New(func(llmtest.Request) llmtest.Answer { return llmtest.Text("hm") }))
	t.Cleanup(model.Close)
	const from, to = "main:cli:local:main", "main:cli:local:b"
	for point, want := range long.Or(map[string]int{"link.put.after": 2, "link.end.before": 2}, map[string]int{
		"link.put.before": 0, "link.put.after": 2, "link.end.before": 2, "link.end.after": 0,
	}) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := &crash{t: t, binary: binary, home: t.TempDir(), model: model.URL + "/v1"}
			run := func(fault string, args ...string) error {
				out, err := c.command(fault, args...).CombinedOutput()
				c.printed += string(out)
				return err
			}
			for _, text := range []string{"one", "two"} {
				if err := run("", "send", "--wait", text); err != nil {
					t.Fatal(err, c.printed)
				}
			}
			if strings.HasPrefix(point, "link.put") {
				if run(point, "chats", "link", from, to) == nil {
					t.Fatal("the point was not reached")
				}
			} else if run("", "chats", "link", from, to) != nil || run(point, "chats", "unlink", to) == nil {
				t.Fatalf("the point was not reached: %s", c.printed)
			}
			if err := run("", "send", "--chat", "b", "--wait", "go on"); err != nil {
				t.Fatal(err, c.printed)
			}
			out, err := inside(t.Context(), c.home, "chats", "show", to)
			if n := strings.Count(out, " hm\n"); err != nil || n != want+1 {
				t.Errorf("%d answers are in play, want %d: %v", n, want+1, err)
			}
			if out, err := inside(t.Context(), c.home, "db", "check"); err != nil {
				t.Errorf("db check: %v\n%s", err, out)
			}
		})
	}
}

func (c *crash) wantChanged(command string) {
	c.t.Helper()
	look := func(args ...string) string {
		c.t.Helper()
		out, err := inside(c.t.Context(), c.home, args...)
		if err != nil {
			c.t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	here, event := strings.Count(look("chats", "show", "main:cli:local:main"), " hm\n"), `"event":"chat.rewind"`
	if command == "/fork pets" {
		event = `"event":"chat.fork"`
		if there := strings.Count(look("chats", "show", "main:cli:local:pets"), " hm\n"); here != 3 || there != 3 {
			c.t.Errorf("the chat has %d answers and its fork %d, want 3 and 3", here, there)
		}
	} else if here != 1 {
		c.t.Errorf("%d answers are in play, want 1", here)
	}
	if n := strings.Count(look("audit", "--json", "--limit", "100"), event); n != 1 {
		c.t.Errorf("%d events %s, want 1", n, event)
	}
	why := look("why", "--json", "c")
	if strings.Count(why, `"kind":"notice"`) != 1 || !strings.Contains(why, `"end":"answered"`) {
		c.t.Errorf("the life of the command: %s", why)
	}
	look("db", "check")
	look("audit", "verify")
}
