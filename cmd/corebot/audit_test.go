package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/corebot/corebot"
)

func TestAnEventWithoutArgumentsIsPrintedAsJSONAllTheSame(t *testing.T) {
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	if err := printAudit(cmd, []corebot.AuditEvent{{Event: "steer", Tool: "/steer"}}, true); err != nil {
		t.Fatal(err)
	}
	var row struct{ Args map[string]any }
	if err := json.Unmarshal(out.Bytes(), &row); err != nil || row.Args == nil {
		t.Errorf("printed as %s, %v", out.String(), err)
	}
}

// jq stops at 256 levels: a row that is deeper would hide all rows behind it.
func TestARowOfTheAuditIsNoDeeperThanReadersTake(t *testing.T) {
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	if err := printAudit(cmd, []corebot.AuditEvent{{Tool: "fs.list", Args: deep}, {Tool: "fs.read", Args: `{"path":"."}`}}, true); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(out.String(), "\n")
	var first struct{ Args string }
	if err := json.Unmarshal([]byte(rows[0]), &first); err != nil || first.Args != deep {
		t.Errorf("the deep row is %.80s, %v", rows[0], err)
	}
	if want := `"args":{"path":"."}`; !strings.Contains(rows[1], want) {
		t.Errorf("the row behind it is %s, want it with %s", rows[1], want)
	}
}
