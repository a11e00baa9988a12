package observability_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/internal/needs"
)

const docs = "../docs"

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metric is a row of docs/metrics.md, which a test holds to the registry.
type metric struct {
	kind   string
	labels []string
}

func metricsOf(t *testing.T) map[string]metric {
	t.Helper()
	all := map[string]metric{}
	row := regexp.MustCompile("(?m)^\\| `(corebot_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\|")
	for _, m := range row.FindAllStringSubmatch(read(t, "metrics.md"), -1) {
		var labels []string
		for l := range strings.SplitSeq(m[3], ",") {
			if l = strings.Trim(l, " `"); l != "" {
				labels = append(labels, l)
			}
		}
		all[m[1]] = metric{m[2], labels}
	}
	if len(all) < 50 {
		t.Fatalf("docs/metrics.md has %d metrics", len(all))
	}
	return all
}

// queries are all expressions of the rules and the dashboard, by where they stand.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for alert, expr := range alerts(t) {
		all["alert "+alert] = expr
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "alerts/dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for i, target := range p.Targets {
			all[fmt.Sprint("panel ", p.Title, " ", i)] = strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
		}
	}
	if len(all) < 60 {
		t.Fatalf("there are %d queries", len(all))
	}
	return all
}

// alerts are the expressions of the rules, by the names of their alerts.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	rule := regexp.MustCompile(`(?m)^ +- alert: (\w+)\n +expr: '(.*)'$`)
	for _, m := range rule.FindAllStringSubmatch(read(t, "alerts/corebot.rules.yml"), -1) {
		all[m[1]] = strings.ReplaceAll(m[2], "''", "'")
	}
	if n := strings.Count(read(t, "alerts/corebot.rules.yml"), "alert:"); n != len(all) || n == 0 {
		t.Fatalf("%d of %d alerts were understood", len(all), n)
	}
	return all
}

// Labels that Prometheus adds, and those of metrics that every Go program has.
var (
	added   = []string{"job", "instance", "le", "quantile"}
	foreign = []string{
		"up", "ALERTS", "process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total",
		"process_open_fds", "go_goroutines",
	}
)

