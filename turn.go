package corebot

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// ToolCall is a model's request to run a tool. Tool is the internal name, with dots.
type ToolCall struct {
	ID   string          `json:"id"` // the model's own id for the call, which pairs the call with its result
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"` // as the model wrote them; JSON encoding keeps even invalid JSON
}

// storedCall is a ToolCall as JSON. Valid arguments stand as they are; invalid arguments stand as a string beside them.
type storedCall struct {
	ID      string          `json:"id"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args,omitempty"`
	BadArgs string          `json:"badArgs,omitempty"`
}

// MarshalJSON keeps arguments that are not JSON, because the journal records whatever a model wrote.
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

// ToolResult is what the model sees of an ended call.
type ToolResult struct {
	Outcome AuditOutcome `json:"outcome"`
	Content string       `json:"content"`
	Outside bool         `json:"outside,omitempty"` // untrusted: others than the operator can have written it
	Notice  string       `json:"notice,omitempty"`  // what the chat is told in any case, beside the model's answer
	Opens   string       `json:"opens,omitempty"`   // of a denied call: what an operator can do about it
	Denies  string       `json:"denies,omitempty"`  // the rule that denies the answer's remaining calls: see [InAnswer]
	Links   string       `json:"links,omitempty"`   // addresses to which later calls of the turn may go, one a line
	Follows bool         `json:"follows,omitempty"` // the call went to such an address after the turn was tainted
	Job     *JobBudget   `json:"job,omitempty"`     // what the call's job takes out of the turn's budget
	Later   int64        `json:"later,omitempty"`   // the detached request of the call: it has not run, and still can
	Attach  *Part        `json:"attach,omitempty"`  // a file for the reply of the turn
	Ran     bool         `json:"-"`                 // the call reached the tool
}

// Usage counts the tokens of one model answer, or of several answers added up. Estimated marks figures that the
// provider did not give.
type Usage struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens,omitempty"`  // of the input: read from the provider's cache
	CacheWriteTokens int64 `json:"cacheWriteTokens,omitempty"` // of the input: written to the provider's cache
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

// Answer is one whole answer of a model: text, tool calls, or both. If the model call failed or was cut off, only its
// usage is set.
type Answer struct {
	Text   string       `json:"text,omitempty"`
	Calls  []ToolCall   `json:"calls,omitempty"`
	Model  string       `json:"model,omitempty"`
	Usage  Usage        `json:"usage"`
	Failed []ModelUsage `json:"failed,omitempty"` // usage of models that were asked earlier and broke off
	Opaque *Opaque      `json:"opaque,omitempty"`
	Taint  string       `json:"taint,omitempty"` // in the journal: the [Caller.Taint] at the time of the answer
}

// Opaque is data that a provider wants back unchanged with its answer while the turn lasts: the model's signed or
// sealed thoughts before it asked for tools. It is nobody's text. The journal keeps it; nobody is shown it.
type Opaque struct {
	Source string          `json:"source"` // the provider's API and the model; requests to any other leave the data out
	Data   json.RawMessage `json:"data"`
}

// StepKind says what a [Step] records. The values are stored; they never change.
type StepKind string

const (
	StepModel   StepKind = "model"   // an answer of the model that asked for tools
	StepTool    StepKind = "tool"    // a tool call
	StepSummary StepKind = "summary" // a summary of older messages; only model and usage of the answer are kept
	StepFacts   StepKind = "facts"   // facts that were found in older messages; likewise
	StepMerge   StepKind = "merge"   // a message that the turn merged
	// StepTranscript is what somebody says in a recording. The text of the answer has the words, and its model made
	// them. Without a model the text says why there are none.
	StepTranscript StepKind = "transcript"
	StepPart       StepKind = "part" // outbound: the receipt of a send
)

// StepState says how far a [Step] came.
type StepState string

const (
	StepIntended StepState = "intended" // about to run; a crash leaves its outcome unknown
	StepAwaiting StepState = "awaiting" // it runs after an approval: see [Approval]
	StepWaiting  StepState = "waiting"  // its outcome comes later: see [Pending]
	StepDone     StepState = "done"
)

// Step is one journaled action of a run, at a position counted from 0. A resumed turn replays its steps instead of
// repeating them.
type Step struct {
	Position  int
	Kind      StepKind
	State     StepState
	Answer    *Answer     // StepModel, StepSummary, StepFacts and StepTranscript
	Call      *ToolCall   // StepTool
	Result    *ToolResult // StepTool, once done
	Merged    *Merged     // StepMerge
	Sent      *Sent       // StepPart; nil in a step of an earlier version of Corebot
	Awaited   bool        // StepTool: its state was [StepAwaiting] before; not stored
	StartedAt time.Time
	EndedAt   time.Time
}

