package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

// Audit is the audit trail.
type Audit interface {
	// Page gives events behind a cursor, newest first, and the cursor behind them.
	Page(ctx context.Context, f corebot.AuditFilter, after string, limit int) (found []corebot.AuditEvent, next string,
		err error)
	Verify(ctx context.Context, noted *corebot.AuditHead) (corebot.AuditChain, error)
}

// The operations on the audit trail.
var (
	ListAudit   = reads("audit.list", (*Service).ListAudit)
	VerifyAudit = walks("audit.verify", (*Service).VerifyAudit)
)

type (
	// AuditQuery asks for a part of the events that a filter means. The filter's own limit does not count.
	AuditQuery struct {
		Filter corebot.AuditFilter `json:"filter,omitzero"`
		Part
	}
	// AuditEvent is one row of the list, and what a table shows beside it.
	AuditEvent struct {
		AuditRow
		Principal string `json:"principal"`
		NoArgs    bool   `json:"noArgs,omitempty"` // the event has no arguments; the row has an empty object
	}
	// AuditRow is the contract's JSON of one event.
	AuditRow struct {
		At         time.Time       `json:"at"`
		Event      string          `json:"event"`
		Tool       string          `json:"tool"`
		Channel    string          `json:"channel"`
		ChatID     string          `json:"chatId"`
		SenderID   string          `json:"senderId"`
		Role       string          `json:"role"`
		Entry      string          `json:"entry"`
		Outcome    string          `json:"outcome"`
		Rule       string          `json:"rule"`
		Args       json.RawMessage `json:"args"`
		DurationMS int64           `json:"durationMs"`
		Agent      string          `json:"agent,omitempty"` // of another agent than main
	}
	// Verification asks whether the trail is what was written, up to a head that was noted before; nil: none was.
	Verification struct {
		Noted *corebot.AuditHead `json:"noted,omitempty"`
	}
)

// ListAudit lists events, newest first.
func (s *Service) ListAudit(ctx context.Context, q AuditQuery) (Page[AuditEvent], error) {
	found, next, err := s.stores.Audit.Page(ctx, q.Filter, q.After, q.size())
	return pageOf(found, next, newAuditEvent), err
}

// otherAgent is the agent of a chat, or empty for the agent of a home without agents. So rows of such a home are as
// scripts have always read them.
func otherAgent(k corebot.Key) string {
	if k.Agent == corebot.DefaultAgent {
		return ""
	}
	return k.Agent
}

func newAuditEvent(e corebot.AuditEvent) AuditEvent {
	return AuditEvent{AuditRow{
		e.At, e.Event, e.Tool, e.Key.Channel, e.Key.Chat, e.Principal.ID, string(e.Role), string(e.Entry),
		string(e.Outcome), e.Rule,
		redact.Shallow(json.RawMessage(cmp.Or(e.Args, "{}"))), e.Duration.Milliseconds(), otherAgent(e.Key),
	}, e.Principal.String(), e.Args == ""}
}

// VerifyAudit checks the whole trail. A trail that was changed is a [*corebot.BrokenChain].
func (s *Service) VerifyAudit(ctx context.Context, v Verification) (corebot.AuditChain, error) {
	chain, err := s.stores.Audit.Verify(ctx, v.Noted)
	if broken := (*corebot.BrokenChain)(nil); errors.As(err, &broken) {
		err = corebot.WithHint(err, "somebody or something other than Corebot has written the database: compare it "+
			"with a backup (data/backups)")
	}
	return chain, err
}
