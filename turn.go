package corebot

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ToolCall is a model's wish to run a tool. Tool is the internal name, with dots.
type ToolCall struct {
	ID   string          `json:"id"` // the model's own id for the call; pairs it with its result
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"` // as the model wrote them: perhaps not JSON at all, which JSON encoding keeps
}

// storedCall is a ToolCall as JSON. Arguments that are JSON stand as they are; others as a string beside them.
type storedCall struct {
	ID      string          `json:"id"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args,omitempty"`
	BadArgs string          `json:"badArgs,omitempty"`
}

// MarshalJSON keeps arguments that are not JSON: what a model wrote is journaled whatever it is.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	stored := storedCall{ID: c.ID, Tool: c.Tool}
	if json.Valid(c.Args) {
		stored.Args = c.Args
	} else {
		stored.BadArgs = string(c.Args)
	}
	return json.Marshal(stored)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	var stored storedCall
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*c = ToolCall{ID: stored.ID, Tool: stored.Tool, Args: stored.Args}
	if stored.Args == nil {
		c.Args = json.RawMessage(stored.BadArgs)
	}
	return nil
}

// ToolResult is what the model sees of a call that ended.
type ToolResult struct {
	Outcome AuditOutcome `json:"outcome"`
	Content string       `json:"content"`
	Outside bool         `json:"outside,omitempty"` // others than the operator may have written what it says
	Notice  string       `json:"notice,omitempty"`  // what the chat is told besides, whatever the model makes of it
	Denies  string       `json:"denies,omitempty"`  // the rule by which the rest of its answer is denied: see [InAnswer]
	Ran     bool         `json:"-"`                 // the tool was called
}

// Usage counts the tokens of one model answer, or of several added up. Estimated marks figures that the provider did not give.
type Usage struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens,omitempty"`  // of the input: what the provider had in its cache
	CacheWriteTokens int64 `json:"cacheWriteTokens,omitempty"` // of the input: what the provider put into its cache
	Estimated        bool  `json:"estimated,omitempty"`
	EstimatedTokens  int64 `json:"estimatedTokens,omitempty"` // of both: how many are estimated
}

// Add sums two usages.
func (u Usage) Add(v Usage) Usage {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.Estimated = u.Estimated || v.Estimated
	u.EstimatedTokens += v.EstimatedTokens
	return u
}

// Answer is one whole answer of a model: text, wishes to call tools, or both. Of a call that failed or was cut off it
// has what the call used.
type Answer struct {
	Text   string     `json:"text,omitempty"`
	Calls  []ToolCall `json:"calls,omitempty"`
	Model  string     `json:"model,omitempty"`
	Usage  Usage      `json:"usage"`
	Failed []Spent    `json:"failed,omitempty"` // by other models that were asked first and broke off
	Opaque *Opaque    `json:"opaque,omitempty"`
	Taint  string     `json:"taint,omitempty"` // of one that is journaled: [Caller.Taint] when it was given
}

// Opaque is what a provider wants to get back, unchanged, with the answer that it came with, as long as the turn lasts: what a model
// thought before it asked for tools, signed or sealed. It is nobody's text: it is kept in the journal and never shown.
type Opaque struct {
	Source string          `json:"source"` // the provider's API and the model; all others leave it out
	Data   json.RawMessage `json:"data"`
}

// StepKind tells what a [Step] recorded. The values are stored; they never change.
type StepKind string

const (
	StepModel   StepKind = "model"   // an answer of the model that asked for tools
	StepTool    StepKind = "tool"    // a tool call
	StepSummary StepKind = "summary" // older messages were summarised; of the answer only model and usage are kept
	StepMerge   StepKind = "merge"   // a message that the turn took in
	StepPart    StepKind = "part"    // outbound: one part of a long reply that was sent
)

// StepState tells how far a [Step] came.
type StepState string

const (
	StepIntended StepState = "intended" // about to run; found after a crash, its outcome is unknown
	StepAwaiting StepState = "awaiting" // it may run when an admin has approved it: see [Approval]
	StepDone     StepState = "done"
)

// Step is one journaled action of a run, at a position counted from 0. A resumed turn replays its steps instead of
// repeating them.
type Step struct {
	Position  int
	Kind      StepKind
	State     StepState
	Answer    *Answer     // StepModel, StepSummary
	Call      *ToolCall   // StepTool
	Result    *ToolResult // StepTool, once done
	Merged    *Merged     // StepMerge
	Sent      *Sent       // StepPart; nil in one that an earlier version of Corebot wrote
	Awaited   bool        // StepTool: it was in [StepAwaiting] before; not stored
	StartedAt time.Time
	EndedAt   time.Time
}

