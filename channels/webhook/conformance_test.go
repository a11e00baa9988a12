package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/channeltest/platform"
)

// caller is a program that talks through the webhook that runs at the moment.
type caller struct {
	t   *testing.T
	now atomic.Pointer[Webhook]
}

func (c *caller) ask(ctx context.Context, method, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.now.Load().Addr()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	r.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(r)
}

// post repeats a message until it is accepted.
func (c *caller) post(_ channels.Accepter, id, text string) {
	body := fmt.Sprintf(`{"id":%q,"chatId":%q,"senderId":"ann","content":%q}`, id, channeltest.Chat, text)
	ctx := c.t.Context()
	go func() {
		for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			answer, err := c.ask(ctx, http.MethodPost, "/webhook", body)
			if err != nil {
				continue
			}
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusAccepted {
				return
			}
		}
	}()
}

// attach posts a message with a file, and gives the words of a refusal.
func (c *caller) attach(_ channels.Accepter, id, text string, f channeltest.SentFile) string {
	body, err := json.Marshal(map[string]any{
		"id": id, "chatId": channeltest.Chat, "senderId": "ann", "content": text,
		"attachments": []any{map[string]any{"name": f.Name, "type": f.MediaType, "data": f.Content}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	answer, err := c.ask(c.t.Context(), http.MethodPost, "/webhook", string(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	var problem struct{ Detail string }
	if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil {
		c.t.Error(err)
	}
	return problem.Detail
}

func (c *caller) replies() (texts []string) {
	c.t.Helper()
	answer, err := c.ask(c.t.Context(), http.MethodGet, "/webhook/outbound?chatId="+channeltest.Chat, "")
	if err != nil {
		return nil
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	var page struct {
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil {
		c.t.Error(err)
	}
	for _, m := range page.Messages {
		texts = append(texts, m.Content)
	}
	return texts
}

// A caller can repeat a message for as long as ids are known.
func TestACallerRepeatsAMessageAndItIsAnsweredOnce(t *testing.T) {
	const known = 7 * 24 * time.Hour // bus.dedupe_ttl, as it is by default
	channeltest.Redelivery(t, known, func(t *testing.T) channeltest.Subject {
		c, box := &caller{t: t}, openMailbox(t)
		return channeltest.Subject{
			Account: channels.Account{Kind: Channel},
			Open: func() channels.Channel {
				w, err := prepare(box, Options{Token: testToken, Log: zerolog.Nop()})
				if err != nil {
					t.Fatal(err)
				}
				l, err := platform.Listener("127.0.0.1:1")
				if err == nil {
					err = w.attach(l)
				}
				if err != nil {
					t.Fatal(err)
				}
				c.now.Store(w)
				return w
			},
			Say: c.post, Again: func(id string) { c.post(nil, id, "question 0") }, Shown: c.replies,
		}
	})
}

func TestTheWebhookKeepsTheGuaranteesOfAChannel(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Subject {
		c, box := &caller{t: t}, openMailbox(t)
		return channeltest.Subject{
			Account: channels.Account{Kind: Channel},
			Open: func() channels.Channel {
				w, err := New(box, Options{Addr: "127.0.0.1:0", Token: testToken, Log: zerolog.Nop()})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := w.Close(); err != nil {
						t.Error(err)
					}
				})
				c.now.Store(w)
				return w
			},
			Say: c.post, Shown: c.replies,
			FilesInMessages: true, Attach: c.attach, Refuses: "bytes",
		}
	})
}
