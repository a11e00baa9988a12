package corebot

import "fmt"

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
