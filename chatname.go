package corebot

import (
	"fmt"
	"slices"
	"strings"
)

// Named finds the chat that a person means: by its key as [Key.String] spells it, whether it is known or not, or by a short form of one of the known chats.
// Short forms leave out fields from the left: of "main:webhook::c1" they are "webhook::c1", "webhook:c1" (its account is empty) and "c1". The
// last two stand for a chat of any account. A chat's id counts as it is, or escaped as in its key. A short form of none is [ErrNotFound]; one of
// several is [ErrInvalid] and names them.
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
			"`corebot chats list` has those that are known; one that is not is spelled agent:channel:account:chat, such as main:webhook::c1")
	}
	return Key{}, fmt.Errorf("%w: chat %q can be any of %s", ErrInvalid, name, listed(meant))
}

// shortForms are the short names of a chat. They may be those of another, too.
func shortForms(k Key) []string {
	fields := strings.Split(k.String(), ":")[1:] // without the agent
	channel, account, chat := fields[0], fields[1], strings.Join(fields[2:], ":")
	forms := []string{chat, channel + ":" + chat, channel + ":" + account + ":" + chat}
	if k.Thread == "" {
		forms = append(forms, k.Chat, channel+":"+k.Chat)
	}
	return forms
}

// mostListed bounds the chats that an error names.
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
