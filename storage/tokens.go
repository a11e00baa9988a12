package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Tokens stores the tokens of the HTTP API. Of a secret it stores the SHA-256. A secret has 256 random bits, so nothing
// slower is needed against guessing. Every change leaves an audit event in its own commit.
type Tokens struct {
	db *DB
	by corebot.AuditEvent
}

// NewTokens returns the tokens of a database, for changes by the operator.
func NewTokens(db *DB) *Tokens { return &Tokens{db, byOperator()} }

// As returns the tokens for changes by somebody else, as [DeadLetters.As] does.
func (s *Tokens) As(by corebot.AuditEvent) *Tokens { return &Tokens{s.db, by} }

const tokenColumns = `id, name, scopes, sender, chats, created_at, created_by, expires_at, used_at, revoked_at`

var (
	listTokens = &query{`SELECT ` + tokenColumns + ` FROM tokens WHERE id > ?1 AND (?2 OR revoked_at = 0)
		ORDER BY id LIMIT ?3 + 0`}
	tokenByDigest = &query{`SELECT ` + tokenColumns + ` FROM tokens WHERE digest = ?`}
	tokenByID     = &query{`SELECT ` + tokenColumns + ` FROM tokens WHERE id = ?`}
	countTokens   = &query{`SELECT COUNT(*), COUNT(CASE name WHEN ? THEN 1 END) FROM tokens WHERE revoked_at = 0`}
	insertToken   = &query{`INSERT INTO tokens
		(name, digest, scopes, sender, chats, created_at, created_by, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`}
	tokenNamed  = &query{`SELECT ` + tokenColumns + ` FROM tokens WHERE name = ? AND revoked_at = 0`}
	revokeToken = &query{`UPDATE tokens SET revoked_at = ? WHERE id = ?`}
	usedToken   = &query{`UPDATE tokens SET used_at = ?1 WHERE id = ?2 AND used_at < ?1`}
)

func scanToken(s scanner) (t corebot.Token, err error) {
	var scopes, chats string
	if err = s.Scan(&t.ID, &t.Name, &scopes, &t.Sender, &chats, moment{&t.CreatedAt}, &t.CreatedBy,
		moment{&t.ExpiresAt}, moment{&t.UsedAt}, moment{&t.RevokedAt}); err != nil {
		return t, err
	}
	for word := range strings.SplitSeq(scopes, ",") {
		t.Scopes = append(t.Scopes, corebot.Scope(word))
	}
	if err = json.Unmarshal([]byte(chats), &t.Chats); err != nil {
		err = fmt.Errorf("the chats of the token %s are damaged: %w", t.Name, err)
	}
	return t, err
}

// Add stores a token under the digest of its secret. Of t it uses all but id and times. A name that is in force is
// [corebot.ErrInvalid]; more than [corebot.MaxTokens] tokens in force are [corebot.ErrTooLarge].
func (s *Tokens) Add(ctx context.Context, t corebot.Token, digest [sha256.Size]byte) (corebot.Token, error) {
	if err := t.Validate(); err != nil {
		return t, err
	}
	err := s.db.write(ctx, "token.add", func(tx *tx) (err error) {
		t, err = s.addTx(tx, t, digest)
		return err
	})
	return t, err
}

func (s *Tokens) addTx(t *tx, token corebot.Token, digest [sha256.Size]byte) (corebot.Token, error) {
	var all, named int64
	if _, err := t.one(countTokens, []any{&all, &named}, token.Name); err != nil {
		return token, err
	}
	switch {
	case named > 0:
		return token, corebot.WithHint(fmt.Errorf("%w: there is a token %q", corebot.ErrInvalid, token.Name),
			"choose another name, or revoke it: corebot tokens revoke NAME")
	case all >= corebot.MaxTokens:
		return token, corebot.WithHint(fmt.Errorf("%w: %d tokens are in force", corebot.ErrTooLarge, all),
			"`corebot tokens list` shows which of them nobody uses")
	}
	words := make([]string, len(token.Scopes))
	for i, scope := range token.Scopes {
		words[i] = string(scope)
	}
	chats, err := encode(append([]string{}, token.Chats...))
	if err != nil {
		return token, err
	}
	token.CreatedAt, token.CreatedBy = t.now, maker(s.by)
	id, err := t.insert(insertToken, token.Name, digest[:], strings.Join(words, ","), token.Sender, chats, t.now,
		token.CreatedBy, token.ExpiresAt)
	if err != nil {
		return token, err
	}
	token.ID = id
	return token, s.noteTx(t, "token.add", token)
}

