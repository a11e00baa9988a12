package tools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/tools"
)

func newFiles(t *testing.T) (*tools.Files, *rootfs.Root) {
	t.Helper()
	return filesIn(t, t.TempDir())
}

// filesIn keeps artifacts in a directory, which is there.
func filesIn(t *testing.T, dir string) (*tools.Files, *rootfs.Root) {
	t.Helper()
	root, err := rootfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	workspace, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { workspace.Close() })
	files, err := tools.NewFiles(root, workspace)
	if err != nil {
		t.Fatal(err)
	}
	return files, root
}

func TestLongOutputIsShortenedAndKeptWhole(t *testing.T) {
	files, root := newFiles(t)
	secret := "sk-" + strings.Repeat("x1", 20)
	whole := "BEGIN " + strings.Repeat("é\u200b", 40_000) + secret + " END"
	b := newBox(t, normal, tools.Options{Artifacts: files}, does(tools.ReadOnly, says(whole)))
	s := newStep()
	r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeSuccess, "bytes left out")
	if len(r.Content) > tools.DefaultMaxOutput || !strings.HasPrefix(r.Content, "BEGIN é") || !strings.HasSuffix(r.Content, " END") {
		t.Errorf("%d bytes", len(r.Content))
	}
	path := regexp.MustCompile(`the whole output is in (\S+)\]`).FindStringSubmatch(r.Content)
	if path == nil || !strings.HasPrefix(path[1], rootfs.ChatDir(chat)+"/artifacts/") {
		t.Fatalf("the path is %q", path)
	}
	got, err := root.ReadFile(path[1], 1<<20)
	if err != nil || string(got) != "BEGIN "+strings.Repeat("é", 40_000)+"[redacted] END" {
		t.Errorf("the artifact has %d bytes, %v", len(got), err)
	}
}

func TestASecretThatTheCapWouldCutInTwoIsStillFound(t *testing.T) {
	secret := "sk-" + strings.Repeat("x1", 200)
	b := newBox(t, normal, tools.Options{MaxOutput: 300}, does(tools.ReadOnly, says(strings.Repeat(".", 20)+" "+secret+" "+strings.Repeat(".", 800))))
	s := newStep()
	r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeSuccess, "they were not kept")
	if strings.Contains(r.Content, "x1x1") {
		t.Errorf("the model reads %q", r.Content)
	}
}

type broken struct{}

func (broken) Save(context.Context, corebot.Key, string, string) (string, error) {
	return "", errors.New("the disk is full")
}

func TestOutputThatCannotBeKeptDoesNotFailTheCall(t *testing.T) {
	b := newBox(t, normal, tools.Options{Artifacts: broken{}}, does(tools.SideEffect, says(strings.Repeat("x", 60_000))))
	s := newStep()
	r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeSuccess, "could not be kept")
}

func TestAConversationKeepsAHundredArtifacts(t *testing.T) {
	files, root := newFiles(t)
	for i := range 103 {
		if _, err := files.Save(t.Context(), chat, fmt.Sprintf("a-%03d.txt", i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	entries, _, err := root.List(rootfs.ChatDir(chat)+"/artifacts", "", 1000)
	if err != nil || len(entries) != 100 || entries[99].Name != "a-102.txt" {
		t.Errorf("%d are left, %v", len(entries), err)
	}
}
