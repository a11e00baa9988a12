package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

var (
	here  = corebot.Key{Agent: "main", Channel: "webhook", Chat: "here"}
	there = corebot.Key{Agent: "main", Channel: "webhook", Chat: "there"}
)

type roleOf corebot.Role

func (r roleOf) RoleOf(context.Context, corebot.Principal, corebot.Key) (corebot.Role, error) {
	return corebot.Role(r), nil
}

// step is a journal that always works.
type step struct{}

func (step) ID() string                                       { return "m/1/0" }
func (step) State() corebot.StepState                         { return "" }
func (step) Intend(context.Context, corebot.AuditEvent) error { return nil }
func (step) Finish(context.Context, corebot.ToolResult, corebot.AuditEvent) error {
	return nil
}

func (step) Apply(context.Context, corebot.Effect, corebot.ToolResult, corebot.AuditEvent) error {
	return nil
}

func (step) InAnswer() corebot.InAnswer { return corebot.InAnswer{} }

func (step) Wait(_ context.Context, w corebot.Pending, _ corebot.AuditEvent) (corebot.Pending, error) {
	return w, nil
}

func (step) Ask(_ context.Context, asks []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	return corebot.ApprovalRequest{Approval: asks[0].Approval}, nil
}

// bench is a workspace with the whole call path in front of it.
type bench struct {
	*testing.T
	dir  string
	root *rootfs.Root
	box  map[corebot.Role]*tools.Box
}