// Sent is the receipt of a send: the range of the message's text that was sent, in bytes, and the platform's ids of it.
// The next part begins at To.
type Sent struct {
	From int      `json:"from"`
	To   int      `json:"to"`
	IDs  []string `json:"ids,omitempty"` // the platform's own
}

// StepID is the idempotency key of a step: the same in every attempt of a run, and different from every other step's.
func (d Delivery) StepID(position int) string {
	return d.RunID() + "/" + strconv.Itoa(position)
}

// RunID names one run of one message. Replies are RunID/ordinal; notices are RunID/name.
func (d Delivery) RunID() string {
	return d.Message.ID + "/" + strconv.Itoa(d.Run)
}

// Speaker is the author of a [HistoryEntry].
type Speaker string

const (
	SpeakerUser      Speaker = "user"
	SpeakerAssistant Speaker = "assistant"
	SpeakerTool      Speaker = "tool"
)

// HistoryEntry is one row of a chat's history.
type HistoryEntry struct {
	Session int64     `json:"session"`
	Seq     int64     `json:"-"` // the place of its turn in the lane; all entries of a turn have the same
	Speaker Speaker   `json:"speaker"`
	Sender  Principal `json:"sender,omitzero"`     // of a user entry
	Name    string    `json:"senderName,omitzero"` // of a user entry; display only
	Parts   []Part    `json:"-"`                   // see [Content]
	// Metadata is what came with a user entry, as [Metadata.Kept] has it.
	Metadata Metadata   `json:"metadata,omitempty"`
	Calls    []ToolCall `json:"calls,omitempty"`  // of an assistant entry
	CallID   string     `json:"callId,omitempty"` // of a tool entry: the call that it answers
	// Outside is [ToolResult.Outside] of a tool entry. Of an assistant entry, and of a message of another agent, it
	// says that the turn was tainted.
	Outside   bool      `json:"outside,omitempty"`
	MessageID string    `json:"messageId"` // the inbound message of the turn
	At        time.Time `json:"at"`
}

// Result is what a turn leaves behind. It is committed whole with the turn's outcome, or not at all.
type Result struct {
	Outcome Outcome
	History []HistoryEntry
	Replies []Message // outbound; their ids follow [Delivery.RunID]
	Model   string    // the model that gave the final answer; empty: none
	// Spent is usage that no step of the journal counts: the final answer, and model calls that failed or were cut off.
	Spent []ModelUsage

	BeginsSession bool // this turn is the first of a new session
	NewSession    bool // the chat's history begins anew after this turn

	Command AuditEvent // a chat command that was denied, or that changed files; zero: none

	Detached int64 // the request without whose calls the answer came; 0: none

	// Cause is why the message became a dead letter. With a cause, its notice can be grouped with others of the same
	// cause in the same chat; see [DeadNotice].
	Cause string
}

// DeadNotice is one notice about several dead letters of one cause in a chat.
type DeadNotice struct {
	Key   Key
	Cause string // empty: several causes
	Count int    // letters of which the chat has not been told
	RunID string // of the last of them
	Last  string // the id of its message
}

// Head is the message that a conversation works on or waits for.
type Head struct {
	Key    Key
	Life   int64
	Sender Principal
}

// Stopped is the result of a /stop.
type Stopped struct {
	Life      int64 // of the /stop itself
	Duplicate bool  // this /stop was accepted before; nothing changed
	Found     bool  // there was a message to stop
}

// Recollection is what a turn finds of its chat as it begins, beside the history of the session.
type Recollection struct {
	Model       string   // the model that the session asks for; empty: the configured model
	Think       Thinking // how much models think in the session; empty: as configured
	Skills      SkillChoices
	Summary     Summary // of the part of the session that is not shown word for word; zero: none
	Undelivered []Life  // dead replies that no earlier turn was told about, newest first
}

// Summary replaces the older part of a session in the prompts of later turns. The messages that it covers stay in the
// history.
type Summary struct {
	Session int64     `json:"session"`
	Through int64     `json:"-"` // the [HistoryEntry].Seq of the last turn that it covers; 0: there is no summary
	Text    string    `json:"text"`
	Model   string    `json:"model,omitempty"` // the model that wrote it; empty: an extract, made without a model
	At      time.Time `json:"at"`
	From    time.Time `json:"from,omitzero"` // when the first message was said that it covers
	To      time.Time `json:"to,omitzero"`   // and the last
	Sources
}

