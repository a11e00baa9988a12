package storage

import (
	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

var (
	selectBootstrap = &query{`SELECT b.failures, b.locked_at, b.used, EXISTS (SELECT 1 FROM grants WHERE role = 'admin') FROM bootstrap b WHERE b.id = 1`}
	updateBootstrap = &query{`UPDATE bootstrap SET failures = ?, locked_at = ?, used = ? WHERE id = 1`}
)

// firstAdminTx handles [corebot.BecomeFirstAdmin]. The call's principal becomes admin everywhere, and the chat is
// registered, if the key is the right one. The count of attempts is written whatever policy decides: a denial is
// committed.
func (db *DB) firstAdminTx(t *tx, asks *asking, e corebot.BecomeFirstAdmin) error {
	who := asks.event.Principal
	var state policy.BootstrapState
	attempt := policy.BootstrapAttempt{Key: e.Bootstrap, By: who, At: t.now}
	_, err := t.one(selectBootstrap, []any{&state.Failures, moment{&state.LockedAt}, &state.Used, &attempt.Admins})
	if err != nil {
		return err
	}
	decision, next := db.bootstrap.Decide(state, attempt)
	if next != state {
		if _, err := t.exec(updateBootstrap, int64(next.Failures), next.LockedAt, next.Used); err != nil {
			return err
		}
	}
	if !decision.Allow {
		return &corebot.Denied{Rule: decision.Rule, Reason: decision.Reason}
	}
	asks.event.Rule = decision.Rule
	first := corebot.Grant{Principal: who, Role: corebot.RoleAdmin, By: decision.Rule}
	if err := NewGrants(db).As(asks.event).grantTx(t, first); err != nil {
		return err
	}
	return NewChats(db).As(asks.event).registerTx(t, e.Chat, true, "")
}
