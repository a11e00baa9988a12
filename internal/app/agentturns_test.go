package app_test

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/storage"
)

// A whole Corebot with two agents: the turns of each carry the key of its own provider, and answer in its own voice.
func TestTheTurnsOfTwoAgentsCarryTheirOwnKeysAndVoices(t *testing.T) {
	home, server := t.TempDir(), llmtest.New(llmtest.Always(llmtest.Text("fine")))
	web := httptest.NewServer(server)
	defer web.Close()
	agents := []string{"main", "helper"}
	err := app.WithStore(t.Context(), home, func(db *storage.DB) error {
		var all []corebot.Message
		for _, id := range agents {
			all = append(all, corebot.Message{
				ID: id, Direction: corebot.Inbound, Kind: corebot.KindPrompt, Parts: corebot.TextPart("hello"),
				Key:    corebot.Key{Agent: id, Channel: "webhook", Chat: "work"},
				Sender: corebot.Principal{Channel: "webhook", ID: "ann"},
			})
		}
		_, err := storage.NewQueue(db).Publish(t.Context(), all, corebot.Limits{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c := config.Defaults()
	c.Home, c.Observability.Enabled = home, false
	var providers []config.Provider
	var entries []config.AgentEntry
	thinks, temperatures := map[string]string{"main": "medium"}, map[string]config.Number{"helper": "0.25"}
	for _, id := range agents {
		providers = append(providers, config.Provider{
			Name: "of-" + id, Kind: "anthropic", BaseURL: web.URL + "/v1", Models: []string{"model-of-" + id},
			APIKey: config.NewSecret("key-of-" + id),
		})
		entries = append(entries, config.AgentEntry{
			ID: id, Temperature: temperatures[id], Think: thinks[id],
			Providers: config.NewList("of-" + id), Tools: config.AgentTools{Allow: config.NewList("*")},
		})
	}
	c.LLM.Providers, c.Agents = config.NewProviders(providers...), config.NewEntries(entries...)
	a, err := app.New(t.Context(), c, app.Options{Serve: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	for deadline := time.Now().Add(20 * time.Second); len(server.Requests()) < 2 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	if err := errors.Join(<-ended, a.Close()); err != nil {
		t.Error(err)
	}
	keys := map[string]string{}
	for _, r := range server.Requests() {
		keys[r.Model] = r.Header.Get("X-Api-Key")
	}
	if len(keys) != 2 || keys["model-of-main"] != "key-of-main" || keys["model-of-helper"] != "key-of-helper" {
		t.Errorf("the models were asked with the keys %q", keys)
	}
	for _, r := range server.Requests() {
		thinks := bytes.Contains(r.Body, []byte(`"thinking":{`))
		cool := bytes.Contains(r.Body, []byte(`"temperature":0.25`))
		if isMain := r.Model == "model-of-main"; thinks != isMain || cool == isMain {
			t.Errorf("%s was asked with thinking: %v, with the temperature: %v", r.Model, thinks, cool)
		}
	}
}
