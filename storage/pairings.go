package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// Pairings stores the senders who asked to talk on accounts whose access is "pairing", and what admins decided. Every
// decision leaves an audit event in its own commit.
type Pairings struct {
	db *DB
	by corebot.AuditEvent
}

// NewPairings returns the pairings of a database, for decisions by the operator.
func NewPairings(db *DB) *Pairings { return &Pairings{db, byOperator()} }

// As returns the pairings for decisions by somebody else, as [DeadLetters.As] does.
func (s *Pairings) As(by corebot.AuditEvent) *Pairings { return &Pairings{s.db, by} }

const pairingColumns = `channel, account, sender, name, code, state, chat, asked_at, expires_at, decided_by, decided_at`

var (
	pairingOf    = &query{`SELECT state, expires_at FROM pairings WHERE channel = ? AND account = ? AND sender = ?`}
	openPairings = &query{`SELECT COUNT(*) FROM pairings WHERE channel = ? AND account = ? AND state = 'open' AND
			expires_at > ?`}
	pairingByCode = &query{`SELECT ` + pairingColumns + ` FROM pairings WHERE code = ?`}
	listPairings  = &query{`SELECT ` + pairingColumns + ` FROM pairings
		WHERE (channel, account, sender) > (?1, ?2, ?3) AND (?4 = '' OR state = ?4 AND (state <> 'open' OR expires_at
				> ?5))
		ORDER BY channel, account, sender LIMIT ?6 + 0`}
	dropExpired = &query{
		`DELETE FROM pairings WHERE channel = ? AND account = ? AND state = 'open' AND expires_at <= ?`,
	}
	insertPairing = &query{`INSERT INTO pairings (channel, account, sender, name, code, state, chat, asked_at,
			expires_at)
		VALUES (?, ?, ?, ?, ?, 'open', ?, ?, ?)`}
	decidePairing = &query{
		`UPDATE pairings SET state = ?, decided_by = ?, decided_at = ? WHERE channel = ? AND account = ? AND sender =
				?`,
	}
	deletePairing  = &query{`DELETE FROM pairings WHERE channel = ? AND account = ? AND sender = ?`}
	pairFailures   = &query{`SELECT failures, since FROM pairing_failures WHERE id = 1`}
	setPairFailing = &query{`UPDATE pairing_failures SET failures = ?, since = ? WHERE id = 1`}
)

func scanPairing(s scanner) (p corebot.Pairing, err error) {
	var state, chat string
	who := &p.Principal
	if err = s.Scan(&who.Channel, &who.Account, &who.ID, &p.Name, &p.Code, &state, &chat, moment{&p.AskedAt},
		moment{&p.ExpiresAt}, &p.By, moment{&p.DecidedAt}); err != nil {
		return p, err
	}
	p.State = corebot.PairingState(state)
	p.Chat, err = corebot.ParseKey(chat)
	return p, err
}

// Paired says whether an admin has let a sender in.
func (s *Pairings) Paired(ctx context.Context, p corebot.Principal) (bool, error) {
	var state string
	var expires int64
	_, err := s.db.reader.one(ctx, pairingOf, []any{&state, &expires}, p.Channel, p.Account, p.ID)
	if err != nil {
		return false, fmt.Errorf("read whether %s is paired: %w", p, err)
	}
	return state == string(corebot.PairingPaired), nil
}

