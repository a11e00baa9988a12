package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/roots"
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

//go:embed message_upload.md
var messageUploadDoc string

// FileKeeper stores the content of a file for a conversation, before the message with this id refers to it. If the part
// has a hash, content with another hash is a [corebot.ErrInvalid]. Content that is too large is a
// [corebot.ErrTooLarge]. An AttachedFile with a fault is not kept: the fault says why.
type FileKeeper interface {
	Keep(ctx context.Context, k corebot.Key, message string, p corebot.Part, from io.Reader) (
		corebot.Part, corebot.AttachedFile, error)
}

// maxCaption bounds the caption of a file, in characters. Telegram takes 1,024, and counts an emoji as two.
const maxCaption = 1000

type messageUploadArgs struct {
	Path    string `json:"path" jsonschema:"the file, as for fs.read"`
	Caption string `json:"caption,omitempty" jsonschema:"a line below the file, of at most 1000 characters"`
}

// MessageUpload is the tool that adds a file to the reply of the turn. An empty file is refused, and so is a file that
// is another than the approved one. The content is stored by its hash, so a call that runs again after a crash adds no
// second copy.
func MessageUpload(reach *roots.Reach, keeper FileKeeper) tools.Tool {
	return tools.NewAttaching("message.upload", messageUploadDoc, tools.Idempotent,
		func(ctx context.Context, c tools.Call, a messageUploadArgs) (part corebot.Part, text string, err error) {
			if utf8.RuneCountInString(a.Caption) > maxCaption {
				return part, "", corebot.WithHint(fmt.Errorf("the caption has more than %d characters", maxCaption),
					"say it in the answer")
			}
			root, p, err := reach.At(a.Path)
			if err != nil {
				return part, "", err
			}
			f, err := root.Open(p.Path)
			if err != nil {
				return part, "", p.Explain(err)
			}
			defer f.Close() //nolint:errcheck // only read
			if info, err := f.Stat(); err == nil && info.Size() == 0 {
				return part, "", fmt.Errorf("%s is empty", a.Path)
			}
			part, ref, err := keeper.Keep(ctx, c.Results(), c.MessageID,
				corebot.Part{
					Type: corebot.PartFile, Name: path.Base(p.Path), Hash: strings.TrimPrefix(c.Approved, "sha256:"),
				}, f)
			switch {
			case errors.Is(err, corebot.ErrInvalid):
				return part, "", corebot.WithHint(fmt.Errorf("%s has changed since it was approved", a.Path),
					"make the call again, so that an admin is asked about it as it is now")
			case errors.Is(err, corebot.ErrTooLarge):
				return part, "", fmt.Errorf("%s is larger than a file may be: %w", a.Path, err)
			case err != nil:
				return part, "", fmt.Errorf("keep %s: %w", a.Path, err)
			case ref.Fault != "":
				return part, "", fmt.Errorf("%s is not kept: %s", a.Path, ref.Fault)
			}
			part.Text = a.Caption
			return part, fmt.Sprintf("%s (%s, %d bytes) goes with your answer", a.Path, part.MediaType, ref.Size), nil
		}, tools.Timeout[messageUploadArgs](uploadTime),
		tools.Touches(func(_ tools.Call, a messageUploadArgs) policy.Target { return reads(a.Path) }))
}

// uploadTime bounds a call of message.upload, which copies the file.
const uploadTime = 2 * time.Minute
