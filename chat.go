package corebot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Chat is what Corebot stores about a conversation beside its history.
type Chat struct {
	ID          int64     `json:"-"`
	Key         Key       `json:"key"`
	DisplayName string    `json:"displayName,omitempty"`
	Registered  bool      `json:"registered"`
	Session     int64     `json:"session"`             // the number of the current session, from 1
	QueueMode   QueueMode `json:"queueMode,omitempty"` // empty: the configured default
	// the model that the session asks for; empty: the configured model
	Model string `json:"model,omitempty"`
	// how much models think in the session; empty: as configured
	Think     Thinking   `json:"think,omitempty"`
	Access    ChatAccess `json:"access,omitempty"` // empty: the rule of the channel decides
	CreatedAt time.Time  `json:"createdAt"`
	// UsedAt is when a turn last began there, or something was last said there, in lists of chats. It is at least
	// CreatedAt.
	UsedAt time.Time `json:"usedAt,omitzero"`
}

// Admission is what is stored about who may talk in one chat, beside the rule of its channel. A setting of a chat
// holds in its threads. A setting of a thread comes before the setting of its chat.
type Admission struct {
	Registered bool
	Access     ChatAccess
	Paired     bool // an admin has let the sender in; only known where access is "pairing"
}

// ChatAccess is an exception for one chat from the rule of its channel. The values are stored; they never change.
type ChatAccess string

const (
	AllowChat ChatAccess = "allow" // everybody in the chat may talk
	DenyChat  ChatAccess = "deny"  // nobody in the chat may talk
)

// ParseChatAccess reads a chat's access setting.
func ParseChatAccess(s string) (ChatAccess, error) {
	switch a := ChatAccess(s); a {
	case AllowChat, DenyChat:
		return a, nil
	}
	return "", fmt.Errorf("%w: access %q: want allow or deny", ErrInvalid, s)
}

// MemoryNote says where a piece of a memory page came from. The pieces of a page follow one another.
type MemoryNote struct {
	Ends      int       `json:"ends"` // where the piece ends, in bytes of the page
	Sum       string    `json:"sum"`  // SHA-256 of the page up to there, in hexadecimal digits
	Sender    Principal `json:"sender,omitzero"`
	MessageID string    `json:"messageId,omitempty"` // of the turn that wrote the piece
	Taint     string    `json:"taint,omitempty"`     // what others can have had a hand in; empty: nothing
	Trusted   bool      `json:"trusted,omitempty"`   // the operator stands for the piece, whoever wrote it
	Chat      string    `json:"chat,omitempty"`      // of a page that several chats share: whose turn wrote the piece
	At        time.Time `json:"at"`
}

// Clean says whether the operator, or one known sender alone, stands behind the piece.
func (n MemoryNote) Clean() bool { return n.Trusted || n.Taint == "" && n.Sender.ID != "" }

// CleanFor says whether the piece has nothing that others than the operator and a principal can have written.
func (n MemoryNote) CleanFor(p Principal) bool { return n.Trusted || n.Clean() && n.Sender == p }

// QueueMode says what happens to a prompt that finds its chat busy. The values are stored; they never change.
type QueueMode string

const (
	ModeQueue     QueueMode = "queue"     // the prompt waits its turn
	ModeSteer     QueueMode = "steer"     // the running turn merges the prompt, as it does with a /steer
	ModeInterrupt QueueMode = "interrupt" // the prompt stops a running turn of its sender and waits its turn
	ModeCollect   QueueMode = "collect"   // waiting prompts of one sender become one turn
)

// QueueModes lists all modes, the default first.
func QueueModes() []QueueMode { return []QueueMode{ModeQueue, ModeSteer, ModeInterrupt, ModeCollect} }

// ParseQueueMode reads the name of a mode.
func ParseQueueMode(s string) (QueueMode, error) {
	var names []string
	for _, m := range QueueModes() {
		if s == string(m) {
			return m, nil
		}
		names = append(names, string(m))
	}
	return "", fmt.Errorf("%w: queue mode %q: want one of %s", ErrInvalid, s, strings.Join(names, ", "))
}

