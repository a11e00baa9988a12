package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/spf13/cobra"

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
