package corebot

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Direction says which way a message travels. The values are stored; they never change.
type Direction uint8

const (
	Inbound  Direction = 1 // from a person, a task or a program to the agent
	Outbound Direction = 2 // from the agent to a channel
	Control  Direction = 3 // a command that acts at accept and never waits in a lane
)

func (d Direction) String() string {
	switch d {
	case Inbound:
		return "inbound"
	case Outbound:
		return "outbound"
	case Control:
		return "control"
	}
	return fmt.Sprintf("direction(%d)", uint8(d))
}

// DefaultAgent is the agent of a home whose settings name no agents.
const DefaultAgent = "main"

// Routing returns the agent that answers in a chat. The nil Routing returns [DefaultAgent] for every chat.
type Routing func(channel, account, chat string) (agent string)

// Key is the key of a whole chat, without a thread, for the agent that answers in the chat.
func (r Routing) Key(channel, account, chat string) Key {
	agent := DefaultAgent
	if r != nil {
		agent = r(channel, account, chat)
	}
	return Key{Agent: agent, Channel: channel, Account: account, Chat: chat}
}

// Key names one conversation. All five fields are opaque text, compared byte by byte. Account and Thread can be empty.
// A Key and a [Direction] together name a lane of the bus.
type Key struct {
	Agent   string `json:"agent"`
	Channel string `json:"channel"`
	Account string `json:"account"`
	Chat    string `json:"chatId"`
	Thread  string `json:"thread,omitempty"`
}

// MaxKeyField is the greatest length in bytes of a field of a [Key] and of a message id.
const MaxKeyField = 512

// Validate refuses a key that cannot be stored, shown or made a file name.
func (k Key) Validate() error {
	for _, f := range []struct {
		name, value string
		required    bool
	}{
		{"agent", k.Agent, true},
		{"channel", k.Channel, true},
		{"account", k.Account, false},
		{"chatId", k.Chat, true},
		{"thread", k.Thread, false},
	} {
		if f.value == "" && f.required {
			return fmt.Errorf("%w: %s is empty", ErrInvalid, f.name)
		}
		if err := validateName(f.value); err != nil {
			return fmt.Errorf("%w: %s %v", ErrInvalid, f.name, err)
		}
	}
	return nil
}

// InChannel names what all chats of one account of a channel share for an agent. It is the key of no chat.
func (k Key) InChannel() Key { return Key{Agent: k.Agent, Channel: k.Channel, Account: k.Account} }

// OfAgent names what all chats of an agent share. It is the key of no chat.
func (k Key) OfAgent() Key { return Key{Agent: k.Agent} }

var (
	errNameTooLong = fmt.Errorf("is longer than %d bytes", MaxKeyField)
	errNameUTF8    = errors.New("is not valid UTF-8")
	errNameControl = errors.New("has a control character")
)

// CheckName refuses a name that a channel hands over and that cannot be stored or shown.
func CheckName(name string) error {
	if err := validateName(name); err != nil {
		return fmt.Errorf("%w: the id %v", ErrInvalid, err)
	}
	return nil
}

// validateName checks every name that a channel hands over, because names appear in logs and listings.
func validateName(s string) error {
	switch {
	case len(s) > MaxKeyField:
		return errNameTooLong
	case !utf8.ValidString(s):
		return errNameUTF8
	case strings.ContainsFunc(s, unicode.IsControl):
		return errNameControl
	}
	return nil
}

// String is the only spelling of a key in files, logs and commands. Colons join the fields. Every byte outside
// [A-Za-z0-9_-] is written as %XX. An empty thread at the end is left out. Different keys never share a spelling. The
// escapes are always upper case, so a file system that folds case cannot confuse two escapes.
func (k Key) String() string {
	var b strings.Builder
	b.Grow(len(k.Agent) + len(k.Channel) + len(k.Account) + len(k.Chat) + len(k.Thread) + 4)
	for i, f := range k.fields() {
		if i > 0 {
			b.WriteByte(':')
		}
		escapeField(&b, f)
	}
	return b.String()
}

func (k Key) fields() []string {
	f := []string{k.Agent, k.Channel, k.Account, k.Chat, k.Thread}
	if k.Thread == "" {
		f = f[:4]
	}
	return f
}

const upperHex = "0123456789ABCDEF"

