package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

// selective is the other side of a callback that takes pushes for some chats and never answers those for others.
type selective struct {
	mu    sync.Mutex
	taken map[string]time.Time
}

func (s *selective) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var p pushed
	_ = json.Unmarshal(b, &p)
	if strings.HasPrefix(p.ChatID, "dead") {
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[p.ChatID] = time.Now()
	w.WriteHeader(http.StatusNoContent)
}

func (s *selective) at(chat string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[chat]
}

func TestPushesThatNobodyAnswersHoldUpNoOtherChat(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{Callback: callbackAddress, CallbackSecret: testSecret})
		other, network := &selective{taken: map[string]time.Time{}}, llmtest.NewListener()
		f.callback.target.Dial(network.DialContext)
		server := &http.Server{Handler: other}
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(network) }()

		k := apptest.New(t, apptest.Options{})
		o, err := channels.NewOutbox(k.Bus, k.Ledger, "", zerolog.Nop(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- o.Run(ctx, channels.Entry{Account: channels.Account{Kind: Channel}, Channel: f.Webhook})
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			f.callback.target.Close()
			_ = server.Close()
			<-served
		})

		publish := func(chat string) {
			t.Helper()
			m := corebot.Message{
				ID: "m-" + chat, Direction: corebot.Outbound, Kind: corebot.KindReply, Parts: corebot.TextPart("hello"),
				Key: corebot.Key{Agent: corebot.DefaultAgent, Channel: Channel, Chat: chat},
			}
			if _, err := k.Bus.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 40 {
			publish(fmt.Sprint("dead", i))
		}
		for n := range 6 {
			chat := fmt.Sprint("healthy", n)
			asked := time.Now()
			publish(chat)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if at := other.at(chat); at.IsZero() || at.Sub(asked) > time.Second {
				t.Errorf("push %d to a healthy chat arrived after %v", n, at.Sub(asked))
			}
			silent := corebot.Key{Agent: corebot.DefaultAgent, Channel: Channel, Chat: "dead1"}
			if replies, err := f.replies.Page(t.Context(), silent, 0, 10, 1<<20); err != nil || len(replies) != 1 {
				t.Errorf("the mailbox of a chat whose callback is silent has %d replies, %v", len(replies), err)
			}
		}
	})
}
