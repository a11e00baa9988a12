package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/tools"
)

// step is the journal's place of a call that no turn makes: there is no journal, so that its decision and its result are rows of the audit, and what
// makes it repeatable is its idempotency key.
type step struct {
	*Service
	id   string
	call corebot.ClientCall
}

var _ tools.Step = (*step)(nil)

// errNoTurn ends a call that would wait for an admin. It does not come to that: a box without approvers denies the call before.
var errNoTurn = errors.New("a call of an MCP client cannot wait for an approval")

// stepPrefix begins the ids of steps, and of messages whose client gave them none.
const stepPrefix = "mcp/"

func (s *Service) newStep(c Call) *step {
	id := stepPrefix + uuid.Must(uuid.NewV7()).String()
	if c.Key != "" { // the same call has the same id
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %s", s.principal(), c.Key))
		id = stepPrefix + hex.EncodeToString(sum[:16])
	}
	return &step{s, id, corebot.ClientCall{Principal: s.principal(), Key: c.Key, Tool: c.Tool, Args: c.Args}}
}

// ID implements [tools.Step].
func (s *step) ID() string { return s.id }

// State implements [tools.Step]: whether an earlier call came through, the bus and the store know by its key.
func (s *step) State() corebot.StepState { return "" }

// Intend implements [tools.Step].
func (s *step) Intend(ctx context.Context, e corebot.AuditEvent) error {
	return s.store.Trail.Note(ctx, e)
}

// Finish implements [tools.Step].
func (s *step) Finish(ctx context.Context, _ corebot.ToolResult, e corebot.AuditEvent) error {
	return s.store.Trail.Note(ctx, e)
}

// Apply implements [tools.Step].
func (s *step) Apply(ctx context.Context, effect corebot.Effect, _ corebot.ToolResult, e corebot.AuditEvent) error {
	return s.store.Changes.Apply(ctx, s.call, effect, e)
}

// InAnswer implements [tools.Step].
func (s *step) InAnswer() corebot.InAnswer { return corebot.InAnswer{} }

// Ask implements [tools.Step].
func (s *step) Ask(context.Context, []corebot.Ask) (corebot.Asked, error) {
	return corebot.Asked{}, errNoTurn
}
