package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

// Audit is the audit trail.
type Audit interface {
	// Page gives events behind a cursor, newest first, and the cursor behind them.
	Page(ctx context.Context, f corebot.AuditFilter, after string, limit int) (found []corebot.AuditEvent, next string,
		err error)
	Verify(ctx context.Context, p corebot.AuditProof) (corebot.AuditChain, error)
	// Head is the newest event. Records gives the events behind an id in their order, as they are stored and hashed.
	Head(ctx context.Context) (corebot.PublishedHead, error)
	Records(ctx context.Context, after int64, limit int) ([]corebot.AuditRecord, error)
	// NoteSkill writes into the trail that the operator has installed or removed a skill.
	NoteSkill(ctx context.Context, change string, note map[string]any) error
}

// Witness publishes the heads of the audit trail.
type Witness interface {
	// NewKey makes a new key in the place of the old one, writes that into the trail, and gives its id.
	NewKey(ctx context.Context) (string, error)
}

// The operations on the audit trail.
var (
	ListAudit   = reads("audit.list", (*Service).ListAudit)
	VerifyAudit = walks("audit.verify", (*Service).VerifyAudit)
	ReadRecords = walks("audit.records", (*Service).ReadRecords)
	ReadHead    = reads("audit.head", (*Service).ReadHead)
	NewAuditKey = changes("audit.key.new", (*Service).NewAuditKey)
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
	// Verification asks whether the trail is what was written, and whether it is the trail of the published heads.
	// Noted is a head that somebody noted before: up to there nothing may have changed. Nil: there is none.
	Verification struct {
		Noted *corebot.AuditHead `json:"noted,omitempty"`
		corebot.AuditProof
	}
	// AuditKey names a key that signs the heads of the trail.
	AuditKey struct {
		ID string `json:"id"`
	}
)

// ReadRecords gives a part of the trail as it is stored and hashed, oldest first. The cursor is the id of an event.
func (s *Service) ReadRecords(ctx context.Context, p Part) (Page[corebot.AuditRecord], error) {
	after := int64(0)
	if p.After != "" {
		var err error
		if after, err = strconv.ParseInt(p.After, 10, 64); err != nil {
			return Page[corebot.AuditRecord]{}, fmt.Errorf("%w: the cursor %q is no id of an event", corebot.ErrInvalid,
				clip(p.After))
		}
	}
	found, err := s.stores.Audit.Records(ctx, after, p.size())
	next := ""
	if len(found) == p.size() {
		next = strconv.FormatInt(found[len(found)-1].ID, 10)
	}
	return pageOf(found, next, func(r corebot.AuditRecord) corebot.AuditRecord { return r }), err
}

// ReadHead gives the newest event of the trail.
func (s *Service) ReadHead(ctx context.Context, _ struct{}) (corebot.PublishedHead, error) {
	return s.stores.Audit.Head(ctx)
}

// NewAuditKey makes a new key that signs the heads of the trail.
func (s *Service) NewAuditKey(ctx context.Context, _ struct{}) (AuditKey, error) {
	id, err := s.stores.Witness.NewKey(ctx)
	return AuditKey{id}, err
}

// auditNames are what the trail calls the things that commands change.
var auditNames = map[string]string{
	"admin": "role", "approvals": "approval", "chats": "chat", "deferred": "parked", "dlq": "dead_letter",
	"deadletters": "dead_letter", "jobs": "job", "pair": "pairing", "tasks": "task", "tokens": "token", "waits": "wait",
	"mode": "queue_mode",
}

// named finds the names in the trail of what somebody looks for: of a tool, of an event, or of a command, such as
// "tokens add" for token.add.
func named(f corebot.AuditFilter) corebot.AuditFilter {
	words := strings.FieldsFunc(f.Tool, func(r rune) bool { return r == ' ' || r == '.' })
	if len(words) > 0 && words[0] == "corebot" {
		words = words[1:]
	}
	if len(words) != 2 {
		return f
	}
	f.Tool = strings.Join(words, ".")
	for i, word := range words {
		words[i] = cmp.Or(auditNames[word], word)
	}
	f.Change = strings.Join(words, ".")
	return f
}

// ListAudit lists events, newest first.
func (s *Service) ListAudit(ctx context.Context, q AuditQuery) (Page[AuditEvent], error) {
	if o := q.Filter.Outcome; o != "" && !slices.Contains(corebot.AuditOutcomes(), o) {
		return Page[AuditEvent]{}, fmt.Errorf("%w: outcome %q: want success, denied, error, invalid_args or unknown",
			corebot.ErrInvalid, clip(string(o)))
	}
	q.Filter = named(q.Filter)
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
	if v.Noted != nil {
		v.Heads = append(v.Heads, corebot.PublishedHead{AuditHead: *v.Noted})
	}
	chain, err := s.stores.Audit.Verify(ctx, v.AuditProof)
	if broken := (*corebot.BrokenChain)(nil); errors.As(err, &broken) && corebot.HintOf(err) == "" {
		err = corebot.WithHint(err, "somebody or something other than Corebot has written the database: compare it "+
			"with a backup (data/backups)")
	}
	return chain, err
}
