package corebot

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Command is a chat command: a message whose first word is a known command word.
type Command struct {
	Name string // with its slash, in lower case
	Args string // the rest, trimmed
}

// CommandUsage describes a chat command to people.
type CommandUsage struct {
	Name    string // with its slash
	Args    string // as usage shows them, or empty
	Summary string
	Kind    Kind // a control acts at accept; a command keeps its place among the prompts of its chat
}

// commands are the same in every channel.
var commands = []CommandUsage{
	{"/new", "[TEXT]", "begin a new conversation, with TEXT if there is one; what was said before is kept but no " +
		"longer in play", KindCommand},
	{"/reset", "[TEXT]", "the same as /new", KindCommand},
	{"/stop", "[JOB]", "stop the answer that is being made, or the job with that number", KindControl},
	{"/jobs", "", "list the jobs of this chat: work that answers have given to child turns", KindControl},
	{"/steer", "TEXT", "say something to the answer that is being made, without waiting for its end", KindControl},
	{"/why", "[ID]", "tell what became of a message: the one with that id, or the newest of yours", KindControl},
	{
		"/retry", "[ID|all]", "try a message again that was given up: the one with that id, the newest of yours, or " +
			"all that /dead lists", KindControl,
	},
	{"/dead", "", "list the messages that were given up: yours, and for an admin all of this chat", KindControl},
	{"/drop", "ID|all", "drop a message for good that was given up, or all that /dead lists", KindControl},
	{
		"/approve", "ID [once|session|always]",
		"let a call run that waits for an approval, and calls such as it in this session, or always", KindControl,
	},
	{"/deny", "ID [stop]", "do not let it run; with stop the answer ends, too", KindControl},
	{
		"/pair", "[CODE]", "let in somebody who got that code, or refuse him with deny CODE; only an admin can",
		KindControl,
	},
	{
		"/rules", "[revoke ID]", "list the approvals that last in this chat, or revoke one", KindControl,
	},
	{"/status", "", "tell what this chat does now, and what waits", KindControl},
	{
		"/remind", "WHEN TEXT",
		"remind you: WHEN is a time from now such as 10m, a time of the day, or a day with a time",
		KindControl,
	},
	{
		"/resume", "ID [TEXT]", "let an answer go on that waits, and give it the word for which it waits", KindControl,
	},
	{"/tasks", "[ACTION ID]", "list the tasks of this chat; pause, resume, run or remove one", KindControl},
	{
		"/model", "[NAME]", "tell which model answers here; an admin names another for this conversation, or default",
		KindControl,
	},
	{
		"/think", "[LEVEL]", "tell how much the model thinks; an admin chooses off, minimal, low, medium or high for " +
			"this conversation, or default", KindControl,
	},
	{
		"/skills", "[enable|disable NAME]", "list the skills, and which are on in this chat; an admin of the chat " +
			"switches one on or off", KindControl,
	},
	{
		"/memory", "[WORDS|forget NUMBER]", "list what is remembered in this chat, and who said it; or forget a line " +
			"or a fact: your own, and for an admin of the chat those of others", KindCommand,
	},
	{"/models", "", "list the models that can answer", KindControl},
	{
		"/context", "", "tell what the next request to the model would carry, and what this conversation has cost",
		KindControl,
	},
	{"/usage", "", "tell what was used, and what may be", KindControl},
	{
		"/rewind", "[N]", "take back the last N messages and their answers, else the last: the model does not see " +
			"them any more; what its tools did stays", KindCommand,
	},
	{
		"/fork", "[NAME] [at ID]", "begin a new chat with what was said here, up to the message with that id if " +
			"there is one", KindCommand,
	},
	{
		"/link", "[CODE|yes]", "resume this conversation in another chat: get a code here, enter it there, " +
			"and say yes here",
		KindControl,
	},
	{"/unlink", "", "end the links of this chat; what they have copied is deleted", KindControl},
	{"/undo", "", "undo the newest changes of files in this chat: those of one message", KindCommand},
	{"/help", "", "this list", KindCommand},
}

