package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// keyedTime is how long the key of a change is kept.
const keyedTime = 24 * time.Hour

var (
	selectKey = &query{`SELECT call, status, answer FROM api_keys WHERE key = ? AND at > ?`}
	insertKey = &query{`INSERT INTO api_keys (key, call, token, at) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (key) DO NOTHING`}
	keepKey   = &query{`UPDATE api_keys SET status = ?1, answer = ?2 WHERE key = ?3 AND call = ?4`}
	pruneKeys = &query{`DELETE FROM api_keys WHERE at <= ?1 OR at > ?2`}
	countKeys = &query{`SELECT COUNT(*) FROM api_keys WHERE token = ? AND at > ?`}
	// An answer can have words of any chat. The keys stay: a change is not made again.
	forgetAnswers = &query{`UPDATE api_keys SET status = 0, answer = x'' WHERE status <> 0`}
)

// Made gives the answer of the change that a key has stood for in the last day. A key that stands for no change is
// [corebot.ErrNotFound], one that stands for another change [corebot.ErrInvalid], and one whose change was made without
// a known answer [corebot.ErrConflict].
func (s *Tokens) Made(ctx context.Context, k corebot.KeyedChange) (a corebot.KeptAnswer, err error) {
	found, same := false, false
	err = s.db.reader.each(ctx, selectKey, func(row scanner) error {
		var call []byte
		err := row.Scan(&call, &a.Status, &a.Body)
		found, same = true, string(call) == string(k.Call[:])
		return err
	}, k.Key[:], time.Now().Add(-keyedTime))
	switch {
	case err != nil:
		return a, err
	case !found:
		return a, fmt.Errorf("idempotency key: %w", corebot.ErrNotFound)
	case !same:
		return corebot.KeptAnswer{}, corebot.WithHint(fmt.Errorf("%w: the Idempotency-Key stands for another request",
			corebot.ErrInvalid), "a new request needs a new key")
	case a.Status == 0:
		return a, corebot.WithHint(fmt.Errorf("%w: the request with this Idempotency-Key was carried out, and its "+
			"answer is not known any more", corebot.ErrConflict), "look at what it has changed")
	}
	return a, nil
}

type keyedContext struct{}

// Keyed has the first change that is made with the context store the key, in the commit of the change. So a crash
// leaves both or neither.
func (s *Tokens) Keyed(ctx context.Context, k corebot.KeyedChange) context.Context {
	return context.WithValue(ctx, keyedContext{}, k)
}

// withKey is a change that also stores the key of the context, if there is one.
func withKey(ctx context.Context, fn func(*tx) error) func(*tx) error {
	k, is := ctx.Value(keyedContext{}).(corebot.KeyedChange)
	if !is {
		return fn
	}
	return func(t *tx) error {
		if err := keyRoomTx(t, k); err != nil {
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
		_, err := t.exec(insertKey, k.Key[:], k.Call[:], k.Token, t.now)
		return err
	}
}

// keyRoomTx deletes old keys, and refuses a token that has too many.
func keyRoomTx(t *tx, k corebot.KeyedChange) error {
	var n int64
	if _, err := t.one(countKeys, []any{&n}, k.Token, t.now.Add(-keyedTime)); err != nil {
		return err
	}
	if n >= corebot.MaxKeyedChanges {
		return corebot.WithHint(fmt.Errorf("%w: the token has used %d idempotency keys in a day",
			corebot.ErrOverloaded, n), "send the request without one, or later")
	}
	_, err := t.exec(pruneKeys, t.now.Add(-keyedTime), t.now.Add(keyedTime))
	return err
}

// Keep stores the answer of a change under its key, also of a change that has stored nothing. An answer of more than
// [corebot.MaxKeptAnswer] bytes is not kept: the key alone says that the change was made.
func (s *Tokens) Keep(ctx context.Context, k corebot.KeyedChange, a corebot.KeptAnswer) error {
	return s.db.write(ctx, "api.keep", func(t *tx) error {
		if _, err := t.exec(insertKey, k.Key[:], k.Call[:], k.Token, t.now); err != nil ||
			len(a.Body) > corebot.MaxKeptAnswer {
			return err
		}
		_, err := t.exec(keepKey, int64(a.Status), a.Body, k.Key[:], k.Call[:])
		return err
	})
}