// Sent is the piece of a long message's text that one part of it was made of, in bytes; the next part begins at To.
type Sent struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// StepID is the idempotency key of a step: the same in every attempt of a run, different everywhere else.
func (d Delivery) StepID(position int) string {
	return d.RunID() + "/" + strconv.Itoa(position)
}

// RunID names one run of one message. Replies are RunID/ordinal; notices are RunID/name.
func (d Delivery) RunID() string {
	return d.Message.ID + "/" + strconv.Itoa(d.Run)
}

// Speaker is who said a [HistoryEntry] of the history.
type Speaker string

const (
	SpeakerUser      Speaker = "user"
	SpeakerAssistant Speaker = "assistant"
	SpeakerTool      Speaker = "tool"
)

// HistoryEntry is one row of a chat's history.
type HistoryEntry struct {
	Session   int64      `json:"session"`
	Seq       int64      `json:"-"` // the place of its turn in the lane; the entries of a turn share it
	Speaker   Speaker    `json:"speaker"`
	Sender    Principal  `json:"sender,omitzero"`     // of a user entry
	Name      string     `json:"senderName,omitzero"` // of a user entry; display only
	Text      string     `json:"text"`
	Calls     []ToolCall `json:"calls,omitempty"`   // of an assistant entry
	CallID    string     `json:"callId,omitempty"`  // of a tool entry: the call that it answers
	Outside   bool       `json:"outside,omitempty"` // of a tool entry: [ToolResult.Outside]; of an assistant entry: the turn was tainted
	MessageID string     `json:"messageId"`         // the inbound message of the turn
	At        time.Time  `json:"at"`
}

// Result is what a turn leaves behind. It is committed whole with the turn's outcome, or not at all.
type Result struct {
	Outcome Outcome
	History []HistoryEntry
	Replies []Message // outbound, ids as in [Delivery.RunID]
	Model   string    // that gave the final answer; empty: none did
	Spent   []Spent   // by model calls that no step of the journal counts: the final answer, and calls that failed or were cut off

	BeginsSession bool // this turn is the first of a new session
	NewSession    bool // the chat's history begins anew after this turn

	Denied AuditEvent // of a chat command that was refused; zero: none was
}

// Stopped says what a /stop met.
type Stopped struct {
	Life      int64 // of the /stop itself
	Duplicate bool  // this /stop was accepted before; nothing changed
	Found     bool  // there was a message to stop
}

// Recollection is what a turn finds of its chat as it begins, beside what was said in the session.
type Recollection struct {
	Model       string  // that the session asks for; empty: the configured one
	Summary     Summary // of the part of the session that is not shown word for word; the zero Summary if there is none
	Undelivered []Life  // replies that were given up and that no turn before has heard of, newest first
}

// Summary stands for the older part of a session in the prompts of its later turns. The messages that it covers stay in the history.
type Summary struct {
	Session int64     `json:"session"`
	Through int64     `json:"-"` // the place in the lane ([HistoryEntry].Seq) of the last turn that it covers, with all before it; 0: there is no summary
	Text    string    `json:"text"`
	Model   string    `json:"model,omitempty"` // who wrote it; empty: an extract, made without a model
	At      time.Time `json:"at"`
}

// Posted is a reply that waits in a mailbox to be fetched, at a place that its cursor names. Cursors of one conversation rise.
type Posted struct {
	Cursor    int64
	ID        string
	InReplyTo string
	Kind      Kind
	Content   string
	CreatedAt time.Time
}

// postKind is the kind of the ids of messages that [SendMessage] sends: see [OwnID].
const postKind = "sent"

// PostID is the id of a message that a step sends. It names the life, which is one in all conversations, and not the message of the turn, whose
// id may be that of another in the conversation that the post goes to.
func (d Delivery) PostID(position int) string { return OwnID(postKind, d.Life, d.Run, position) }

// earlierPost is how earlier versions of Corebot spelled the id of a post, which a sender could spell, too.
var earlierPost = regexp.MustCompile(`^sent/[0-9]+/[0-9]+/[0-9]+$`)

// Posted says of an entry of the history that it was sent there by a turn of another conversation.
func (e HistoryEntry) Posted() bool {
	own := strings.HasPrefix(e.MessageID, OwnIDs+postKind+"/") || earlierPost.MatchString(e.MessageID)
	return e.Speaker == SpeakerAssistant && own
}

// ClientCall names a change that a client asks for outside of any turn by what it would be repeated with.
type ClientCall struct {
	Principal Principal
	Key       string // the client's idempotency key; empty: each call is another
	Tool      string
	Args      []byte // JSON, as they came
}

// Said is an entry of the history with its place, from which older ones can be read on. A place means something to the history alone.
type Said struct {
	HistoryEntry
	Place string
}