// Offer gives a sender a code, and enqueues the notice that tells it, in one commit. It offers nothing to a sender who
// has a code or a decision already, nor on an account with [corebot.MaxOpenPairings] codes. Then it only reads, so a
// flood of strangers costs no writes. Of p it uses principal, name and chat.
func (s *Pairings) Offer(ctx context.Context, p corebot.Pairing,
	notice func(corebot.Pairing) corebot.Message,
) (offered bool, err error) {
	if err := p.Principal.Validate(); err != nil {
		return false, err
	}
	err = s.db.reader.view(ctx, func(c *prepared) (err error) {
		offered, err = canAsk(c.each, p.Principal, time.Now())
		return err
	})
	if err != nil || !offered {
		return false, err
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	p.Code = corebot.PairingCode(random)
	err = s.db.write(ctx, "pairing", func(t *tx) (err error) {
		if offered, err = canAsk(t.each, p.Principal, t.now); err != nil || !offered {
			return err
		}
		p.AskedAt, p.ExpiresAt = t.now, t.now.Add(corebot.PairingTime)
		who := p.Principal
		if _, err := t.exec(dropExpired, who.Channel, who.Account, t.now); err != nil {
			return err
		}
		if _, err := t.exec(insertPairing, who.Channel, who.Account, who.ID, p.Name, p.Code, p.Chat.String(), t.now,
			p.ExpiresAt); err != nil {
			return err
		}
		return noticeTx(t, &pack([]corebot.Message{notice(p)})[0], 0)
	})
	return offered && err == nil, err
}

// canAsk says whether a sender can get a code now.
func canAsk(each func(*query, func(scanner) error, ...any) error, p corebot.Principal, now time.Time) (bool, error) {
	known := false
	err := each(pairingOf, func(s scanner) error {
		var state string
		var expires time.Time
		err := s.Scan(&state, moment{&expires})
		known = state != string(corebot.PairingOpen) || expires.After(now)
		return err
	}, p.Channel, p.Account, p.ID)
	if err != nil || known {
		return false, err
	}
	var open int64
	err = each(openPairings, func(s scanner) error { return s.Scan(&open) }, p.Channel, p.Account, now)
	return err == nil && open < corebot.MaxOpenPairings, err
}

// Page gives the pairings in a state behind a cursor, in the order of their senders, and the cursor behind them. An
// empty state means all; of the open ones, those that have not expired.
func (s *Pairings) Page(ctx context.Context, state corebot.PairingState, after string,
	limit int,
) (out []corebot.Pairing, next string, err error) {
	var p corebot.Principal
	if err := behind(after, "pairings", &p.Channel, &p.Account, &p.ID); err != nil {
		return nil, "", err
	}
	err = s.db.reader.each(ctx, listPairings, func(row scanner) error {
		p, err := scanPairing(row)
		out = append(out, p)
		return err
	}, p.Channel, p.Account, p.ID, string(state), time.Now(), limit)
	return out, nextPage(out, limit, func(p corebot.Pairing) string {
		return cursor("pairings", p.Principal.Channel, p.Principal.Account, p.Principal.ID)
	}), err
}

// Decide lets a sender in by his code, or turns him away: state is paired or denied. A sender who is let in is told so
// in the same commit. An unknown code is [corebot.ErrNotFound], and one that is used or expired is
// [corebot.ErrInvalid].
func (s *Pairings) Decide(ctx context.Context, code string, state corebot.PairingState) (p corebot.Pairing, err error) {
	err = s.db.write(ctx, "pairing.decide", func(t *tx) error {
		p, err = s.decideTx(t, code, state)
		return err
	})
	return p, err
}

func (s *Pairings) decideTx(t *tx, code string, state corebot.PairingState) (p corebot.Pairing, err error) {
	found := false
	err = t.each(pairingByCode, func(row scanner) error {
		found = true
		p, err = scanPairing(row)
		return err
	}, code)
	switch {
	case err != nil:
		return p, err
	case state != corebot.PairingPaired && state != corebot.PairingDenied:
		return p, fmt.Errorf("%w: a request to talk cannot become %q", corebot.ErrInvalid, state)
	case !found:
		return p, fmt.Errorf("code %s: %w", code, corebot.ErrNotFound)
	case p.State != corebot.PairingOpen:
		return p, fmt.Errorf("%w: the code %s was used: %s is %s", corebot.ErrInvalid, code, p.Principal, p.State)
	case !p.ExpiresAt.After(t.now):
		return p, fmt.Errorf("%w: the code %s has expired; the next message of the sender gets another",
			corebot.ErrInvalid,
			code)
	}
	p.State, p.By, p.DecidedAt = state, maker(s.by), t.now
	who := p.Principal
	if _, err := t.exec(decidePairing, string(p.State), p.By, t.now, who.Channel, who.Account, who.ID); err != nil {
		return p, err
	}
	if err := s.noteTx(t, "pairing."+string(state), p); err != nil || state == corebot.PairingDenied {
		return p, err
	}
	told := corebot.TextNotice(p.Chat, corebot.OwnID("paired", t.now.UnixMilli(), who.Label()), "",
		"You can talk here now.", corebot.Notice{Kind: corebot.NoticePairing})
	return p, noticeTx(t, &pack([]corebot.Message{told})[0], 0)
}

func (s *Pairings) noteTx(t *tx, event string, p corebot.Pairing) error {
	about := corebot.Key{Channel: p.Principal.Channel, Account: p.Principal.Account}
	return changeTx(t, s.by, event, about, map[string]any{"principal": p.Principal.String(), "chat": p.Chat.String()})
}

// errPairingLocked says that too many wrong codes were tried in chats.
var errPairingLocked = fmt.Errorf("%w: too many wrong codes; for up to %v only `corebot pair` decides",
	corebot.ErrInvalid, corebot.PairingTime)

// Command accepts a /pair together with its effect, in one commit, with the notice. It calls notice with the pairing,
// or with the rule that forbids the decision. Wrong codes are counted: after [corebot.MaxPairingFailures] of them no
// code is tried until the time is over. A command that by says is denied has no effect, and its event goes to the
// audit. A duplicate changes nothing.
func (s *Pairings) Command(ctx context.Context, m corebot.Message, code string, state corebot.PairingState,
	by corebot.AuditEvent, notice func(corebot.Pairing, error) corebot.Message,
) (r corebot.Receipt, err error) {
	packed, hands := &pack([]corebot.Message{m})[0], s.As(by)
	err = s.db.write(ctx, "pairing.command", func(t *tx) (err error) {
		if r, err = s.db.controlTx(t, packed, false); err != nil || r.Duplicate {
			return err
		}
		var p corebot.Pairing
		if by.Outcome == corebot.OutcomeDenied {
			err = auditTx(t, []corebot.AuditEvent{by})
		} else {
			p, err = hands.tryTx(t, code, state)
		}
		if err != nil && !errors.Is(err, corebot.ErrInvalid) && !errors.Is(err, corebot.ErrNotFound) {
			return err
		}
		return noticeTx(t, &pack([]corebot.Message{notice(p, err)})[0], r.Life)
	})
	return r, err
}

// tryTx decides by a code that can be wrong.
func (s *Pairings) tryTx(t *tx, code string, state corebot.PairingState) (p corebot.Pairing, err error) {
	var failures int64
	var since time.Time
	if _, err := t.one(pairFailures, []any{&failures, moment{&since}}); err != nil {
		return p, err
	}
	if age := t.now.Sub(since); age >= corebot.PairingTime || age < 0 {
		failures, since = 0, t.now
	}
	if failures >= corebot.MaxPairingFailures {
		return p, errPairingLocked
	}
	p, err = s.decideTx(t, code, state)
	if !errors.Is(err, corebot.ErrNotFound) {
		return p, err
	}
	_, failed := t.exec(setPairFailing, failures+1, since)
	return p, cmp.Or(failed, err)
}

// Remove forgets what was decided about a sender: one who was let in may talk no longer, and one who was turned away
// can ask again. A sender about whom nothing is stored is [corebot.ErrNotFound].
func (s *Pairings) Remove(ctx context.Context, who corebot.Principal) error {
	return s.db.write(ctx, "pairing.remove", func(t *tx) error {
		n, err := t.exec(deletePairing, who.Channel, who.Account, who.ID)
		if err == nil && n == 0 {
			err = fmt.Errorf("pairing of %s: %w", who, corebot.ErrNotFound)
		}
		if err != nil {
			return err
		}
		about := corebot.Key{Channel: who.Channel, Account: who.Account}
		return changeTx(t, s.by, "pairing.remove", about, map[string]any{"principal": who.String()})
	})
}

var (
	linkFailures   = &query{`SELECT failures, since FROM link_failures WHERE id = 1`}
	setLinkFailing = &query{`UPDATE link_failures SET failures = ?, since = ? WHERE id = 1`}
	linkTries      = &query{`SELECT failures FROM link_tries WHERE who = ? AND since BETWEEN ? AND ?`}
	addLinkTry     = &query{`INSERT INTO link_tries (who, failures, since) VALUES (?, 1, ?)
		ON CONFLICT (who) DO UPDATE SET failures = failures + 1`}
	dropLinkTries = &query{`DELETE FROM link_tries WHERE since NOT BETWEEN ? AND ?`}
)

// triesOf are the bounds that a wrong code counts for, beside the one of all.
func triesOf(to corebot.Key, taker corebot.Principal) map[string]int64 {
	hash := func(kind, name string) string {
		sum := sha256.Sum256([]byte(kind + " " + name))
		return hex.EncodeToString(sum[:])
	}
	account := to.InChannel()
	account.Agent = ""
	return map[string]int64{
		hash("person", taker.String()):    corebot.MaxLinkFailures,
		hash("chat", to.String()):         corebot.MaxLinkFailures,
		hash("account", account.String()): corebot.MaxAccountLinkFailures,
	}
}

// mayEnterTx refuses a code while too many were wrong.
func mayEnterTx(t *tx, to corebot.Key, taker corebot.Principal) error {
	var failures int64
	var since time.Time
	if _, err := t.one(linkFailures, []any{&failures, moment{&since}}); err != nil {
		return err
	}
	locked := failures >= corebot.MaxAllLinkFailures && inLinkTime(t.now, since)
	for who, most := range triesOf(to, taker) {
		failures = 0
		since := t.now.Add(-corebot.LinkTime + time.Millisecond)
		if _, err := t.one(linkTries, []any{&failures}, who, since, t.now); err != nil {
			return err
		}
		locked = locked || failures >= most
	}
	if locked {
		return corebot.WithHint(fmt.Errorf("%w: too many wrong codes: try again within %v", corebot.ErrInvalid,
			corebot.LinkTime), "an operator can link chats at any time, with `corebot chats link`")
	}
	return nil
}

func inLinkTime(now, since time.Time) bool {
	age := now.Sub(since)
	return age >= 0 && age < corebot.LinkTime
}

// wrongCodeTx counts a wrong code.
func wrongCodeTx(t *tx, to corebot.Key, taker corebot.Principal) error {
	var failures int64
	var since time.Time
	if _, err := t.one(linkFailures, []any{&failures, moment{&since}}); err != nil {
		return err
	}
	if !inLinkTime(t.now, since) {
		failures, since = 0, t.now
	}
	if _, err := t.exec(setLinkFailing, failures+1, since); err != nil {
		return err
	}
	if _, err := t.exec(dropLinkTries, t.now.Add(-corebot.LinkTime+time.Millisecond), t.now); err != nil {
		return err
	}
	for who := range triesOf(to, taker) {
		if _, err := t.exec(addLinkTry, who, t.now); err != nil {
			return err
		}
	}
	return nil
}
