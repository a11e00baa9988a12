package app

import (
	"context"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// OpResolve is the operation of `corebot approvals approve` and `deny`.
const OpResolve = "approvals.resolve"

// Resolution says yes or no to calls that wait.
type Resolution struct {
	IDs   []int64               `json:"ids"`
	State corebot.ApprovalState `json:"state"` // approved or denied
}

// approvalOperations adds what an operator says about calls that wait for an admin's word.
func approvalOperations(db *storage.DB, all control.Operations) {
	approvals := storage.NewApprovals(db)
	all[OpResolve] = control.Typed(func(ctx context.Context, r Resolution) (operate.Done, error) {
		return each(r.IDs, func(id int64) error { return approvals.Resolve(ctx, id, r.State) })
	})
}