// Page gives the tokens in force behind a cursor, oldest first, and the cursor behind them. With all it also gives
// those that were revoked.
func (s *Tokens) Page(ctx context.Context, all bool, after string, limit int,
) (found []corebot.Token, next string, err error) {
	var id int64
	if err := behind(after, "tokens", &id); err != nil {
		return nil, "", err
	}
	err = s.db.reader.each(ctx, listTokens, func(row scanner) error {
		t, err := scanToken(row)
		found = append(found, t)
		return err
	}, id, all, limit)
	return found, nextPage(found, limit, func(t corebot.Token) string { return cursor("tokens", t.ID) }), err
}

// ByDigest gives the token whose secret has a digest, also one that is not in force. An unknown one is
// [corebot.ErrNotFound].
func (s *Tokens) ByDigest(ctx context.Context, digest [sha256.Size]byte) (t corebot.Token, err error) {
	found := false
	err = s.db.reader.each(ctx, tokenByDigest, func(row scanner) (err error) {
		found = true
		t, err = scanToken(row)
		return err
	}, digest[:])
	if err == nil && !found {
		err = fmt.Errorf("token: %w", corebot.ErrNotFound)
	}
	return t, err
}

// ByID gives a token by its number, also one that is not in force.
func (s *Tokens) ByID(ctx context.Context, id int64) (t corebot.Token, err error) {
	err = s.db.reader.each(ctx, tokenByID, func(row scanner) (err error) {
		t, err = scanToken(row)
		return err
	}, id)
	if err == nil && t.ID == 0 {
		err = fmt.Errorf("token: %w", corebot.ErrNotFound)
	}
	return t, err
}

// Used notes when a token was used, to the minute.
func (s *Tokens) Used(ctx context.Context, id int64, at time.Time) error {
	return s.db.write(ctx, "token.used", func(t *tx) error {
		_, err := t.exec(usedToken, at.Truncate(time.Minute), id)
		return err
	})
}

// Revoke ends the token of a name, at once and for good. A name that no token in force has is [corebot.ErrNotFound].
func (s *Tokens) Revoke(ctx context.Context, name string) (token corebot.Token, err error) {
	err = s.db.write(ctx, "token.revoke", func(t *tx) error {
		found := false
		err := t.each(tokenNamed, func(row scanner) (err error) {
			found = true
			token, err = scanToken(row)
			return err
		}, name)
		switch {
		case err != nil:
			return err
		case !found:
			return fmt.Errorf("token %q: %w", corebot.Plainly(name), corebot.ErrNotFound)
		}
		token.RevokedAt = t.now
		if _, err := t.exec(revokeToken, t.now, token.ID); err != nil {
			return err
		}
		return s.noteTx(t, "token.revoke", token)
	})
	return token, err
}

func (s *Tokens) noteTx(t *tx, event string, token corebot.Token) error {
	return changeTx(t, s.by, event, corebot.Key{Channel: corebot.APIChannel},
		map[string]any{
			"token": token.ID, "name": token.Name, "scopes": token.Scopes, "sender": token.Sender, "chats": token.Chats,
		})
}

// keyedTime is how long the key of a change is kept.
const keyedTime = 24 * time.Hour

