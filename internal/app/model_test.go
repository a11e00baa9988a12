package app

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/config"
)

// answering is a model server on loopback.
func answering(t *testing.T, script llmtest.Script) (*llmtest.Server, string) {
	t.Helper()
	s := llmtest.New(script)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return s, web.URL + "/v1"
}

func settings(list ...config.Provider) config.LLM {
	c := config.Defaults().LLM
	c.Discover = false
	c.Providers = config.NewProviders(list...)
	return c
}

func TestAListOfProvidersAnswersInItsOrderEachInItsOwnAPI(t *testing.T) {
	broken, brokenURL := answering(t, llmtest.Always(llmtest.Fail(500, "broken")))
	well, wellURL := answering(t, llmtest.Always(llmtest.Text("fine")))
	c := settings(
		config.Provider{
			Name: "first", Kind: "openai", BaseURL: brokenURL, Models: []string{"big", "small"},
			APIKey: config.NewSecret("key-of-the-first"),
		},
		config.Provider{
			Name: "second", Kind: "anthropic", BaseURL: wellURL, Models: []string{"claude"},
			APIKey:  config.NewSecret("key-of-the-second"),
			Headers: map[string]config.Secret{"X-Title": config.NewSecret("bot")}, ThinkingTokens: 1024,
		})
	chosen, err := chooseModel(t.Context(), c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if chosen.model.Name() != "big" || !strings.HasSuffix(chosen.why, "first/big, first/small, second/claude") {
		t.Errorf("%s: %s", chosen.model.Name(), chosen.why)
	}
	a, err := chosen.model.Complete(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hi"}}},
		nil)
	if err != nil || a.Text != "fine" || a.Model != "claude" {
		t.Fatalf("%+v, %v", a, err)
	}
	asked := broken.Requests()
	if len(asked) != 2 || asked[0].Model != "big" || asked[1].Model != "small" ||
		asked[0].Header.Get("Authorization") != "Bearer key-of-the-first" {
		t.Errorf("the first was asked %d times", len(asked))
	}
	last := well.Last()
	if last.API != llmtest.Anthropic || last.Header.Get("X-Api-Key") != "key-of-the-second" ||
		last.Header.Get("X-Title") != "bot" || last.MaxTokens != 4096+1024 {
		t.Errorf("the second was asked %+v", last.Header)
	}
}

func TestTheLimitsOfAProviderAreItsOwnOrThoseOfTheSection(t *testing.T) {
	_, url := answering(t, llmtest.Always(llmtest.Text("x").Stall(-1)))
	for name, c := range map[string]struct{ section, own time.Duration }{
		"its own":       {time.Hour, 20 * time.Millisecond},
		"the section's": {20 * time.Millisecond, 0},
	} {
		s := settings(config.Provider{
			Name: "slow", Kind: "openai", BaseURL: url, Models: []string{"m"},
			FirstByteTimeout: c.own,
		})
		s.FirstByteTimeout = c.section
		chosen, err := chooseModel(t.Context(), s, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = chosen.model.Complete(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hi"}}},
			nil)
		if err == nil || !strings.HasPrefix(err.Error(), "slow: ask m at "+url+": not a byte of an answer for 20ms") ||
			!strings.Contains(corebot.HintOf(err), "first_byte_timeout of slow in llm.providers") {
			t.Errorf("%s: %v (hint %q)", name, err, corebot.HintOf(err))
		}
	}
}

func TestTheOfflineModelAndTheListComeBeforeTheSingleEndpoint(t *testing.T) {
	c := settings(config.Provider{Name: "a", Kind: "openai", Models: []string{"of the list"}})
	c.BaseURL, c.Model = "http://127.0.0.1:1/v1", "single"
	chosen, err := chooseModel(t.Context(), c, nil, nil)
	if err != nil || chosen.model.Name() != "of the list" {
		t.Errorf("%v, %v", chosen.model, err)
	}
	c.Offline = true
	if chosen, err = chooseModel(t.Context(), c, nil, nil); err != nil || chosen.each != nil {
		t.Errorf("%v, %v", chosen.model, err)
	}
	c = settings()
	c.BaseURL, c.Model = "http://127.0.0.1:1/v1", "single"
	if chosen, err = chooseModel(t.Context(), c, nil, nil); err != nil || chosen.model.Name() != "single" ||
		chosen.why != "an OpenAI-compatible endpoint answers, 127.0.0.1:1" {
		t.Errorf("%v, %v", chosen.model, err)
	}
}

func TestTheDoctorAsksEveryModelOfTheList(t *testing.T) {
	_, wellURL := answering(t, llmtest.Always(llmtest.Text("ok")))
	_, brokenURL := answering(t, llmtest.Always(llmtest.Fail(401, "no such key")))
	c := config.Defaults()
	c.LLM = settings(config.Provider{Name: "near", Kind: "openai", BaseURL: wellURL, Models: []string{"a", "b"}},
		config.Provider{Name: "far", Kind: "anthropic", BaseURL: brokenURL, Models: []string{"c"}})
	findings := checkModels(t.Context(), c)[1:] // behind what the tools take
	var got []string
	for _, f := range findings {
		got = append(got, f.Level+" "+f.What)
	}
	if len(got) == 0 || !strings.HasPrefix(got[0],
		"ok a prompt and its answer have 32000 tokens together (an assumption") {
		t.Fatalf("%q", got)
	}
	if got, findings = got[1:], findings[1:]; len(got) != 3 || got[0] != "ok the model of near a answers: one of "+
		"llm.providers" || got[1] != "ok the model of near b answers: one of llm.providers" ||
		!strings.HasPrefix(got[2], "fail the model of far: far: ask c at ") ||
		!strings.Contains(findings[2].Hint, "api_key of far") {
		t.Errorf("%q", got)
	}
}

// twoAgents are settings of two agents with a provider each.
func twoAgents(small, large string) config.Config {
	c := config.Defaults()
	c.LLM = settings(config.Provider{Name: "small", Kind: "openai", BaseURL: small, Models: []string{"gpt-4"}},
		config.Provider{Name: "large", Kind: "openai", BaseURL: large, Models: []string{"gpt-4o"}})
	c.Agents = config.NewEntries(config.AgentEntry{ID: "main", Providers: config.NewList("large")},
		config.AgentEntry{ID: "helper", Providers: config.NewList("small")})
	return c
}

func TestTheDoctorTellsTheContextOfEachAgentsOwnModels(t *testing.T) {
	_, url := answering(t, llmtest.Always(llmtest.Text("ok")))
	var got []string
	for _, f := range checkModels(t.Context(), twoAgents(url, url)) {
		got = append(got, f.What)
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{
		"agent main: a prompt and its answer have 64000 tokens",
		"agent helper: a prompt and its answer have 8192 tokens",
		"agent helper: the context is", "agent main: Corebot's own tools take",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the doctor does not say %q:\n%s", want, all)
		}
	}
}

func TestAnAgentWhoseOwnModelsAllFailIsNamedWhateverTheOthersHave(t *testing.T) {
	_, well := answering(t, llmtest.Always(llmtest.Text("ok")))
	_, broken := answering(t, llmtest.Always(llmtest.Fail(401, "no such key")))
	c := twoAgents(broken, well)
	chosen, err := chooseModel(t.Context(), c.LLM, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &App{config: c}
	a.models.Store(&chosen)
	for _, entry := range c.AgentList() {
		own, err := chosen.of(entry)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = own.model.Complete(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hi"}}}, nil)
		a.agents.order = append(a.agents.order, &agentUnit{entry: entry})
	}
	if got := a.unanswered(t.Context()); !strings.HasPrefix(got, "agent helper: small/gpt-4: ") ||
		strings.Contains(got, "main") {
		t.Errorf("unanswered: %q", got)
	}
}

func TestAChatIsToldWhichModelRests(t *testing.T) {
	_, limitedURL := answering(t, llmtest.Always(llmtest.Fail(429, "slow down").Header("Retry-After", "60")))
	_, wellURL := answering(t, llmtest.Always(llmtest.Text("fine")))
	chosen, err := chooseModel(t.Context(), settings(
		config.Provider{Name: "first", Kind: "openai", BaseURL: limitedURL, Models: []string{"big"}},
		config.Provider{Name: "second", Kind: "openai", BaseURL: wellURL, Models: []string{"small"}}), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := chosen.describe(); got != "big" {
		t.Errorf("all well: %s", got)
	}
	if _, err := chosen.model.Complete(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hi"}}},
		nil); err != nil {
		t.Fatal(err)
	}
	if got := chosen.describe(); !strings.HasPrefix(got, "big; first/big failed and rests until ") ||
		strings.Contains(got, "slow down") {
		t.Errorf("one rests: %s", got)
	}
}

func TestTheModelsThatAreKnownAreThoseOfTheSettings(t *testing.T) {
	if got := settings(config.Provider{Name: "a", Models: []string{"x", "y"}}).KnownModels(); !slices.Equal(got,
		[]string{"x", "a/x", "y", "a/y"}) {
		t.Errorf("of a list: %q", got)
	}
	c := settings()
	c.BaseURL = "http://x/v1"
	if got := c.KnownModels(); !slices.Equal(got, []string{config.DefaultModel, "default/" + config.DefaultModel}) {
		t.Errorf("of an endpoint: %q", got)
	}
	if got := (config.LLM{Discover: true}).KnownModels(); len(got) != 0 {
		t.Errorf("of whatever is found: %q", got)
	}
}
