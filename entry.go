package corebot

import "slices"

// EntryKind names a way in which a turn, or a change outside of a turn, comes about. The words are stored in the audit;
// they never change.
type EntryKind string

// How turns come about.
const (
	EntryDirect EntryKind = "direct" // somebody sent its message
	EntryReplay EntryKind = "replay" // its message was a dead letter
	EntrySteer  EntryKind = "steer"  // somebody other than its sender has spoken to it since: see [Caller.Others]
	EntryTask   EntryKind = "task"   // its time had come
	EntryAgent  EntryKind = "agent"  // the turn of another agent asked for it
	EntryEvent  EntryKind = "event"  // a file in the directory of events asked for it
)

// How changes outside of turns come about.
const (
	EntryClient    EntryKind = "mcp.serve" // an MCP client called a tool
	EntryCommand   EntryKind = "command"   // a chat command acted at once
	EntryInterrupt EntryKind = "interrupt" // a newer prompt stopped a turn
	EntryDoor      EntryKind = "door"      // the front door refused a sender
	EntryOperator  EntryKind = "operator"  // the operator gave a command on the machine
	EntryServers   EntryKind = "mcp"       // the tools of an MCP server changed
	EntryItself    EntryKind = "corebot"   // nobody: Corebot did it by itself, such as when a time was over
)

// Entry says how a message came in, and so how its turn, or its chat command, comes about. The zero Entry is a message
// that a program sent.
type Entry struct {
	Kind   EntryKind // how it began; empty: EntryDirect
	Since  EntryKind // what the turn has become since: EntryReplay, EntrySteer, or empty
	Person bool      // a person wrote the message just now, at a terminal, in the console or in a chat
	From   Key       // of a task, an event and an agent: the conversation of its maker; zero: none
}

// Word is what the audit says of an entry.
func (e Entry) Word() EntryKind {
	switch {
	case e.Since != "":
		return e.Since
	case e.Kind != "":
		return e.Kind
	}
	return EntryDirect
}

// Interactive says whether a person stands behind the entry at this moment. Only such an entry can approve a call. A
// task, an event file, another agent and an MCP client never can, whatever their messages say of a person.
func (e Entry) Interactive() bool {
	return e.Person && e.Word() == EntryDirect
}

// Caller is on whose behalf a turn, or a call of an MCP client, runs.
type Caller struct {
	Key       Key       // the conversation
	Principal Principal // who acts, with the role of each moment
	Entry     Entry     // how the turn came about
	MessageID string
	Others    []Principal // whose text the turn took in as well: it has the lowest of all their roles
	// Taint names what the turn has read that others than the operator and the principal may have written; empty: nothing.
	Taint string
}

// Caller is on whose behalf the turn of a delivery runs. The sender of its message acts: the maker of a task and of an
// event file, and for an agent the principal of the turn that asks. A message that had to wait is nobody's act of this
// moment: no turn is interactive.
func (d Delivery) Caller() Caller {
	m := d.Message
	e := m.Entry
	e.Person = false
	if d.Run > 1 {
		e.Since = EntryReplay
	}
	return Caller{Key: m.Key, Principal: m.Sender, Entry: e, MessageID: m.ID}
}

// Hears notes that somebody has spoken to the turn. It says whether the turn is somebody else's as well from now on.
func (c *Caller) Hears(p Principal) bool {
	if p == c.Principal || slices.Contains(c.Others, p) {
		return false
	}
	c.Others, c.Entry.Since = append(c.Others, p), EntrySteer
	return true
}

// Results is the conversation that gets the turn's replies and notices: its own, or that of the agent that asks.
func (c Caller) Results() Key {
	if c.Entry.Kind == EntryAgent && c.Entry.From != (Key{}) {
		return c.Entry.From
	}
	return c.Key
}

// Approvals are the conversations that are shown what waits for an approval: where the results go, that of the maker,
// and the admins' chat, if there is one. A call of an MCP client asks for none: there is no turn that could wait.
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
