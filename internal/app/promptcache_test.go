package app_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/storage"
)

// cached is what a provider's cache gave for one request.
type cached struct {
	chat         string // whose message the request answers
	input, known int    // tokens
}

// ledgerOfCache answers requests as a provider with a prompt cache does, and notes what the cache gave.
type ledgerOfCache struct {
	mu    sync.Mutex
	cache llmtest.PromptCache
	all   []cached
}

func (l *ledgerOfCache) answer(r llmtest.Request) llmtest.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := strings.Fields(r.LastText())
	a := llmtest.Text("This is the answer to what you have said in " + strings.Join(said, " "))
	if r.Messages[len(r.Messages)-1].Role == "user" && strings.HasSuffix(r.LastText(), "list") {
		a = llmtest.ToolCalls(llmtest.Call{Name: "fs_list", Args: `{"path":"."}`})
	}
	a, known := l.cache.Answer(r, a)
	chat := "a tool"
	if len(said) > 1 && said[0] == "chat" {
		chat = said[1]
	}
	l.all = append(l.all, cached{chat, len(r.Body) / 4, known})
	return a
}

func (l *ledgerOfCache) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// newTokens is the limit for the tokens of a later request that a provider bills in full. These are the situation, the
// news of the chat since the request before, and the rest of a step of the cache.
const newTokens = 500

// firstTokens is the limit for the request of a new chat: somebody pays for each tool and each sentence in every turn.
const firstTokens = 6_200

// Requests begin alike, whatever the chat, the turn and the process. So a provider's prompt cache holds the tools, the
// system prompt and the history. Text that changes must come last.
func TestRequestsBeginAlikeSoThatPromptCachesHit(t *testing.T) {
	const chats, turns = 3, 4
	home, ledger := t.TempDir(), &ledgerOfCache{}
	web := httptest.NewServer(llmtest.New(ledger.answer))
	defer web.Close()
	want := 0
	for process := range 2 {
		publishChats(t, home, process, chats, turns)
		want += chats * (turns + 1) // one turn of each chat calls a tool
		answerAll(t, home, web.URL, func() bool { return ledger.count() >= want })
	}
	if first := ledger.all[0].input; first > firstTokens {
		t.Errorf("the request of a new chat has about %d tokens, want at most %d", first, firstTokens)
	}
	input, known := 0, 0
	for i, r := range ledger.all {
		if i == 0 {
			continue
		}
		input, known = input+r.input, known+r.known
		if r.input-r.known > newTokens {
			t.Errorf("request %d, of chat %s: only %d of %d tokens were cached", i+1, r.chat, r.known, r.input)
		}
	}
	t.Logf("%d requests, about %d tokens each: %.1f %% were cached", len(ledger.all), input/(len(ledger.all)-1),
		100*float64(known)/float64(input))
	if len(ledger.all) != want {
		t.Errorf("%d requests were made, want %d", len(ledger.all), want)
	}
}

// publishChats has messages wait in the chats of a home. The last but one of each chat wants a tool to be called.
func publishChats(t *testing.T, home string, process, chats, turns int) {
	t.Helper()
	var all []corebot.Message
	for turn := range turns {
		for chat := range chats {
			text := fmt.Sprintf("chat %d message %d", chat, turn)
			if turn == turns-2 {
				text += " list"
			}
			all = append(all, corebot.Message{
				ID: fmt.Sprintf("%d-%d-%d", process, chat, turn), Direction: corebot.Inbound, Kind: corebot.KindPrompt,
				Parts:  corebot.TextPart(text),
				Key:    corebot.Key{Agent: "main", Channel: "webhook", Chat: fmt.Sprint(chat)},
				Sender: corebot.Principal{Channel: "webhook", ID: fmt.Sprint("sender-", chat)},
			})
		}
	}
	err := app.WithStore(t.Context(), home, func(db *storage.DB) error {
		_, err := storage.NewQueue(db).Publish(t.Context(), all, corebot.Limits{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// answerAll runs a Corebot until done says so.
func answerAll(t *testing.T, home, url string, done func() bool) {
	t.Helper()
	c := config.Defaults()
	c.Home, c.Observability.Enabled = home, false
	c.LLM.Providers = config.NewProviders(config.Provider{
		Name: "caching", Kind: "openai", BaseURL: url + "/v1", Models: []string{"m"}, APIKey: config.NewSecret("key"),
	})
	a, err := app.New(t.Context(), c, app.Options{Serve: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	for deadline := time.Now().Add(20 * time.Second); !done() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	if err := errors.Join(<-ended, a.Close()); err != nil {
		t.Error(err)
	}
}
