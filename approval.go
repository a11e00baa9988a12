package corebot

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ApprovalState is how an [Approval] stands. The values are stored; they never change.
type ApprovalState string

const (
	ApprovalAwaited  ApprovalState = "awaiting"
	ApprovalApproved ApprovalState = "approved"
	ApprovalDenied   ApprovalState = "denied"  // by an admin, by a /stop, or because its turn went on without it
	ApprovalExpired  ApprovalState = "expired" // nobody said anything in time
	ApprovalVoid     ApprovalState = "void"    // it was approved, and the call was never made: see [Approval.Reason]
)

// AwaitingApproval is the reason of a lane whose head waits for an admin's word. It keeps its place and holds no worker.
const AwaitingApproval = "approval"

// Approval is one call of a tool that may run only after an admin has said so. It is resolved once. All calls of one
// answer that need a decision are one request: they are shown and resolved together.
type Approval struct {
	ID         int64
	Request    int64  // the ID of the request's first call, by which people name the request
	Calls      int    // of the request
	Position   int    // of the call's step in the journal
	Answer     int    // the position of the first call of the same answer
	Beyond     bool   // the call reaches beyond its chat, and only an admin everywhere may approve it
	Life       int64  // of the message whose turn asks
	MessageID  string // the same message
	Key        Key
	Principal  Principal // on whose behalf
	Bound      Bound
	Rule       string     // the rule that asks for an approval, as the audit names it
	Taint      string     // what the turn had read from outside, in words; empty: nothing
	Change     FileChange // what the call would make of a file; zero: of none that is known
	Round      int        // how often the call was asked about before, and had changed since
	Instead    int64      // the request before, which is void now; 0: this is the first
	Because    string     // what had changed since that was approved, in words
	State      ApprovalState
	Ran        bool   // the call was begun
	Reason     string // why it is void, in words
	CreatedAt  time.Time
	ExpiresAt  time.Time
	ResolvedAt time.Time // zero while it is awaited
	By         string    // who resolved it: a principal's spelling, "operator", or empty where nobody did
}

// Bound is all that an approval is given for. What differs in any of it is another call.
type Bound struct {
	Tool       string
	Definition string          // the fingerprint of what an MCP server says of the tool; empty: it is Corebot's own
	Args       json.RawMessage // as the model wrote them, without white space between their parts
	Dir        string          // the directory that the call works in, relative to the workspace
	Files      []NamedFile     // that the call names; Dir, if there is one, is among them and stands for everything in it
}

// NamedFile is a file of the workspace that a call names, or the directory that it works in.
type NamedFile struct {
	Path string `json:"path"`
	// Content is "sha256:" and a file's hash, or why there is none: [NoFile] or [NoContent]. That of the directory is how many files are in it, at any depth,
	// and a hash over all of it.
	Content string `json:"content"`
}

// What stands for the content of a [NamedFile] that has none that could be bound.
const (
	NoFile    = "absent"
	NoContent = "not a file"
)

// NewBound binds a call. It fails for arguments that are not JSON.
func NewBound(call ToolCall, dir string, files []NamedFile) (Bound, error) {
	var args bytes.Buffer
	if err := json.Compact(&args, call.Args); err != nil {
		return Bound{}, fmt.Errorf("%w: the arguments of %s are not JSON: %w", ErrInvalid, call.Tool, err)
	}
	return Bound{Tool: call.Tool, Args: args.Bytes(), Dir: dir, Files: files}, nil
}

// Digest is the SHA-256 over the exact call: two calls that differ anywhere have different ones. The journal spells some characters of
// arguments in another way, which means the same and has the same digest.
func (b Bound) Digest() [sha256.Size]byte {
	args, err := json.Marshal(b.Args)
	if err != nil {
		args = b.Args
	}
	fields := []string{b.Tool, string(args), b.Dir}
	for _, f := range b.Files {
		fields = append(fields, f.Path, f.Content)
	}
	if b.Definition != "" { // files come in pairs: one field more is this one
		fields = append(fields, b.Definition)
	}
	var buf []byte
	for _, s := range fields {
		buf = appendString(buf, s)
	}
	return sha256.Sum256(buf)
}

// Drift says in words what is no longer as it was approved; empty if nothing is.
func (b Bound) Drift(now Bound) string {
	if b.Digest() == now.Digest() {
		return ""
	}
	for _, f := range now.Files {
		if i := slices.IndexFunc(b.Files, func(was NamedFile) bool { return was.Path == f.Path }); i >= 0 && b.Files[i] != f {
			return b.named(f) + " has changed"
		}
	}
	switch {
	case b.Dir != now.Dir:
		return "the working directory is another"
	case b.Tool != now.Tool:
		return "the tool is another"
	case b.Definition != now.Definition:
		return "what the MCP server says of the tool has changed"
	}
	return "the call is another"
}

// named is what a person calls a file, or the directory.
func (b Bound) named(f NamedFile) string {
	if f.Path == b.Dir {
		return "what is in the directory " + f.Path
	}
	return f.Path
}

// String shows the whole call, untruncated, with every character that a person would not see written out: what is read is what runs.
func (b Bound) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "tool: %s\narguments: %s", Plainly(b.Tool), Plainly(string(b.Args)))
	if b.Definition != "" {
		fmt.Fprintf(&s, "\ndefinition: %s (`corebot mcp show` prints it)", Plainly(b.Definition))
	}
	if b.Dir != "" {
		fmt.Fprintf(&s, "\ndirectory: %s", Plainly(b.Dir))
	}
	for _, f := range b.Files {
		if f.Path == b.Dir {
			fmt.Fprintf(&s, "\nin the directory: %s", f.Content)
			continue
		}
		fmt.Fprintf(&s, "\nfile: %s (%s)", Plainly(f.Path), f.Content)
	}
	return s.String()
}

