package corebot

import (
	"slices"
	"strings"
	"unicode"
)

// Command is a chat command: what a message is when its first word is a known one that begins with a slash.
type Command struct {
	Name string // with its slash, in lower case
	Args string // the rest, trimmed
}

// CommandUsage tells people about a chat command.
type CommandUsage struct {
	Name    string // with its slash
	Args    string // as usage shows them, or empty
	Summary string
	Kind    Kind // what it is on the bus: a control acts at accept, a command keeps its place among the prompts of its chat
}

// commands are the same in every channel.
var commands = []CommandUsage{
	{"/new", "", "begin a new conversation; what was said before is kept but no longer in play", KindCommand},
	{"/reset", "", "the same as /new", KindCommand},
	{"/stop", "", "stop the answer that is being made", KindControl},
	{"/steer", "TEXT", "say something to the answer that is being made, without waiting for its end", KindControl},
	{"/why", "[ID]", "tell what became of a message: the one with that id, or the newest of yours", KindControl},
	{"/retry", "[ID]", "try a message again that was given up: the one with that id, or the newest of yours", KindControl},
	{"/approve", "ID", "let a call run that waits for an admin's word", KindControl},
	{"/deny", "ID", "do not let it run", KindControl},
	{"/status", "", "tell what this chat does now, and what waits", KindControl},
	{"/usage", "", "tell what was used, and what may be", KindControl},
	{"/help", "", "this list", KindCommand},
}

// Commands lists the chat commands in the order in which people are told of them.
func Commands() []CommandUsage { return slices.Clone(commands) }

// ParseCommand reads a chat command. Text that begins with any other slashed word is an ordinary prompt.
func ParseCommand(text string) (c Command, kind Kind, ok bool) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "/") {
		return Command{}, KindPrompt, false
	}
	end := strings.IndexFunc(text, unicode.IsSpace)
	if end < 0 {
		end = len(text)
	}
	name, rest := strings.ToLower(text[:end]), text[end:]
	known := slices.IndexFunc(commands, func(u CommandUsage) bool { return u.Name == name })
	if known < 0 {
		return Command{}, KindPrompt, false
	}
	return Command{Name: name, Args: strings.TrimSpace(rest)}, commands[known].Kind, true
}
