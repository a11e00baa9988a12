package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

func TestNothingThatIsPrintedAsJSONDrivesATerminal(t *testing.T) {
	const evil = "\x1b[2J\u009b31m\u202eout\u200b\x7f\U000e0041"
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	if err := printJSON(cmd, map[string]string{"text": evil}); err != nil {
		t.Fatal(err)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["text"] != evil {
		t.Errorf("a program reads %q, %v", back["text"], err)
	}
	if redact.Visible(out.String()) != out.String() {
		t.Errorf("a terminal is sent %q", out.String())
	}
}

func TestNothingThatIsPrintedAsJSONIsDeeperThanItsReadersGo(t *testing.T) {
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	deep := strings.Repeat(`{"a":[`, 500) + "1" + strings.Repeat("]}", 500)
	step := corebot.Step{Kind: corebot.StepTool, Call: &corebot.ToolCall{
		ID: "c", Tool: "fs.list",
		Args: json.RawMessage(deep),
	}}
	if err := printJSON(cmd, corebot.Life{MessageID: "m1", Steps: []corebot.Step{step}}); err != nil {
		t.Fatal(err)
	}
	depth, deepest := 0, 0
	d := json.NewDecoder(&out)
	for {
		tok, err := d.Token()
		if err != nil {
			break
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		deepest = max(deepest, depth)
	}
	if depth != 0 || deepest > redact.MaxDepth || deepest < 10 {
		t.Errorf("it is %d levels deep, and ends at %d", deepest, depth)
	}
}
