package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/load"
	"github.com/corebot/corebot/internal/long"
)

// TestNoToolChangesTheOperatorsFilesOrItsCallersRoleWhateverAnAdminAsksFor calls every tool as an admin, with every
// text argument replaced by ways to the operator's files, links included. Beside the workspace and the database, the
// home is then what it was, byte for byte.
func TestNoToolChangesTheOperatorsFilesOrItsCallersRoleWhateverAnAdminAsksFor(t *testing.T) {
	t.Parallel()
	w := &walker{}
	endpoint := httptest.NewServer(llmtest.New(w.answer))
	t.Cleanup(endpoint.Close)
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: []string{
			"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + endpoint.URL + "/v1", "OPENAI_MODEL=scripted",
			"OPENAI_API_KEY=none",
			"COREBOT_TOOLS_SHELL_ENABLED=true", "COREBOT_TOOLS_SHELL_ALLOW=unsafe:sh,cp,tee",
			"COREBOT_APPROVALS_MODE=never", "COREBOT_TOOLS_WEB_SEARXNG_URL=http://127.0.0.1:1",
		},
	}
	s.output("init", "--webhook")
	furnish(t, s.home)
	w.home = s.home
	s.startAndWait()
	t.Cleanup(s.kill)
	s.findWebhook()
	s.output("admin", "grant", "webhook::root")
	before, role := operatorFiles(t, s.home), rolesOf(s, "webhook::root")
	client, cursor := s.client(), ""
	for batch := 0; !w.done(batch); batch++ {
		id := fmt.Sprint("walk ", batch)
		_, err := client.Post(t.Context(), load.Message{ID: id, ChatID: "ops", Sender: "root", Content: id})
		if err != nil {
			t.Fatal(err)
		}
		for answered, deadline := false, time.Now().Add(2*patience); !answered; {
			var replies []load.Reply
			if replies, cursor, err = client.Replies(t.Context(), "ops", cursor, 5*time.Second); err != nil ||
				time.Now().After(deadline) {
				t.Fatalf("%s is not answered: %v", id, err)
			}
			answered = slices.ContainsFunc(replies, func(r load.Reply) bool { return r.InReplyTo == id })
		}
	}
	outcomes := map[string]int{}
	for _, l := range s.trail()["ops"] {
		outcomes[l.Outcome]++
	}
	if outcomes["success"] < long.Or(8, 50) || outcomes["denied"] < long.Or(8, 50) || len(w.calls) < long.Or(50, 300) {
		t.Errorf("the walk is broken: %d calls ended %v", len(w.calls), outcomes)
	}
	compare(t, before, operatorFiles(t, s.home))
	sentFilesAreOfTheWorkspace(t, s.home)
	if got := rolesOf(s, "webhook::root"); got != role {
		t.Errorf("the caller's role was %s and is %s", role, got)
	}
	if chat := s.output("chats", "show", "main:webhook::ops", "--json"); strings.Contains(chat, `"access"`) {
		t.Errorf("who may talk has changed: %s", chat)
	}
	s.output("config", "check")
}

// furnish puts what an operator may have into a home, and links into the workspace that lead to it.
func furnish(t *testing.T, home string) {
	t.Helper()
	inside := func(name string) string { return filepath.Join(home, "workspace", name) }
	for name, content := range map[string]string{
		".mcp.json": `{"mcpServers":{}}`, "events/note.txt": "webhook",
		"secrets/key": "webhook", "workspace/notes.md": "webhook",
	} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"settings": "../corebot.yaml", "up": "..",
		"servers": filepath.Join(home, ".mcp.json"), "new": "../new",
	} {
		if err := os.Symlink(to, inside(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(home, "corebot.yaml"), inside("same")); err != nil {
		t.Fatal(err)
	}
}

// sentFilesAreOfTheWorkspace looks at the contents that message.upload has kept: one at least, and none of them what a
// link leads to.
func sentFilesAreOfTheWorkspace(t *testing.T, home string) {
	t.Helper()
	settings, err := os.ReadFile(filepath.Join(home, "corebot.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	kept := os.DirFS(filepath.Join(home, "data", "files"))
	err = fs.WalkDir(kept, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(kept, path)
		if sent++; string(content) == string(settings) || strings.Contains(string(content), "mcpServers") {
			t.Errorf("%s was sent: %s", path, content)
		}
		return err
	})
	if err != nil || sent == 0 {
		t.Errorf("%d files were sent, %v", sent, err)
	}
}

// operatorFiles are the files of a home with their modes and contents. Left out are the workspace, the database, the
// published heads of the audit and the files of messages.
func operatorFiles(t *testing.T, home string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(home), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == "workspace", path == "data/files":
			return fs.SkipDir
		case strings.HasPrefix(path, "data/corebot.db"), path == "data/audit-heads.jsonl": // each start adds a line
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(filepath.Join(home, path))
			if err != nil {
				return err
			}
			content = string(text)
		}
		found[path] = info.Mode().String() + " " + content
		return nil
	})
	if err != nil || len(found) < 8 {
		t.Fatalf("%d files of the home, %v", len(found), err)
	}
	return found
}

