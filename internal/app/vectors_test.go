package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/terms"
)

// vectorsAt is an endpoint that gives each text one vector.
func vectorsAt(t *testing.T) config.Embeddings {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		var data []string
		for i := range asked.Input {
			data = append(data, fmt.Sprintf(`{"index":%d,"embedding":[1,2,3]}`, i))
		}
		_, _ = fmt.Fprintf(w, `{"data":[%s],"usage":{"prompt_tokens":5}}`, strings.Join(data, ","))
	}))
	t.Cleanup(srv.Close)
	return config.Embeddings{BaseURL: srv.URL, Model: "m", Timeout: time.Second, Batch: 8}
}

func TestDoctorAsksTheServiceOfVectors(t *testing.T) {
	if all := checkEmbeddings(t.Context(), config.Embeddings{}); len(all) != 0 {
		t.Errorf("without a service: %+v", all)
	}
	up := vectorsAt(t)
	if f := checkEmbeddings(t.Context(), up)[0]; f.Level != "ok" || !strings.Contains(f.What, "3 dimensions") {
		t.Errorf("got %+v", f)
	}
	up.BaseURL += "1"
	if f := checkEmbeddings(t.Context(), up)[0]; f.Level != "fail" {
		t.Errorf("without an answer: %+v", f)
	}
	up.Model = ""
	if f := checkEmbeddings(t.Context(), up)[0]; f.Level != "fail" ||
		!strings.Contains(f.Hint, "llm.embeddings.model") {
		t.Errorf("without a model: %+v", f)
	}
}

// vectorsHome is a Corebot with an endpoint for vectors whose store runs, without anything else.
func vectorsHome(t *testing.T, change func(*config.Config)) *App {
	t.Helper()
	c := config.Defaults()
	c.Home, c.LLM.Offline, c.LLM.Embeddings = t.TempDir(), true, vectorsAt(t)
	change(&c)
	if _, err := Init(c.Home, false); err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), c, Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	running := make(chan error, 1)
	t.Cleanup(func() { // the test's context has ended
		<-running
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	go func() { running <- a.Store.Run(t.Context()) }()
	return a
}

func TestALineOfAnAgentsPageIsFoundByItsMeaning(t *testing.T) {
	a := vectorsHome(t, func(*config.Config) {})
	pages := a.agents.all[corebot.DefaultAgent].notes.memory
	k := corebot.Key{Agent: corebot.DefaultAgent, Channel: "cli", Chat: "main"}
	if _, err := pages.Remember(t.Context(), k, memory.Edit{Text: "Ann moved to Lund"}, corebot.MemoryNote{
		Sender: corebot.Principal{Channel: "cli", ID: "ann"}, MessageID: "m1",
	}, nil); err != nil {
		t.Fatal(err)
	}
	find := func() (texts []string) {
		t.Helper()
		found, how, err := pages.Search(t.Context(), k, terms.Parse("zebra"), []corebot.Key{k}, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range found {
			if !how.Meaning || line.Sender.ID != "ann" {
				t.Errorf("got %+v, %+v", line, how)
			}
			texts = append(texts, line.Text)
		}
		return texts
	}
	if err := a.upkeep.vectors.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := find(); len(found) != 1 || found[0] != "Ann moved to Lund" {
		t.Errorf("found %q", found)
	}
	if _, err := pages.DropLines(t.Context(), k, func(memory.Piece, string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if found := find(); len(found) != 0 {
		t.Errorf("a forgotten line is found: %q", found)
	}
}

func TestNoTextIsEmbeddedWhileTheBudgetIsUsedUp(t *testing.T) {
	a := vectorsHome(t, func(c *config.Config) { c.Budget.TotalDailyTokens = 10 })
	if pause, err := a.embeddingPause(t.Context()); err != nil || pause != 0 {
		t.Errorf("at first it pauses %v: %v", pause, err)
	}
	k, nobody := corebot.Key{Agent: corebot.DefaultAgent, Channel: "cli", Chat: "main"}, corebot.Principal{}
	if _, how, err := a.upkeep.vectors.Recall(t.Context(), k, nobody, "what", 1); err != nil || how.Without == "" {
		t.Errorf("before there is a model: %+v: %v", how, err)
	}
	if err := a.upkeep.vectors.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // questions, of five tokens each
		if _, how, err := a.upkeep.vectors.Recall(t.Context(), k, nobody, "what", 1); err != nil || !how.Meaning {
			t.Fatalf("got %+v: %v", how, err)
		}
	}
	if pause, err := a.embeddingPause(t.Context()); err != nil || pause <= 0 || pause > pauseForBudget {
		t.Errorf("with the budget used up it pauses %v: %v", pause, err)
	}
}
