package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryRuleIsOfAToolThatThereIs holds the table of rules, as docs/policy.md prints it, to the tools: a rule of a
// tool that is not there promises one.
func TestEveryRuleIsOfAToolThatThereIs(t *testing.T) {
	_, _, offered := realTools(t)
	known := []string{ // of MCP clients, of MCP servers, and of settings that are not here, such as several agents
		"chat.list", "history.read", "message.publish", "message.replies", "status.read", "mcp__", "shell.exec",
		"shell.start", "shell.read", "shell.stop",
		"agent.list", "agent.send",
		"web.search", "memory.facts", "memory.recall", "memory.forget",
	}
	for _, tool := range offered {
		known = append(known, tool.Name)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `[a-z-]+` \\| (`[^|]+) \\|").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 20 {
		t.Fatalf("the page has %d rules", len(rows))
	}
	for _, row := range rows {
		for name := range strings.SplitSeq(row[1], ", ") {
			name = strings.Trim(name, "`")
			if name == "*" || strings.HasPrefix(name, "/") {
				continue
			}
			if !isOf(strings.TrimSuffix(name, "*"), strings.HasSuffix(name, "*"), known) {
				t.Errorf("there is a rule for %s, and no such tool", name)
			}
		}
	}
}

func isOf(name string, prefix bool, known []string) bool {
	for _, k := range known {
		if k == name || prefix && strings.HasPrefix(k, name) {
			return true
		}
	}
	return false
}