// Commands lists the chat commands in the order in which people see them.
func Commands() []CommandUsage { return slices.Clone(commands) }

// UsageOf is how a command is written.
func UsageOf(name string) string {
	for _, c := range commands {
		if c.Name == name {
			return strings.TrimSpace(c.Name + " " + c.Args)
		}
	}
	return name
}

// modelWord begins lines that are meant for the offline model: for the offline model a command, for every other model
// text.
const modelWord = "/tool"

// Spoken is how Corebot understands a text of a person.
type Spoken struct {
	Kind Kind   // KindPrompt, KindOpening, KindCommand or KindControl
	Text string // of a prompt: what the model reads; of a command: the whole text
}

// Read decides what a text is. Every channel reads texts by this rule, and by no other:
//
//   - A command word is a slash and a letter, and all that follows up to white space, without another slash. So "/"
//     and "/tmp/x is full" are text.
//   - A text whose first word is a known command, in any case, is that command. "/new TEXT" and "/reset TEXT" are a
//     prompt that begins a session.
//   - A text whose first word is any other command word is a control message as well: a sender who mistyped /stop
//     must not wait for the model.
//   - A text that begins with "//" loses its first slash and is a prompt, if it would otherwise be a command:
//     "//stop" is the text "/stop". The same holds for the TEXT of "/new TEXT", "/reset TEXT" and "/steer TEXT".
//   - Everything else is a prompt as it stands.
func Read(text string) Spoken {
	if c, kind, ok := ParseCommand(text); ok {
		if opens(c.Name) && c.Args != "" {
			return Spoken{KindOpening, unescaped(c.Args)}
		}
		return Spoken{kind, text}
	}
	if isCommandWord(strings.TrimLeftFunc(text, unicode.IsSpace)) {
		return Spoken{KindControl, text}
	}
	return Spoken{KindPrompt, unescaped(text)}
}

// unescaped removes a slash that only keeps a text from being a command.
func unescaped(text string) string {
	if begin := strings.TrimLeftFunc(text, unicode.IsSpace); isLiteral(begin) {
		return begin[1:]
	}
	return text
}

func opens(name string) bool { return name == "/new" || name == "/reset" }

// isLiteral says whether the first slash of a text only keeps the text from being a command.
func isLiteral(text string) bool {
	slashes := len(text) - len(strings.TrimLeft(text, "/"))
	return slashes > 1 && hasCommandForm(text[slashes-1:])
}

// isCommandWord says whether a text begins with a command word: see [Read].
func isCommandWord(text string) bool {
	return hasCommandForm(text) && !strings.EqualFold(firstWord(text), modelWord)
}

func hasCommandForm(text string) bool {
	word, slash := strings.CutPrefix(firstWord(text), "/")
	first, _ := utf8.DecodeRuneInString(word)
	return slash && unicode.IsLetter(first) && !strings.Contains(word, "/")
}

func firstWord(text string) string {
	if end := strings.IndexFunc(text, unicode.IsSpace); end >= 0 {
		return text[:end]
	}
	return text
}

// ParseCommand reads a known chat command.
func ParseCommand(text string) (c Command, kind Kind, ok bool) {
	text = strings.TrimSpace(text)
	word := firstWord(text)
	name := strings.ToLower(word)
	known := slices.IndexFunc(commands, func(u CommandUsage) bool { return u.Name == name })
	if known < 0 {
		return Command{}, KindPrompt, false
	}
	args := strings.TrimSpace(text[len(word):])
	if name == "/steer" {
		args = unescaped(args)
	}
	return Command{Name: name, Args: args}, commands[known].Kind, true
}

// UnknownCommand is the first word of a text that is not a known command.
func UnknownCommand(text string) string { return firstWord(strings.TrimSpace(text)) }

// EscapeFunc writes the characters that hidden names as JSON escapes: \u and four digits, or a pair of them beyond the
// basic plane. Inside a JSON string the meaning stays the same.
func EscapeFunc(s string, hidden func(rune) bool) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