// Thinking is how much a model thinks before it answers. Each provider says the same in its own terms: as an effort or
// as a budget of tokens. A model that cannot do what is asked does what is nearest. The values are stored; they never
// change.
type Thinking string

// The values of [Thinking].
const (
	ThinkDefault Thinking = "" // what the provider, or its settings, do by themselves
	ThinkOff     Thinking = "off"
	ThinkMinimal Thinking = "minimal"
	ThinkLow     Thinking = "low"
	ThinkMedium  Thinking = "medium"
	ThinkHigh    Thinking = "high"
)

// ParseThinking reads a level of thinking; the default has no name.
func ParseThinking(s string) (Thinking, error) {
	switch t := Thinking(s); t {
	case ThinkOff, ThinkMinimal, ThinkLow, ThinkMedium, ThinkHigh:
		return t, nil
	}
	return "", fmt.Errorf("%w: think %q: want one of off, minimal, low, medium, high", ErrInvalid, s)
}

// Thought is how a model thinks that is asked for a level.
type Thought struct {
	Model string   // empty: nobody knows which one answers
	Asked Thinking // empty: nothing is asked for
	Does  Thinking // the nearest level that the model has
	Sure  bool     // Does is known; else only the model's server knows
}

// String says it in one sentence.
func (t Thought) String() string {
	model := Plainly(t.Model)
	switch {
	case t.Asked == ThinkDefault:
		return "Thinking: what the provider does by itself."
	case t.Model == "":
		return fmt.Sprintf("Thinking: %s.", t.Asked)
	case !t.Sure:
		return fmt.Sprintf("Thinking: %s, if the server of %s can.", t.Asked, model)
	case t.Does == t.Asked:
		return fmt.Sprintf("Thinking: %s.", t.Asked)
	case t.Does == ThinkOff:
		return fmt.Sprintf("Thinking: %s, but %s does not think.", t.Asked, model)
	}
	return fmt.Sprintf("Thinking: %s, for which %s has %s.", t.Asked, model, t.Does)
}

// Queueing says how prompts wait in chats that have no mode of their own.
type Queueing struct {
	Mode QueueMode // empty is ModeQueue
	// Agents holds the modes of agents that have their own, by agent id.
	Agents map[string]QueueMode
	// Debounce is how long a sender must be silent before a turn begins, in every chat with ModeCollect. A sender who
	// is never silent waits at most MaxDebounces times as long.
	Debounce time.Duration
}

// Of is the mode of an agent's chats.
func (q Queueing) Of(agent string) QueueMode { return cmp.Or(q.Agents[agent], q.Mode, ModeQueue) }

// MaxDebounces bounds how long a message waits for further messages, as a multiple of [Queueing.Debounce].
const MaxDebounces = 10

// Bounds of what one turn merges by ModeCollect. A message beyond them begins another turn.
const (
	MaxCollected      = 50
	MaxCollectedBytes = 256 << 10
)

// Collecting is the reason of a lane whose next message waits for further messages of its sender.
const Collecting = "collecting"

// Merged is a message that a turn merged: a steer, or a collected prompt. Its life ended with [EndMerged].
type Merged struct {
	Life   int64     `json:"life"`
	ID     string    `json:"id"`
	Sender Principal `json:"sender,omitzero"`
	Name   string    `json:"senderName,omitempty"` // display only
	Parts  []Part    `json:"-"`                    // see [Content]

	Metadata Metadata `json:"metadata,omitempty"`
	Envelope Envelope `json:"envelope,omitzero"`
}

// Steered is the result of a /steer.
type Steered struct {
	Receipt
	Merges bool // the running turn can merge it; else it is a prompt that waits its turn
}

// SkillChoices are the skills that are switched on (true) or off in a chat, whatever their triggers.
type SkillChoices map[string]bool

