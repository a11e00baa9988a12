package storage

import (
	"cmp"
	"context"
	"time"

	"github.com/corebot/corebot"
)

// Audit reads the trail of tool calls. It is written with the steps of the ledger, never by itself.
type Audit struct{ db *DB }

// NewAudit is the audit trail of a database.
func NewAudit(db *DB) *Audit { return &Audit{db} }

// AuditFilter says which events are wanted. Zero fields mean all.
type AuditFilter struct {
	Since, Until time.Time
	Channel      string
	Chat         string      // the id of a chat, of any account and thread
	Key          corebot.Key // one chat exactly
	Sender       string
	Tool         string
	Outcome      corebot.AuditOutcome
	Decisions    bool // also those written before a call ran, which have no outcome yet
	Limit        int  // the newest that many; 0 means 100
}

var (
	insertAudit = &query{`INSERT INTO audit_events
		(id, hash, at, event, tool, agent, channel, account, chat, thread, sender, role, entry, outcome, rule, args, duration_ms, step_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	// The id is the order of writing. An empty filter field lets everything pass.
	selectAudit = &query{`SELECT id, at, event, tool, agent, channel, account, chat, thread, sender, role, entry, outcome, rule, args, duration_ms, step_id
		FROM audit_events
		WHERE at >= ? AND at < ? AND ? IN ('', channel) AND ? IN ('', chat) AND ? IN ('', agent) AND (? = '' OR account = ? AND thread = ?)
		AND ? IN ('', sender) AND ? IN ('', tool) AND ? IN ('', outcome)
		AND (? = 1 OR event <> 'tool.decision')
		ORDER BY id DESC LIMIT ? + 0`}
)

// List gives events, newest first.
func (a *Audit) List(ctx context.Context, f AuditFilter) ([]corebot.AuditEvent, error) {
	until, limit := int64(1<<62), 100
	if !f.Until.IsZero() {
		until = f.Until.UnixMilli()
	}
	if f.Limit > 0 {
		limit = f.Limit
	}
	var out []corebot.AuditEvent
	err := a.db.reader.each(ctx, selectAudit, func(s scanner) error {
		e, err := scanEvent(s)
		out = append(out, e)
		return err
	}, f.Since, until, cmp.Or(f.Key.Channel, f.Channel), cmp.Or(f.Key.Chat, f.Chat), f.Key.Agent, f.Key.Agent, f.Key.Account, f.Key.Thread, f.Sender, f.Tool, string(f.Outcome), f.Decisions, limit)
	return out, err
}

// scanEvent scans an event, behind what else a row has.
func scanEvent(s scanner, before ...any) (e corebot.AuditEvent, err error) {
	var role, outcome string
	var took int64
	k := &e.Key
	err = s.Scan(append(before, &e.ID, moment{&e.At}, &e.Event, &e.Tool, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &e.Principal.ID,
		&role, (*string)(&e.Entry), &outcome, &e.Rule, &e.Args, &took, &e.StepID)...)
	e.Principal.Channel, e.Principal.Account = k.Channel, k.Account
	if e.Entry == corebot.EntryOperator && e.Principal.ID != "" { // the key is that of the chat which the change is about
		e.Principal.Channel, e.Principal.Account = corebot.TerminalChannel, corebot.TerminalAccount
	}
	e.Role, e.Outcome, e.Duration = corebot.Role(role), corebot.AuditOutcome(outcome), time.Duration(took)*time.Millisecond
	return e, err
}

// toolResult is the event of a call that has ended. Events that are made of another one keep its label.
const toolResult = "tool.result"

// auditTx writes events in the transaction that they belong to.
func auditTx(t *tx, events []corebot.AuditEvent) error {
	for _, e := range events {
		e.At = t.now
		next, k := t.audit.follow(&e), e.Key
		_, err := t.exec(insertAudit, next.id, next.hash, t.now, e.Event, e.Tool, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, e.Principal.ID,
			string(e.Role), string(e.Entry), string(e.Outcome), e.Rule, e.Args, e.Duration.Milliseconds(), e.StepID)
		if err != nil {
			return err
		}
		t.audit = next
		if e.Event == toolResult && e.Label != "" {
			t.count(toolsTotal, e.Label, string(e.Outcome), 1)
		}
	}
	return nil
}