// SummaryRange selects summaries of a chat: by the numbers of their sessions, and by when their messages were said. A
// zero field bounds nothing.
type SummaryRange struct {
	FirstSession, LastSession int64
	From, To                  time.Time
}

// Sources says whose words a summary is made of, an earlier summary included.
type Sources struct {
	Sender  Principal `json:"sender,omitzero"`   // the first who spoke; zero: nobody did
	Others  bool      `json:"others,omitempty"`  // somebody else has spoken as well, or a sender whom nobody can name
	Outside bool      `json:"outside,omitempty"` // it has entries that are tainted whoever reads them
}

// Add takes a history entry into the sources.
func (s *Sources) Add(e HistoryEntry) {
	s.Outside = s.Outside || e.Outside || e.Posted()
	switch {
	case e.Speaker != SpeakerUser && e.Sender == (Principal{}):
	case s.Sender == (Principal{}):
		s.Sender, s.Others = e.Sender, s.Others || e.Sender.ID == ""
	default:
		s.Others = s.Others || e.Sender != s.Sender
	}
}

// OnlyOf says whether nobody but a principal has spoken.
func (s Sources) OnlyOf(p Principal) bool { return !s.Others && s.Sender == p }

// CleanFor says whether nothing in it can have been written by others than the operator and a principal.
func (s Sources) CleanFor(p Principal) bool { return p.ID != "" && !s.Outside && s.OnlyOf(p) }

// Posted is a reply that waits in a mailbox until a client fetches it. Its cursor names its place. Cursors of one
// conversation rise.
type Posted struct {
	Cursor    int64
	ID        string
	InReplyTo string
	Kind      Kind
	Parts     []Part
	Notice    *Notice // of a notice; nil in one of an earlier version of Corebot
	CreatedAt time.Time
}

// Text joins the texts of the reply with newlines.
func (p Posted) Text() string { return TextOf(p.Parts) }

// postKind is the kind in the ids of messages that [SendMessage] sends: see [OwnID].
const postKind = "sent"

// PostID is the id of a message that a step sends. The id contains the life, which is unique in all conversations. It
// does not contain the id of the turn's message: in the conversation that gets the post, another message can have that
// id.
func (d Delivery) PostID(position int) string { return OwnID(postKind, d.Life, d.Run, position) }

// earlierPost matches the ids of posts by earlier versions of Corebot. A sender could choose such an id, too.
var earlierPost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^sent/[0-9]+/[0-9]+/[0-9]+$`)
})

// Posted says whether a turn of another conversation sent a history entry.
func (e HistoryEntry) Posted() bool {
	own := isOwn(postKind, e.MessageID) || earlierPost().MatchString(e.MessageID)
	return e.Speaker == SpeakerAssistant && own
}

// OfJob says whether a history entry is the result of a job in the background.
func (e HistoryEntry) OfJob() bool {
	return e.Speaker == SpeakerAssistant && isOwn(jobMessages, e.MessageID)
}

// OfTask says whether a history entry is an answer to the message of a due task, such as a heartbeat.
func (e HistoryEntry) OfTask() bool {
	return e.Speaker == SpeakerAssistant && isOwn(taskMessages, e.MessageID)
}

// ClientCall identifies a change that a client asks for outside of any turn, so that a repeated call is recognised.
type ClientCall struct {
	Principal Principal
	Key       string // the client's idempotency key; empty: every call is a new one
	Tool      string
	Args      []byte // JSON, as the client sent them
}

// Said is a history entry with its place. A reader passes the place back to continue with older entries. Only the
// history can interpret a place.
type Said struct {
	HistoryEntry
	Place string
}

// MarshalJSON writes the entry with its place. Without it the entry's own method would write the entry alone.
func (s Said) MarshalJSON() ([]byte, error) {
	entry, err := json.Marshal(s.HistoryEntry)
	if err != nil {
		return nil, err
	}
	place, err := json.Marshal(s.Place)
	if err != nil {
		return nil, err
	}
	return slices.Concat(entry[:len(entry)-1], []byte(`,"place":`), place, []byte("}")), nil
}

// UnmarshalJSON reads what MarshalJSON wrote. An earlier version wrote no place.
func (s *Said) UnmarshalJSON(data []byte) error {
	var placed struct{ Place string }
	if err := json.Unmarshal(data, &placed); err != nil {
		return err
	}
	s.Place = placed.Place
	return s.HistoryEntry.UnmarshalJSON(data)
}