// KnownSkill is a skill of an agent, as a chat is told of it.
type KnownSkill struct {
	Name        string
	Description string
	Trigger     string // auto, manual or keyword
	Useless     string // why it cannot be used; empty: it can
}

// MaxSkillChoices is how many skills a chat can have switched.
const MaxSkillChoices = 64

// ParseSkillChoices reads what [SkillChoices.String] wrote. It passes over a word that it does not know.
func ParseSkillChoices(text string) SkillChoices {
	if text == "" {
		return nil
	}
	all := SkillChoices{}
	for word := range strings.FieldsSeq(text) {
		if name, on := strings.CutPrefix(word, "+"); on {
			all[name] = true
		} else if name, off := strings.CutPrefix(word, "-"); off {
			all[name] = false
		}
	}
	return all
}

// String lists the names with + or - in front of each, sorted.
func (c SkillChoices) String() string {
	var words []string
	for name, on := range c {
		sign := "-"
		if on {
			sign = "+"
		}
		words = append(words, sign+name)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// Forgotten counts what was deleted with a conversation.
type Forgotten struct {
	Chats     int64 `json:"chats"`    // the chat, its threads, its child turns, and what it asked other agents
	Messages  int64 `json:"messages"` // with their journals, approvals, waits and jobs
	History   int64 `json:"history"`  // entries, with their search terms and summaries
	Facts     int64 `json:"facts"`    // that were said there, also those that other chats know
	Mail      int64 `json:"mail"`     // replies that callers could still fetch
	Tasks     int64 `json:"tasks"`
	Rules     int64 `json:"rules"`     // approvals that lasted
	Grants    int64 `json:"grants"`    // roles that held in the conversation alone
	Versions  int64 `json:"versions"`  // changes of files that could be undone
	Arguments int64 `json:"arguments"` // events of the audit trail that have lost their arguments
	// KeptArguments counts events that keep them: the hash of an event of an older version is over its arguments.
	KeptArguments int64 `json:"keptArguments"`
	Files         int64 `json:"files"` // of its folder in the workspace, and references of its messages to files
	Pages         int64 `json:"pages"` // of the database that were overwritten with zeros
}

// Add is the sum of two.
func (f Forgotten) Add(g Forgotten) Forgotten {
	return Forgotten{
		f.Chats + g.Chats, f.Messages + g.Messages, f.History + g.History, f.Facts + g.Facts,
		f.Mail + g.Mail, f.Tasks + g.Tasks,
		f.Rules + g.Rules, f.Grants + g.Grants, f.Versions + g.Versions, f.Arguments + g.Arguments,
		f.KeptArguments + g.KeptArguments, f.Files + g.Files, f.Pages + g.Pages,
	}
}

// FactScope says who sees a fact. The values are those of the memory's scopes.
type FactScope string

// The values of [FactScope].
const (
	FactsOfChat    FactScope = "chat"    // the chat in which it was said
	FactsOfChannel FactScope = "channel" // all chats of one account of a channel
	FactsOfAgent   FactScope = "agent"   // all chats of an agent
)

// Bounds of facts.
const (
	MaxFacts      = 10_000 // of one chat
	MaxFactField  = 500    // bytes of a subject, a relation or an object
	maxFactSource = 2_000  // bytes of a taint
)

// Fact is something that was said, as subject, relation and object. It is what its sender said, and not what is so.
type Fact struct {
	ID           int64     `json:"id"`
	Key          Key       `json:"-"` // the chat in which it was said
	Scope        FactScope `json:"scope"`
	Subject      string    `json:"subject"`
	Relation     string    `json:"relation"`
	Object       string    `json:"object"`
	Sender       Principal `json:"sender,omitzero"`
	MessageID    string    `json:"messageId,omitempty"`
	Taint        string    `json:"taint,omitempty"`   // what others can have had a hand in; empty: nothing
	Trusted      bool      `json:"trusted,omitempty"` // an admin of everything stands for it
	At           time.Time `json:"at"`
	SupersededBy int64     `json:"supersededBy,omitempty"` // the fact that took its place; 0: it holds
	// Replaces says that only one object can hold. Older facts of the sender with the same subject and relation are
	// superseded. It is not stored.
	Replaces bool `json:"-"`
}

// FactFilter says which facts are wanted: those that a chat sees, or all.
type FactFilter struct {
	Key        Key    // of a chat, of [Key.InChannel] or of [Key.OfAgent]; zero: of all
	Agent      string // of the chats of this agent; empty: of all
	Superseded bool   // superseded facts too
}

// Owner is the key of those who see the fact.
func (f Fact) Owner() Key {
	switch f.Scope {
	case FactsOfAgent:
		return f.Key.OfAgent()
	case FactsOfChannel:
		return f.Key.InChannel()
	}
	return f.Key
}

// SeenIn says whether a chat sees the fact.
func (f Fact) SeenIn(k Key) bool {
	owner := f.Owner()
	return owner == k || owner == k.InChannel() || owner == k.OfAgent()
}

// CleanFor says whether the fact has nothing that others than the operator and a principal can have written.
func (f Fact) CleanFor(p Principal) bool {
	return f.Trusted || f.Taint == "" && f.Sender.ID != "" && f.Sender == p
}

// String is the fact in one line.
func (f Fact) String() string { return Plainly(f.Subject + " · " + f.Relation + " · " + f.Object) }

// Validate refuses a fact that is not whole, or too long.
func (f Fact) Validate() error {
	switch f.Scope {
	case FactsOfChat, FactsOfChannel, FactsOfAgent:
	default:
		return fmt.Errorf("%w: a fact of the scope %q", ErrInvalid, f.Scope)
	}
	for _, s := range []string{f.Subject, f.Relation, f.Object} {
		if strings.TrimSpace(s) == "" || len(s) > MaxFactField || !utf8.ValidString(s) {
			return fmt.Errorf("%w: a fact has a subject, a relation and an object of 1 to %d bytes", ErrInvalid,
				MaxFactField)
		}
	}
	if f.Trusted && f.Taint != "" || len(f.Taint) > maxFactSource {
		return fmt.Errorf("%w: nobody stands for a tainted fact", ErrInvalid)
	}
	return f.Key.Validate()
}

// MaxForks is how many chats can have been forked from one chat, forks of forks included.
const MaxForks = 100

// Fork says of which chat a new chat gets the history.
type Fork struct {
	From Key    `json:"from"`
	To   Key    `json:"to"`
	At   string `json:"at,omitempty"` // the id of the message whose exchange is the last one; empty: all are copied
	Life int64  `json:"-"`            // of the command that asks for it; 0: the operator does
}

// Validate refuses a fork into another agent, channel or account: the senders of the history are of one account.
func (f Fork) Validate() error {
	if err := f.To.Validate(); err != nil {
		return err
	}
	if f.To.InChannel() != f.From.InChannel() || f.To == f.From {
		return fmt.Errorf("%w: %s cannot be a fork of %s: want another chat of the same agent, channel and account",
			ErrInvalid, f.To, f.From)
	}
	return nil
}

// Forked is what a fork has copied.
type Forked struct {
	Key     Key   `json:"key"`
	Entries int64 `json:"entries"`
	Older   int64 `json:"older,omitempty"` // entries that were too many, and stayed
}

// MaxRewound is how many exchanges one rewind can take.
const MaxRewound = 1000

// Rewound counts what a rewind took out of a session.
type Rewound struct {
	Exchanges int64 `json:"exchanges"` // messages with their answers
	Entries   int64 `json:"entries"`   // of the history, tool calls included
	// Facts are those that were said in these messages, and stay. Superseded ones do not count.
	Facts int64 `json:"facts,omitempty"`
}

// Link says that a chat has resumed the conversation of another chat, or is about to. The values of State are stored;
// they never change.
type Link struct {
	ID    int64  `json:"id"`
	From  Key    `json:"from"`            // the chat whose conversation is resumed
	To    Key    `json:"to,omitzero"`     // the chat that resumes it
	Giver string `json:"giver,omitempty"` // the principal who offered it; empty: the operator linked
	Taker string `json:"taker,omitempty"` // the principal who entered the code
	State string `json:"state"`           // offered, asked or linked
	// Entries counts what was copied.
	Entries   int64     `json:"entries"`
	Code      string    `json:"-"` // of an offer that was just made
	ExpiresAt time.Time `json:"-"`
	At        time.Time `json:"at"`
}

// LinkStep is what a chat command does about a [Link].
type LinkStep string

// The values of [LinkStep].
const (
	LinkOffer LinkStep = "offer" // the chat gets a code
	LinkEnter LinkStep = "enter" // another chat enters the code
	LinkAgree LinkStep = "agree" // the first chat agrees to the other
	Unlink    LinkStep = "unlink"
)

// Bounds of links. Wrong codes within LinkTime are counted for each person and each chat, for each account of a
// channel, and in all. At a bound that person, chat or account enters no code until that time is over. At the last
// bound nobody does. One person has used up a fiftieth of the last bound when he reaches his own.
const (
	LinkTime        = 10 * time.Minute // a code, and the question that follows it, are good for so long
	MaxOpenLinks    = 100              // codes at once
	MaxGiverLinks   = 10               // codes of one person at once, so that nobody takes those of others
	MaxLinkFailures = 20               // wrong codes of one person, and of one chat

	MaxAccountLinkFailures = 200 // since a program can name its senders as it likes
	MaxAllLinkFailures     = 1_000
	MaxLinks               = 20 // conversations that one chat has resumed
)

// Keeping says how long a chat keeps what was said in it.
type Keeping struct {
	Nothing bool          // nothing stays behind the turn that needed it
	For     time.Duration // at most so long; 0: as all chats do
}

// StoredChats says which chats keep what was said, where no rule does.
type StoredChats string

// The values of [StoredChats].
const (
	StoreAll        StoredChats = "full"
	StoreRegistered StoredChats = "registered" // chats that somebody has registered
	StoreNone       StoredChats = "none"
)

// KeepRule is how long some chats keep what was said. Its fields are patterns of [MatchesName]; an empty one matches
// everything.
type KeepRule struct {
	Channel, Account, Chat string
	Keeping
	Unsaid bool // the rule does not say whether anything is kept: [Keeper.Store] does
}

// Keeper says how long each chat keeps what was said in it. A nil Keeper has all chats keep everything.
type Keeper struct {
	Store StoredChats
	Rules []KeepRule // the first that matches counts
}

// Distinguishes says whether not all chats keep everything.
func (p *Keeper) Distinguishes() bool {
	return p != nil && (len(p.Rules) > 0 || p.Store != StoreAll && p.Store != "")
}

// AsksRegistered says whether it matters if a chat is registered.
func (p *Keeper) AsksRegistered() bool { return p != nil && p.Store == StoreRegistered }

// Of is what holds for a chat. The key is that of [Key.Origin].
func (p *Keeper) Of(k Key, registered bool) Keeping {
	if p == nil {
		return Keeping{}
	}
	stored := Keeping{Nothing: p.Store == StoreNone || p.Store == StoreRegistered && !registered}
	matches := func(pattern, name string) bool { return pattern == "" || MatchesName(pattern, name) }
	for _, r := range p.Rules {
		if matches(r.Channel, k.Channel) && matches(r.Account, k.Account) && matches(r.Chat, k.Chat) {
			if r.Unsaid {
				r.Nothing = stored.Nothing
			}
			if r.Nothing {
				r.For = 0 // what is there goes as well
			}
			return r.Keeping
		}
	}
	return stored
}
