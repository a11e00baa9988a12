package app_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/app"
)

var updateMetrics = flag.Bool("metrics.update", false, "write docs/metrics.md")

const metricsPage = "../../docs/metrics.md"

// families are the metrics of a page, by name.
func families(t *testing.T, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// series counts the series of a page, as Prometheus stores them.
func series(page string) (n int) {
	for line := range strings.Lines(page) {
		if line != "\n" && line[0] != '#' {
			n++
		}
	}
	return n
}

// large is a Corebot with 20 channels, 20 MCP servers and 10,000 chats, each with a message that waits.
func large(t *testing.T) *served {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // nobody takes the spans
	platform := telegramtest.New()
	t.Cleanup(platform.Close)
	answers := &scriptedModel{}
	answers.status.Store(http.StatusOK)
	model := httptest.NewServer(answers)
	t.Cleanup(model.Close)
	home := t.TempDir()
	text := "channels:\n  telegram:\n"
	for i := range 17 { // beside the terminal, MCP clients and the webhook
		text += fmt.Sprintf("    bot%d: {token: %q, api_url: %q, access: open}\n", i, telegramtest.Token,
			platform.URL())
	}
	text += `webhook: {enabled: true, addr: "127.0.0.1:0", token: a-token-of-more-than-sixteen-bytes}
observability: {addr: "127.0.0.1:0"}
mcp: {serve: {http: true}}
tracing: {enabled: true}
llm: {base_url: "` + model.URL + `", model: scripted, discover: false}
`
	servers := map[string]any{}
	for i := range 20 {
		servers[fmt.Sprint("server", i)] = map[string]any{"type": "http", "url": "http://127.0.0.1:1/"}
	}
	list, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"corebot.yaml": []byte(text), ".mcp.json": list} {
		if err := os.WriteFile(filepath.Join(home, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := app.LoadConfig(home)
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), c, app.Options{Version: "test", Serve: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, home)
	ctx, stop := context.WithCancel(context.Background())
	s := &served{a, home, stop, make(chan error, 1)}
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

// fill puts 10,000 chats into a database.
func fill(t *testing.T, home string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(home, "data", "corebot.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // of a test
	if _, err := db.ExecContext(t.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE
		i < 10000) INSERT INTO chats (agent, channel, account, chat, thread, created_at)
		SELECT 'main', 'webhook', '', 'chat' || i, '', 1 FROM n`); err != nil {
		t.Fatal(err)
	}
}

// TestEverySeriesIsThereFromTheStartAndTheyAreFew counts the series of a large Corebot before its first message and
// after all kinds of things have happened.
func TestEverySeriesIsThereFromTheStartAndTheyAreFew(t *testing.T) {
	s := large(t)
	before := ""
	until(t, "it is ready, and the services that begin series have begun", func() bool {
		status, _ := s.ask(t, "/ready")
		_, before = s.ask(t, "/metrics")
		return status == http.StatusOK && strings.Count(before, "\ncorebot_mcp_tools{") == 20 &&
			strings.Count(before, "\ncorebot_outbox_sends_total{") == 3*18+4
	})
	if n := series(before); n >= 600 {
		t.Errorf("there are %d series, want less than 600", n)
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
		check.Stdin = strings.NewReader(before)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool says %s (%v)", out, err)
		}
	}
	if *updateMetrics {
		if err := os.WriteFile(metricsPage, describe(families(t, before)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(metricsPage)
	if err != nil || !bytes.Equal(want, describe(families(t, before))) {
		t.Errorf("%s is not what the registry has (%v): go generate ./internal/app", metricsPage, err)
	}
	s.post(t, "m1")
	s.post(t, "m2")
	until(t, "they are answered", func() bool {
		_, page := s.ask(t, "/metrics")
		return strings.Contains(page, `corebot_turns_total{agent="main",end="answered"} 2`)
	})
	s.checkExemplars(t)
	fetch(t, http.MethodGet, "http://"+s.WebhookAddr()+"/nowhere", "")
	fetch(t, http.MethodGet, "http://"+s.WebhookAddr()+"/webhook/outbound?chatId=c-m1", "")
	fetch(t, http.MethodPost, "http://"+s.WebhookAddr()+"/webhook", "{")
	_, after := s.ask(t, "/metrics")
	for name, family := range families(t, after) {
		if n, was := len(family.GetMetric()), len(families(t, before)[name].GetMetric()); n != was &&
			strings.HasPrefix(name, "corebot_") {
			t.Errorf("%s has %d series, and had %d at the start", name, n, was)
		}
	}
}

// checkExemplars asks for OpenMetrics, as Prometheus does. The traces of the slow and the fast must be in it, and the
// names of the series those that they have otherwise.
func (s *served) checkExemplars(t *testing.T) {
	t.Helper()
	_, plain := s.ask(t, "/metrics")
	open := s.openMetrics(t)
	if strings.Contains(plain, "trace_id") || !strings.HasSuffix(open, "# EOF\n") {
		t.Errorf("the plain page has exemplars, or the other one ends with %q", open[max(0, len(open)-100):])
	}
	for _, name := range []string{
		"corebot_turn_seconds", "corebot_provider_seconds", "corebot_bus_message_seconds",
		"corebot_webhook_post_seconds",
	} {
		exemplar := regexp.MustCompile(`(?m)^` + name + `_bucket\{[^}]*\} [0-9]+ # \{trace_id="[0-9a-f]{32}"\} `)
		if !exemplar.MatchString(open) {
			t.Errorf("no bucket of %s has an exemplar", name)
		}
	}
	names := func(page string) map[string]bool {
		all := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)[{ ]`).FindAllStringSubmatch(page, -1) {
			all[m[1]] = true
		}
		return all
	}
	if want, got := names(plain), names(open); !maps.Equal(want, got) {
		t.Errorf("the names are %v, want %v", got, want)
	}
}

func (s *served) openMetrics(t *testing.T) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.ObservabilityAddr()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// describe is the page of the metrics of Corebot.
func describe(all map[string]*dto.MetricFamily) []byte {
	var b bytes.Buffer
	b.WriteString(`# Metrics

Made by ` + "`go generate ./internal/app`" + ` from the registry of a running Corebot. Do not edit.

Every series is there from the start, at zero. Corebot with 20 channels, 20 MCP servers and 10,000 chats has less than
600 series. Each label has values from a fixed set or from the settings. [operations.md](operations.md#what-to-watch)
says what to look at first, and which counters go on after a restart.
The metrics of the process and of the Go runtime (` + "`process_*`, `go_*`" + `) are those of every Go program.

| metric | kind | labels | means |
|---|---|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, "corebot_") {
			continue
		}
		family := all[name]
		var labels []string
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, strings.ToLower(family.GetType().String()),
			strings.Join(labels, ", "), strings.ReplaceAll(family.GetHelp(), "|", "\\|"))
	}
	return b.Bytes()
}
