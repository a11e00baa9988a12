package main

import (
	"bytes"
	"encoding/json"
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
