package corebot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// EntryKind names how a turn began, or how a change outside of a turn was made. The words are stored in the audit; they
// never change.
type EntryKind string

// How turns begin.
const (
	EntryDirect EntryKind = "direct" // somebody sent its message
	EntryReplay EntryKind = "replay" // its message was a dead letter and was replayed
	EntrySteer  EntryKind = "steer"  // somebody other than its sender has steered it: see [Caller.Others]
	EntryTask   EntryKind = "task"   // a scheduled task was due
	EntryAgent  EntryKind = "agent"  // the turn of another agent asked for it
	EntryEvent  EntryKind = "event"  // a file in the directory of events asked for it
	EntryJob    EntryKind = "job"    // a turn of the same agent asked for it: see [Job]
	// EntryApproval: an approval came after the answer of an earlier turn. See [Detached].
	EntryApproval EntryKind = "approval"
)

// How changes outside of turns are made.
const (
	EntryClient    EntryKind = "mcp.serve" // an MCP client called a tool
	EntryCommand   EntryKind = "command"   // a chat command acted at once
	EntryInterrupt EntryKind = "interrupt" // a newer prompt stopped a turn
	EntryDoor      EntryKind = "door"      // the front door refused a sender
	EntryOperator  EntryKind = "operator"  // the operator gave a command on the machine
	EntryServers   EntryKind = "mcp"       // the tools of an MCP server changed
	EntryWord      EntryKind = "word"      // a program gave a word for which a turn waits, by the key of the wait
	EntryToken     EntryKind = "api"       // a program used the HTTP API with a token
	EntryConsole   EntryKind = "console"   // the owner of the home used the console
	EntryItself    EntryKind = "corebot"   // Corebot itself, such as when an approval expired
)

// Entry says how a message came in, and so how its turn or its chat command began. The zero Entry is a message that a
// program sent.
type Entry struct {
	Kind   EntryKind // how it began; empty: EntryDirect
	Since  EntryKind // what the turn has become since: EntryReplay, EntrySteer, or empty
	Person bool      // a person wrote the message at this moment: at a terminal, in the console or in a chat
	From   Key       // of a task, an event, an agent or a job: the conversation of its maker; zero: none
}

// AuditName is what the audit trail calls an entry.
func (e Entry) AuditName() EntryKind {
	switch {
	case e.Since != "":
		return e.Since
	case e.Kind != "":
		return e.Kind
	}
	return EntryDirect
}

// Interactive says whether a person stands behind the entry at this moment. Only an interactive entry can approve a
// call. A task, an event file, another agent and an MCP client never can, whatever their messages say about a person.
func (e Entry) Interactive() bool {
	return e.Person && e.AuditName() == EntryDirect
}

// Caller says for whom a turn, or a call of an MCP client, runs.
type Caller struct {
	Key       Key       // the conversation
	Principal Principal // who acts; the role is looked up at each call
	Entry     Entry     // how the turn came about
	MessageID string
	Others    []Principal // senders whose text the turn merged; the lowest role of all of them counts
	// Taint names the untrusted text that the turn has read: text that others than the operator and the principal can
	// have written. Empty: none.
	Taint string
	// Overheard says that others than the principal read the answer. They have spoken in the session of the turn, or a
	// program or another agent waits for the answer.
	Overheard bool
	Group     bool // a message of a group began the turn
	Opens     bool // the turn begins the next session of the chat
	Apart     bool // the turn stands outside of the chat's sessions
	Chain     int  // tasks in a row, each made by a run of the one before, of which the turn is the last run; 0: none

	Depth int      // child turns inside one another, this one included; 0: no child turn
	Tools []string // of a child turn: it has no others; nil: all that the policy lets it have
	// Narrow says that a call has chosen Tools among those of its turn. Work that the turn causes has no others
	// either: a task, a question to another agent and its answer.
	Narrow bool
	Left   JobBudget // for the child turns of the turn
	// Offered are the tools that the model of the turn was shown for this call.
	Offered []string
}

// Caller says for whom the turn of a delivery runs: the sender of its message. For a task and an event file the sender
// is their maker; for an agent it is the principal of the turn that asks. A turn is never interactive, because its
// message had to wait: it is nobody's act of this moment.
func (d Delivery) Caller() Caller {
	m := d.Message
	e := m.Entry
	e.Person = false
	if d.Run > 1 {
		e.Since = EntryReplay
	}
	c := Caller{Key: m.Key.Acts(), Principal: m.Sender, Entry: e, MessageID: m.ID, Group: m.Envelope.Group}
	if r := m.Relay; r != nil {
		c.Entry.Kind, c.Entry.From = EntryAgent, r.origin()
		c.Others, c.Taint = slices.Clone(r.Others), r.Taint
		c.Tools, c.Narrow, c.Chain = slices.Clone(r.Tools), r.Tools != nil, r.Chain
	}
	if e := m.Errand; e != nil {
		c.Entry.Kind, c.Entry.From = EntryTask, e.From
		c.Others, c.Taint, c.Chain = slices.Clone(e.Others), e.Taint, e.Chain
		c.Group = e.Group
		c.Tools, c.Narrow = slices.Clone(e.Tools), e.Tools != nil
	}
	if j := m.Child; j != nil {
		c.Entry.Kind, c.Entry.From = EntryJob, j.From
		c.Others, c.Taint, c.Chain = slices.Clone(j.Others), j.Taint, j.Chain
		c.Group, c.Overheard = j.Group, j.Overheard
		c.Depth, c.Tools, c.Narrow = j.Depth, slices.Clone(j.Tools), !j.Whole
	}
	if x := m.Detached; x != nil {
		c.Entry.Kind, c.Taint = EntryApproval, x.Taint
	}
	return c
}

