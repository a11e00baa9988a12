package bench

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/corebot/corebot"
)

// workload makes the messages of a measurement.
type workload struct {
	chats int
	text  string
}

func newWorkload(chats, bytes int) workload {
	return workload{chats: chats, text: strings.Repeat("x", bytes)}
}

// message is a new message in a chat, with an id that is greater than those before it, as channels give them.
func (w workload) message(chat int) corebot.Message {
	return corebot.Message{
		ID:        uuid.Must(uuid.NewV7()).String(), // fails only where Go ends the program before: no randomness
		Direction: corebot.Inbound, Kind: corebot.KindPrompt,
		Key:    corebot.Key{Agent: corebot.DefaultAgent, Channel: "bench", Chat: chatName(chat)},
		Sender: corebot.Principal{Channel: "bench", ID: chatName(chat)}, // one in each chat
		Parts:  corebot.TextPart(w.text),
	}
}

func chatName(n int) string { return fmt.Sprintf("chat-%05d", n) }

// spread makes n messages, dealt out to the chats in turn. They are made before the clock starts: they are the callers'
// work.
func (w workload) spread(n int) []corebot.Message {
	messages := make([]corebot.Message, n)
	for i := range messages {
		messages[i] = w.message(i % w.chats)
	}
	return messages
}

// hot is the chat in which half of the backlog waits.
const hot = 0

// lopsided makes the messages from first to before last of a backlog: every second one in the hot chat, the others
// dealt out.
func (w workload) lopsided(first, last int) []corebot.Message {
	messages := make([]corebot.Message, 0, last-first)
	for i := first; i < last; i++ {
		chat := hot
		if i%2 == 1 {
			chat = 1 + i/2%(w.chats-1)
		}
		messages = append(messages, w.message(chat))
	}
	return messages
}
