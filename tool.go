package corebot

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
)

// ToolGrant opens a tool that the policy reserves for admins: to a role, or to one principal. Exactly one of Role and
// Principal is set.
type ToolGrant struct {
	Tool      string    // a name, or the beginning of names and "*"
	Role      Role      // RoleNormal: everybody; RoleAdmin: admins of the turn's chat, also for targets beyond the chat
	Principal Principal // one sender, whatever his role
}

// String writes a grant as [ParseToolGrant] reads it.
func (g ToolGrant) String() string {
	who := string(g.Role)
	if g.Principal != (Principal{}) {
		who = g.Principal.String()
	}
	return g.Tool + "=" + who
}

// ParseToolGrant reads TOOL=WHO, where WHO is a role, or a principal as [Principal.String] spells him.
func ParseToolGrant(s string) (ToolGrant, error) {
	tool, who, found := strings.Cut(s, "=")
	if !found {
		return ToolGrant{}, fmt.Errorf("%w: want TOOL=WHO", ErrInvalid)
	}
	g := ToolGrant{Tool: strings.TrimSpace(tool)}
	var err error
	if who = strings.TrimSpace(who); strings.Contains(who, ":") { // no role has a colon
		g.Principal, err = ReadPrincipal(who)
	} else {
		g.Role, err = ParseRole(who)
	}
	if err != nil {
		return ToolGrant{}, err
	}
	return g, g.Validate()
}

// Validate refuses a grant without a tool, and a grant to nobody.
func (g ToolGrant) Validate() error {
	name := strings.TrimSuffix(g.Tool, "*")
	switch {
	case g.Tool == "":
		return fmt.Errorf("%w: no tool is named", ErrInvalid)
	case strings.ContainsFunc(name, func(r rune) bool { return !toolRune(r) }):
		return fmt.Errorf("%w: tool %q: want a name, or the beginning of names and *", ErrInvalid, g.Tool)
	case (g.Role == "") == (g.Principal == Principal{}):
		return fmt.Errorf("%w: want either a role or a principal", ErrInvalid)
	case g.Role != "":
		_, err := ParseRole(string(g.Role))
		return err
	}
	return g.Principal.Validate()
}

// toolRune says whether a character can be in the name of a tool.
func toolRune(r rune) bool { return r < 0x80 && (plainByte(byte(r)) || r == '.') }

// ToolPin is what Corebot remembers about a tool of an MCP server. Pinned, Approved and Seen are fingerprints of the
// server's description of the tool, in hexadecimal digits. A fingerprint is of all that a model is shown of the tool,
// and of its annotations. If the server changes the description, Seen differs from the other two.
type ToolPin struct {
	Server string `json:"server"`
	Tool   string `json:"tool"` // as the server calls it
	// Pinned is set by the server's first listing or by an operator's approval. Empty: the tool came later and waits
	// for an approval.
	Pinned    string    `json:"pinned,omitempty"`
	Approved  string    `json:"approved,omitempty"` // by an operator; empty: never
	ReadOnly  string    `json:"readOnly,omitempty"` // declared by an operator as reading only; empty: never
	Seen      string    `json:"seen"`
	ChangedAt time.Time `json:"changedAt"` // when Seen got its value
}

// Changed says whether the tool differs from its pinned description.
func (p ToolPin) Changed() bool { return p.Pinned != p.Seen }

// Reads says whether an operator has declared that the tool, as it is described now, only reads.
func (p ToolPin) Reads() bool { return p.ReadOnly != "" && p.ReadOnly == p.Seen }

// Vouched says whether the operator stands for the tool's present description. An approved description counts. The
// pinned description also counts if trustFirst is set: the operator's setting to trust the first listing of a server.
// For an unknown tool Vouched is trustFirst.
func (p ToolPin) Vouched(trustFirst bool) bool {
	return p.Approved != "" && p.Approved == p.Seen || trustFirst && !p.Changed()
}

// MatchesName says whether a pattern matches a name: the pattern is the whole name, or a beginning of it and "*". Case
// counts.
func MatchesName(pattern, name string) bool {
	beginning, open := strings.CutSuffix(pattern, "*")
	return pattern == name || open && strings.HasPrefix(name, beginning)
}

// IsNamePattern says whether a pattern is valid for [MatchesName]: it is not empty, and a "*" stands only at its end.
func IsNamePattern(pattern string) bool {
	return pattern != "" && !strings.Contains(strings.TrimSuffix(pattern, "*"), "*")
}

