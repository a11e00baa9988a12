package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/storage"
)

// auditRows are the lines of `corebot audit --json` for a home with these events, newest first.
func auditRows(t *testing.T, events ...corebot.AuditEvent) []string {
	t.Helper()
	home := t.TempDir()
	err := app.WithStore(t.Context(), home, func(db *storage.DB) error {
		for _, e := range events {
			if err := storage.NewAudit(db).Note(t.Context(), e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := newAudit(&shell{home: home})
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--json"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

func TestAnEventWithoutArgumentsIsPrintedAsJSONAllTheSame(t *testing.T) {
	rows := auditRows(t, corebot.AuditEvent{Event: "steer", Tool: "/steer"})
	var row struct{ Args map[string]any }
	if err := json.Unmarshal([]byte(rows[0]), &row); err != nil || row.Args == nil {
		t.Errorf("printed as %s, %v", rows, err)
	}
}

// jq stops at 256 levels: a row that is deeper would hide all rows behind it.
func TestARowOfTheAuditIsNoDeeperThanReadersTake(t *testing.T) {
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	rows := auditRows(t, corebot.AuditEvent{Tool: "fs.read", Args: `{"path":"<.>"}`},
		corebot.AuditEvent{Tool: "fs.list", Args: deep})
	var first struct{ Args string }
	if err := json.Unmarshal([]byte(rows[0]), &first); err != nil || first.Args != deep {
		t.Errorf("the deep row is %.80s, %v", rows[0], err)
	}
	if want := `"args":{"path":"<.>"}`; len(rows) < 2 || !strings.Contains(rows[1], want) {
		t.Errorf("the rows behind it are %s, want one with %s", rows[1:], want)
	}
}
