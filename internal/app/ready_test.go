package app_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
)

// served is a whole Corebot with its listeners.
type served struct {
	*app.App
	home  string
	stop  context.CancelFunc
	ended chan error
}

// serve runs a Corebot whose model is at an address until the test ends.
func serve(t *testing.T, model string) *served {
	t.Helper()
	c := config.Defaults()
	c.Home, c.Observability.Addr, c.Webhook.Addr = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	c.Webhook.Enabled, c.Webhook.Token = true, config.NewSecret("a-token-of-more-than-sixteen-bytes")
	c.LLM.BaseURL, c.LLM.Model, c.LLM.Discover = model, "scripted", false
	c.Bus.MaxAttempts = 1
	a, err := app.New(t.Context(), c, app.Options{Serve: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &served{a, c.Home, stop, make(chan error, 1)}
	go func() { s.ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask gets a page of the observability listener.
func (s *served) ask(t *testing.T, path string) (status int, body string) {
	t.Helper()
	return fetch(t, http.MethodGet, "http://"+s.ObservabilityAddr()+path, "")
}

func fetch(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer a-token-of-more-than-sixteen-bytes")
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func (s *served) post(t *testing.T, id string) {
	t.Helper()
	body := `{"id":"` + id + `","chatId":"c-` + id + `","senderId":"ann","content":"hello"}`
	if status, answer := fetch(t, http.MethodPost, "http://"+s.WebhookAddr()+"/webhook",
		body); status != http.StatusAccepted {
		t.Fatalf("the post is answered %d %s", status, answer)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// scriptedModel answers with a status; while it is held, it answers nothing.
type scriptedModel struct {
	status atomic.Int64
	asked  atomic.Int64
	hold   chan struct{} // nil: it is not held
}

func (m *scriptedModel) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	m.asked.Add(1)
	if m.hold != nil {
		<-m.hold
	}
	if status := int(m.status.Load()); status != http.StatusOK {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"message":"the key is not valid","code":"invalid_api_key"}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_,
		_ = io.WriteString(w,
		"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

func TestReadySaysNoForTheWholeDrain(t *testing.T) {
	model := &scriptedModel{hold: make(chan struct{})}
	model.status.Store(http.StatusOK)
	srv := httptest.NewServer(model)
	t.Cleanup(srv.Close)
	s := serve(t, srv.URL)
	until(t, "it is ready", func() bool { status, _ := s.ask(t, "/ready"); return status == http.StatusOK })
	s.post(t, "m1")
	until(t, "the turn runs", func() bool { return model.asked.Load() > 0 })
	s.stop()
	until(t, "it says that it stops", func() bool {
		status, body := s.ask(t, "/ready")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "corebot is stopping")
	})
	for range 20 { // the turn still runs
		if status, body := s.ask(t, "/ready"); status != http.StatusServiceUnavailable {
			t.Errorf("in the drain it says %d %q", status, body)
		}
	}
	close(model.hold)
}

// A model that refuses every call is not a reason to send messages away: they are accepted and kept.
func TestAModelThatRefusesEveryCallDegradesUntilItAnswers(t *testing.T) {
	model := &scriptedModel{}
	model.status.Store(http.StatusUnauthorized)
	srv := httptest.NewServer(model)
	t.Cleanup(srv.Close)
	s := serve(t, srv.URL)
	degraded := func() bool {
		status, body := s.ask(t, "/ready")
		if status != http.StatusOK && strings.Contains(body, "degraded") {
			t.Fatalf("/ready says %d %q", status, body)
		}
		return strings.Contains(body, "degraded: model: no model answers")
	}
	s.post(t, "m1")
	until(t, "the model is named", degraded)
	_, metrics := s.ask(t, "/metrics")
	if !strings.Contains(metrics, `corebot_degraded{reason="model"} 1`) {
		t.Error("the gauge does not show it")
	}
	var status struct {
		Degraded []struct{ Reason, Detail string }
	}
	_, text := s.ask(t, "/status")
	if err := json.Unmarshal([]byte(text), &status); err != nil || len(status.Degraded) != 1 ||
		status.Degraded[0].Reason != "model" ||
		!strings.Contains(status.Degraded[0].Detail, "not valid") {
		t.Errorf("/status says %s (%v)", text, err)
	}
	model.status.Store(http.StatusOK)
	s.post(t, "m2")
	until(t, "the model answers again", func() bool { return !degraded() })
}

// TestReadySaysNoWhileATableOfEveryMessageIsDamaged takes a table away under a Corebot that runs, and puts it back.
func TestReadySaysNoWhileATableOfEveryMessageIsDamaged(t *testing.T) {
	s := serve(t, "http://127.0.0.1:1/v1")
	db, err := sql.Open("sqlite", filepath.Join(s.home, "data", "corebot.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // of a test
	rename := func(from, to string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), "ALTER TABLE "+from+" RENAME TO "+to); err != nil {
			t.Fatal(err)
		}
	}
	rename("mailbox", "taken_away")
	status, body := s.ask(t, "/ready")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "mailbox") {
		t.Errorf("without its table: %d %s", status, body)
	}
	rename("taken_away", "mailbox")
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { // the store looks once a second
		status, body := s.ask(t, "/ready")
		if status == http.StatusOK {
			return
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("after the repair: %d %s", status, body)
		}
	}
}

func TestEverySeriesWithKnownLabelsIsThereBeforeTheFirstMessage(t *testing.T) {
	s := serve(t, "http://127.0.0.1:1/v1")
	_, page := s.ask(t, "/metrics")
	for _, series := range []string{
		`corebot_model_calls_total{agent="main",model="scripted",result="ok"} 0`,
		`corebot_model_calls_total{agent="main",model="scripted",result="rate_limited"} 0`,
		`corebot_provider_calls_total{model="scripted",outcome="unauthorized",provider="default"} 0`,
		`corebot_provider_tokens_total{kind="cache_read",model="scripted",provider="default"} 0`,
		`corebot_door_refused_total{channel="other",rule="no-channel"} 0`,
		`corebot_door_refused_total{channel="webhook",rule="chat-denied"} 0`,
		`corebot_bus_leases_lost_total 0`, `corebot_clock_steps_total 0`,
	} {
		if !strings.Contains(page, series) {
			t.Errorf("%s is missing", series)
		}
	}
}