var (
	selectKey = &query{`SELECT call, status, answer FROM api_keys WHERE key = ? AND at > ?`}
	insertKey = &query{`INSERT INTO api_keys (key, call, token, at) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (key) DO NOTHING`}
	keepKey   = &query{`UPDATE api_keys SET status = ?1, answer = ?2 WHERE key = ?3 AND call = ?4`}
	pruneKeys = &query{`DELETE FROM api_keys WHERE at <= ?1 OR at > ?2`}
	knownKey  = &query{`SELECT 1 FROM api_keys WHERE key = ? AND at > ?`}
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

// keyRoomTx deletes old keys, and refuses a new one of a token that has too many. A change can take several commits.
func keyRoomTx(t *tx, k corebot.KeyedChange) error {
	var n int64
	if known, err := t.one(knownKey, []any{&n}, k.Key[:], t.now.Add(-keyedTime)); err != nil || known {
		return err
	}
	if _, err := t.one(countKeys, []any{&n}, k.Token, t.now.Add(-keyedTime)); err != nil {
		return err
	}
	if n >= corebot.MaxKeyedChanges {
		return corebot.WithHint(fmt.Errorf("%w: the token has used %d idempotency keys in a day",
			corebot.ErrOverloaded, n), "send the request without one, or later")
	}
	_, err := pruneKeysTx(t, t.now.Add(-keyedTime))
	return err
}

// pruneKeysTx deletes keys from before a moment, and those of a clock that was far ahead.
func pruneKeysTx(t *tx, before time.Time) (int64, error) {
	return t.exec(pruneKeys, before, t.now.Add(keyedTime))
}

// sweepKeys deletes keys with their answers, also when no program uses keys any more.
func (r *Retention) sweepKeys(ctx context.Context, before time.Time) error {
	return r.drop(ctx, "api_keys", func(t *tx) (int64, error) { return pruneKeysTx(t, before) })
}

// Keep stores the answer of a change under its key, also of a change that has stored nothing. An answer of more than
// [corebot.MaxKeptAnswer] bytes is not kept: the key alone says that the change was made. A change that has stored
// nothing, by a token that has too many keys, leaves none: [corebot.ErrOverloaded].
func (s *Tokens) Keep(ctx context.Context, k corebot.KeyedChange, a corebot.KeptAnswer) error {
	return s.db.write(ctx, "api.keep", func(t *tx) error {
		if err := keyRoomTx(t, k); err != nil {
			return err
		}
		if _, err := t.exec(insertKey, k.Key[:], k.Call[:], k.Token, t.now); err != nil ||
			len(a.Body) > corebot.MaxKeptAnswer {
			return err
		}
		_, err := t.exec(keepKey, int64(a.Status), a.Body, k.Key[:], k.Call[:])
		return err
	})
}

// Console stores the logins to the console: addresses that log a browser in once, and the browsers that are logged in.
// Of a secret it stores the SHA-256, as [Tokens] does. A login and its end leave an audit event in their commit.
type Console struct {
	db *DB
	by corebot.AuditEvent
}

// NewConsole returns the logins of a database, for changes by the operator.
func NewConsole(db *DB) *Console { return &Console{db, byOperator()} }

// As returns the logins for changes by somebody else, as [DeadLetters.As] does.
func (s *Console) As(by corebot.AuditEvent) *Console { return &Console{s.db, by} }

const sessionColumns = `id, browser, created_at, expires_at, used_at, revoked_at`

var (
	insertLink = &query{`INSERT INTO console_links (digest, expires_at) VALUES (?, ?)`}
	// Used links are deleted at once; links that nobody has used are deleted when they are old, or too many.
	pruneLinks = &query{`DELETE FROM console_links WHERE expires_at <= ? OR id NOT IN
		(SELECT id FROM console_links ORDER BY id DESC LIMIT ?)`}
	useLink       = &query{`DELETE FROM console_links WHERE digest = ? AND expires_at > ?`}
	insertSession = &query{`INSERT INTO console_sessions (digest, browser, created_at, expires_at, used_at)
		VALUES (?, ?, ?, ?, ?)`}
	pruneSessions = &query{`DELETE FROM console_sessions
		WHERE expires_at <= ?1 OR revoked_at > 0 AND revoked_at < ?1 - ?2`}
	boundSessions = &query{`UPDATE console_sessions SET revoked_at = ? WHERE revoked_at = 0 AND id NOT IN
		(SELECT id FROM console_sessions WHERE revoked_at = 0 ORDER BY used_at DESC, id DESC LIMIT ?)`}
	sessionByDigest = &query{`SELECT ` + sessionColumns + ` FROM console_sessions WHERE digest = ?`}
	sessionByID     = &query{`SELECT ` + sessionColumns + ` FROM console_sessions WHERE id = ? AND revoked_at = 0`}
	listSessions    = &query{`SELECT ` + sessionColumns + ` FROM console_sessions WHERE id > ?1
		AND (?2 OR revoked_at = 0 AND expires_at > ?3) ORDER BY id LIMIT ?4 + 0`}
	usedSession   = &query{`UPDATE console_sessions SET used_at = ?1 WHERE id = ?2 AND used_at < ?1`}
	revokeSession = &query{`UPDATE console_sessions SET revoked_at = ? WHERE id = ?`}
)

func scanSession(s scanner) (c corebot.ConsoleSession, err error) {
	err = s.Scan(&c.ID, &c.Browser, moment{&c.CreatedAt}, moment{&c.ExpiresAt}, moment{&c.UsedAt}, moment{&c.RevokedAt})
	return c, err
}

// AddLink stores a login address under the digest of its code, and gives the time when the address ends.
func (s *Console) AddLink(ctx context.Context, digest [sha256.Size]byte) (expires time.Time, err error) {
	err = s.db.write(ctx, "console.link", func(t *tx) error {
		expires = t.now.Add(corebot.ConsoleLinkTime)
		if _, err := t.exec(insertLink, digest[:], expires); err != nil {
			return err
		}
		_, err := t.exec(pruneLinks, t.now, int64(corebot.MaxConsoleLinks))
		return err
	})
	return expires, err
}

// Login uses up a login address and stores the session of the browser under the digest of its secret. An address that
// is unknown, used or expired is [corebot.ErrNotFound]. Of more than [corebot.MaxConsoleSessions] sessions, the least
// recently used ends.
func (s *Console) Login(ctx context.Context, link, secret [sha256.Size]byte, browser string,
) (c corebot.ConsoleSession, err error) {
	err = s.db.write(ctx, "console.login", func(t *tx) error {
		if n, err := t.exec(useLink, link[:], t.now); err != nil || n == 0 {
			return cmp.Or(err, fmt.Errorf("login address: %w", corebot.ErrNotFound))
		}
		if _, err := t.exec(pruneSessions, t.now, corebot.ConsoleSessionTime.Milliseconds()); err != nil {
			return err
		}
		c = corebot.ConsoleSession{
			Browser: browser, CreatedAt: t.now, ExpiresAt: t.now.Add(corebot.ConsoleSessionTime), UsedAt: t.now,
		}
		if c.ID, err = t.insert(insertSession, secret[:], browser, t.now, c.ExpiresAt, t.now); err != nil {
			return err
		}
		if _, err := t.exec(boundSessions, t.now, int64(corebot.MaxConsoleSessions)); err != nil {
			return err
		}
		return s.noteTx(t, "console.login", c)
	})
	return c, err
}

// ByDigest gives the session whose secret has a digest, also one that is not in force. An unknown one is
// [corebot.ErrNotFound].
func (s *Console) ByDigest(ctx context.Context, digest [sha256.Size]byte) (c corebot.ConsoleSession, err error) {
	found := false
	err = s.db.reader.each(ctx, sessionByDigest, func(row scanner) (err error) {
		found = true
		c, err = scanSession(row)
		return err
	}, digest[:])
	if err == nil && !found {
		err = fmt.Errorf("session: %w", corebot.ErrNotFound)
	}
	return c, err
}

// Used notes when a session was used, to the minute.
func (s *Console) Used(ctx context.Context, id int64, at time.Time) error {
	return s.db.write(ctx, "console.used", func(t *tx) error {
		_, err := t.exec(usedSession, at.Truncate(time.Minute), id)
		return err
	})
}

// Page gives the sessions in force behind a cursor, oldest first, and with all those that have ended, too.
func (s *Console) Page(ctx context.Context, all bool, after string, limit int,
) (found []corebot.ConsoleSession, next string, err error) {
	var id int64
	if err := behind(after, "sessions", &id); err != nil {
		return nil, "", err
	}
	err = s.db.reader.each(ctx, listSessions, func(row scanner) error {
		c, err := scanSession(row)
		found = append(found, c)
		return err
	}, id, all, time.Now(), limit)
	return found, nextPage(found, limit, func(c corebot.ConsoleSession) string { return cursor("sessions", c.ID) }), err
}

// Revoke ends a session at once. One that is not in force is [corebot.ErrNotFound].
func (s *Console) Revoke(ctx context.Context, id int64) error {
	return s.db.write(ctx, "console.revoke", func(t *tx) error {
		var c corebot.ConsoleSession
		err := t.each(sessionByID, func(row scanner) (err error) {
			c, err = scanSession(row)
			return err
		}, id)
		switch {
		case err != nil:
			return err
		case c.ID == 0:
			return fmt.Errorf("session %d: %w", id, corebot.ErrNotFound)
		}
		if _, err := t.exec(revokeSession, t.now, id); err != nil {
			return err
		}
		return s.noteTx(t, "console.revoke", c)
	})
}

func (s *Console) noteTx(t *tx, event string, c corebot.ConsoleSession) error {
	return changeTx(t, s.by, event, corebot.Key{Channel: corebot.ConsoleChannel},
		map[string]any{"session": c.ID, "browser": c.Browser})
}
