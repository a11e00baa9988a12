package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// twoChats is a home in which each of two chats has said a word of its own.
func twoChats(t *testing.T) *crash {
	t.Helper()
	model := httptest.NewServer(llmtest.New(func(r llmtest.Request) llmtest.Answer {
		return llmtest.Text(lastUser(r))
	}))
	t.Cleanup(model.Close)
	c := &crash{t: t, binary: realProgram(t), home: t.TempDir(), model: model.URL + "/v1", env: []string{
		"COREBOT_CONSOLE_ADDR=127.0.0.1:0", "COREBOT_OBSERVABILITY_ADDR=127.0.0.1:0",
	}}
	c.done("send", "--chat", "gone", "--wait", strings.Repeat("the wombat digs. ", 2000))
	c.done("send", "--chat", "stays", "--wait", "the quokka smiles")
	return c
}

// done runs a command that must succeed.
func (c *crash) done(args ...string) string {
	c.t.Helper()
	out, err := c.command("", args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// dies runs a command that must be killed at a point.
func (c *crash) dies(point string, args ...string) {
	c.t.Helper()
	out, err := c.command(point, args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		c.t.Fatalf("%v was not killed: %v\n%s", args, err, out)
	}
}

// finds says whether a search of a chat has a word.
func (c *crash) finds(chat, word string) bool {
	c.t.Helper()
	out, err := inside(c.t.Context(), c.home, "chats", "search", "main:cli:local:"+chat, word)
	if err != nil {
		c.t.Fatalf("search %s: %v\n%s", chat, err, out)
	}
	return strings.Contains(out, word)
}

func (c *crash) whole() {
	c.t.Helper()
	if out, err := inside(c.t.Context(), c.home, "db", "check"); err != nil {
		c.t.Errorf("db check: %v\n%s", err, out)
	}
}

// TestKilledDuringAReindexSearchesFindEverything kills `corebot db reindex`, and the Corebot that fills the index.
func TestKilledDuringAReindexSearchesFindEverything(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	for _, point := range long.Or([]string{"reindex.after", "index.before"}, []string{
		"reindex.before", "reindex.after", "index.before", "index.after",
	}) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := twoChats(t)
			if strings.HasPrefix(point, "reindex") {
				c.dies(point, "db", "reindex")
			} else {
				c.done("db", "reindex")
				c.diesWhileItServes(point)
			}
			for _, when := range []string{"at once", "after the next start"} {
				if !c.finds("gone", "wombat") || !c.finds("stays", "quokka") || c.finds("stays", "wombat") {
					t.Errorf("%s a search finds something else", when)
				}
				c.done("send", "--chat", "stays", "--wait", "hello")
			}
			c.whole()
		})
	}
}

// TestKilledDuringADeletionTheSameCommandEndsIt kills `corebot chats delete` between its commits. The other chat has
// what it had, and afterwards no byte of the home has a word of the chat.
func TestKilledDuringADeletionTheSameCommandEndsIt(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	for _, point := range long.Or([]string{"forget.history.after", "scrub.before"}, []string{
		"forget.begin.before", "forget.begin.after", "forget.messages.before", "forget.messages.after",
		"forget.history.before", "forget.history.after", "forget.arguments.after", "forget.traces.before",
		"forget.traces.after", "forget.note.before", "forget.note.after", "scrub.terms.after", "scrub.before",
		"scrub.after",
	}) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := twoChats(t)
			const key = "main:cli:local:gone"
			if len(filesWith(t, c.home, "wombat")) == 0 {
				t.Fatal("the word was never there")
			}
			c.dies(point, "chats", "delete", key)
			c.whole()
			if out, err := c.command("", "chats", "delete", key).CombinedOutput(); err != nil &&
				!strings.Contains(string(out), "not found") { // all that was left were free pages
				t.Fatalf("the second deletion: %v\n%s", err, out)
			}
			if left := filesWith(t, c.home, "wombat"); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
			if !c.finds("stays", "quokka") {
				t.Error("another chat has lost its words")
			}
			c.whole()
		})
	}
}

