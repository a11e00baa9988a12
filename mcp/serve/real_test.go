//go:build mcpreal

package serve_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/mcp/serve"
)

// These tests need the programs from npm that scripts/mcp-conformance installs. MCP_REAL is the directory of these
// programs, and COREBOT the program that they try.

func realProgram(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("MCP_REAL")
	if dir == "" || os.Getenv("COREBOT") == "" {
		t.Fatal("MCP_REAL or COREBOT is not set: run scripts/mcp-conformance")
	}
	return filepath.Join(dir, name)
}

// conformance runs the public suite; a scenario that fails and is not expected to, or the other way round, fails the
// test.
func conformance(t *testing.T, env []string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, realProgram(t, "conformance"), append(args, "--output-dir", t.TempDir())...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	_, summary, _ := strings.Cut(string(out), "=== SUMMARY ===")
	t.Logf("conformance %s%s", strings.Join(args, " "), summary)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRealConformanceOfTheServer(t *testing.T) {
	w := newWeb(t, rigOptions{}, serve.WebOptions{})
	// The suite knows no credentials: they are added on the way.
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", w.hook.Addr(), r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	defer proxy.Close()
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			conformance(t, nil, "server", "--url", proxy.URL+"/mcp", "--suite", "all", "--spec-version", version,
				"--expected-failures", filepath.Join("testdata", "server-"+version+".yaml"))
		})
	}
}

// clientScenarios are those that our client claims to pass; docs/mcp.md says why not the others.
func clientScenarios() map[string][]string {
	return map[string][]string{
		"2025-06-18": {"initialize", "tools_call"},
		"2025-11-25": {"initialize", "tools_call"},
		"2026-07-28": {"tools_call", "http-standard-headers", "json-schema-ref-no-deref"},
	}
}

func TestRealConformanceOfTheClient(t *testing.T) {
	for version, scenarios := range clientScenarios() {
		for _, s := range scenarios {
			t.Run(version+" "+s, func(t *testing.T) {
				conformance(t, []string{clientVariable + "=1", "GORACE=atexit_sleep_ms=0"}, "client", "--command",
					os.Args[0], "--scenario", s, "--spec-version", version)
			})
		}
	}
}

func inspect(t *testing.T, env []string, args ...string) (result message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, realProgram(t, "mcp-inspector"), append([]string{"--cli"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &result.Result) != nil {
		t.Fatalf("mcp-inspector %v: %v\n%s", args, err, out)
	}
	return result
}

// wantInspected drives a server with the inspector's command line.
func wantInspected(t *testing.T, target ...string) {
	t.Helper()
	list := inspect(t, nil, append(target, "--method", "tools/list")...)
	if len(list.Result.Tools) != 4 || list.Result.Tools[2].Name != "message_publish" {
		t.Errorf("the tools are %+v", list.Result.Tools)
	}
	for range 2 {
		said := inspect(t, nil, append(target, "--method", "tools/call", "--tool-name", "message_publish", "--tool-arg",
			"content=hello", "--tool-arg", "id=inspected")...)
		var p published
		if err := json.Unmarshal(said.Result.StructuredContent, &p); err != nil || said.Result.IsError || !p.Answered ||
			p.ID != "inspected" || len(p.Replies) != 1 {
			t.Errorf("it gave %+v", said.Result)
		}
	}
}

func TestRealInspectorOverHTTP(t *testing.T) {
	w := newWeb(t, rigOptions{}, serve.WebOptions{})
	wantInspected(t, w.url, "--transport", "http", "--header", "Authorization: Bearer "+token)
}

func TestRealInspectorOverStandardInputAndOutput(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	wantInspected(t, "-e", "COREBOT_HOME="+home, "-e", "COREBOT_LLM_OFFLINE=true", os.Getenv("COREBOT"), "mcp", "serve")
}