func TestEveryQueryAsksForMetricsAndLabelsThatThereAre(t *testing.T) {
	known := metricsOf(t)
	name := regexp.MustCompile(`\b((?:corebot|process|go)_[a-z_]+|up|ALERTS)\b(\{[^}]*\})?`)
	label := regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`)
	by := regexp.MustCompile(`by \(([^)]*)\)`)
	for where, query := range queries(t) {
		var has []string
		for _, m := range name.FindAllStringSubmatch(query, -1) {
			if slices.Contains(foreign, m[1]) {
				has = append(has, "alertname")
				continue
			}
			of, ok := find(known, m[1])
			if !ok {
				t.Errorf("%s: there is no metric %s", where, m[1])
				continue
			}
			has = append(has, of.labels...)
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(slices.Concat(of.labels, added), l[1]) {
					t.Errorf("%s: %s has no label %s", where, m[1], l[1])
				}
			}
		}
		for _, m := range by.FindAllStringSubmatch(query, -1) {
			for l := range strings.SplitSeq(m[1], ",") {
				if l = strings.TrimSpace(l); !slices.Contains(slices.Concat(has, added), l) {
					t.Errorf("%s: nothing in it has a label %s", where, l)
				}
			}
		}
	}
}

// find gives the metric of a name in a query. The parts of histograms and summaries have names of their own.
func find(known map[string]metric, name string) (metric, bool) {
	if m, ok := known[name]; ok {
		return m, m.kind == "counter" || m.kind == "gauge"
	}
	for suffix, kinds := range map[string]string{
		"_bucket": "histogram", "_sum": "histogram summary", "_count": "histogram summary",
	} {
		if base, is := strings.CutSuffix(name, suffix); is {
			m, ok := known[base]
			return m, ok && strings.Contains(kinds, m.kind)
		}
	}
	return metric{}, false
}

// TestEveryAlertHasASectionOfTheRunbookAndCasesThatFireAndDoNot holds rules, runbook and cases together.
func TestEveryAlertHasASectionOfTheRunbookAndCasesThatFireAndDoNot(t *testing.T) {
	rules, book, cases := read(t, "alerts/corebot.rules.yml"), read(t, "runbook.md"), read(t, "alerts/corebot.test.yml")
	names := slices.Sorted(maps.Keys(alerts(t)))
	var sections []string
	for _, s := range strings.Split(book, "\n## ")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		sections = append(sections, title)
		for _, part := range []string{"**Means.** ", "**Look at.** ", "**Do.** "} {
			if strings.Count(text, part) != 1 {
				t.Errorf("the section %s has %q not once", title, part)
			}
		}
	}
	if slices.Sort(sections); !slices.Equal(sections, names) {
		t.Errorf("the runbook has the sections %v, and the alerts are %v", sections, names)
	}
	fires := regexp.MustCompile(`alertname: (\w+)\n +exp_alerts:( \[\])?\n`)
	found := map[string]int{}
	for _, m := range fires.FindAllStringSubmatch(cases+"\n", -1) {
		found[m[1]+m[2]]++
	}
	for _, name := range names {
		if !strings.Contains(rules, "runbook: docs/runbook.md#"+strings.ToLower(name)+"\n") {
			t.Errorf("%s does not name its section of the runbook", name)
		}
		if found[name] == 0 || found[name+" []"] == 0 {
			t.Errorf("%s has %d cases in which it fires, and %d in which it does not", name, found[name],
				found[name+" []"])
		}
	}
}

// TestPrometheusTakesTheRulesAndTheQueries runs the cases of the alerts, where promtool is installed.
func TestPrometheusTakesTheRulesAndTheQueries(t *testing.T) {
	promtool := needs.Program(t, "promtool")
	var b strings.Builder
	b.WriteString("groups:\n- name: queries\n  rules:\n")
	for i, query := range slices.Sorted(maps.Values(queries(t))) {
		fmt.Fprintf(&b, "  - {record: query_%d, expr: %q}\n", i, query)
	}
	asRules := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(asRules, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", asRules},
		{"check", "rules", filepath.Join(docs, "alerts/corebot.rules.yml")},
		{"check", "config", filepath.Join(docs, "prometheus.yml")},
		{"test", "rules", someCases(t)},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// someCases is a file with some of the alerts' cases for promtool, beside the rules; with all of them in the wide form.
func someCases(t *testing.T) string {
	t.Helper()
	file := struct {
		RuleFiles []string         `yaml:"rule_files"`
		Interval  string           `yaml:"evaluation_interval"`
		Tests     []map[string]any `yaml:"tests"`
	}{}
	decode(t, "alerts/corebot.test.yml", &file)
	if len(file.Tests) < 60 || len(file.RuleFiles) != 1 {
		t.Fatalf("there are %d cases, of %v", len(file.Tests), file.RuleFiles)
	}
	rules, err := filepath.Abs(filepath.Join(docs, "alerts", file.RuleFiles[0]))
	if err != nil {
		t.Fatal(err)
	}
	file.RuleFiles, file.Tests = []string{rules}, long.Every(23, file.Tests)
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cases.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestThePrometheusAndTheGrafanaOfTheComposeFileFindWhatTheyNeed puts the files that docs/deploy/compose.yaml gives the
// two into a directory, at their places in the containers.
func TestThePrometheusAndTheGrafanaOfTheComposeFileFindWhatTheyNeed(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Environment         map[string]string
			Ports, Volumes      []string
			Entrypoint, Command []string
		}
	}
	decode(t, "deploy/compose.yaml", &compose)
	root := t.TempDir()
	for _, name := range []string{"prometheus", "grafana"} {
		for _, v := range compose.Services[name].Volumes {
			part := strings.Split(v, ":")
			if !strings.HasPrefix(part[0], ".") {
				continue
			}
			to := filepath.Join(root, part[1])
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, []byte(read(t, filepath.Join("deploy", part[0]))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := compose.Services["prometheus"]
	var c struct {
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string `yaml:"job_name"`
			Authorization struct {
				File string `yaml:"credentials_file"`
			}
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	config := strings.TrimPrefix(p.Command[0], "--config.file=")
	if err := yaml.Unmarshal([]byte(readAt(t, filepath.Join(root, config))), &c); err != nil {
		t.Fatal(err)
	}
	for _, rules := range c.RuleFiles {
		if readAt(t, filepath.Join(root, filepath.Dir(config), rules)) != read(t, "alerts/corebot.rules.yml") {
			t.Errorf("%s are not the shipped rules", rules)
		}
	}
	job := c.ScrapeConfigs[0]
	if len(c.RuleFiles) != 1 || job.JobName != "corebot" || job.StaticConfigs[0].Targets[0] != "corebot:3210" ||
		!strings.Contains(p.Entrypoint[2], ">"+job.Authorization.File+" ") {
		t.Errorf("Prometheus has %+v and writes the token with %s", c, p.Entrypoint[2])
	}
	var source struct {
		Datasources []struct{ Type, URL string }
	}
	decode(t, "deploy/grafana-datasource.yml", &source)
	if d := source.Datasources[0]; d.Type != "prometheus" || d.URL != "http://prometheus:9090" ||
		!slices.Contains(p.Ports, "127.0.0.1:9090:9090") {
		t.Errorf("Grafana asks %+v, Prometheus has %v", d, p.Ports)
	}
	var boards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	decode(t, "deploy/grafana-dashboards.yml", &boards)
	home := compose.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	if filepath.Dir(home) != boards.Providers[0].Options.Path ||
		readAt(t, filepath.Join(root, home)) != read(t, "alerts/dashboard.json") {
		t.Errorf("Grafana looks for dashboards in %v, the first is %s", boards, home)
	}
	if tool, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.CommandContext(t.Context(), tool, "check", "config", "--syntax-only",
			filepath.Join(root, config)).CombinedOutput(); err != nil {
			t.Errorf("promtool check config: %v\n%s", err, out)
		}
	}
}

func decode(t *testing.T, name string, v any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, name)), v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func readAt(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