// Effect is one change of Corebot's own database that a tool asks for, as data. The store applies the effect in the
// commit that journals the tool's outcome. Either both happened or neither, so a crash never leaves such a call
// unknown.
//
// The interface is sealed: its types are the types of this file, as values. Each type has one handler, beside its
// aggregate in package storage. A call has at most one effect. Changes that belong into one commit are one type, such
// as [BecomeFirstAdmin].
type Effect interface{ effect() }

// ReplayDeadLetter replays a dead letter of an agent.
type ReplayDeadLetter struct {
	ID    int64
	Agent string // the agent that must own the letter; empty: any agent
}

// SendMessage sends a message of the agent into a conversation. The message answers nothing in that conversation.
type SendMessage struct {
	To    Key
	Text  string
	Known bool // refuse a conversation that nobody has ever used
}

// AskAgent sends a question to another agent, in the conversation that the two have about the one of the turn. The
// answer comes back into the conversation of the turn, as a message. One question at a time is under way there.
type AskAgent struct {
	Agent string
	Text  string
	Asks  Caller // on whose behalf the turn asks, with its taint
}

// RegisterChat marks a chat as registered.
type RegisterChat struct{ Chat Key }

// GrantRole gives a principal a role, in one chat or (zero Chat) everywhere.
type GrantRole struct {
	Principal Principal
	Role      Role
	Chat      Key
}

// ChooseSkill switches a skill on or off in a chat, whatever its trigger.
type ChooseSkill struct {
	Chat  Key
	Skill string
	On    bool
}

// BecomeFirstAdmin makes the principal of the call the first admin, everywhere, and registers a chat. Both need the
// right bootstrap key. A wrong key is counted, the call ends as [Denied], and nothing else changes.
type BecomeFirstAdmin struct {
	Bootstrap KeyHash
	Chat      Key
}

// ScheduleTask stores a new task.
type ScheduleTask struct {
	Task   Task
	Limits TaskLimits
}

// ChangeTask changes a task, as a caller has read it.
type ChangeTask struct {
	ID      int64
	Version int64
	Action  TaskAction
	Next    time.Time // the next due time, to resume
	// Chain is [Caller.Chain] of the turn that lets the task run now. So no task goes on for ever by running itself.
	Chain int
}

// ForgetFacts deletes facts of a chat by their ids.
type ForgetFacts struct {
	Chat     Key
	IDs      []int64
	Own      Principal // whose facts go
	Everyone bool      // and those of others, if they are this chat's own
	Tainted  bool      // only tainted facts go
}

// Takes says whether a fact goes.
func (f ForgetFacts) Takes(fact Fact) bool {
	own := f.Own.ID != "" && fact.Sender == f.Own
	if f.Tainted && fact.Taint == "" {
		return false
	}
	return own || f.Everyone && fact.Scope == FactsOfChat
}

func (ReplayDeadLetter) effect() {}
func (SendMessage) effect()      {}
func (AskAgent) effect()         {}
func (RegisterChat) effect()     {}
func (GrantRole) effect()        {}
func (ChooseSkill) effect()      {}
func (BecomeFirstAdmin) effect() {}
func (ScheduleTask) effect()     {}
func (ChangeTask) effect()       {}
func (ForgetFacts) effect()      {}

// Refused says that an [Effect] was not applied because a rule of the data forbids it, such as a missing row. Nothing
// was changed. Any other error of an effect means trouble with the store, or a lost lease.
type Refused struct{ Err error }

func (r *Refused) Error() string { return r.Err.Error() }
func (r *Refused) Unwrap() error { return r.Err }

// Denied says that the caller may not have an [Effect]. Unlike a [Refused], a denial is stored. The call ends with
// [Denied.Result], in the commit that counted the attempt.
type Denied struct {
	Rule   string // as the audit names it
	Reason string // for a model or a person
}

func (d *Denied) Error() string { return "denied: " + d.Reason }

// Result is what the model sees of the call.
func (d *Denied) Result() ToolResult { return ToolResult{Outcome: OutcomeDenied, Content: d.Error()} }

// KeyHash stands for a key that must not travel further. All hashes have one length, so that a comparison tells nothing
// about either key. The zero KeyHash stands for no key.
type KeyHash [sha256.Size]byte

func HashKey(key string) KeyHash { return sha256.Sum256([]byte(key)) }
