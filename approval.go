package corebot

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	ApprovalExpired  ApprovalState = "expired" // no decision came in time
	ApprovalVoid     ApprovalState = "void"    // the call was approved and then never made: see [Approval.Reason]
)

// AwaitingApproval is the reason of a lane whose head waits for an approval. The message keeps its place and holds no
// worker.
const AwaitingApproval = "approval"

// Approval is one tool call that runs only after an admin has approved it. An approval is resolved once. All calls of
// one model answer that need a decision form one request: they are shown and resolved together.
type Approval struct {
	ID         int64
	Request    int64  // the ID of the request's first call, by which people name the request
	Calls      int    // how many calls the request has
	Position   int    // of the call's step in the journal
	Answer     int    // the position of the first call of the same answer
	Beyond     bool   // the call reaches beyond its chat, and only an admin everywhere may approve it
	Life       int64  // of the message whose turn makes the call
	MessageID  string // of the same message
	AskedBy    int64  // of a detached request: the life of the message whose turn has asked; 0: the request is attached
	Key        Key
	Principal  Principal // who acts
	Bound      Bound
	Rule       string     // the rule that requires an approval, as the audit names it
	Taint      string     // which untrusted text the turn had read, in words; empty: none
	Change     FileChange // how the call would change a file; zero: no change is known
	Round      int        // how many earlier requests for this call were void because something had changed
	Binding    Binding    // what an answer for longer than once would let run; zero: nothing
	Unbound    string     // why Binding is zero, in words
	Lapsed     string     // why a rule that answered for such calls does so no longer, in words
	Declarable bool       // the request tells that the operator can declare that the tool only reads: see [WayOut]
	Session    int64      // of the chat, in which the call is made; 0: in none
	Instead    int64      // the ID of the earlier request, which is void now; 0: this request is the first
	Because    string     // what has changed since the earlier request, in words
	State      ApprovalState
	Ran        bool   // the call was begun
	Reason     string // why the approval is void, or was given up, in words
	CreatedAt  time.Time
	ExpiresAt  time.Time
	ResolvedAt time.Time // zero while it is awaited
	By         string    // who resolved it: a principal's spelling or "operator"; empty: nobody did
}

// Bound is everything that an approval covers. A call that differs in any field is another call and needs another
// approval.
type Bound struct {
	Tool       string
	Definition string          // the fingerprint of the MCP server's description; empty: Corebot's own tool
	Args       json.RawMessage // as the model wrote them, without white space between their parts
	Dir        string          // the directory that the call works in, relative to the workspace
	Files      []NamedFile     // the files that the call names; an entry for Dir stands for everything in it
}

// NamedFile is a file of the workspace that a call names, or the directory that it works in.
type NamedFile struct {
	Path string `json:"path"`
	// Content is "sha256:" and the hash of a file, or [NoFile] or [NoContent]. For a directory it is the number of
	// files at any depth and a hash over all of them.
	Content string `json:"content"`
}

// Values of [NamedFile.Content] for a file without content.
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

// Digest is the SHA-256 of the exact call: calls that differ in any field have different digests. The journal escapes
// some characters of the arguments in another way. The meaning is the same, and so is the digest.
func (b Bound) Digest() [sha256.Size]byte {
	args, err := json.Marshal(b.Args)
	if err != nil {
		args = b.Args
	}
	fields := []string{b.Tool, string(args), b.Dir}
	for _, f := range b.Files {
		fields = append(fields, f.Path, f.Content)
	}
	if b.Definition != "" { // files add two fields each, so a single field more can only be the definition
		fields = append(fields, b.Definition)
	}
	var buf []byte
	for _, s := range fields {
		buf = appendString(buf, s)
	}
	return sha256.Sum256(buf)
}

// Drift says in words what has changed since the approval; empty means nothing.
func (b Bound) Drift(now Bound) string {
	if b.Digest() == now.Digest() {
		return ""
	}
	for _, f := range now.Files {
		if i := slices.IndexFunc(b.Files, func(was NamedFile) bool { return was.Path == f.Path }); i >= 0 &&
			b.Files[i] != f {
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
	case bytes.Equal(b.Args, now.Args) && len(now.Files) != len(b.Files):
		return "a file that the call names has come or gone"
	}
	return "the call is another"
}

// named is how a person calls a file or the directory.
func (b Bound) named(f NamedFile) string {
	if f.Path == b.Dir {
		return "what is in the directory " + f.Path
	}
	return f.Path
}

// String shows the whole call, untruncated. Every character that a person cannot see is written out, so the call that
// is read is the call that runs.
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

// Plainly writes characters that a person cannot see, or that change how other characters are shown, as JSON escapes.
// In JSON the escapes keep the meaning.
func Plainly(s string) string { return EscapeFunc(s, Hidden) }

// Hidden says whether a person cannot see a character: it does not print, it joins or selects, or it is a letter
// without a shape.
func Hidden(r rune) bool {
	switch r {
	case '\u034F', '\u115F', '\u1160', '\u17B4', '\u17B5', '\u2800', '\u3164', '\uFFA0':
		return true
	}
	return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r)
}

// Detached says whether the answer has come without the calls of the request.
func (a Approval) Detached() bool { return a.AskedBy != 0 }

// NewApproval is a request for the approval of one call, with its audit event.
type NewApproval struct {
	Approval    Approval
	Event       AuditEvent
	Opens       bool          // as [Caller.Opens]
	Apart       bool          // as [Caller.Apart]
	AnswerAfter time.Duration // how long the answer waits for the approval before it comes without the call; 0: always
}

// ApprovalRequest is the approval of a call with its whole request.
type ApprovalRequest struct {
	Approval
	All   []Approval // calls of its request, in their order
	Until time.Time  // when the turn looks again, at the latest
}

