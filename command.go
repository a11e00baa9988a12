package corebot

import (
	"strings"
	"unicode"
)

// Command is a chat command: what a message is when its first word is a known one that begins with a slash.
type Command struct {
	Name string // with its slash, in lower case
	Args string // the rest, trimmed
}

// commands lists the chat commands, the same in every channel, with what each of them is on the bus. A control acts at
// accept; a command keeps its place among the prompts of its chat.
var commands = map[string]Kind{
	"/help":  KindCommand,
	"/new":   KindCommand,
	"/reset": KindCommand,
	"/stop":  KindControl,
}

// ParseCommand reads a chat command. Text that begins with any other slashed word is an ordinary prompt.
func ParseCommand(text string) (c Command, kind Kind, ok bool) {
	text = strings.TrimSpace(text)
	end := strings.IndexFunc(text, unicode.IsSpace)
	if end < 0 {
		end = len(text)
	}
	name, rest := strings.ToLower(text[:end]), text[end:]
	kind, ok = commands[name]
	if !ok {
		return Command{}, KindPrompt, false
	}
	return Command{Name: name, Args: strings.TrimSpace(rest)}, kind, true
}
