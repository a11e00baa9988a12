package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed message_send.md
var messageSendDoc string

// Destination is a channel that messages can be sent on.
type Destination struct {
	Account string // of the keys of its chats
	// AgentOf names the agent that answers in a chat; nil: the chats are every agent's. A message into the chat of
	// another agent is refused: nobody would look for it there.
	AgentOf func(chat string) string
	AnyChat bool // whoever asks for a chat's messages gets them, also of one that nobody has written in yet
}

type messageSendArgs struct {
	Channel string `json:"channel" jsonschema:"the channel of the chat, such as cli or webhook"`
	ChatID  string `json:"chatId" jsonschema:"the chat, as its channel names it"`
	Content string `json:"content" jsonschema:"the text to send"`
}

// MessageSend sends a message of at most maxBytes into a chat, in the commit of the call's own outcome.
func MessageSend(to map[string]Destination, maxBytes int) tools.Tool {
	to = maps.Clone(to)
	return tools.NewOwn("message.send", messageSendDoc, 0, func(_ context.Context, c tools.Call,
		a messageSendArgs,
	) (corebot.Effect, string, error) {
		d, ok := to[a.Channel]
		if !ok {
			known := strings.Join(slices.Sorted(maps.Keys(to)), ", ")
			err := fmt.Errorf("there is no channel %q: %w", a.Channel, corebot.ErrNotFound)
			return nil, "", corebot.WithHint(err, "the channels are: "+known)
		}
		send := corebot.SendMessage{To: a.chat(c, to), Text: a.Content, Known: !d.AnyChat}
		if d.AgentOf != nil && send.To != c.Key && d.AgentOf(a.ChatID) != c.Key.Agent {
			err := fmt.Errorf("chat %q on %s talks to another agent: %w", a.ChatID, a.Channel, corebot.ErrNotFound)
			return nil, "", corebot.WithHint(err, "send to a chat of this agent")
		}
		m := corebot.Message{ID: c.StepID, Key: send.To, Parts: corebot.TextPart(send.Text)}
		if err := m.Validate(maxBytes); err != nil {
			return nil, "", fmt.Errorf("send: %w", err)
		}
		return send, fmt.Sprintf("the message is on its way to chat %q on %s", a.ChatID, a.Channel), nil
	}, tools.Touches(func(c tools.Call, a messageSendArgs) policy.Target { return policy.Target{Chat: a.chat(c, to)} }))
}

// chat is the conversation that the call means. The chat of the turn is meant with its thread. Any other chat is meant
// as a whole, under the caller's account where the caller has one on that channel.
func (a messageSendArgs) chat(c tools.Call, to map[string]Destination) corebot.Key {
	switch {
	case a.Channel != c.Key.Channel:
		return corebot.Key{Agent: c.Key.Agent, Channel: a.Channel, Account: to[a.Channel].Account, Chat: a.ChatID}
	case a.ChatID != c.Key.Chat:
		return corebot.Key{Agent: c.Key.Agent, Channel: a.Channel, Account: c.Key.Account, Chat: a.ChatID}
	}
	return c.Key
}
