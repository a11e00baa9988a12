package tools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/tools"
)

func newFiles(t *testing.T) (*tools.Files, *rootfs.Root) {
	t.Helper()
	return filesIn(t, t.TempDir())
}

// filesIn keeps artifacts in a directory, which is there.
func filesIn(t *testing.T, dir string) (*tools.Files, *rootfs.Root) {
	t.Helper()
	return filesWithin(t, dir, rootfs.Quota{})
}

// filesWithin is filesIn with a quota of the folders of chats.
func filesWithin(t *testing.T, dir string, q rootfs.Quota) (*tools.Files, *rootfs.Root) {
	t.Helper()
	root, err := rootfs.NewBounded(dir, nil, q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	workspace, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { workspace.Close() })
	files, err := tools.NewFiles(roots.Only(root), workspace, nil)
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
	if len(r.Content) > tools.DefaultMaxOutput || !strings.HasPrefix(r.Content, "BEGIN é") ||
		!strings.HasSuffix(r.Content, " END") {
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
	b := newBox(t, normal, tools.Options{MaxOutput: 300}, does(tools.ReadOnly,
		says(strings.Repeat(".", 20)+" "+secret+" "+strings.Repeat(".", 800))))
	s := newStep()
	r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeSuccess, "they were not kept")
	if strings.Contains(r.Content, "x1x1") {
		t.Errorf("the model reads %q", r.Content)
	}
}

type broken struct{}

func (broken) Save(context.Context, corebot.Caller, string, string) (string, error) {
	return "", errors.New("the disk is full")
}

func TestOutputThatCannotBeKeptDoesNotFailTheCall(t *testing.T) {
	b := newBox(t, normal, tools.Options{Artifacts: broken{}}, does(tools.SideEffect,
		says(strings.Repeat("x", 60_000))))
	s := newStep()
	r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeSuccess, "could not be kept")
}

func TestAConversationKeepsAHundredArtifacts(t *testing.T) {
	files, root := newFiles(t)
	for i := range 103 {
		if _, err := files.Save(t.Context(), corebot.Caller{Key: chat}, fmt.Sprintf("a-%03d.txt", i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	entries, _, err := root.List(rootfs.ChatDir(chat)+"/artifacts", "", 1000)
	if err != nil || len(entries) != 100 || entries[99].Name != "a-102.txt" {
		t.Errorf("%d are left, %v", len(entries), err)
	}
}

func TestTheOldestArtifactsMakeRoomForANewOneAndFilesOfPeopleStay(t *testing.T) {
	files, root := filesWithin(t, t.TempDir(), rootfs.Quota{Dir: rootfs.ChatsDir, Bytes: 100, Entries: 6})
	dir := rootfs.ChatDir(chat)
	save := func(name string, size int) {
		t.Helper()
		if _, err := files.Save(t.Context(), corebot.Caller{Key: chat}, name, strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		awaitLaterFiles(t)
	}
	has := func(want ...string) {
		t.Helper()
		entries, _, err := root.List(dir+"/artifacts", "", 100)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name)
		}
		if err != nil || !slices.Equal(names, want) {
			t.Fatalf("the artifacts are %q, %v; want %q", names, err, want)
		}
	}
	if err := root.Write(dir+"/people", []byte(strings.Repeat("x", 40))); err != nil {
		t.Fatal(err)
	}
	save("d", 20)
	save("c", 20)
	save("b", 20)
	save("a", 30) // bytes for it: d and c are the oldest
	has("a", "b")
	save("e", 5)
	save("f", 5)
	save("g", 0) // one entry too many
	has("a", "e", "f", "g")
	if _, err := files.Save(t.Context(), corebot.Caller{Key: chat}, "h", strings.Repeat("x", 61)); !errors.Is(err,
		rootfs.ErrFull) {
		t.Errorf("got %v", err)
	}
	has("a", "e", "f", "g") // nothing goes for what has no room at all
	save("a", 60)           // it makes no room of itself
	has("a", "g")
	if text, err := root.ReadFile(dir+"/people", 100); err != nil || len(text) != 40 {
		t.Errorf("the file of people has %d bytes, %v", len(text), err)
	}
}

func TestOutputForWhichAChatHasNoRoomIsHeadAndTailAndSaysSo(t *testing.T) {
	files, root := filesWithin(t, t.TempDir(), rootfs.Quota{
		Dir: rootfs.ChatsDir, Bytes: 1_000,
		BytesKey: "tools.chat_files_bytes",
	})
	b := newBox(t, normal, tools.Options{Artifacts: files}, does(tools.SideEffect,
		says("BEGIN"+strings.Repeat("x", 60_000)+"END")))
	s := newStep()
	r, err := b.Call(t.Context(), who, call("web.search", `{}`), s)
	requireEnd(t, s, r, err, corebot.OutcomeSuccess, "they could not be kept: the folder "+rootfs.ChatDir(chat)+
		" has no room")
	for _, part := range []string{"BEGIN", "END", "the limit is 1000", "tools.chat_files_bytes"} {
		if !strings.Contains(r.Content, part) {
			t.Errorf("the model does not read %q", part)
		}
	}
	if entries, _, err := root.List(rootfs.ChatDir(chat)+"/artifacts", "", 10); len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// awaitLaterFiles waits until a file of this moment is younger than those that exist: the clock of a file system ticks
// every few milliseconds.
func awaitLaterFiles(t *testing.T) {
	t.Helper()
	written := func() time.Time {
		path := filepath.Join(t.TempDir(), "clock")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	for begin := written(); !written().After(begin); {
	}
}
