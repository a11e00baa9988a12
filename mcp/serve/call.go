package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/outside"
	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/tools"
)

// Backend carries out what clients ask a [Server] for. Its errors are trouble that is no answer, such as a store that
// is closed.
type Backend interface {
	// Tools are all tools that there are, each with whether it is offered now.
	Tools(ctx context.Context) ([]Tool, error)
	// Call runs one. When ctx ends a wait ends, and nothing else.
	Call(ctx context.Context, c Call) (Result, error)
}

// Call is a call of a tool.
type Call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"`
	Key  string          `json:"key,omitempty"` // the caller's idempotency key; empty: each call is another
}

// Result is what a client gets.
type Result struct {
	Text       string          `json:"text"`
	Structured json.RawMessage `json:"structured,omitempty"` // one JSON object, of a tool that has one and did not fail
	Failed     bool            `json:"failed,omitempty"`     // the text says why
}

// maxKey is the longest idempotency key, in bytes.
const maxKey = corebot.MaxKeyField

// Tools implements [Backend].
func (s *Service) Tools(ctx context.Context) ([]Tool, error) {
	offered, err := s.box.Offer(ctx, s.caller(nil))
	if err != nil {
		return nil, fmt.Errorf("read what is offered to %s: %w", s.principal(), err)
	}
	visible := map[string]bool{}
	for _, t := range offered {
		visible[t.Name] = true
	}
	all := make([]Tool, len(s.catalog))
	for i, t := range s.catalog {
		t.Offered = visible[t.internal]
		all[i] = t
	}
	return all, nil
}

// Call implements [Backend].
func (s *Service) Call(ctx context.Context, c Call) (Result, error) {
	if len(c.Key) > maxKey {
		return s.refuse(ctx, c, fmt.Sprintf("the idempotency key has %d bytes, the limit is %d", len(c.Key), maxKey))
	}
	if len(c.Args) == 0 || string(c.Args) == "null" {
		c.Args = json.RawMessage("{}")
	}
	for _, t := range s.catalog {
		if t.Name != c.Tool && t.internal != c.Tool {
			continue
		}
		if name := t.emptyOf(c.Args); name != "" {
			return s.refuse(ctx, c, name+" is empty: write a value, or leave it out")
		}
	}
	began := time.Now()
	step := s.newStep(c)
	r, err := s.box.Call(ctx, s.caller(c.Args), corebot.ToolCall{Tool: c.Tool, Args: c.Args}, step)
	if err != nil {
		s.metrics.count(interrupted, time.Since(began))
		return Result{}, err
	}
	s.metrics.count(string(r.Outcome), time.Since(began))
	if r.Outcome != corebot.OutcomeSuccess {
		return Result{Text: r.Content, Failed: true}, nil
	}
	return Result{Text: r.Content, Structured: structured(r.Content, s.lines[c.Tool])}, nil
}

// structured is a result as an object: the one that it is, or the objects that its lines are. Text is none.
func structured(content string, lines bool) json.RawMessage {
	text := bytes.TrimSpace([]byte(outside.Unmarked(content)))
	switch {
	case !lines && isObject(text):
		return text
	case !lines:
		return nil
	}
	items := []json.RawMessage{}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); isObject(line) {
			items = append(items, line)
		}
	}
	object, err := json.Marshal(itemPage[json.RawMessage]{items})
	if err != nil {
		return nil
	}
	return object
}

// itemPage is the result of a tool that says one object a line.
type itemPage[T any] struct {
	Items []T `json:"items"`
}

func isObject(text []byte) bool { return len(text) > 0 && text[0] == '{' && json.Valid(text) }

// step is the journal's place of a call that no turn makes. There is no journal: the decision and the result are rows
// of the audit, and the idempotency key makes the call repeatable.
type step struct {
	*Service
	id   string
	call corebot.ClientCall
}

var _ tools.Step = (*step)(nil)

// errNoTurn ends a call that would wait. It does not come to that: a box without approvers denies a call that needs an
// approval before, and no tool of clients waits for anything else.
var errNoTurn = errors.New("a call of an MCP client cannot wait")

// stepPrefix begins the ids of steps, and of messages whose client gave them none.
const stepPrefix = "mcp/"

func (s *Service) newStep(c Call) *step {
	id := stepPrefix + uuid.Must(uuid.NewV7()).String()
	if c.Key != "" { // the same call has the same id
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %s", s.principal(), c.Key))
		id = stepPrefix + hex.EncodeToString(sum[:16])
	}
	return &step{s, id, corebot.ClientCall{Principal: s.principal(), Key: c.Key, Tool: c.Tool, Args: c.Args}}
}

// ID implements [tools.Step].
func (s *step) ID() string { return s.id }

