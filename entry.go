package corebot

import "slices"

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
)

// How changes outside of turns are made.
const (
	EntryClient    EntryKind = "mcp.serve" // an MCP client called a tool
	EntryCommand   EntryKind = "command"   // a chat command acted at once
	EntryInterrupt EntryKind = "interrupt" // a newer prompt stopped a turn
	EntryDoor      EntryKind = "door"      // the front door refused a sender
	EntryOperator  EntryKind = "operator"  // the operator gave a command on the machine
	EntryServers   EntryKind = "mcp"       // the tools of an MCP server changed
	EntryItself    EntryKind = "corebot"   // Corebot itself, such as when an approval expired
)

// Entry says how a message came in, and so how its turn or its chat command began. The zero Entry is a message that a
// program sent.
type Entry struct {
	Kind   EntryKind // how it began; empty: EntryDirect
	Since  EntryKind // what the turn has become since: EntryReplay, EntrySteer, or empty
	Person bool      // a person wrote the message at this moment: at a terminal, in the console or in a chat
	From   Key       // of a task, an event or an agent: the conversation of its maker; zero: none
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
	// Overheard says that others than the principal get to read what the turn answers: they have spoken in its session,
	// or a program or another agent waits for the answer.
	Overheard bool
	Chain     int // tasks in a row, each made by a run of the one before, of which the turn is the last run; 0: none
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
	c := Caller{Key: m.Key, Principal: m.Sender, Entry: e, MessageID: m.ID}
	if r := m.Relay; r != nil {
		c.Entry.Kind, c.Entry.From = EntryAgent, r.origin()
		c.Others, c.Taint = slices.Clone(r.Others), r.Taint
	}
	if e := m.Errand; e != nil {
		c.Entry.Kind, c.Entry.From = EntryTask, e.From
		c.Others, c.Taint, c.Chain = slices.Clone(e.Others), e.Taint, e.Chain
	}
	return c
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
// It is the turn's own conversation. For a question between agents it is the conversation that began the questions. See
// [Delivery.Answer].
func (c Caller) Results() Key {
	if c.Entry.Kind == EntryAgent && c.Entry.From != (Key{}) {
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