// ErrNotAsked means that a call needs an approval, but the request of its answer did not include the call. An answer
// has one request.
var ErrNotAsked = errors.New("no approval was asked for this call")

// MaxRefusals is how many requests of one message can be denied or expire. Behind that many nobody is asked any more:
// a page that makes the model ask again and again holds its chat no longer.
const MaxRefusals = 3

// ErrAskedEnough means that [MaxRefusals] requests of a message were denied or expired.
var ErrAskedEnough = errors.New("nobody is asked for another approval of this message")

// ErrAskedBefore means that a request of the message is detached. No other one is asked for.
var ErrAskedBefore = errors.New("the message has a detached request, and asks for no other approval")

// InAnswer is what a call must know about the other calls of its answer.
type InAnswer struct {
	Behind []ToolCall // the calls after this call
	Asked  bool       // a call of the answer was in a request before
	Denied string     // the rule by which the approval of an earlier call was denied or expired; empty: none was
	// Addresses are those to which a call can carry no secret; nil: none is known.
	Addresses Addresses
	// Attaches is how many more files the reply of the turn takes. A turn whose answer goes to no chat takes none.
	Attaches int
}

// Addresses says whether a turn knows an address of the web from its principal's words or from a link, and whether it
// follows a link by going there.
type Addresses interface {
	Knows(address string) (known, follows bool)
}

// AwaitsApproval ends the claim of a turn that waits for an approval. It is no failure.
type AwaitsApproval struct{ Asked ApprovalRequest }

func (e *AwaitsApproval) Error() string {
	a := e.Asked.Approval
	return fmt.Sprintf("approval %d of %s is awaited until %s", a.Request, a.Bound.Tool,
		a.ExpiresAt.UTC().Format(time.RFC3339))
}

// Resolved is the error for a second attempt to resolve an approval.
type Resolved struct{ Approval Approval }

func (e *Resolved) Error() string {
	a := e.Approval
	switch {
	case a.State == ApprovalVoid:
		return fmt.Sprintf("approval %d is void: %s", a.Request, a.Reason)
	case a.State == ApprovalExpired && a.Reason != "":
		return fmt.Sprintf("approval %d was given up: %s", a.Request, a.Reason)
	case a.State == ApprovalExpired:
		return fmt.Sprintf("approval %d has expired: nobody answered in time, and the call did not run", a.Request)
	case a.By == "":
		return fmt.Sprintf("approval %d is %s already", a.Request, a.State)
	}
	return fmt.Sprintf("approval %d is %s already, by %s", a.Request, a.State, a.By)
}

// ParseApprovalID reads the number of an approval as people write it, with or without a "#".
func ParseApprovalID(s string) (int64, error) { return writtenNumber("approval", s) }

// FileChange shows what a call would make of a file. It starts from the bytes that the file had when the approval was
// requested. A FileChange only informs people; [Bound] decides whether the call may run.
type FileChange struct {
	Path   string `json:"path"`            // in the workspace, or absolute
	From   string `json:"from,omitempty"`  // likewise: the file that moves to Path
	Before string `json:"before"`          // as [NamedFile.Content]
	After  string `json:"after,omitempty"` // as Before, for the file after the call; empty: unknown
	// Replaces says that a file that moves takes the place of another one.
	Replaces bool `json:"replaces,omitempty"`
	Assumed  bool `json:"assumed,omitempty"` // Before is the file as earlier calls of the same answer would leave it
	Added    int  `json:"added"`             // lines
	Removed  int  `json:"removed"`
	// Diff is a unified diff. Each row begins with "@@", " ", "-", "+" or, if the row is a note, "\". Tabs are the only
	// characters in it that a person cannot see.
	Diff string `json:"diff,omitempty"`
	Note string `json:"note,omitempty"` // why there is no diff, or what it leaves out; a sentence
}

// Show is the text of the change in a request: at most limit bytes of the diff, in whole rows. The text where tells the
// reader how to see the rest. Every row of the diff stands behind a bar, so that no text of a file looks like a part of
// the request.
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

// Hidden is the text for a chat that may not read the file.
func (c FileChange) Hidden(where string) string {
	return fmt.Sprintf("change of %s: not shown here, because this chat may not read the file; %s.", Plainly(c.Path),
		where)
}

func (c FileChange) summary() string {
	switch {
	case c.From != "" && c.Replaces:
		return "replaced by " + Plainly(c.From) + ", which leaves its place"
	case c.From != "":
		return "moved here from " + Plainly(c.From)
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

// FileVersion is a change that a turn makes of a file, with what it takes to undo the change.
type FileVersion struct {
	ID        int64
	Key       Key
	MessageID string    // of the turn
	Principal Principal // of the turn
	Path      string    // in the workspace, or absolute
	From      string    // of a move: the path that is left
	Made      string    // the topmost directory that the change makes; empty: none
	Before    string    // what is at Path before, as [NamedFile.Content]
	After     string    // what is there after it
	Data      []byte    // the content that Before stands for
	Mode      uint32    // the rights of that file; 0: not known
	Lost      bool      // the content was too large to be kept
	Authored  Authored
}

// Authored says what of a change of a file nobody but its principal can have had a hand in: an untainted turn of his
// alone decided on it.
type Authored int8

// The stored numbers never change.
const (
	AuthoredNothing Authored = iota
	AuthoredPath             // the path
	AuthoredContent          // the path, and the whole content after the change
)

// VersionLimits bound what is kept of changes of files. Zero PerChat keeps nothing.
type VersionLimits struct {
	PerChat int   // changes of a chat, the newest
	Bytes   int64 // of all chats together
}
