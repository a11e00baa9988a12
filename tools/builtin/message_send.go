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
	Account string // the account in the keys of the channel's chats
	// AgentOf names the agent that answers in a chat. Nil: every agent answers in every chat. A message into the chat
	// of another agent is refused: nobody would look for it there.
	AgentOf func(chat string) string
	AnyChat bool // a message can also go to a chat that nobody has written in: a client asks for it by the chat's name
}

type messageSendArgs struct {
	Channel string `json:"channel" jsonschema:"the channel of the chat, such as cli or webhook"`
	ChatID  string `json:"chatId" jsonschema:"the chat, as its channel names it"`
	Content string `json:"content" jsonschema:"the text to send"`
}

// MessageSend is the tool that sends a text of at most maxBytes into a chat. The message is queued in the transaction
// that stores the call's result: both are there, or neither. Success means queued, not delivered.
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

// chat is the key of the chat that the call names. The chat of the turn keeps its thread; any other chat has none. On
// the channel of the turn the account is the turn's, and on another channel the account of the [Destination].
func (a messageSendArgs) chat(c tools.Call, to map[string]Destination) corebot.Key {
	switch {
	case a.Channel != c.Key.Channel:
		return corebot.Key{Agent: c.Key.Agent, Channel: a.Channel, Account: to[a.Channel].Account, Chat: a.ChatID}
	case a.ChatID != c.Key.Chat:
		return corebot.Key{Agent: c.Key.Agent, Channel: a.Channel, Account: c.Key.Account, Chat: a.ChatID}
	}
	return c.Key
}