// State implements [tools.Step]: whether an earlier call came through, the bus and the store know by its key.
func (s *step) State() corebot.StepState { return "" }

// Intend implements [tools.Step].
func (s *step) Intend(ctx context.Context, e corebot.AuditEvent) error {
	return s.store.Trail.Note(ctx, e)
}

// Finish implements [tools.Step].
func (s *step) Finish(ctx context.Context, _ corebot.ToolResult, e corebot.AuditEvent) error {
	return s.store.Trail.Note(ctx, e)
}

// Apply implements [tools.Step].
func (s *step) Apply(ctx context.Context, effect corebot.Effect, _ corebot.ToolResult, e corebot.AuditEvent) error {
	return s.store.Changes.Apply(ctx, s.call, effect, e)
}

// InAnswer implements [tools.Step].
func (s *step) InAnswer() corebot.InAnswer { return corebot.InAnswer{} }

// Ask implements [tools.Step].
func (s *step) Ask(context.Context, []corebot.NewApproval) (corebot.ApprovalRequest, error) {
	return corebot.ApprovalRequest{}, errNoTurn
}

// Wait implements [tools.Step].
func (s *step) Wait(_ context.Context, w corebot.Pending, _ corebot.AuditEvent) (corebot.Pending, error) {
	if w.Kind == "" { // the call has none
		return corebot.Pending{}, nil
	}
	return corebot.Pending{}, &corebot.Refused{Err: errNoTurn}
}

// fit makes a text that others wrote fit for a result: visible characters, no secrets, no tokens of chat templates, and
// at most max bytes. Secrets go before the cut: half of one would not be known.
func (s *Service) fit(text string, max int) (shown string, truncated bool) {
	text = outside.Text(s.opts.Redactor.Text(redact.Visible(text)))
	if len(text) <= max {
		return text, false
	}
	return runes.Head(text, max), true
}

// shown is content as a client reads it: its text, and a line for each file, since no client can fetch a file here. The
// files get up to half of the bytes, so that a text that is cut off leaves them their names.
func (s *Service) shown(parts []corebot.Part, max int) (text string, truncated bool) {
	files := corebot.Attachments(parts)
	if len(files) == 0 {
		return s.fit(corebot.TextOf(parts), max)
	}
	lines := make([]string, len(files))
	for i, p := range files {
		lines[i] = channels.Named(p, "cannot be shown here")
	}
	notes, cut := s.fit(strings.Join(lines, "\n"), max/2)
	text, truncated = s.fit(corebot.TextOf(parts), max-len(notes)-1)
	if text != "" {
		text += "\n"
	}
	return text + notes, truncated || cut
}

// encode writes a result as one line of JSON. The line stays JSON when secrets are taken out of it as of any text.
// Where that would swallow the escape of a quote, quotes and backslashes are written without such escapes.
func (s *Service) encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", fmt.Errorf("encode the result: %w", err)
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if !json.Valid([]byte(s.opts.Redactor.Text(text))) {
		text = strings.NewReplacer(`\"`, `\u0022`, `\\`, `\u005c`).Replace(text)
	}
	return text, nil
}

const (
	refusedName = 128     // bytes of a made-up tool's name in the row of a refused call
	refusedArgs = 8 << 10 // bytes of its arguments there
)

// refuse ends a call that does not come as far as its tool. Like every other it is counted and leaves its row.
func (s *Service) refuse(ctx context.Context, c Call, why string) (Result, error) {
	who, began := s.caller(c.Args), time.Now()
	role, err := s.store.Roles.RoleOf(ctx, who.Principal, who.Key)
	if err != nil {
		return Result{}, fmt.Errorf("read the role of %s: %w", who.Principal, err)
	}
	err = s.store.Trail.Note(ctx, corebot.AuditEvent{
		At: began, Event: "tool.result", Tool: s.nameInAudit(c.Tool), Key: who.Key, Principal: who.Principal,
		Role:  role,
		Entry: who.Entry.AuditName(), Outcome: corebot.OutcomeInvalidArgs, Args: s.opts.Redactor.Args(c.Args,
			refusedArgs),
	})
	if err != nil {
		return Result{}, fmt.Errorf("note a refused call of %s: %w", who.Principal, err)
	}
	s.metrics.count(string(corebot.OutcomeInvalidArgs), time.Since(began))
	return Result{Text: "invalid_args: " + why, Failed: true}, nil
}

// nameInAudit is a tool's name as the rows of other calls have it.
func (s *Service) nameInAudit(tool string) string {
	for _, t := range s.catalog {
		if t.Name == tool {
			return t.internal
		}
	}
	return strings.ToValidUTF8(tool[:min(len(tool), refusedName)], "\uFFFD")
}
