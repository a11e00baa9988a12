package corebot

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// Principal is who acts: the immutable id that a channel gives a sender, within one account of one channel. Names that
// people choose are display only and never part of it. The zero ID is a sender that the channel could not name; it
// can hold no grant.
type Principal struct {
	Channel string `json:"channel"`
	Account string `json:"account"`
	ID      string `json:"senderId"`
}

// String spells a principal as channel:account:id, escaped as in [Key.String].
func (p Principal) String() string {
	var b strings.Builder
	escapeField(&b, p.Channel)
	b.WriteByte(':')
	escapeField(&b, p.Account)
	b.WriteByte(':')
	escapeField(&b, p.ID)
	return b.String()
}

// What every terminal of this machine is called: the channel and the account of its principals.
const (
	TerminalChannel = "cli"
	TerminalAccount = "local"
)

// Label is a short name of a principal that nobody chose: the same for ever, and another for everybody else. People who share a display name are told apart
// by it. Without an id there is none: all senders whom a channel could not name share the empty one.
func (p Principal) Label() string {
	if p.ID == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(p.String()))
	return "u-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:labelLetters])
}

// labelLetters of five bits each: to make an id with the label of another takes some 2^50 attempts.
const labelLetters = 10

// ParsePrincipal reads what [Principal.String] writes, and nothing else.
func ParsePrincipal(s string) (Principal, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return Principal{}, fmt.Errorf("%w: principal %q: want channel:account:sender", ErrInvalid, s)
	}
	var f [3]string
	for i, part := range parts {
		v, err := unescapeField(part)
		if err != nil {
			return Principal{}, fmt.Errorf("%w: principal %q: %v", ErrInvalid, s, err)
		}
		f[i] = v
	}
	p := Principal{Channel: f[0], Account: f[1], ID: f[2]}
	if p.String() != s {
		return Principal{}, fmt.Errorf("%w: principal %q is not spelled as %q", ErrInvalid, s, p)
	}
	return p, nil
}

// Validate refuses a principal that could hold no grant: one without an id, or with a name that could not be stored or shown.
func (p Principal) Validate() error {
	if p.ID == "" {
		return fmt.Errorf("%w: senderId is empty", ErrInvalid)
	}
	for _, name := range []string{p.ID, p.Channel, p.Account} {
		if err := validateName(name); err != nil {
			return fmt.Errorf("%w: senderId %v", ErrInvalid, err)
		}
	}
	return nil
}

// Role is what a principal may do. There are two.
type Role string

const (
	RoleNormal Role = "normal"
	RoleAdmin  Role = "admin"
)

// ParseRole refuses every other word: a role that is not known is never taken for the lesser one.
func ParseRole(s string) (Role, error) {
	switch r := Role(s); r {
	case RoleNormal, RoleAdmin:
		return r, nil
	}
	return "", fmt.Errorf("%w: role %q: want normal or admin", ErrInvalid, s)
}

// Grant gives a principal a role, in one chat or (zero Chat) everywhere.
type Grant struct {
	Principal Principal `json:"principal"`
	Role      Role      `json:"role"`
	Chat      Key       `json:"chat,omitzero"`
	By        string    `json:"by"` // a principal's spelling, or "operator"
	AtMS      int64     `json:"at"`
}

// Allowlist names who may talk on a channel. It is immutable; the zero Allowlist names nobody.
type Allowlist struct {
	everybody  bool
	principals map[Principal]bool
	chats      map[Key]bool
}

// ParseAllowlist reads the list of a channel. An entry is "*", which is everybody, a sender as [Principal.String] spells him, or a chat as
// [Key.String] does, which includes its threads. An entry that could never match is refused: one of another channel, or a sender without an id.
func ParseAllowlist(channel string, entries []string) (Allowlist, error) {
	l := Allowlist{principals: map[Principal]bool{}, chats: map[Key]bool{}}
	for _, entry := range entries {
		if err := l.add(channel, entry); err != nil {
			return Allowlist{}, WithHint(fmt.Errorf("allowlist entry %q: %w", entry, err),
				fmt.Sprintf(`write "*" for everybody, a sender like %s::alice, or a chat like %s:%s::family, as "corebot audit" and "corebot chats list" show them`, channel, DefaultAgent, channel))
		}
	}
	return l, nil
}

func (l *Allowlist) add(channel, entry string) error {
	if entry == "*" {
		l.everybody = true
		return nil
	}
	of := ""
	if p, err := ParsePrincipal(entry); err == nil {
		if err := p.Validate(); err != nil {
			return err
		}
		l.principals[p], of = true, p.Channel
	} else {
		k, err := ParseKey(entry)
		if err != nil {
			return fmt.Errorf("%w: it is neither a sender nor a chat", ErrInvalid)
		}
		l.chats[k], of = true, k.Channel
	}
	if of != channel {
		return fmt.Errorf("%w: it is of the channel %q", ErrInvalid, of)
	}
	return nil
}

// Names says whether the list names a sender, the chat he is in, or everybody. Senders without an id cannot be told apart: none of them is named.
func (l Allowlist) Names(p Principal, k Key) bool {
	chat := k
	chat.Thread = ""
	return l.everybody || p.ID != "" && l.principals[p] || l.chats[k] || l.chats[chat]
}
