package storage

import "github.com/corebot/corebot"

var insertAudit = &query{`INSERT INTO audit_events (at, event, tool, agent, channel, account, chat, thread, sender, role, entry, outcome, rule, args, duration_ms, step_id)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}

func auditTx(t *tx, events []corebot.AuditEvent) error {
	for _, e := range events {
		k := e.Key
		_, err := t.exec(insertAudit, t.now, e.Event, e.Tool, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, e.Principal.ID,
			string(e.Role), e.Entry, string(e.Outcome), e.Rule, e.Args, e.Duration.Milliseconds(), e.StepID)
		if err != nil {
			return err
		}
	}
	return nil
}
