package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/internal/long"
)

// TestEveryToolForEveryRoleByEveryEntryPathOnEveryTarget plays each scene twice, with the shell enabled and without. It
// compares every call with the table of expectations: the outcome, and the one audit row with role, entry path and the
// rule that decided.
func TestEveryToolForEveryRoleByEveryEntryPathOnEveryTarget(t *testing.T) {
	t.Parallel()
	played := long.Every(9, scenes())
	for _, shell := range long.Or([]bool{true}, []bool{true, false}) {
		t.Run(fmt.Sprint("shell enabled ", shell), func(t *testing.T) {
			t.Parallel()
			s, model := matrixService(t, fmt.Sprint("COREBOT_TOOLS_SHELL_ENABLED=", shell), "COREBOT_MEMORY_FACTS=true")
			client := s.client()
			t.Run("scenes", func(t *testing.T) {
				for _, scene := range played {
					t.Run(scene.name, func(t *testing.T) {
						t.Parallel()
						scene.play(&stage{
							service: s, scene: scene, t: t, client: client, model: model,
							replies: map[string]bool{},
						})
					})
				}
			})
			trail := s.trail()
			for _, scene := range played {
				t.Run(scene.name, func(t *testing.T) {
					model.checkOffer(t, scene, shell)
					checkTrail(t, scene, shell, trail[scene.name])
				})
			}
			s.terminate()
			s.output("audit", "verify")
		})
	}
}

// TestTheMatrixHasEveryTool: what an admin is offered is all that there is.
func TestTheMatrixHasEveryTool(t *testing.T) {
	called := map[string]bool{}
	for _, c := range matrix() {
		called[c.tool] = true
	}
	for _, tool := range offers(everywhere, true) {
		if !called[tool] {
			t.Errorf("%s is offered and not in the matrix", tool)
		}
	}
}

// matrixService is a daemon with a scripted model and every tool that there is.
func matrixService(t *testing.T, settings ...string) (*service, *actor) {
	t.Helper()
	model := newActor()
	endpoint := httptest.NewServer(llmtest.New(model.perform))
	t.Cleanup(endpoint.Close)
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0",
		env: append([]string{
			"COREBOT_LLM_OFFLINE=false", "OPENAI_BASE_URL=" + endpoint.URL + "/v1", "OPENAI_MODEL=scripted",
			"OPENAI_API_KEY=none",
			"COREBOT_TOOLS_SHELL_ALLOW=echo", "COREBOT_APPROVALS_MODE=never",
			"COREBOT_TOOLS_WEB_SEARXNG_URL=http://127.0.0.1:1",
		}, settings...),
	}
	s.output("init", "--webhook")
	s.addServer()
	s.startAndWait()
	t.Cleanup(s.kill)
	t.Cleanup(func() {
		if log, err := os.ReadFile(s.log); t.Failed() {
			t.Logf("the daemon said (%v):\n%s", err, log)
		}
	})
	s.findWebhook()
	s.output("admin", "grant", "webhook::root")                     // no scene demotes the last admin
	for _, eve := range []string{"webhook::eve", "cli:local:eve"} { // has a role that can be taken away
		s.output("admin", "grant", eve)
		s.output("admin", "grant", eve, "--role", "normal")
	}
	return s, model
}

// addServer lists an MCP server with one tool.
func (s *service) addServer() {
	s.t.Helper()
	program := `while read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	case $line in
	*'"method":"initialize"'*)
		answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}'
		;;
	*'"method":"tools/list"'*)
		answer='{"tools":[{"name":"say","description":"Say.","inputSchema":{"type":"object"}}]}' ;;
	*'"method":"tools/call"'*) answer='{"content":[{"type":"text","text":"said"}]}' ;;
	*'"method":"notifications'*) continue ;;
	*) answer='{}' ;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$answer"
done
`
	path := filepath.Join(s.home, "server.sh")
	for name, text := range map[string]string{path: program, filepath.Join(s.home,
		".mcp.json"): fmt.Sprintf(`{"mcpServers":{"test":{"command":"sh","args":[%q]}}}`, path)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

// auditLine is a row of `corebot audit --json`.
type auditLine struct{ Event, Tool, ChatID, SenderID, Role, Entry, Outcome, Rule string }

// trail is the audit of tool calls by chat, oldest first, with the decisions that were written before calls ran.
func (s *service) trail() map[string][]auditLine {
	s.t.Helper()
	trail := map[string][]auditLine{}
	lines := strings.Split(strings.TrimSpace(s.output("audit", "--json", "--decisions", "--limit", "100000")), "\n")
	for _, text := range slices.Backward(lines) {
		var l auditLine
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			s.t.Fatalf("%v in %s", err, text)
		}
		if strings.HasPrefix(l.Event, "tool.") {
			trail[l.ChatID] = append(trail[l.ChatID], l)
		}
	}
	return trail
}

// checkTrail walks along the calls of a scene and its audit rows.
func checkTrail(t *testing.T, s scene, shell bool, rows []auditLine) {
	t.Helper()
	sender := s.name + "-sender"
	if s.unsent {
		sender = ""
	}
	if s.name == "steer-refused" { // the turn looked into its memory before it heard of nothing
		rows = rows[1:]
	}
	for _, c := range matrix() {
		want := c.want(s, shell)
		outcome, rule, _ := strings.Cut(want, " ")
		decided := len(rows) > 0 && rows[0].Event == "tool.decision"
		if privileged := outcome != "denied" && rule != "open" && rule != ""; decided && outcome == "denied" ||
			!decided && privileged {
			t.Errorf("%s %s: a decision before it is %v", c.tool, c.args, decided)
		}
		if decided && (rows[0].Tool != c.tool || rows[0].Rule != rule || rows[0].Outcome != "") {
			t.Errorf("%s %s: the decision is %+v", c.tool, c.args, rows[0])
		}
		if decided {
			rows = rows[1:]
		}
		if len(rows) == 0 {
			t.Fatalf("%s %s: there is no row", c.tool, c.args)
		}
		if got := rows[0]; got != (auditLine{"tool.result", c.tool, s.name, sender, s.role(), s.entry, outcome, rule}) {
			t.Errorf("%s %s: %+v, want %s as %s by %s", c.tool, c.args, got, want, s.role(), s.entry)
		}
		rows = rows[1:]
	}
	if len(rows) != 0 {
		t.Errorf("there are %d rows too many: %+v", len(rows), rows)
	}
}

// role is the role of the turn in its own chat.
func (s scene) role() string {
	if s.as == normal {
		return "normal"
	}
	return "admin"
}

// checkOffer compares what the model was offered with what it should have been.
func (a *actor) checkOffer(t *testing.T, s scene, shell bool) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	var want []string
	for _, tool := range offers(s.as, shell) {
		want = append(want, llm.EncodeName(tool))
	}
	got := slices.Sorted(slices.Values(a.offered[s.name]))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the model was offered %v, want %v", got, want)
	}
}
