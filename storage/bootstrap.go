package storage

import (
	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

var (
	selectBootstrap = &query{`SELECT b.failures, b.locked_at, b.used, EXISTS (SELECT 1 FROM grants WHERE role = 'admin') FROM bootstrap b WHERE b.id = 1`}
	updateBootstrap = &query{`UPDATE bootstrap SET failures = ?, locked_at = ?, used = ? WHERE id = 1`}
)

// bootstrapTx tries a key on behalf of the event's principal, who becomes admin everywhere if it is the right one. Whatever policy decides,
// what is to be remembered of the attempt is written; a denial is not an error, so that it is committed.
func (l *Ledger) bootstrapTx(t *tx, key corebot.KeyHash, event corebot.AuditEvent) (policy.Decision, error) {
	var state policy.BootstrapState
	attempt := policy.BootstrapAttempt{Key: key, By: event.Principal, At: t.now}
	_, err := t.one(selectBootstrap, []any{&state.Failures, moment{&state.LockedAt}, &state.Used, &attempt.Admins})
	if err != nil {
		return policy.Decision{}, err
	}
	decision, next := l.db.bootstrap.Decide(state, attempt)
	if next != state {
		if _, err := t.exec(updateBootstrap, int64(next.Failures), next.LockedAt, next.Used); err != nil {
			return decision, err
		}
	}
	if !decision.Allow {
		return decision, nil
	}
	event.Rule = decision.Rule
	return decision, NewGrants(l.db).As(event).grantTx(t, corebot.Grant{Principal: event.Principal, Role: corebot.RoleAdmin, By: decision.Rule})
}
