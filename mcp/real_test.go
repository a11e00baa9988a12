//go:build mcpreal

package mcp_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/mcp"
)

// These tests need the servers from npm that scripts/mcp-real installs; MCP_REAL is the directory of their programs.

func realProgram(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("MCP_REAL")
	if dir == "" {
		t.Fatal("MCP_REAL is not set: run scripts/mcp-real")
	}
	return filepath.Join(dir, name)
}

// realWeb starts server-everything on a port, in one of its kinds, and waits until it listens.
func realWeb(t *testing.T, kind string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, realProgram(t, "mcp-server-everything"), kind)
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = cmd.Wait() })
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if resp, err := http.Get("http://" + address + "/none"); err == nil {
			_ = resp.Body.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatal("the server does not listen")
		}
	}
}

func TestRealServersOverEveryTransport(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("hello from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	everything1, everything2 := realWeb(t, "streamableHttp"), realWeb(t, "sse")
	r := newRig(t, everything(mcp.Options{}), servers{
		"stdio": {"command": realProgram(t, "mcp-server-everything"), "args": []string{"stdio"}},
		"http":  {"url": "http://" + everything1 + "/mcp"},
		"sse":   {"type": "sse", "url": "http://" + everything2 + "/sse"},
		"files": {"command": realProgram(t, "mcp-server-filesystem"), "args": []string{dir}},
		"memory": {
			"command": realProgram(t, "mcp-server-memory"),
			"env":     map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.json")},
		},
	})
	r.awaitConnected("stdio", "http", "sse", "files", "memory")
	for _, s := range r.manager.Overview().Servers {
		if s.LastError != "" || len(s.Tools) < 5 {
			t.Errorf("%s: %d tools, %s", s.Name, len(s.Tools), s.LastError)
		}
	}
	for _, server := range []string{"stdio", "http", "sse"} {
		of := func(tool string) string { return "mcp__" + server + "__" + tool }
		r.requireCall(of("echo"), `{"message":"hi"}`, corebot.OutcomeSuccess, "Echo: hi")
		r.requireCall(of("echo"), `{"message":7}`, corebot.OutcomeInvalidArgs, "message")
		r.requireCall(of("get-sum"), `{"a":2,"b":40}`, corebot.OutcomeSuccess, "42")
		r.requireCall(of("get-tiny-image"), `{}`, corebot.OutcomeSuccess, "[image, image/png")
		r.requireCall(of("get-structured-content"), `{"location":"Chicago"}`, corebot.OutcomeSuccess, `"temperature"`)
		r.requireCall(of("get-resource-links"), `{"count":2}`, corebot.OutcomeSuccess, "[resource demo://")
		r.requireCall(of("trigger-long-running-operation"), `{"duration":1,"steps":2}`, corebot.OutcomeSuccess,
			"completed")
	}
	if got := r.call("mcp__stdio__get-env", `{}`).Content; strings.Contains(got, "MCP_REAL") {
		t.Errorf("the server sees our environment: %s", got)
	}
	r.requireCall("mcp__files__read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "hello.txt")),
		corebot.OutcomeSuccess, "hello from a file")
	r.requireCall("mcp__files__read_text_file", `{"path":"/etc/passwd"}`, corebot.OutcomeError, "denied")
	r.requireCall("mcp__memory__create_entities",
		`{"entities":[{"name":"Ada","entityType":"person","observations":["likes engines"]}]}`, corebot.OutcomeSuccess,
		"Ada")
	r.requireCall("mcp__memory__search_nodes", `{"query":"engines"}`, corebot.OutcomeSuccess, "Ada")
	r.stop()
	for _, server := range []string{"stdio.", "files.", "memory."} {
		requireGone(t, server)
	}
}

func TestARealServerThatIsKilledIsConnectedAgain(t *testing.T) {
	r := newRig(t, everything(mcp.Options{}), servers{"memory": {
		"command": realProgram(t, "mcp-server-memory"),
		"env":     map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "m.json")},
	}})
	r.awaitConnected("memory")
	since := r.status("memory").Since
	for _, p := range processesOf("memory.") {
		if err := exec.Command("kill", "-9", strings.Split(p, "/")[2]).Run(); err != nil {
			t.Fatal(err)
		}
	}
	r.await("memory", func(s mcp.Status) bool { return s.State == mcp.Connected && s.Since.After(since) })
	r.requireCall("mcp__memory__read_graph", `{}`, corebot.OutcomeSuccess, "entities")
}
