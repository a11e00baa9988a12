package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// TestKilledDuringAnUndoTheNextStartFinishesIt kills the daemon between two files of an /undo, in the middle of one,
// and before the answer is stored. After the next start the directory is as it was before the turn, with all rights.
func TestKilledDuringAnUndoTheNextStartFinishesIt(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	for _, point := range long.Every(4, []string{
		"undo.before#1", "undo.before#2", "undo.half", "undo.after#3", "undo.content#4", "undo.after#4",
		"turn.before#2", "turn.after#2",
	}) {
		t.Run("at "+point, func(t *testing.T) {
			t.Parallel()
			undoAndKill(t, point)
		})
	}
}

// refactors makes, deletes, moves and writes files of a directory in one answer.
func refactors(dir string) llmtest.Script {
	call := func(name, args string) llmtest.Call {
		return llmtest.Call{ID: name + args, Name: name, Args: strings.ReplaceAll(args, "DIR", dir)}
	}
	return func(r llmtest.Request) llmtest.Answer {
		if toolResults(r) > 0 {
			return llmtest.Text("done")
		}
		return llmtest.ToolCalls(
			call("fs_write", `{"path":"DIR/deep/er/new","content":"new"}`),
			call("fs_delete", `{"path":"DIR/script"}`),
			call("fs_move", `{"from":"DIR/a","to":"DIR/private","overwrite":true}`),
			call("fs_write", `{"path":"DIR/c","content":"other"}`))
	}
}

func undoAndKill(t *testing.T, point string) {
	dir := filepath.Join(t.TempDir(), "project")
	for name, mode := range map[string]os.FileMode{"a": 0o644, "private": 0o600, "script": 0o755, "c": 0o640} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("of "+name), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, dir)
	model := httptest.NewServer(llmtest.New(refactors(dir)))
	t.Cleanup(model.Close)
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: []string{
			"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_MODEL=scripted",
			"OPENAI_API_KEY=none", "COREBOT_WEBHOOK_ENABLED=false",
			fmt.Sprintf(`COREBOT_TOOLS_ROOTS=[{"path":%q,"mode":"write"}]`, dir),
		},
	}
	usual := s.env
	s.env = append(slices.Clone(usual), "COREBOT_FAULT="+point)
	s.startAndWait()
	s.env = usual
	s.output("send", "--wait", "--id", "first", "refactor")
	if changed := tree(t, dir); slices.Equal(changed, before) || len(changed) != 5 {
		t.Fatalf("the turn has left %q", changed)
	}
	s.try("send", "--id", "undo", "/undo")
	s.wantKilled()
	s.startAndWait()
	books := s.awaitEnds(crashStory{rest: map[string]string{"undo": ""}})
	if b := books["undo"]; b.End != "answered" || len(b.Replies) != 1 {
		t.Errorf("the /undo: %+v", b)
	}
	if now := tree(t, dir); !slices.Equal(now, before) {
		t.Errorf("there is\n%s\nwant\n%s", strings.Join(now, "\n"), strings.Join(before, "\n"))
	}
	trail := s.output("audit", "--json")
	if strings.Count(trail, `"event":"undo"`) != 1 || !strings.Contains(trail, dir+"/script") {
		t.Errorf("the audit has %s", trail)
	}
	s.terminate()
	s.output("audit", "verify")
}

// tree lists what is below a directory: directories, and files with their rights and contents.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == dir {
			return err
		}
		text := ""
		if !info.IsDir() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(data)
		}
		all = append(all, fmt.Sprintf("%s %v %q", strings.TrimPrefix(path, dir), info.Mode(), text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