func plainByte(c byte) bool {
	return c == '-' || c == '_' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

func escapeField(b *strings.Builder, s string) {
	plain := 0 // most fields have no byte that is escaped
	for plain < len(s) && plainByte(s[plain]) {
		plain++
	}
	b.WriteString(s[:plain])
	for i := plain; i < len(s); i++ {
		if c := s[i]; plainByte(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
}

// ParseKey reads what [Key.String] writes, and nothing else: any other spelling of a key is an error.
func ParseKey(s string) (Key, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 4 && len(parts) != 5 {
		return Key{}, fmt.Errorf("%w: key %q: want agent:channel:account:chat or agent:channel:account:chat:thread",
			ErrInvalid, s)
	}
	var f [5]string
	for i, p := range parts {
		v, err := unescapeField(p)
		if err != nil {
			return Key{}, fmt.Errorf("%w: key %q: %v", ErrInvalid, s, err)
		}
		f[i] = v
	}
	k := Key{Agent: f[0], Channel: f[1], Account: f[2], Chat: f[3], Thread: f[4]}
	if k.String() != s {
		return Key{}, fmt.Errorf("%w: key %q is not spelled as %q", ErrInvalid, s, k.String())
	}
	return k, k.Validate()
}

func unescapeField(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", errors.New("ends inside an escape")
		}
		hi, lo := strings.IndexByte(upperHex, s[i+1]), strings.IndexByte(upperHex, s[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("bad escape %q", s[i:i+3])
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	return b.String(), nil
}

// Pool is a set of lanes that a worker claims from: all inbound lanes together, or the outbound lanes of one channel.
// When a channel is down, its replies stay in its own pool and take no worker from another pool.
type Pool string

// InboundPool holds the inbound lanes of every channel.
const InboundPool Pool = "inbound"

// OutboundPool holds the replies that wait for one channel.
func OutboundPool(channel string) Pool { return Pool("outbound:" + channel) }

// PoolOf is the pool of a lane.
func PoolOf(d Direction, k Key) Pool {
	if d == Outbound {
		return OutboundPool(k.Channel)
	}
	return Pool(d.String())
}

// Named finds the chat that a person means. A name is a key as [Key.String] spells it, even of an unknown chat, or a
// short form of a known chat. Short forms leave out fields from the left: "main:webhook::c1" has "webhook::c1",
// "webhook:c1" and "c1". The last two stand for a chat of any account. The id of a chat can be written as it is, or
// escaped as in the key. A name that matches no chat is [ErrNotFound]. A name that matches several is [ErrInvalid], and
// the error lists them.
func Named(name string, known []Key) (Key, error) {
	if k, err := ParseKey(name); err == nil {
		return k, nil
	}
	var meant []Key
	for _, k := range known {
		if !slices.Contains(meant, k) && slices.Contains(shortForms(k), name) {
			meant = append(meant, k)
		}
	}
	switch len(meant) {
	case 1:
		return meant[0], nil
	case 0:
		return Key{}, WithHint(fmt.Errorf("chat %q: %w", name, ErrNotFound),
			"`corebot chats list` has those that are known; one that is not is spelled agent:channel:account:chat, "+
				"such as main:webhook::c1")
	}
	return Key{}, fmt.Errorf("%w: chat %q can be any of %s", ErrInvalid, name, listed(meant))
}

// shortForms are the short names of a chat. Another chat can have the same.
func shortForms(k Key) []string {
	fields := strings.Split(k.String(), ":")[1:] // without the agent
	channel, account, chat := fields[0], fields[1], strings.Join(fields[2:], ":")
	forms := []string{chat, channel + ":" + chat, channel + ":" + account + ":" + chat}
	if k.Thread == "" {
		forms = append(forms, k.Chat, channel+":"+k.Chat)
	}
	return forms
}

// mostListed bounds the chats that an error lists.
const mostListed = 10

func listed(keys []Key) string {
	var names []string
	for _, k := range keys[:min(len(keys), mostListed)] {
		names = append(names, k.String())
	}
	if more := len(keys) - mostListed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Message ids are made in three ways. Two ways never make the same id in a lane:
//
//   - An inbound message has the id that its channel or its sender gave it. The id never begins with [OwnIDs]; see
//     [CheckID].
//   - An answer has that id with a name behind it: RunID/ordinal for replies, RunID/name for notices, and the name
//     alone for the notices of control messages. Read from its end, such an id shows its parts: ordinals and runs are
//     numbers, and each kind has its own name.
//   - A message that Corebot sends by itself has an id that begins with OwnIDs and the name of its kind.

// OwnIDs begins the ids of messages that answer nothing.
const OwnIDs = "corebot:"

// OwnID is the id of a message that Corebot sends by itself: its kind, and the parts that tell it from others of its
// kind. The parts have no slashes.
func OwnID(kind string, parts ...any) string {
	var b strings.Builder
	b.WriteString(OwnIDs + kind)
	for _, p := range parts {
		fmt.Fprintf(&b, "/%v", p)
	}
	return b.String()
}

// ownParts reads the parts that [OwnID] was given. ok is false for an id of another kind.
func ownParts(kind, id string) (parts []string, ok bool) {
	rest, ok := strings.CutPrefix(id, OwnIDs+kind+"/")
	if !ok {
		return nil, false
	}
	return strings.Split(rest, "/"), true
}

// isOwn says whether a message is one of Corebot's own, of a kind.
func isOwn(kind, id string) bool { return strings.HasPrefix(id, OwnIDs+kind+"/") }

// writtenNumber reads the number of a thing as people write it, with or without a "#".
func writtenNumber(thing, s string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(s, "#"), 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: %s %q: want its number", ErrInvalid, thing, s)
	}
	return n, nil
}

// CheckID refuses a sender's id that belongs to Corebot.
func CheckID(id string) error {
	if strings.HasPrefix(id, OwnIDs) {
		return WithHint(fmt.Errorf("%w: id %q: ids that begin with %q are Corebot's own", ErrInvalid, id, OwnIDs),
			"give the message another id")
	}
	return nil
}

// Origin is the chat of people to which a conversation belongs: that of a child turn, or of a question to another
// agent. It is the conversation itself if it is one of people, or if the key does not tell.
func (k Key) Origin() Key {
	for range MaxHops + MaxJobDepth {
		switch k.Channel {
		case JobChannel:
			k = k.Acts()
		case AgentChannel:
			asking, err := ParseKey(k.Chat)
			if err != nil {
				return k
			}
			k = asking
		default:
			return k
		}
	}
	return k
}
