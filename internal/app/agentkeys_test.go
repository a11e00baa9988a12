package app

import (
	"context"
	"slices"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/config"
)

// twoKeys are a provider of one kind twice, with a key and an account each, and what the server answers to a key.
func twoKeys(t *testing.T, answer func(key string) llmtest.Answer) (*llmtest.Server, config.LLM) {
	t.Helper()
	server, url := answering(t, func(r llmtest.Request) llmtest.Answer { return answer(r.Header.Get("X-Api-Key")) })
	entry := func(name string) config.Provider {
		return config.Provider{
			Name: name, Kind: "anthropic", BaseURL: url, Models: []string{"claude"},
			APIKey: config.NewSecret("key-of-" + name),
		}
	}
	return server, settings(entry("mine"), entry("team"))
}

func asking(providers ...string) config.AgentEntry {
	return config.AgentEntry{ID: "helper", Providers: config.NewList(providers...)}
}

// ask has an agent ask once, and gives the keys that the requests have carried, in order.
func ask(t *testing.T, server *llmtest.Server, all choice, entry config.AgentEntry) (keys []string, err error) {
	t.Helper()
	own, err := all.of(entry)
	if err != nil {
		t.Fatal(err)
	}
	before := len(server.Requests())
	_, err = own.model.Complete(context.WithoutCancel(t.Context()), llm.Request{
		Model: entry.Model, Messages: []llm.Message{{Role: llm.User, Text: "hi"}},
	}, nil)
	for _, r := range server.Requests()[before:] {
		keys = append(keys, r.Header.Get("X-Api-Key"))
	}
	return keys, err
}

func TestEachAgentsRequestsCarryTheKeyOfItsOwnProvider(t *testing.T) {
	server, c := twoKeys(t, func(string) llmtest.Answer { return llmtest.Text("fine") })
	all, err := chooseModel(t.Context(), c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	named := asking("*")
	named.Model = "team/claude"
	for want, entry := range map[string]config.AgentEntry{
		"key-of-mine": asking("mine"), "key-of-team": asking("team"),
	} {
		if keys, err := ask(t, server, all, entry); err != nil || !slices.Equal(keys, []string{want}) {
			t.Errorf("providers %v: the keys %q, %v; want %s", entry.Providers.Values(), keys, err, want)
		}
	}
	if keys, err := ask(t, server, all, named); err != nil || !slices.Equal(keys, []string{"key-of-team"}) {
		t.Errorf("the model %s: the keys %q, %v", named.Model, keys, err)
	}
}

func TestAnAgentFallsBackOnlyToAProviderThatIsListedForIt(t *testing.T) {
	for name, refusal := range map[string]llmtest.Answer{
		"the key is refused":   llmtest.Fail(401, "no such key"),
		"the provider is down": llmtest.Fail(500, "broken"),
		"no such model":        llmtest.Fail(404, "no such model"),
		"a rate limit":         llmtest.Fail(429, "slow down"),
	} {
		t.Run(name, func(t *testing.T) {
			server, c := twoKeys(t, func(key string) llmtest.Answer {
				if key == "key-of-team" {
					return refusal
				}
				return llmtest.Text("fine")
			})
			all, err := chooseModel(t.Context(), c, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 5 { // also behind an open breaker
				keys, err := ask(t, server, all, asking("team"))
				if err == nil || slices.Contains(keys, "key-of-mine") {
					t.Fatalf("an agent of team alone: the keys %q, %v", keys, err)
				}
			}
			listed := asking("mine", "team")
			listed.Model = "team/claude"
			keys, err := ask(t, server, all, listed)
			if err != nil || !slices.Equal(keys, []string{"key-of-team", "key-of-mine"}) {
				t.Errorf("an agent of both: the keys %q, %v", keys, err)
			}
		})
	}
}

func TestAModelOfAProviderThatIsNotListedIsUnknownToTheAgent(t *testing.T) {
	server, c := twoKeys(t, func(string) llmtest.Answer { return llmtest.Text("fine") })
	all, err := chooseModel(t.Context(), c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	entry := asking("team")
	entry.Model = "mine/claude"
	keys, err := ask(t, server, all, entry)
	if want := corebot.FaultUnknownModel.Say(); len(keys) != 0 || corebot.ExplanationOf(err).Plain != want {
		t.Errorf("%q, %v; want no request and %q", keys, err, want)
	}
	a := &App{config: config.Config{LLM: c, Agents: config.NewEntries(asking("team"))}}
	a.models.Store(&all)
	if got := a.modelNames("helper"); !slices.Equal(got, []string{"claude", "team/claude"}) {
		t.Errorf("/models lists %q", got)
	}
	if got := agentsOf(a.config)[0].Providers; !slices.Equal(got, []string{"team"}) {
		t.Errorf("`corebot agents show` names %q", got)
	}
}