// TestKilledDuringAPassOfRetentionTheNextStartEndsIt kills a Corebot in the pass that takes away what a chat keeps no
// longer, and while it overwrites free pages. The chat has all that it had then, or nothing. The next start ends the
// pass, and afterwards no byte of the home has a word of the chat.
func TestKilledDuringAPassOfRetentionTheNextStartEndsIt(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	for _, point := range long.Or([]string{"sweep.after", "scrub.before"}, []string{
		"sweep.before", "sweep.after", "sweep.after#2", "sweep.after#3", "scrub.terms.before", "scrub.terms.after",
		"scrub.before", "scrub.after", "scrub.done.before", "scrub.done.after",
	}) {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := twoChats(t)
			if len(filesWith(t, c.home, "wombat")) == 0 {
				t.Fatal("the word was never there")
			}
			settings, err := os.OpenFile(filepath.Join(c.home, "corebot.yaml"),
				os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			_, err = settings.WriteString("chats: {rules: [{chat: gone, store: none}]}\n")
			if err := errors.Join(err, settings.Close()); err != nil {
				t.Fatal(err)
			}
			c.diesWhileItServes("soon:" + point)
			c.whole()
			to := filepath.Join(t.TempDir(), "gone")
			out, err := inside(t.Context(), c.home, "chats", "export", "main:cli:local:gone", "--to", to)
			if err == nil {
				said, err := os.ReadFile(filepath.Join(to, "history.jsonl"))
				if n := strings.Count(string(said), "\n"); err != nil || n != 0 && n != 2 {
					t.Errorf("the chat has %d of its 2 entries: %v", n, err)
				}
			} else if !strings.Contains(err.Error(), "not found") {
				t.Errorf("export: %v\n%s", err, out)
			}
			c.servesFrom("soon:", func() bool {
				for _, file := range []string{"corebot.db", "corebot.db-wal"} {
					data, err := os.ReadFile(filepath.Join(c.home, "data", file))
					if err != nil && !errors.Is(err, fs.ErrNotExist) || bytes.Contains(data, []byte("wombat")) {
						return false
					}
				}
				return true
			})
			c.whole()
			if left := filesWith(t, c.home, "wombat"); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
			if c.finds("gone", "wombat") || !c.finds("stays", "quokka") {
				t.Error("the chats do not have what they are to keep")
			}
		})
	}
}

// TestKilledWhileItForgetsALineThePageIsWhole kills `corebot memory forget` and a /memory forget around their commit,
// which is before the new page. The page has all its lines then, or all but one. The same command, or the same message,
// ends the work.
func TestKilledWhileItForgetsALineThePageIsWhole(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	const wombat, rest = "the wombat digs", "the numbat runs\nthe quokka smiles\n"
	const page = wombat + "\n" + rest
	sum := sha256.Sum256([]byte(wombat))
	ways := map[string][]string{
		"command": {"memory", "forget", "main:cli:local:burrow", "--line", "1"},
		"message": {
			"send", "--chat", "burrow", "--id", "forgets", "--wait",
			fmt.Sprintf("/memory forget L%09d", binary.BigEndian.Uint64(sum[:])%1e9),
		},
	}
	for _, point := range long.Or([]string{"memory.after"}, []string{"memory.before", "memory.after", "turn.before"}) {
		for name, way := range ways {
			if name == "command" && point == "turn.before" {
				continue
			}
			t.Run(name+" "+point, func(t *testing.T) {
				t.Parallel()
				c := &crash{t: t, binary: realProgram(t), home: t.TempDir(), env: []string{
					"COREBOT_LLM_OFFLINE=true", "COREBOT_CONSOLE_ADDR=127.0.0.1:0",
					"COREBOT_OBSERVABILITY_ADDR=127.0.0.1:0",
				}}
				c.done("send", "--chat", "burrow", "--wait", `/tool memory.write {"content":"x"}`)
				path := ""
				for _, found := range filesNamed(t, filepath.Join(c.home, "workspace", "chats"), "MEMORY.md") {
					path = found
				}
				if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
					t.Fatal(err)
				}
				c.dies(point, way...)
				has := func() string {
					text, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					return string(text)
				}
				if got := has(); got != page && got != rest {
					t.Errorf("killed at %s the page is %q", point, got)
				}
				c.whole()
				if name == "message" { // it is done before the next message of its chat
					c.done("send", "--chat", "burrow", "--wait", "hello")
				} else if has() == page {
					c.done(way...)
				}
				if got := has(); got != rest {
					t.Errorf("then it is %q", got)
				}
				if shown := c.done("memory", "show", "main:cli:local:burrow"); strings.Contains(shown, "wombat") ||
					!strings.Contains(shown, "numbat") {
					t.Errorf("the command shows %s", shown)
				}
			})
		}
	}
}

// filesWith are the files of a home with a word in their bytes.
func filesWith(t *testing.T, home, word string) (files []string) {
	t.Helper()
	if err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(bytes.ToLower(data), []byte(word)) {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}
