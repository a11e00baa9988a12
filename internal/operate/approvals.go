package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/redact"
)

// Approvals keeps the calls that wait for an approval.
type Approvals interface {
	// Page gives the calls after a cursor, and the next cursor. These are the waiting calls, oldest first. If all is
	// true, these are all calls, newest first.
	Page(ctx context.Context, all bool, after string, limit int) (found []corebot.Approval, next string, err error)
	// Request gives the calls of one request, which are those of one model answer.
	Request(ctx context.Context, id int64) ([]corebot.Approval, error)
	Resolve(ctx context.Context, id int64, decision corebot.Decision) error
	// Rules gives the rules after a cursor, oldest first, and the next cursor.
	Rules(ctx context.Context, after string, limit int) (found []corebot.ApprovalRule, next string, err error)
	// Revoke ends the rule of an id.
	Revoke(ctx context.Context, id int64) error
}

// The operations on approvals.
var (
	ListApprovals    = reads("approvals.list", (*Service).ListApprovals)
	ShowApproval     = reads("approvals.show", (*Service).ShowApproval)
	ResolveApprovals = changes("approvals.resolve", (*Service).ResolveApprovals)
	ListRules        = reads("approvals.rules", (*Service).ListRules)
	RevokeRules      = changes("approvals.revoke", (*Service).RevokeRules)
)

// maxApprovals bounds a page of approvals: each has the whole arguments of its call, and a diff.
const maxApprovals = 20

type (
	// ApprovalQuery asks for a page of the waiting calls, or of all calls.
	ApprovalQuery struct {
		All bool `json:"all,omitempty"`
		Part
	}
	// Approval is a call with all that a person must know of it.
	Approval struct{ corebot.Approval }
	// Request is all calls of one model answer that need an approval: one decision resolves them.
	Request struct {
		Calls []Approval `json:"calls"`
	}
	// Resolution approves or denies requests.
	Resolution struct {
		IDs   []int64               `json:"ids"`
		State corebot.ApprovalState `json:"state"`          // approved or denied
		For   corebot.Lasting       `json:"for,omitempty"`  // with an approval: how long it lasts
		Stop  bool                  `json:"stop,omitempty"` // with a denial: the turn ends, too
	}
)

// ListApprovals lists the waiting calls, oldest first, or all calls, newest first.
func (s *Service) ListApprovals(ctx context.Context, q ApprovalQuery) (Page[Approval], error) {
	found, next, err := s.stores.Approvals.Page(ctx, q.All, q.After, min(q.size(), maxApprovals))
	return pageOf(found, next, newApproval), err
}

func newApproval(a corebot.Approval) Approval { return Approval{a} }

// ShowApproval gives the calls of one request, in any state.
func (s *Service) ShowApproval(ctx context.Context, by ByID) (Request, error) {
	found, err := s.stores.Approvals.Request(ctx, by.ID)
	return Request{pageOf(found, "", newApproval).Rows}, err
}

// ResolveApprovals approves or denies requests, one by one. It stops at the first failure; earlier changes stay.
func (s *Service) ResolveApprovals(ctx context.Context, r Resolution) (Done, error) {
	if r.State != corebot.ApprovalApproved && r.State != corebot.ApprovalDenied {
		return Done{}, fmt.Errorf("%w: an approval cannot be made %q", corebot.ErrInvalid, r.State)
	}
	d := corebot.Decision{Approve: r.State == corebot.ApprovalApproved, For: r.For, Stop: r.Stop}
	return each(r.IDs, func(id int64) error { return s.stores.Approvals.Resolve(ctx, id, d) })
}

// ApprovalRow is what scripts read of one call, waiting or resolved. All calls of one model answer have one id: one
// decision resolves them.
type ApprovalRow struct {
	ID        int64           `json:"id"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args"` // not shortened; as text if they are nested too deep
	Principal string          `json:"principal"`
	ChatID    string          `json:"chatId"`
	CreatedAt time.Time       `json:"createdAt"`
	ExpiresAt time.Time       `json:"expiresAt"`

	Change     *corebot.FileChange `json:"change,omitempty"`     // of a call that changes a file
	Definition string              `json:"definition,omitempty"` // of a call of an MCP tool
	Instead    int64               `json:"instead,omitempty"`    // the older request that this one replaces
	Because    string              `json:"because,omitempty"`    // what changed after the older request
	Detached   bool                `json:"detached,omitempty"`   // its answer has come without the call
	WayOut     string              `json:"wayOut,omitempty"`     // the settings that let such a call run unasked

	// State and what follows are set once the call is resolved.
	State      corebot.ApprovalState `json:"state,omitempty"`
	Ran        bool                  `json:"ran,omitempty"`
	Reason     string                `json:"reason,omitempty"`
	ResolvedAt time.Time             `json:"resolvedAt,omitzero"`
	ResolvedBy string                `json:"resolvedBy,omitempty"`
}

// Row is what --json prints of a call.
func (a Approval) Row() ApprovalRow {
	row := ApprovalRow{
		ID: a.Request, Tool: a.Bound.Tool, Args: redact.Shallow(a.Bound.Args), Principal: a.Principal.String(),
		ChatID:    a.Key.Chat,
		CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt, Definition: a.Bound.Definition, Instead: a.Instead,
		Because: a.Because, Detached: a.Detached(),
		WayOut: corebot.WayOut([]corebot.Approval{a.Approval}),
	}
	if a.Change.Path != "" {
		row.Change = &a.Change
	}
	if a.State != corebot.ApprovalAwaited {
		row.State, row.Ran, row.Reason, row.ResolvedAt, row.ResolvedBy = a.State, a.Ran, a.Reason, a.ResolvedAt, a.By
	}
	return row
}

type (
	// RuleQuery asks for a page of the rules that are in force.
	RuleQuery struct{ Part }
	// Rule is an approval that lasts.
	Rule struct{ corebot.ApprovalRule }
	// ByRules names rules.
	ByRules struct {
		IDs []int64 `json:"ids"`
	}
)

// ListRules lists the approvals that last, oldest first.
func (s *Service) ListRules(ctx context.Context, q RuleQuery) (Page[Rule], error) {
	found, next, err := s.stores.Approvals.Rules(ctx, q.After, q.size())
	return pageOf(found, next, func(r corebot.ApprovalRule) Rule { return Rule{r} }), err
}

// RevokeRules ends rules, one by one. It stops at the first failure; earlier changes stay.
func (s *Service) RevokeRules(ctx context.Context, by ByRules) (Done, error) {
	return each(by.IDs, func(id int64) error { return s.stores.Approvals.Revoke(ctx, id) })
}

// RuleRow is the JSON of a rule.
type RuleRow struct {
	ID        int64           `json:"id"`
	Binding   corebot.Binding `json:"binding"`
	Words     string          `json:"words"` // the binding in words
	Agent     string          `json:"agent"`
	Channel   string          `json:"channel"`
	ChatID    string          `json:"chatId"`
	Principal string          `json:"principal"`
	Session   int64           `json:"session,omitempty"` // 0: in every session
	RequestID int64           `json:"requestId"`
	CreatedAt time.Time       `json:"createdAt"`
	CreatedBy string          `json:"createdBy"`
}

// Row is what --json prints of a rule.
func (r Rule) Row() RuleRow {
	return RuleRow{
		ID: r.ID, Binding: r.Binding, Words: r.Binding.String(), Agent: r.Key.Agent, Channel: r.Key.Channel,
		ChatID: r.Key.Chat, Principal: r.Principal.String(), Session: r.Session, RequestID: r.Request,
		CreatedAt: r.CreatedAt, CreatedBy: r.By,
	}
}