// Plainly writes characters that a person does not see, or that change how others are shown, as JSON escapes. In JSON it changes no meaning.
func Plainly(s string) string { return EscapeFunc(s, Hidden) }

// Hidden says whether a person does not see a character: one that does not print, a mark that joins or selects, a letter without a shape.
func Hidden(r rune) bool {
	switch r {
	case '\u034F', '\u115F', '\u1160', '\u17B4', '\u17B5', '\u2800', '\u3164', '\uFFA0':
		return true
	}
	return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r)
}

// Ask is a call that an approval is asked for, and the audit event of that.
type Ask struct {
	Approval Approval
	Event    AuditEvent
}

// Asked is how the approval of a call stands.
type Asked struct {
	Approval
	All []Approval // calls of its request, in their order
}

// ErrNotAsked: a call needs an approval and is not among the calls of its answer that were asked about. An answer has
// one request.
var ErrNotAsked = errors.New("no approval was asked for this call")

// InAnswer is what a call must know of the other calls of its answer.
type InAnswer struct {
	Behind []ToolCall // that come after it
	Asked  bool       // something of the answer was asked about before
	Denied string     // the rule by which the approval of an earlier one was denied, or expired; empty: none was
}

// Awaits ends the claim of a turn that cannot go on before an admin has spoken. It is no failure.
type Awaits struct{ Asked Asked }

func (e *Awaits) Error() string {
	a := e.Asked.Approval
	return fmt.Sprintf("approval %d of %s is awaited until %s", a.Request, a.Bound.Tool, a.ExpiresAt.UTC().Format(time.RFC3339))
}

// Resolved refuses to resolve an approval again.
type Resolved struct{ Approval Approval }

func (e *Resolved) Error() string {
	a := e.Approval
	switch {
	case a.State == ApprovalVoid:
		return fmt.Sprintf("approval %d is void: %s", a.Request, a.Reason)
	case a.By == "":
		return fmt.Sprintf("approval %d is %s already", a.Request, a.State)
	}
	return fmt.Sprintf("approval %d is %s already, by %s", a.Request, a.State, a.By)
}

// ParseApprovalID reads the number of an approval as people write it, with or without a "#".
func ParseApprovalID(s string) (int64, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(s, "#"), 10, 64)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("%w: approval %q: want its number", ErrInvalid, s)
	}
	return id, nil
}

// FileChange shows what a call would make of a file, from the bytes that the file had when its approval was asked for.
// It is for people: what a call is held to is [Bound].
type FileChange struct {
	Path    string `json:"path"`              // relative to the workspace
	Before  string `json:"before"`            // as [NamedFile.Content]
	After   string `json:"after,omitempty"`   // as Before, of what the file would become; empty: nobody can tell
	Assumed bool   `json:"assumed,omitempty"` // Before is what earlier calls of the same answer would leave
	Added   int    `json:"added"`             // lines
	Removed int    `json:"removed"`
	// Diff is a unified diff. Each row of it begins with "@@", " ", "-", "+" or, where it is a note, "\". It has no
	// character that a person does not see but tabs.
	Diff string `json:"diff,omitempty"`
	Note string `json:"note,omitempty"` // why there is no diff, or what it leaves out; a sentence
}

// Show is the change as a request shows it: at most limit bytes of the diff, in whole rows. where says how the rest is
// read. Every row of the diff stands behind a bar, so that no text of a file can pass for a part of the request.
func (c FileChange) Show(limit int, where string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "change of %s: %s", Plainly(c.Path), c.summary())
	if c.Assumed {
		b.WriteString(", compared with what earlier calls of this answer would make of the file")
	}
	rows := strings.SplitAfter(c.Diff, "\n")
	shown := 0
	for _, row := range rows {
		if row == "" || shown+len(row) > limit {
			break
		}
		shown += len(row)
		b.WriteString("\n| " + strings.TrimSuffix(row, "\n"))
	}
	if rest := strings.Count(c.Diff[shown:], "\n"); rest > 0 {
		fmt.Fprintf(&b, "\n%d more rows of this diff are not shown here: %s.", rest, where)
	}
	if c.Note != "" {
		b.WriteString("\n" + c.Note)
	}
	return b.String()
}

// Hidden is what a chat is told that may not read the file.
func (c FileChange) Hidden(where string) string {
	return fmt.Sprintf("change of %s: not shown here, because this chat may not read the file; %s.", Plainly(c.Path), where)
}

// summary counts lines.
func (c FileChange) summary() string {
	switch {
	case c.After == "":
		return "unknown"
	case c.After == c.Before:
		return "none"
	case c.After == NoFile:
		return "the file is deleted"
	case c.Added+c.Removed == 0 && c.Diff == "":
		return "the content"
	}
	lines := func(n int) string { return fmt.Sprintf("%d %s", n, cmp.Or(map[int]string{1: "line"}[n], "lines")) }
	if c.Before == NoFile {
		return "a new file of " + lines(c.Added)
	}
	return fmt.Sprintf("%s added, %d removed", lines(c.Added), c.Removed)
}
