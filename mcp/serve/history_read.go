package serve

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/tools"
)

//go:embed history_read.md
var historyReadDoc string

const (
	entriesShown = 20
	entriesMost  = 100
	entryBytes   = 16 << 10  // of one text
	entriesBytes = 128 << 10 // of all texts together, about
)

type historyReadArgs struct {
	ChatID string `json:"chatId,omitempty" jsonschema:"a chat of your own; main if it is left out"`
	Key    string `json:"key,omitempty" jsonschema:"in the place of chatId: any chat, by its key as chat_list shows it"`
	Before string `json:"before,omitempty" jsonschema:"the cursor of an earlier answer: what was said before it"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many of the newest entries; 20 if left out, 100 at most"`
}

// historyPage is the result of history.read: oldest first.
type historyPage struct {
	Key     string  `json:"key"`
	Entries []entry `json:"entries"`
	Cursor  string  `json:"cursor,omitempty"` // where to go on towards the past; left out when nothing may be left
}

type entry struct {
	At        string `json:"at"`
	Who       string `json:"who"` // user or assistant
	Name      string `json:"name,omitempty"`
	SenderID  string `json:"senderId,omitempty"`
	MessageID string `json:"messageId"`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated,omitempty"` // the text was longer
}

// historyRead reads what was said in one chat, newest page first.
func (s *Service) historyRead() tools.Tool {
	return tools.New("history.read", historyReadDoc, tools.ReadOnly|tools.Outside,
		func(ctx context.Context, _ tools.Call, a historyReadArgs) (string, error) {
			k, err := a.chat(s)
			if err != nil {
				return "", err
			}
			limit, err := page(a.Limit, entriesShown, entriesMost)
			if err != nil {
				return "", err
			}
			found, err := s.store.Admin.ReadHistory(ctx, operate.HistoryQuery{
				Key: k, Part: operate.Part{After: a.Before, Limit: limit},
			})
			if err != nil {
				return "", fmt.Errorf("read the history: %w", err)
			}
			return s.encode(s.historyPage(k, found))
		}, tools.Touches(func(_ tools.Call, a historyReadArgs) policy.Target {
			k, err := a.chat(s)
			if err != nil {
				return policy.Target{Everywhere: true} // whatever it means
			}
			return policy.Target{Chat: k}
		}))
}

// chat is the chat that is meant.
func (a historyReadArgs) chat(s *Service) (corebot.Key, error) {
	if a.Key == "" {
		k := s.key(a.ChatID)
		return k, k.Validate()
	}
	if a.ChatID != "" {
		return corebot.Key{}, fmt.Errorf("%w: chatId and key are both given", corebot.ErrInvalid)
	}
	return corebot.ParseKey(a.Key)
}

// historyPage takes as many entries as there is room for, the newest first, and turns them round.
func (s *Service) historyPage(k corebot.Key, found operate.Page[corebot.Said]) historyPage {
	out := historyPage{Key: k.String(), Entries: []entry{}}
	for bytes, i := 0, 0; i < len(found.Rows) && bytes < entriesBytes; i++ {
		e := s.entryOf(found.Rows[i])
		bytes += len(e.Text)
		out.Entries = append(out.Entries, e)
	}
	out.Cursor = found.Next
	if n := len(out.Entries); n < len(found.Rows) {
		out.Cursor = found.Rows[n-1].Place
	}
	slices.Reverse(out.Entries)
	return out
}

func (s *Service) entryOf(e corebot.Said) entry {
	text, truncated := s.shown(e.Parts, entryBytes)
	name, _ := s.fit(e.Name, nameBytes)
	return entry{timestamp(e.At), string(e.Speaker), name, e.Sender.ID, e.MessageID, text, truncated}
}
