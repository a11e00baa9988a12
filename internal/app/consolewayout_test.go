package app_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/internal/config"
)

// filesServer is an MCP server with a tool that it calls a reading one, and one that writes.
const filesServer = `while read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	case $line in
	*'"method":"initialize"'*) answer='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},
		"serverInfo":{"name":"sh","version":"1"}}' ;;
	*'"method":"tools/list"'*) answer='{"tools":[
		{"name":"get","description":"Get.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
		{"name":"put","description":"Put.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}]}' ;;
	*'"method":"tools/call"'*) answer='{"content":[{"type":"text","text":"the text"}]}' ;;
	*'"method":"ping"'*) answer='{}' ;;
	*) continue ;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(printf '%s' "$answer" | tr -d '\n\t')"
done
`

// One result of an MCP server taints the session, so each later call is asked about. The page of approvals names the
// way out for the tool that reads, once, with the words that the commands and the API have. So does the card in the
// chat. Neither has one for the tool that writes.
func TestAnApprovalOnThePageNamesTheWayOut(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	program := filepath.Join(home, "server.sh")
	list, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"files": map[string]any{"command": "sh", "args": []string{program}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{program: []byte(filesServer), filepath.Join(home, ".mcp.json"): list} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := daemon(t, home, func(c *config.Config) { c.MCP.AllowedServers = config.NewList("*") })
	b := loggedIn(t, a)
	const chat = "/chats/main:console:local:x"
	say := func(text string) {
		t.Helper()
		if status, answer := b.post(chat+"/send", url.Values{"text": {text}}); status != 200 {
			t.Fatalf("%s: %d, %s", text, status, answer)
		}
	}
	say("/tool mcp__files__get {}")
	b.eventually(chat, "the text")
	say("/tool mcp__files__get {}\n/tool mcp__files__put {}")
	b.eventually(chat, "May it call")
	const way = "If you know that mcp__files__get only reads, "
	_, page := b.get(chat)
	if _, card, _ := strings.Cut(page, "May it call"); strings.Count(card, way) != 1 {
		t.Errorf("the card in the chat is %s", card)
	}
	status, page := b.get("/approvals")
	if status != 200 || !strings.Contains(page, "mcp__files__put") || strings.Count(page, "If you know that") != 1 ||
		!strings.Contains(page, way) {
		t.Errorf("the page of approvals is %d, %s", status, page)
	}
	var shown struct {
		Waiting []struct {
			Calls []struct{ Tool, WayOut string }
		}
	}
	_, text := b.get("/approvals", "Accept", "application/json")
	if err := json.Unmarshal([]byte(text), &shown); err != nil || len(shown.Waiting) != 1 ||
		len(shown.Waiting[0].Calls) != 2 {
		t.Fatalf("the page has %s: %v", text, err)
	}
	for _, c := range shown.Waiting[0].Calls {
		if strings.HasPrefix(c.WayOut, way) != (c.Tool == "mcp__files__get") {
			t.Errorf("the way out of %s is %q", c.Tool, c.WayOut)
		}
	}
}
