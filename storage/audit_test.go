package storage

import (
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestTheAuditIsListedNewestFirstAndFiltered(t *testing.T) {
	db := openTest(t, t.TempDir())
	key := corebot.Key{Agent: "main", Channel: "cli", Account: "local", Chat: "one"}
	for i, tool := range []string{"fs.read", "fs.write", "fs.read"} {
		k := key
		if i == 2 {
			k.Chat = "two"
		}
		event := corebot.AuditEvent{
			Event: "tool.result", Tool: tool, Key: k, Principal: corebot.Principal{Channel: "cli", Account: "local", ID: "7"},
			Role: corebot.RoleNormal, Entry: "direct", Outcome: corebot.OutcomeSuccess, Rule: "open", Args: "{}", Duration: 5 * time.Millisecond, StepID: "m/1/0",
		}
		if err := db.write(t.Context(), "audit", func(t *tx) error { return auditTx(t, []corebot.AuditEvent{event}) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		filter corebot.AuditFilter
		want   []string
	}{
		{corebot.AuditFilter{}, []string{"two fs.read", "one fs.write", "one fs.read"}},
		{corebot.AuditFilter{Limit: 1}, []string{"two fs.read"}},
		{corebot.AuditFilter{Tool: "fs.read"}, []string{"two fs.read", "one fs.read"}},
		{corebot.AuditFilter{Chat: "one", Tool: "fs.read"}, []string{"one fs.read"}},
		{corebot.AuditFilter{Outcome: corebot.OutcomeDenied}, nil},
		{corebot.AuditFilter{Sender: "8"}, nil},
		{corebot.AuditFilter{Channel: "webhook"}, nil},
		{corebot.AuditFilter{Since: time.Now().Add(time.Hour)}, nil},
		{corebot.AuditFilter{Until: time.Now().Add(-time.Hour)}, nil},
	} {
		events, err := NewAudit(db).List(t.Context(), c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range events {
			got = append(got, e.Key.Chat+" "+e.Tool)
			if e.Principal.ID != "7" || e.Role != corebot.RoleNormal || e.Rule != "open" || e.Duration != 5*time.Millisecond || e.StepID != "m/1/0" || e.At.IsZero() {
				t.Errorf("the event came back as %+v", e)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%+v gave %q, want %q", c.filter, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%+v gave %q, want %q", c.filter, got, c.want)
			}
		}
	}
}
