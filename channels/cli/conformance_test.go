package cli

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/internal/live"
)

// reader is a terminal that shows what comes.
type reader struct {
	mu    sync.Mutex
	texts []string
}

func (r *reader) read(ctx context.Context, from *Remote) {
	key, shown := TerminalKey(corebot.DefaultAgent, channeltest.Chat), ""
	for {
		f, err := from.Fetch(ctx, key, "session", shown)
		if err != nil || ctx.Err() != nil {
			return
		}
		if shown = ""; f.Message != nil {
			r.mu.Lock()
			r.texts = append(r.texts, f.Message.Text())
			r.mu.Unlock()
			shown = f.Message.ID
		}
	}
}

func (r *reader) shown() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.texts)
}

func TestTheTerminalKeepsTheGuaranteesOfAChannel(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Subject {
		var hub live.Hub
		account := channels.Account{Kind: Channel, Name: DefaultAccount}
		person := new(reader)
		return channeltest.Subject{
			Account: account,
			Open: func() channels.Channel {
				c := NewRemote(hub.Watch, func(context.Context, corebot.Key) error { return nil }, nil)
				key := TerminalKey(corebot.DefaultAgent, channeltest.Chat)
				if err := c.Attach(t.Context(), key, "session", false); err != nil {
					t.Fatal(err)
				}
				go person.read(t.Context(), c)
				return c
			},
			Say: func(door channels.Accepter, id, text string) {
				ctx := t.Context()
				in := channels.Incoming{
					ID: id, Channel: account.Kind, Account: account.Name, Chat: channeltest.Chat, SenderID: "7",
					Parts: corebot.TextPart(text),
				}
				go func() {
					for ctx.Err() == nil {
						if _, err := door.Accept(ctx, in); err == nil {
							return
						}
						time.Sleep(5 * time.Millisecond)
					}
				}()
			},
			FilesInMessages: true, Refuses: "larger|bytes",
			Attach: func(door channels.Accepter, id, text string, f channeltest.SentFile) string {
				_, err := door.Accept(t.Context(), channels.Incoming{
					ID: id, Channel: account.Kind, Account: account.Name, Chat: channeltest.Chat, SenderID: "7",
					Parts: append(corebot.TextPart(text), corebot.Part{
						Type: corebot.PartFile, Name: f.Name, MediaType: f.MediaType,
					}),
					Files: []channels.Attached{{Data: f.Content}},
				})
				if err != nil {
					return err.Error()
				}
				return ""
			},
			Shown: person.shown,
		}
	})
}