// Within is the tools that what the turn causes can have at most; nil: all that the policy lets it have.
func (c Caller) Within() []string {
	if !c.Narrow {
		return nil
	}
	return append([]string{}, c.Tools...)
}

// AddSpeaker adds a principal whose text the turn merges. It reports whether the principal is new to the turn.
func (c *Caller) AddSpeaker(p Principal) bool {
	if p == c.Principal || slices.Contains(c.Others, p) {
		return false
	}
	c.Others, c.Entry.Since = append(c.Others, p), EntrySteer
	return true
}

// Results is the conversation that gets the turn's notices. It also gets the replies, unless an agent waits for them.
// It is the turn's own conversation. For a question between agents and for a job it is the conversation that began
// them. See [Delivery.Answer].
func (c Caller) Results() Key {
	if (c.Entry.Kind == EntryAgent || c.Entry.Kind == EntryJob) && c.Entry.From != (Key{}) {
		return c.Entry.From
	}
	return c.Key
}

// Approvals lists the conversations that are shown a request for an approval: the conversation of the results, the
// maker's conversation, and the admins' chat if there is one. A call of an MCP client has none: there is no turn that
// could wait.
func (c Caller) Approvals(admins Key) []Key {
	if c.Entry.Kind == EntryClient {
		return nil
	}
	var all []Key
	for _, k := range []Key{c.Results(), c.Entry.From, admins} {
		if k != (Key{}) && !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return all
}

// AgentChannel is the channel of conversations between agents. No network is behind it: nobody but an agent writes
// there.
const AgentChannel = "agent"

// MaxHops is how many messages agents can send one another in a row, counted from the message of a person. An answer
// counts, and is sent all the same: what it leads to can ask nobody any more.
const MaxHops = 4

// ErrTooManyHops refuses a question that would be one message more than [MaxHops].
var ErrTooManyHops = fmt.Errorf("%w: agents can send one another %d messages in a row", ErrInvalid, MaxHops)

// ErrAsksItself refuses a question of an agent to itself.
var ErrAsksItself = fmt.Errorf("%w: an agent cannot ask itself", ErrInvalid)

// Relay is what a message between agents carries beside its text. It is stored with the message, so that a replay, an
// edit and a restart keep it. No sender can write one.
type Relay struct {
	Agent  string `json:"agent"`            // who wrote the message
	Answer bool   `json:"answer,omitempty"` // it answers a question of the agent that gets it
	Hops   int    `json:"hops"`             // messages between agents in a row, this one included
	// Back is the way back to the conversation with whoever began: the turn's answer goes to the last of them. It is
	// empty for an answer that has come there.
	Back   []Key       `json:"back,omitempty"`
	Taint  string      `json:"taint,omitempty"`  // [Caller.Taint] of the turn that wrote it
	Others []Principal `json:"others,omitempty"` // [Caller.Others] of that turn
	Job    int64       `json:"job,omitempty"`    // of a question: a call waits for the answer, as a [Job]
	Tools  []string    `json:"tools,omitzero"`   // [Caller.Within] of that turn
	Chain  int         `json:"chain,omitempty"`  // [Caller.Chain] of that turn
}

// origin is the conversation with whoever began; zero: the one that has the message.
func (r *Relay) origin() (k Key) {
	if len(r.Back) > 0 {
		k = r.Back[0]
	}
	return k
}

// relayed is the kind of the ids of messages between agents: see [OwnID].
const relayed = "agent"

// Question is a message of the delivery's turn to another agent, from the step at a position. It speaks for the caller,
// with his role of each moment, and has the taint of the turn.
func (d Delivery) Question(position int, c Caller, agent, text string) (Message, error) {
	r := Relay{
		Agent: c.Key.Agent, Hops: 1, Taint: c.Taint, Others: slices.Clone(c.Others), Tools: c.Within(), Chain: c.Chain,
	}
	if was := d.Message.Relay; was != nil {
		r.Hops, r.Back = was.Hops+1, slices.Clone(was.Back)
	}
	if was := d.Message.Child; was != nil {
		r.Hops, r.Back = was.Hops+1, slices.Clone(was.Back)
	}
	r.Back = append(r.Back, c.Key)
	switch {
	case agent == c.Key.Agent:
		return Message{}, ErrAsksItself
	case r.Hops > MaxHops:
		return Message{}, WithHint(ErrTooManyHops, "answer with what you have")
	}
	return r.message(OwnID(relayed, d.Life, d.Run, position), AskedFrom(c.Key, agent), c.Principal, text), nil
}

// Answer is the answer of the delivery's turn to the agent that asked. ok is false for a turn that no agent waits for.
// It is also false where a call waits for the answer: see [Outcome].Says.
func (d Delivery) Answer(c Caller, text string) (m Message, ok bool) {
	was := d.Message.Relay
	if was == nil || len(was.Back) == 0 || was.Job != 0 {
		return m, false
	}
	last := len(was.Back) - 1
	r := Relay{
		Agent: c.Key.Agent, Answer: true, Hops: was.Hops + 1, Back: slices.Clone(was.Back[:last]),
		Taint: c.Taint, Others: slices.Clone(c.Others), Tools: c.Within(), Chain: c.Chain,
	}
	return r.message(OwnID(relayed, d.Life, d.Run, "answer"), was.Back[last], c.Principal, text), true
}

func (r Relay) message(id string, to Key, by Principal, text string) Message {
	return Message{
		ID: id, Direction: Inbound, Key: to, Kind: KindPrompt, Sender: by, SenderName: "agent " + r.Agent,
		Parts: TextPart(text), Relay: &r,
	}
}

// AskedFrom is the conversation in which an agent gets what is asked from a conversation.
func AskedFrom(k Key, agent string) Key {
	return Key{Agent: agent, Channel: AgentChannel, Chat: agentChat(k)}
}

// agentChat names the conversation that another agent has with the agent of a conversation: the same one for all that
// is asked from there.
func agentChat(k Key) string {
	name := k.String()
	if len(name) > MaxKeyField {
		name = fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(name)))
	}
	return name
}

