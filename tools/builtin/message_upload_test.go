package builtin_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/roots"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// cabinet keeps what it is given, or says why not.
type cabinet struct {
	kept  map[corebot.Key]string
	fault string
	err   error
}

func (s *cabinet) Keep(_ context.Context, k corebot.Key, message string, p corebot.Part, from io.Reader) (
	corebot.Part, corebot.AttachedFile, error,
) {
	content, err := io.ReadAll(from)
	if s.kept == nil {
		s.kept = map[corebot.Key]string{}
	}
	if sum := sha256.Sum256(content); p.Hash != "" && p.Hash != hex.EncodeToString(sum[:]) {
		return p, corebot.AttachedFile{}, corebot.ErrInvalid
	}
	s.kept[k] = message + " " + string(content)
	p.Hash, p.MediaType = "abcd", "text/plain"
	return p, corebot.AttachedFile{Size: int64(len(content)), Fault: s.fault}, errors.Join(err, s.err)
}

// takes is a step of a turn whose reply takes so many files.
type takes struct {
	step
	files int
}

func (t takes) InAnswer() corebot.InAnswer { return corebot.InAnswer{Attaches: t.files} }

func upload(t *testing.T, b bench, s *cabinet, who corebot.Caller, files int, a args) corebot.ToolResult {
	t.Helper()
	registry, err := tools.NewRegistry(builtin.MessageUpload(roots.Only(b.root), s))
	must(t, err)
	p, err := policy.New(policy.Options{})
	must(t, err)
	box, err := tools.NewBox(registry, p, roleOf(corebot.RoleNormal), tools.Options{})
	must(t, err)
	raw, err := json.Marshal(a)
	must(t, err)
	r, err := box.Call(t.Context(), who, corebot.ToolCall{Tool: "message.upload", Args: raw}, takes{files: files})
	must(t, err)
	return r
}

func TestAFileOfTheWorkspaceGoesWithTheAnswer(t *testing.T) {
	b, s := newBench(t), &cabinet{}
	must(t, b.root.Write("d/a.txt", []byte("hello")))
	who := corebot.Caller{Key: here, MessageID: "m1", Taint: "a page"} // its answer could say the same
	r := upload(t, b, s, who, 1, args{"path": "d/a.txt", "caption": "see"})
	want := corebot.Part{Type: corebot.PartFile, Name: "a.txt", Hash: "abcd", MediaType: "text/plain", Text: "see"}
	if r.Outcome != corebot.OutcomeSuccess || r.Attach == nil || *r.Attach != want || s.kept[here] != "m1 hello" {
		t.Errorf("%+v, %+v; kept %q", r, r.Attach, s.kept)
	}
}

func TestWhatCannotBeSentIsNoPartOfTheAnswer(t *testing.T) {
	b := newBench(t)
	const ofOthers = "chats/main:webhook::there/files/x"
	for path, content := range map[string]string{"a.txt": "hello", "empty": "", ofOthers: "of others"} {
		must(t, b.root.Write(path, []byte(content)))
	}
	for name, c := range map[string]struct {
		cabinet cabinet
		files   int
		args    args
		outcome corebot.AuditOutcome
		says    string
	}{
		"no room":     {cabinet{}, 0, args{"path": "a.txt"}, corebot.OutcomeError, "takes no file"},
		"missing":     {cabinet{}, 1, args{"path": "gone"}, corebot.OutcomeError, "no such file"},
		"empty":       {cabinet{}, 1, args{"path": "empty"}, corebot.OutcomeError, "is empty"},
		"a directory": {cabinet{}, 1, args{"path": "chats"}, corebot.OutcomeDenied, ""},
		"no path":     {cabinet{}, 1, args{"path": ""}, corebot.OutcomeDenied, "which file"},
		"outside":     {cabinet{}, 1, args{"path": "../../etc/passwd"}, corebot.OutcomeDenied, ""},
		"of another":  {cabinet{}, 1, args{"path": ofOthers}, corebot.OutcomeDenied, "another"},
		"a long caption": {
			cabinet{}, 1, args{"path": "a.txt", "caption": strings.Repeat("é", 1001)}, corebot.OutcomeError, "caption",
		},
		"too large":   {cabinet{err: corebot.ErrTooLarge}, 1, args{"path": "a.txt"}, corebot.OutcomeError, "larger"},
		"a full chat": {cabinet{fault: "it is full"}, 1, args{"path": "a.txt"}, corebot.OutcomeError, "it is full"},
	} {
		t.Run(name, func(t *testing.T) {
			r := upload(t, b, &c.cabinet, corebot.Caller{Key: here}, c.files, c.args)
			if r.Outcome != c.outcome || r.Attach != nil || !strings.Contains(r.Content, c.says) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// attaching is a journal that approves, of a turn whose reply takes a file.
type attaching struct{ *approving }

func (attaching) InAnswer() corebot.InAnswer { return corebot.InAnswer{Attaches: 1} }

// TestAnApprovedFileIsSentAsItWasSeen: another program can write it between the comparison and the copy. A crash can
// cut the call off.
func TestAnApprovedFileIsSentAsItWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		meddles bool
		state   corebot.StepState
		outcome corebot.AuditOutcome
	}{
		"as it was":   {outcome: corebot.OutcomeSuccess},
		"meddled":     {meddles: true, outcome: corebot.OutcomeError},
		"was cut off": {state: corebot.StepIntended, outcome: corebot.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			dir, s := t.TempDir(), &cabinet{}
			root, err := rootfs.New(dir)
			must(t, err)
			defer root.Close() //nolint:errcheck // of a test
			must(t, root.Write("a.txt", []byte("hello")))
			workspace, err := os.OpenRoot(dir)
			must(t, err)
			defer workspace.Close() //nolint:errcheck // only read
			files, err := tools.NewFiles(roots.Only(root), workspace, nil)
			must(t, err)
			registry, err := tools.NewRegistry(builtin.MessageUpload(roots.Only(root), s))
			must(t, err)
			p, err := policy.New(policy.Options{Approvals: policy.Approvals{Tainted: []string{"message.upload"}}})
			must(t, err)
			box, err := tools.NewBox(registry, p, roleOf(corebot.RoleNormal), tools.Options{
				Approvers: approvers{}, Contents: meddled{files, func() {
					if c.meddles {
						must(t, root.Write("a.txt", []byte("secret")))
					}
				}},
			})
			must(t, err)
			r, err := box.Call(t.Context(), corebot.Caller{Key: here, MessageID: "m1", Taint: "a page"},
				corebot.ToolCall{Tool: "message.upload", Args: []byte(`{"path":"./a.txt"}`)},
				attaching{&approving{state: c.state}})
			if err != nil || r.Outcome != c.outcome || (r.Attach != nil) != (c.outcome == corebot.OutcomeSuccess) {
				t.Errorf("%+v, %v; kept %q", r, err, s.kept)
			}
		})
	}
}