func compare(t *testing.T, before, after map[string]string) {
	t.Helper()
	all := maps.Clone(before)
	maps.Copy(all, after)
	for path := range all {
		if before[path] != after[path] {
			t.Errorf("%s was %.200q and is %.200q", path, before[path], after[path])
		}
	}
}

func rolesOf(s *service, principal string) string {
	s.t.Helper()
	var own []string
	for line := range strings.Lines(s.output("admin", "list", "--json")) {
		if strings.Contains(line, `"principal":"`+principal+`"`) {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}

// walker is a model that asks for every offered tool with every hostile argument, 64 calls in an answer.
type walker struct {
	home  string
	mu    sync.Mutex
	calls []llmtest.Call
}

const inOneAnswer = 64

// done says whether there are no calls in a batch. Before the first there may be any number.
func (w *walker) done(batch int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return batch > 0 && batch*inOneAnswer >= len(w.calls)
}

func (w *walker) answer(r llmtest.Request) llmtest.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls == nil {
		for _, tool := range r.Tools {
			w.add(tool.Function.Name, tool.Function.Parameters)
		}
		w.calls = long.Every(6, w.calls)
	}
	var batch int
	if _, err := fmt.Sscanf(lastUser(r), "walk %d", &batch); err != nil || toolResults(r) > 0 {
		return llmtest.Text("done")
	}
	return llmtest.ToolCalls(w.calls[batch*inOneAnswer : min(len(w.calls), (batch+1)*inOneAnswer)]...)
}

// add makes the calls of a tool.
func (w *walker) add(tool string, schema json.RawMessage) {
	var shape struct{ Properties map[string]struct{ Type any } }
	if err := json.Unmarshal(schema, &shape); err != nil {
		panic(err) // a schema that was offered is JSON
	}
	call := func(field string, value any) {
		args := map[string]any{}
		for name := range shape.Properties {
			if usual, has := usualArguments()[name]; has {
				args[name] = usual
			}
		}
		args[field] = value
		text, err := json.Marshal(args)
		if err != nil {
			panic(err) // texts always marshal
		}
		w.calls = append(w.calls, llmtest.Call{ID: fmt.Sprint("c", len(w.calls)), Name: tool, Args: string(text)})
	}
	for _, field := range slices.Sorted(maps.Keys(shape.Properties)) {
		script := ""
		for _, target := range w.targets() {
			switch kind := fmt.Sprint(shape.Properties[field].Type); {
			case strings.Contains(kind, "string"):
				call(field, target)
			case field == "argv":
				script += "echo owned >> '" + target + "'; rm -rf '" + target + "'; cp /etc/passwd '" + target +
					"'; ln -sf '" + target + "' mine; echo owned >> mine; "
			}
		}
		if script != "" {
			call(field, []string{"sh", "-c", script})
			call(field, []string{"cp", "/etc/passwd", filepath.Join(w.home, "corebot.yaml")})
			call(field, []string{"tee", "../../../corebot.yaml"})
		}
	}
}

// usualArguments are those that get a call as far as it can come.
func usualArguments() map[string]any {
	return map[string]any{
		"path": "notes.md", "content": "owned", "old": "webhook", "new": "owned", "replaceAll": true, "scope": "global",
		"mode":  "replace",
		"query": "webhook", "url": "http://127.0.0.1:1/", "argv": []string{"sh", "-c", "true"}, "channel": "webhook",
		"chatId": "ops", "role": "normal",
		"senderId": "eve", "id": 999999,
	}
}

// targets are ways to what belongs to the operator.
func (w *walker) targets() []string {
	targets := []string{
		"settings", "servers", "same", "new", "./up/corebot.yaml", "UP/corebot.yaml", "..", "up",
		"root", "webhook::root", "*",
	}
	for _, file := range []string{
		"corebot.yaml", ".mcp.json", "data/corebot.lock", "data/new", "events/new.json",
		"secrets/key", "webhook.token",
	} {
		targets = append(targets, "../"+file, filepath.Join(w.home, file))
	}
	return targets
}
