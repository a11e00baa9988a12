package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// reloaded is a running Corebot whose settings a test changes.
type reloaded struct {
	*App
	t    *testing.T
	home string
}

func startReloaded(t *testing.T, settings string) *reloaded {
	t.Helper()
	r := &reloaded{t: t, home: t.TempDir()}
	r.write(settings)
	c, err := LoadConfig(r.home)
	if err != nil {
		t.Fatal(err)
	}
	if r.App, err = New(t.Context(), c, Options{Serve: true, Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, r.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *reloaded) write(settings string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.home, "corebot.yaml"), []byte(settings), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func chatKey(chat string) corebot.Key {
	return corebot.Key{Agent: "main", Channel: "webhook", Chat: chat}
}

func (r *reloaded) say(chat, id string) {
	r.t.Helper()
	_, err := storage.NewQueue(r.Store).Publish(r.t.Context(), []corebot.Message{{
		ID: id, Direction: corebot.Inbound, Kind: corebot.KindPrompt, Parts: corebot.TextPart("hello"),
		Key: chatKey(chat), Sender: corebot.Principal{Channel: "webhook", ID: "ann"},
	}}, corebot.Limits{})
	if err != nil {
		r.t.Fatal(err)
	}
}

// answered waits for the end of a message and gives the model that answered it.
func (r *reloaded) answered(chat, id string) string {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		life, err := storage.NewLives(r.Store).InChat(r.t.Context(), chatKey(chat), id, corebot.Principal{})
		if err != nil {
			r.t.Fatal(err)
		}
		if life.End != "" {
			return fmt.Sprintf("%s by %s", life.End, life.Model)
		}
	}
	r.t.Fatalf("the message %s has no end", id)
	return ""
}

func TestAReloadChangesTheModelsOfTurnsThatBeginAfterIt(t *testing.T) {
	asked, goOn := make(chan bool, 1), make(chan bool)
	old, oldURL := answering(t, func(r llmtest.Request) llmtest.Answer {
		if r.N > 1 {
			return llmtest.Text("done")
		}
		asked <- true
		<-goOn
		return llmtest.ToolCalls(llmtest.Call{ID: "1", Name: "fs_list", Args: `{"path":"."}`})
	})
	fresh, freshURL := answering(t, llmtest.Always(llmtest.Text("hello")))
	file := func(name, url, prices string) string {
		return fmt.Sprintf("observability: {enabled: false}\nllm:\n  providers:\n  - {name: p-%s, base_url: %q, "+
			"models: [%s], api_key: key-of-%s}\n  prices: %q\n", name, url, name, name, prices)
	}
	r := startReloaded(t, file("old", oldURL, "old=1/1"))
	r.say("a", "1")
	<-asked
	r.write(file("fresh", freshURL, "fresh=1000/1000"))
	done, err := r.Reload()
	if err != nil || !slices.Equal(done.Applied, []string{"llm.providers", "llm.prices"}) || len(done.Restart) > 0 {
		t.Fatalf("reloaded %+v, %v", done, err)
	}
	r.say("b", "2")
	if got := r.answered("b", "2"); got != "answered by fresh" {
		t.Errorf("a new turn is %s", got)
	}
	close(goOn)
	if got := r.answered("a", "1"); got != "answered by old" {
		t.Errorf("the turn that ran is %s", got)
	}
	for name, s := range map[string]*llmtest.Server{"old": old, "fresh": fresh} {
		for _, request := range s.Requests() {
			if key := request.Header.Get("Authorization"); key != "Bearer key-of-"+name || request.Model != name {
				t.Errorf("%s was asked for %s with %q", name, request.Model, key)
			}
		}
	}
	if a, b := len(old.Requests()), len(fresh.Requests()); a != 2 || b != 1 {
		t.Errorf("%d requests of the old provider and %d of the fresh one", a, b)
	}
	u, err := storage.NewBooks(r.Store).OfSession(t.Context(), chatKey("b"))
	if err != nil || u.Cost != corebot.Money(1000*(u.InputTokens+u.OutputTokens)) || u.Cost == 0 {
		t.Errorf("the new turn used %+v, %v", u, err)
	}
	if got := r.modelNames("main"); !slices.Equal(got, []string{"fresh", "p-fresh/fresh"}) {
		t.Errorf("/models lists %q", got)
	}
	model := func(name string) error {
		change := operate.ModelChange{Key: chatKey("b"), Model: name}
		_, err := operate.SetChatModel.Call(t.Context(), r.Caller(), change)
		return err
	}
	if err := model("fresh"); err != nil {
		t.Error(err)
	}
	r.write(file("newest", freshURL, "")) // in the file, and not loaded
	if err := model("newest"); err == nil || !strings.Contains(err.Error(), `no model is called "newest"`) {
		t.Errorf("a model that is not loaded is chosen: %v", err)
	}
}

// mistakes are settings that no reload takes, with a word of the reason.
var mistakes = map[string]string{
	"llm: {modle: x}":                                         "llm.modle",
	"llm: {base_url: 'not an address'}":                       "llm.base_url",
	"llm: {base_url: 'ftp://a/v1'}":                           "llm.base_url",
	"llm: {timeout: 0s}":                                      "llm.timeout",
	"llm: {timeout: soon}":                                    "llm.timeout",
	"llm: {idle_timeout: -1s}":                                "llm.idle_timeout",
	"llm: {first_byte_timeout: never}":                        "llm.first_byte_timeout",
	"llm: {prices: 'x'}":                                      "llm.prices",
	"llm: {prices: 'x=1/-2'}":                                 "llm.prices",
	"llm: {breaker_failures: 0}":                              "llm.breaker_failures",
	"llm: {breaker_cool_down: 1ms}":                           "llm.breaker_cool_down",
	"llm: {context_tokens: -1}":                               "llm.context_tokens",
	"llm: {context_tokens: 100, output_tokens: 200}":          "llm.context_tokens",
	"llm: {output_tokens: 0}":                                 "llm.output_tokens",
	"llm: {api_key: 'file:no-such-file'}":                     "no-such-file",
	"llm: {api_key: 'env:NO_SUCH_VARIABLE_OF_COREBOT'}":       "NO_SUCH_VARIABLE_OF_COREBOT",
	"llm: {offline: perhaps}":                                 "llm.offline",
	"llm: {providers: [{name: a}]}":                           "llm.providers[0]",
	"llm: {providers: [{name: a, models: []}]}":               "llm.providers[0]",
	"llm: {providers: [{models: [m]}]}":                       "llm.providers[0]",
	"llm: {providers: [{name: a, kind: x, models: [m]}]}":     "kind",
	"llm: {providers: {name: a}}":                             "llm.providers",
	"llm: [1, 2]":                                             "llm",
	"llm: {providers: [{name: kept, models: [m], ports: 1}]}": "ports",
	"llm: {":                                 "corebot.yaml",
	"agents: [{id: main, providers: [b]}]":   "providers",
	"agents: [{id: main, model: big}]":       "agents",
	"agent: {compaction_keep_tokens: -1}":    "compaction_keep_tokens",
	"budget: {daily_cost: lots}":             "budget",
	"bus: {lease: 0s}":                       "bus.lease",
	"nonsense: true":                         "nonsense",
	"webhook: {token: short, enabled: true}": "webhook.token",
}

func TestFiftyBadFilesChangeNothing(t *testing.T) {
	_, url := answering(t, llmtest.Always(llmtest.Text("hello")))
	kept := fmt.Sprintf("{name: kept, base_url: %q, models: [m]}", url)
	const rest = "observability: {enabled: false}\nagents: [{id: main, providers: [kept]}]\n"
	r := startReloaded(t, rest+"llm: {providers: ["+kept+"]}\n")
	models, mind := r.models.Load(), r.agents.all["main"].mind.Load()
	refused := 0
	refuse := func(file, reason string) {
		t.Helper()
		refused++
		r.write(file)
		done, err := r.Reload()
		if err == nil || !strings.Contains(err.Error()+corebot.HintOf(err), reason) {
			t.Errorf("a reload of\n%s\nsays %v, want a word of %q", file, err, reason)
		}
		if len(done.Applied)+len(done.Restart) > 0 || r.models.Load() != models ||
			r.agents.all["main"].mind.Load() != mind || r.inForce.Log.Level != "info" {
			t.Fatalf("a reload of\n%s\nthat is refused changes something: %+v", file, done)
		}
	}
	for mistake, reason := range mistakes {
		refuse("observability: {enabled: false}\nlog: {level: debug}\n"+mistake+"\n", reason)
		if !strings.HasPrefix(mistake, "llm") { // beside models that are right
			refuse("log: {level: debug}\nllm: {providers: ["+strings.ReplaceAll(kept, "[m]", "[m, n]")+"]}\n"+
				"observability: {enabled: false}\n"+mistake+"\n", reason)
		} else if !strings.HasPrefix(mistake, "llm: {p") {
			refuse(rest+"log: {level: debug}\n"+mistake+"\n", reason)
		}
	}
	// Good by itself, and not beside the agents that are in force until a restart.
	refuse("observability: {enabled: false}\nagents: [{id: main, providers: [other]}]\nllm: {providers: [{name: "+
		"other, models: [x], base_url: "+url+"}]}\nlog: {level: debug}\n", "with the settings that need a restart")
	if refused < 50 {
		t.Errorf("only %d files were tried", refused)
	}
	r.say("a", "1")
	if got := r.answered("a", "1"); got != "answered by m" {
		t.Errorf("after %d bad files a turn is %s", refused, got)
	}
	r.write(rest + "llm: {providers: [" + strings.ReplaceAll(kept, "[m]", "[n]") + "]}\n")
	if _, err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	r.say("a", "2")
	if got := r.answered("a", "2"); got != "answered by n" {
		t.Errorf("after a good file a turn is %s", got)
	}
}

func TestAfterAReloadATurnIsShownThePagesAsTheyAre(t *testing.T) {
	server, url := answering(t, llmtest.Always(llmtest.Text("hello")))
	settings := "observability: {enabled: false}\n" +
		"llm: {providers: [{name: p, base_url: %q, models: [m], api_key: k}]}\n"
	r := startReloaded(t, fmt.Sprintf(settings, url))
	for i, reload := range []bool{false, true} { // the first turn of a chat looks in any case
		page := fmt.Sprintf("These are the words of day %d.", i)
		if err := os.WriteFile(filepath.Join(r.home, "workspace", "SOUL.md"), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		if reload {
			if _, err := r.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		r.say("a", fmt.Sprint(i))
		r.answered("a", fmt.Sprint(i))
		if all := server.Requests(); !bytes.Contains(all[len(all)-1].Body, []byte(page)) {
			t.Errorf("turn %d is not shown %q", i, page)
		}
	}
}

// liveParts say which test shows that a running Corebot takes the live settings of a section, or one of them.
var liveParts = map[string]string{
	"llm.":                "TestAReloadChangesTheModelsOfTurnsThatBeginAfterIt",
	"log.level":           "rotate.txtar",
	"webhook.token":       "rotate.txtar",
	"webhook.secret":      "rotate.txtar",
	"observability.token": "rotate.txtar",
	"budget.":             "TestAReloadChangesBudgetsAndWhereHeadsArePublished",
	"audit.":              "TestAReloadChangesBudgetsAndWhereHeadsArePublished",
	"audit.verify_every":  "TestTheTrailIsVerifiedAMinuteAfterTheStartAndThenEachPeriod",
	"retention.":          "TestRetentionTakesOtherTimesFromTheNextPassOn",
}

func TestEveryLiveSettingIsOfAPartThatTakesIt(t *testing.T) {
	keys := config.Live()
	for _, key := range keys {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(liveParts)), func(part string) bool {
			return key == part || strings.HasSuffix(part, ".") && strings.HasPrefix(key, part)
		}) {
			t.Errorf("%s is marked as live, and no test shows that a running Corebot takes it", key)
		}
	}
	if len(keys) < 20 {
		t.Errorf("only %d settings are live: %q", len(keys), keys)
	}
}

func TestAReloadChangesBudgetsAndWhereHeadsArePublished(t *testing.T) {
	_, url := answering(t, llmtest.Always(llmtest.Text("hello")))
	base := fmt.Sprintf("observability: {enabled: false}\nllm: {providers: [{name: p, base_url: %q, models: [m]}]}\n",
		url)
	r := startReloaded(t, base)
	r.say("a", "1")
	r.answered("a", "1")
	r.write(base + "budget: {total_daily_tokens: 1}\naudit: {file: elsewhere.jsonl, publish_every: 1h}\n" +
		"retention: {audit: 48h}\nbus: {lease: 1m}\n")
	done, err := r.Reload()
	live := []string{"audit.file", "retention.audit", "budget.total_daily_tokens"}
	if err != nil || !slices.Equal(done.Applied, live) ||
		!slices.Equal(done.Restart, []string{"bus.lease"}) {
		t.Fatalf("reloaded %+v, %v", done, err)
	}
	r.say("a", "2")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		life, err := storage.NewLives(r.Store).InChat(r.t.Context(), chatKey("a"), "2", corebot.Principal{})
		if err != nil || time.Now().After(deadline) || life.End != "" {
			t.Fatalf("over the new budget the message is %s (%s): %v", life.State, life.End, err)
		}
		if strings.HasPrefix(life.State, "deferred") {
			break
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if text, err := os.ReadFile(filepath.Join(r.home, "elsewhere.jsonl")); err == nil && len(text) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no head is in the new file")
		}
	}
	// The file no longer says them: they are as they were, and the other one still needs a restart.
	r.write(base + "bus: {lease: 1m}\n")
	if done, err = r.Reload(); err != nil || !slices.Equal(done.Applied, live) ||
		!slices.Equal(done.Restart, []string{"bus.lease"}) {
		t.Fatalf("reloaded %+v, %v", done, err)
	}
	r.say("b", "3")
	r.answered("b", "3")
}

// TestACorebotOfATerminalNamesNoSettingThatNobodyChanged: it drains shorter than bus.drain says.
func TestACorebotOfATerminalNamesNoSettingThatNobodyChanged(t *testing.T) {
	c, err := LoadConfig(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), c, Options{Attended: true, Drain: time.Second, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close() //nolint:errcheck // of a home that goes
	if done, err := a.Reload(); err != nil || len(done.Restart)+len(done.Applied) > 0 {
		t.Errorf("reloaded %+v, %v", done, err)
	}
	if a.config.Bus.Drain != time.Second {
		t.Errorf("a turn may go on for %s", a.config.Bus.Drain)
	}
}