// Trace names the step of a distributed trace that caused something, as W3C Trace Context does. The zero Trace names
// none.
type Trace struct {
	ID      [16]byte
	Span    [8]byte
	Sampled bool // whoever began the trace records it
}

// IsZero says that there is no trace.
func (t Trace) IsZero() bool { return t.ID == [16]byte{} || t.Span == [8]byte{} }

// IDText is the id of the trace as logs and trace viewers write it.
func (t Trace) IDText() string { return hex.EncodeToString(t.ID[:]) }

const (
	traceparentLen = len("00-") + 32 + len("-") + 16 + len("-01")
	flagSampled    = 1
)

// Traceparent is the trace as a value of the HTTP header traceparent.
func (t Trace) Traceparent() string {
	buf := append(make([]byte, 0, traceparentLen), "00-"...)
	buf = append(hex.AppendEncode(buf, t.ID[:]), '-')
	buf = append(hex.AppendEncode(buf, t.Span[:]), "-00"...)
	if t.Sampled {
		buf[len(buf)-1] = '1'
	}
	return string(buf)
}

// ParseTraceparent reads a value of the HTTP header traceparent. A later version than 00 can have more behind the four
// fields; W3C Trace Context says that readers take the fields they know.
func ParseTraceparent(s string) (t Trace, ok bool) {
	if len(s) < traceparentLen || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Trace{}, false
	}
	var version, flags [1]byte
	if !lowerHex(version[:], s[:2]) || !lowerHex(t.ID[:], s[3:35]) || !lowerHex(t.Span[:], s[36:52]) ||
		!lowerHex(flags[:], s[53:55]) || version[0] == 0xff || t.IsZero() {
		return Trace{}, false
	}
	if more := s[traceparentLen:]; more != "" && (version[0] == 0 || more[0] != '-') {
		return Trace{}, false
	}
	t.Sampled = flags[0]&flagSampled != 0
	return t, true
}

// lowerHex decodes hex digits without capital letters, which the header must not have.
func lowerHex(into []byte, text string) bool {
	for i := range len(text) {
		if 'A' <= text[i] && text[i] <= 'F' {
			return false
		}
	}
	n, err := hex.Decode(into, []byte(text))
	return err == nil && n == len(into)
}

const storedTraceLen = 16 + 8 + 1

// appendTo writes a trace at the end of a stored body.
func (t Trace) appendTo(buf []byte) []byte {
	buf = append(append(buf, t.ID[:]...), t.Span[:]...)
	if t.Sampled {
		return append(buf, flagSampled)
	}
	return append(buf, 0)
}

// cutTrace takes a trace off the end of a stored body.
func cutTrace(body []byte) (rest []byte, t Trace, ok bool) {
	at := len(body) - storedTraceLen
	if at < 0 {
		return body, t, false
	}
	copy(t.ID[:], body[at:])
	copy(t.Span[:], body[at+16:])
	t.Sampled = body[len(body)-1] == flagSampled
	return body[:at], t, !t.IsZero() && body[len(body)-1] <= flagSampled
}

// Match says how texts were found.
type Match struct {
	Whole   bool   // each of them has all words of the query; without Meaning, otherwise they have some
	Meaning bool   // texts of a like meaning were looked for, too
	Without string // why they were not, although vectors are made; empty: there was no reason
}

// MemoryLines are the lines of a memory page, in their order. The key is a chat's, or that of a page that chats share.
type MemoryLines struct {
	Key   Key
	Lines []string
}

// LineAt is the place of a line in one of some pages. Both numbers are from 0.
type LineAt struct{ Page, Line int }
