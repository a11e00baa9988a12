package serve

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed chat_list.md
var chatListDoc string

const (
	chatsShown = 50
	chatsMost  = 200
	nameBytes  = 200
)

type chatListArgs struct {
	Channel string `json:"channel,omitempty" jsonschema:"chats of this channel; your own if it is left out; * is all"`
	After   string `json:"after,omitempty" jsonschema:"the cursor of an earlier answer: the chats behind it"`
	Limit   int    `json:"limit,omitempty" jsonschema:"how many at most; 50 if it is left out, 200 at most"`
}

// chatPage is the result of chat.list.
type chatPage struct {
	Chats  []chat `json:"chats"`
	Cursor string `json:"cursor,omitempty"` // where to go on; left out when nothing may be left
}

type chat struct {
	Key         string `json:"key"` // what history.read takes
	Channel     string `json:"channel"`
	ChatID      string `json:"chatId"`
	DisplayName string `json:"displayName,omitempty"`
	Registered  bool   `json:"registered"`
	CreatedAt   string `json:"createdAt"`
}

// chatList lists the chats of a channel, or of all.
func (s *Service) chatList() tools.Tool {
	return tools.New("chat.list", chatListDoc, tools.ReadOnly|tools.Outside,
		func(ctx context.Context, _ tools.Call, a chatListArgs) (string, error) {
			limit, err := page(a.Limit, chatsShown, chatsMost)
			if err != nil {
				return "", err
			}
			found, err := s.store.Admin.ListChats(ctx, operate.ChatsQuery{
				Channel: a.channel(),
				Part:    operate.Part{After: a.After, Limit: limit},
			})
			if err != nil {
				return "", fmt.Errorf("list the chats: %w", err)
			}
			out := chatPage{Chats: make([]chat, len(found.Rows)), Cursor: found.Next}
			for i, c := range found.Rows {
				out.Chats[i] = s.chatOf(c)
			}
			return s.encode(out)
		}, tools.Touches(func(_ tools.Call, a chatListArgs) policy.Target {
			own := s.ownChat("")
			own.Everywhere = a.channel() != Channel
			return own
		}))
}

// channel is the one whose chats are meant; empty: all.
func (a chatListArgs) channel() string {
	switch a.Channel {
	case "":
		return Channel
	case "*":
		return ""
	}
	return a.Channel
}

func (s *Service) chatOf(c operate.Chat) chat {
	name, _ := s.fit(c.DisplayName, nameBytes)
	return chat{
		Key: c.Key, Channel: c.Channel, ChatID: c.ChatID, DisplayName: name, Registered: c.Registered,
		CreatedAt: timestamp(c.CreatedAt),
	}
}

// cursorOf reads a cursor; an empty one is the beginning.
func cursorOf(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no cursor: send what an earlier answer gave, or leave it out",
			corebot.ErrInvalid, text)
	}
	return int64(n), nil
}
