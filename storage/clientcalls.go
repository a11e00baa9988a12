package storage

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/corebot/corebot"
)

// ClientCalls makes the changes that MCP clients ask for, outside of any turn.
type ClientCalls struct{ db *DB }

// NewClientCalls are the calls of a database.
func NewClientCalls(db *DB) *ClientCalls { return &ClientCalls{db} }

// keptClientCalls is how many calls with keys are remembered. A key that is older is new again.
const keptClientCalls = 10_000

var (
	selectClientCall = &query{`SELECT call FROM client_calls WHERE key = ?`}
	insertClientCall = &query{`INSERT INTO client_calls (key, call, at) VALUES (?, ?, ?)`}
	trimClientCalls  = &query{`DELETE FROM client_calls WHERE id <= ?`}
)

// Apply makes a change on behalf of the event's principal and notes the event, in one commit: a crash leaves both or neither. A call that was made
// before under its key changes nothing and is no error. The errors are those of [Ledger.Apply]; a key that was used for another call is a
// [*corebot.Refused] of [corebot.ErrConflict].
func (c *ClientCalls) Apply(ctx context.Context, call corebot.ClientCall, effect corebot.Effect, event corebot.AuditEvent) error {
	var denied *corebot.Denied
	err := c.db.write(ctx, "client-call", func(t *tx) error {
		asks := asking{event: event}
		repeated, err := repeatedTx(t, call)
		if err != nil {
			return err
		}
		denied = nil
		if !repeated {
			if denied, err = c.db.applyTx(t, &asks, effect); err != nil {
				return err
			}
		}
		if denied == nil {
			if err := rememberTx(t, call, repeated); err != nil {
				return err
			}
		}
		return auditTx(t, []corebot.AuditEvent{asks.event})
	})
	if err == nil && denied != nil {
		return denied
	}
	return err
}

// repeatedTx says whether this very call was made before.
func repeatedTx(t *tx, c corebot.ClientCall) (bool, error) {
	if c.Key == "" {
		return false, nil
	}
	var was []byte
	found, err := t.one(selectClientCall, []any{&was}, callName(c))
	if err == nil && found && string(was) != string(callDigest(c)) {
		err = &corebot.Refused{Err: fmt.Errorf("%w: the idempotency key was used for another call", corebot.ErrConflict)}
	}
	return found, err
}

func rememberTx(t *tx, c corebot.ClientCall, repeated bool) error {
	if c.Key == "" || repeated {
		return nil
	}
	id, err := t.insert(insertClientCall, callName(c), callDigest(c), t.now)
	if err == nil && id > keptClientCalls {
		_, err = t.exec(trimClientCalls, id-keptClientCalls)
	}
	return err
}

func callName(c corebot.ClientCall) []byte { return hashOf(c.Principal.String(), c.Key) }

func callDigest(c corebot.ClientCall) []byte { return hashOf(c.Tool, string(c.Args)) }

// hashOf is over texts with their lengths, so that no two pairs have one.
func hashOf(a, b string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(a), a, b))
	return sum[:]
}