func newBench(t *testing.T) bench {
	t.Helper()
	dir := t.TempDir()
	root, err := rootfs.New(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	pages, err := memory.New(root, memory.Options{})
	must(t, err)
	registry, err := tools.NewRegistry(builtin.Workspace(roots.Only(root), pages, builtin.DocumentsHere{})...)
	must(t, err)
	p, err := policy.New(policy.Options{})
	must(t, err)
	b := bench{t, dir, root, map[corebot.Role]*tools.Box{}}
	for _, role := range []corebot.Role{corebot.RoleNormal, corebot.RoleAdmin} {
		b.box[role], err = tools.NewBox(registry, p, roleOf(role), tools.Options{})
		must(t, err)
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type args map[string]any

func (b bench) call(role corebot.Role, k corebot.Key, tool string, a args) corebot.ToolResult {
	b.Helper()
	raw, err := json.Marshal(a)
	must(b.T, err)
	r, err := b.box[role].Call(b.Context(), corebot.Caller{Key: k}, corebot.ToolCall{Tool: tool, Args: raw}, step{})
	must(b.T, err)
	r.Content = outside.Unmarked(r.Content)
	return r
}

// wants calls a tool as a normal principal and compares outcome and a part of the content.
func (b bench) wants(outcome corebot.AuditOutcome, content, tool string, a args) {
	b.Helper()
	if r := b.call(corebot.RoleNormal, here, tool, a); r.Outcome != outcome || !strings.Contains(r.Content, content) {
		b.Errorf("%s %.100v: got %s %.300q, want %s with %q", tool, a, r.Outcome, r.Content, outcome, content)
	}
}

func (b bench) has(path, want string) {
	b.Helper()
	if got, err := b.root.ReadFile(path, 1<<20); err != nil || string(got) != want {
		b.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
}

func TestAFileIsWrittenListedReadAndEdited(t *testing.T) {
	b := newBench(t)
	b.wants(corebot.OutcomeSuccess, "wrote 11 bytes to d/a.txt", "fs.write",
		args{"path": "d/a.txt", "content": "one two one"})
	b.wants(corebot.OutcomeSuccess, "d/\n", "fs.list", args{})
	b.wants(corebot.OutcomeSuccess, "a.txt\t11 bytes", "fs.list", args{"path": "d"})
	b.wants(corebot.OutcomeSuccess, "replaced 1", "fs.edit", args{"path": "d/a.txt", "old": "two", "new": "2"})
	b.wants(corebot.OutcomeSuccess, "replaced 2", "fs.edit", args{
		"path": "d/a.txt", "old": "one", "new": "1",
		"replaceAll": true,
	})
	if r := b.call(corebot.RoleNormal, here, "fs.read", args{"path": "d/a.txt"}); r.Content != "1 2 1" {
		t.Errorf("read %q", r.Content)
	}
}

func TestAnEditThatIsNotClearChangesNothing(t *testing.T) {
	b := newBench(t)
	must(t, b.root.Write("f", []byte("aaa b b")))
	must(t, b.root.Write("bin", []byte("a\x00b")))
	for _, c := range []struct {
		old, new, want string
	}{
		{"b", "c", "not unique"},
		{"aa", "c", "not unique"},
		{"x", "c", "not found"},
		{"", "c", "empty"},
		{"aaa", "aaa", "the same"},
	} {
		b.wants(corebot.OutcomeError, c.want, "fs.edit", args{"path": "f", "old": c.old, "new": c.new})
	}
	b.has("f", "aaa b b")
	b.wants(corebot.OutcomeError, "binary", "fs.edit", args{"path": "bin", "old": "a", "new": "c"})
	b.wants(corebot.OutcomeError, "not exist", "fs.edit", args{"path": "missing", "old": "a", "new": "c"})
	b.wants(corebot.OutcomeError, "too large", "fs.edit", args{
		"path": "f", "old": "b",
		"new": strings.Repeat("x", 600<<10), "replaceAll": true,
	})
	b.has("f", "aaa b b")
}

func TestALongFileIsReadInPiecesThatLoseNothing(t *testing.T) {
	b := newBench(t)
	want := strings.Repeat("aé世🙂", 500)
	must(t, b.root.Write("f", []byte(want)))
	var got strings.Builder
	for offset := 0; offset < len(want); {
		r := b.call(corebot.RoleNormal, here, "fs.read", args{"path": "f", "offset": offset, "limit": 101})
		text, note, ok := strings.Cut(r.Content, "\n[")
		if r.Outcome != corebot.OutcomeSuccess || !ok || !utf8.ValidString(text) {
			t.Fatalf("at %d: %+v", offset, r)
		}
		got.WriteString(text)
		offset += len(text)
		if offset < len(want) && !strings.Contains(note, fmt.Sprintf("offset %d]", offset)) {
			t.Fatalf("the note %q does not say %d", note, offset)
		}
	}
	if got.String() != want {
		t.Errorf("%d bytes of %d", got.Len(), len(want))
	}
}

func TestAReadSaysWhatItDoesNotShow(t *testing.T) {
	b := newBench(t)
	for name, text := range map[string]string{
		"nul": "a\x00b", "latin1": "caf\xe9s", "tail": "\xa9x", "empty": "",
		"f": "12345", "big": strings.Repeat("x", 200_000),
	} {
		must(t, b.root.Write(name, []byte(text)))
	}
	for _, binary := range []string{"nul", "latin1", "tail"} {
		b.wants(corebot.OutcomeSuccess, "binary file", "fs.read", args{"path": binary})
	}
	b.wants(corebot.OutcomeSuccess, "is empty", "fs.read", args{"path": "empty"})
	b.wants(corebot.OutcomeSuccess, "past the end", "fs.read", args{"path": "f", "offset": 5})
	b.wants(corebot.OutcomeSuccess, "45\n[the end of 5 bytes]", "fs.read", args{"path": "f", "offset": 3})
	b.wants(corebot.OutcomeSuccess, "go on with offset 48000", "fs.read", args{"path": "big", "limit": 1 << 40})
	b.wants(corebot.OutcomeSuccess, "go on with offset 32768", "fs.read", args{"path": "big"})
	b.wants(corebot.OutcomeError, "offset", "fs.read", args{"path": "f", "offset": -1})
	b.wants(corebot.OutcomeError, "limit", "fs.read", args{"path": "f", "limit": -1})
	b.wants(corebot.OutcomeError, "no such file", "fs.read", args{"path": "missing"})
	b.wants(corebot.OutcomeDenied, "path", "fs.read", args{"path": "../secret"})
	b.wants(corebot.OutcomeError, "too large", "fs.write", args{"path": "f", "content": strings.Repeat("x", 1<<20+1)})
	b.has("f", "12345")
}

func TestALongListingIsShownInPagesInTheOrderOfNames(t *testing.T) {
	b := newBench(t)
	must(t, os.Mkdir(filepath.Join(b.dir, "d"), 0o700))
	for i := range 1203 {
		must(t, os.WriteFile(filepath.Join(b.dir, fmt.Sprintf("d/%04d", (i*7)%1203)), nil, 0o600))
	}
	var names []string
	for after, pages := "", 0; ; pages++ {
		r := b.call(corebot.RoleNormal, here, "fs.list", args{"path": "d", "after": after})
		if r.Outcome != corebot.OutcomeSuccess || pages > 3 {
			t.Fatalf("page %d: %+v", pages, r)
		}
		text, note, more := strings.Cut(r.Content, "[")
		for line := range strings.Lines(text) {
			name, _, _ := strings.Cut(line, "\t")
			names = append(names, name)
		}
		if !more {
			break
		}
		after = names[len(names)-1]
		if want := fmt.Sprintf("there are %d more; go on with after %q]", 1203-len(names),
			after); !strings.HasPrefix(note, want) {
			t.Fatalf("the note is %q, want %q", note, want)
		}
	}
	if len(names) != 1203 || !slices.IsSorted(names) || names[1202] != "1202" {
		t.Errorf("%d names", len(names))
	}
	b.wants(corebot.OutcomeSuccess, `nothing behind "1202"`, "fs.list", args{"path": "d", "after": "1202"})
	must(t, b.root.Write("e/x", nil))
	must(t, b.root.Remove("e/x"))
	b.wants(corebot.OutcomeSuccess, "[e is empty]", "fs.list", args{"path": "e"})
}

func TestEveryFileToolTellsPolicyWhatItTouches(t *testing.T) {
	b := newBench(t)
	theirs := rootfs.ChatDir(there) + "/notes"
	must(t, b.root.Write(theirs, []byte("private")))
	must(t, b.root.Write("memory/MEMORY.md", []byte("facts")))
	for tool, a := range map[string]args{
		"fs.read": {"path": theirs}, "fs.list": {"path": rootfs.ChatDir(there)},
		"fs.write": {"path": theirs, "content": ""}, "fs.edit": {"path": theirs, "old": "private", "new": "x"},
		"fs.search": {"path": theirs, "pattern": "private"}, "fs.mkdir": {"path": rootfs.ChatDir(there) + "/made"},
	} {
		for _, role := range []corebot.Role{corebot.RoleNormal, corebot.RoleAdmin} {
			if r := b.call(role, here, tool, a); r.Outcome != corebot.OutcomeDenied {
				t.Errorf("%s of another chat's file as %s: %+v", tool, role, r)
			}
		}
	}
	b.has(theirs, "private")
	b.wants(corebot.OutcomeSuccess, "facts", "fs.read", args{"path": "memory/MEMORY.md"})
	for tool, a := range map[string]args{
		"fs.write": {"path": "./MEMORY//MEMORY.md", "content": ""}, "fs.edit": {
			"path": "memory/MEMORY.md",
			"old":  "facts", "new": "x",
		},
	} {
		b.wants(corebot.OutcomeDenied, "admin", tool, a)
	}
	if r := b.call(corebot.RoleAdmin, here, "fs.edit", args{
		"path": "memory/MEMORY.md", "old": "facts",
		"new": "x",
	}); r.Outcome != corebot.OutcomeSuccess {
		t.Errorf("an admin's edit: %+v", r)
	}
}

func TestMemoryIsKeptByScope(t *testing.T) {
	b := newBench(t)
	b.wants(corebot.OutcomeSuccess, "empty", "memory.read", args{"scope": "chat"})
	b.wants(corebot.OutcomeSuccess, "remembered", "memory.write", args{"scope": "chat", "content": "likes tea"})
	b.wants(corebot.OutcomeSuccess, "remembered", "memory.write",
		args{"scope": "chat", "content": "no sugar", "mode": "append"})
	b.has(rootfs.ChatDir(here)+"/MEMORY.md", "likes tea\nno sugar\n")
	b.wants(corebot.OutcomeSuccess, "likes tea\nno sugar", "memory.read", args{"scope": "chat"})
	b.wants(corebot.OutcomeSuccess, "replaced", "memory.write", args{
		"scope": "chat", "content": "likes coffee",
		"mode": "replace",
	})
	b.has(rootfs.ChatDir(here)+"/MEMORY.md", "likes coffee\n")
	b.wants(corebot.OutcomeDenied, "admin", "memory.write", args{"scope": "global", "content": "x"})
	b.wants(corebot.OutcomeDenied, "scope", "memory.read", args{"scope": "Global"})
	b.wants(corebot.OutcomeError, "mode", "memory.write", args{"scope": "chat", "content": "x", "mode": "erase"})
	b.wants(corebot.OutcomeError, "nothing to remember", "memory.write", args{"scope": "chat", "content": " "})
	if r := b.call(corebot.RoleAdmin, there, "memory.write", args{
		"scope":   "global",
		"content": "for all",
	}); r.Outcome != corebot.OutcomeSuccess {
		t.Errorf("an admin: %+v", r)
	}
	b.wants(corebot.OutcomeSuccess, "for all", "memory.read", args{"scope": "global"})
}

func TestEditsOfTwoChatsAreBothKept(t *testing.T) {
	b := newBench(t)
	must(t, b.root.Write("f", []byte("a0 b0 c0 d0")))
	var wg sync.WaitGroup
	for _, c := range []string{"a", "b", "c", "d"} {
		wg.Go(func() {
			for _, n := range []string{"01", "12", "23"} {
				a, _ := json.Marshal(args{"path": "f", "old": c + n[:1], "new": c + n[1:]})
				r, err := b.box[corebot.RoleNormal].Call(b.Context(), corebot.Caller{Key: here},
					corebot.ToolCall{Tool: "fs.edit", Args: a}, step{})
				if err != nil || r.Outcome != corebot.OutcomeSuccess {
					t.Error(r, err)
				}
			}
		})
	}
	wg.Wait()
	b.has("f", "a3 b3 c3 d3")
}
