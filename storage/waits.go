package storage

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/corebot/corebot"
)

// Waits stores what tool calls wait for. A wait ends once; the first end counts. Its begin and every end but that of a
// time leave an audit event, and an end wakes the lane, in its own commit.
type Waits struct {
	db *DB
	by corebot.AuditEvent
}

// NewWaits returns the waits of a database, for changes by the operator.
func NewWaits(db *DB) *Waits { return &Waits{db, byOperator()} }

// As returns the waits for changes by somebody else, as [DeadLetters.As] does.
func (w *Waits) As(by corebot.AuditEvent) *Waits { return &Waits{w.db, by} }

const waitColumns = `SELECT w.id, w.kind, w.purpose, w.state, w.life_id, m.message_id, l.agent, l.channel, l.account,
	l.chat, l.thread, m.sender, w.rule, w.chat, w.secret, w.word, w.outside, w.reason, w.ended_by, w.created_at,
	w.due_at, w.ended_at,
	CASE WHEN j.kind = 'run' THEN IIF(j.state = 'open', j.tokens, j.used_tokens) ELSE 0 END,
	CASE WHEN j.kind = 'run' THEN IIF(j.state = 'open', j.calls, j.used_calls) ELSE 0 END
	FROM waits w JOIN message_life m ON m.id = w.life_id JOIN lanes l ON l.id = m.lane_id
	LEFT JOIN jobs j ON j.id = w.id `

// unendedWait is true for a wait w that has not ended, as the partial indexes say it.
const unendedWait = `w.state IN ('open', 'waiting')`

var (
	waitByID    = &query{waitColumns + `WHERE w.id = ?`}
	waitOfStep  = &query{waitColumns + `WHERE w.life_id = ? AND w.run = ? AND w.position = ?`}
	waitsOfLife = &query{waitColumns + `WHERE ` + unendedWait + ` AND w.life_id = ? ORDER BY w.id`}
	listWaits   = &query{waitColumns + `WHERE ` + unendedWait + ` AND w.id > ? ORDER BY w.id LIMIT ? + 0`}
	newestWaits = &query{waitColumns + `WHERE w.id < ? ORDER BY w.id DESC LIMIT ? + 0`}
	waitsInChat = &query{waitColumns + `WHERE ` + unendedWait + ` AND w.chat = ? ORDER BY w.id LIMIT ? + 0`}

	insertWait = &query{`INSERT INTO waits (life_id, run, position, kind, purpose, state, rule, sender, chat, secret,
		created_at, due_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	takeUpWait = &query{`UPDATE waits SET state = '` + string(corebot.WaitAwaited) + `' WHERE id = ?`}
	moveWait   = &query{`UPDATE waits SET run = ?, position = ? WHERE id = ?`}
	newSecret  = &query{`UPDATE waits SET secret = ? WHERE id = ?`}
	endWait    = &query{`UPDATE waits SET state = ?, word = ?, outside = ?, reason = ?, ended_by = ?, ended_at = ?
		WHERE id = ?`}
	wakeWaiting = &query{`UPDATE lanes SET wake_at = MIN(wake_at, ?)
		WHERE id = (SELECT lane_id FROM message_life WHERE id = ?) AND leased = 0 AND waiting = ?`}

	anyWait    = &query{`SELECT 1 FROM waits w WHERE ` + unendedWait + ` AND w.life_id = ? LIMIT 1`}
	anyAwaited = &query{`SELECT 1 FROM waits w WHERE w.state = 'waiting' AND ` + unendedWait + ` AND w.life_id = ?
		LIMIT 1`}
	countWaitsOfRun = &query{`SELECT COUNT(*) FROM waits WHERE life_id = ? AND run = ?`}
	countWaitsOf    = &query{`SELECT COUNT(*) FROM waits w WHERE ` + unendedWait + ` AND w.sender = ?`}
	countWaits      = &query{`SELECT COUNT(*) FROM waits w WHERE ` + unendedWait}
	shiftWaits      = &query{`UPDATE waits SET due_at = MAX(due_at + ?, 1)
		WHERE state IN ('open', 'waiting') AND kind <> 'time'`}
	headWaitsForWhat = &query{waitColumns + `WHERE ` + unendedWait + ` AND w.state = 'waiting' AND w.life_id =
		(SELECT q.life_id FROM lanes h JOIN message_queue q ON q.lane_id = h.id AND q.seq > h.past WHERE h.id = ?
		ORDER BY q.seq LIMIT 1) ORDER BY w.id LIMIT 1`}
)

// maxWaitsShown bounds the waits of a chat's situation.
const maxWaitsShown = 30

func scanWait(s scanner) (w corebot.Pending, err error) {
	var chat string
	var secret []byte
	k := &w.Key
	err = s.Scan(&w.ID, (*string)(&w.Kind), &w.For, (*string)(&w.State), &w.Life, &w.MessageID, &k.Agent, &k.Channel,
		&k.Account, &k.Chat, &k.Thread, &w.Principal.ID, &w.Rule, &chat, &secret, &w.Word.Text, &w.Word.Outside,
		&w.Reason, &w.By, moment{&w.CreatedAt}, moment{&w.Until}, moment{&w.EndedAt}, &w.Cost.Tokens,
		&w.Cost.Calls)
	copy(w.Secret[:], secret)
	w.Principal, w.Key = senderIn(*k, w.Principal.ID), k.Acts()
	if err == nil {
		w.Results, err = corebot.ParseKey(chat)
	}
	return w, err
}

// oneWait reads the wait that a query finds; the zero wait: none.
func oneWait(t *tx, q *query, args ...any) (w corebot.Pending, err error) {
	err = t.each(q, func(s scanner) error {
		w, err = scanWait(s)
		return err
	}, args...)
	return w, err
}

// Wait stores that a call waits, with its step and the audit event, in one commit, and gives the wait. A call that
// waits already is given as it stands: one whose time is over ends here. A wait with a number is a word that an earlier
// call of the run has opened: from now on the call waits for it. A wait without a kind stores nothing, and gives the
// zero wait if the call has none.
//
// A wait beyond a limit, and an unknown number, are [*corebot.Refused]. A worker that lost its lease gets
// [corebot.ErrLeaseLost] and changes nothing.
func (l *Ledger) Wait(ctx context.Context, d corebot.Delivery, s corebot.Step, wait corebot.Pending,
	begins corebot.AuditEvent,
) (stands corebot.Pending, err error) {
	row, err := encodeStep(s)
	if err != nil {
		return stands, err
	}
	err = l.db.write(ctx, "wait", func(t *tx) (err error) {
		if err := holdsTx(t, d.Lease); err != nil {
			return err
		}
		stands, err = oneWait(t, waitOfStep, d.Life, d.Run, s.Position)
		switch {
		case err != nil:
			return err
		case stands.State == corebot.WaitOpen && wait.Kind != "" && wait.Secret != stands.Secret:
			stands.Secret = wait.Secret // the earlier key was shown to nobody
			_, err = t.exec(newSecret, wait.Secret[:], stands.ID)
			return err
		case stands.ID != 0:
			stands, err = overTx(t, stands)
			return err
		case wait.Kind == "":
			return nil
		case wait.ID != 0:
			return takeUpTx(t, d, s, row, wait, &stands)
		case wait.Kind == corebot.WaitJob:
			return l.beginJobTx(t, d, s, row, wait, begins, &stands)
		}
		return beginWaitTx(t, d, s, row, wait, begins, &stands)
	})
	return stands, err
}

// beginWaitTx checks its rules before it writes.
func beginWaitTx(t *tx, d corebot.Delivery, s corebot.Step, row stepRow, wait corebot.Pending,
	begins corebot.AuditEvent, stands *corebot.Pending,
) error {
	if err := wait.Validate(); err != nil {
		return &corebot.Refused{Err: err}
	}
	sender := senderOf(d.Message.Key, storedSender(d.Message.Key, d.Message.Sender)).String()
	for _, limit := range []struct {
		most  int
		of    string
		count *query
		args  []any
	}{
		{corebot.MaxWaits, "this message", countWaitsOfRun, []any{d.Life, d.Run}},
		{wait.Limits.PerSender, "this person", countWaitsOf, []any{sender}},
		{wait.Limits.Total, "all chats", countWaits, nil},
	} {
		var n int
		if _, err := t.one(limit.count, []any{&n}, limit.args...); err != nil {
			return err
		}
		if limit.most > 0 && n >= limit.most {
			err := fmt.Errorf("%w: %s has %d", corebot.ErrTooManyWaits, limit.of, n)
			return &corebot.Refused{Err: corebot.WithHint(err, "answer with what you have")}
		}
	}
	id, err := insertWaitTx(t, d, s, wait, begins.Rule, sender)
	if err != nil {
		return err
	}
	if err := recordWaitTx(t, d, s, row); err != nil {
		return err
	}
	begins.Event = "wait.begin"
	if err := auditTx(t, []corebot.AuditEvent{begins}); err != nil {
		return err
	}
	*stands, err = oneWait(t, waitByID, id)
	return err
}

// takeUpTx has a call wait for a word that was opened before.
func takeUpTx(t *tx, d corebot.Delivery, s corebot.Step, row stepRow, wait corebot.Pending,
	stands *corebot.Pending,
) error {
	opened, err := oneWait(t, waitByID, wait.ID)
	if err != nil {
		return err
	}
	if opened.ID == 0 || opened.Life != d.Life || opened.Kind != corebot.WaitWord ||
		opened.State == corebot.WaitAwaited {
		err := fmt.Errorf("wait %d of this message: %w", wait.ID, corebot.ErrNotFound)
		return &corebot.Refused{Err: corebot.WithHint(err, "leave out the id to wait for a new word")}
	}
	if _, err := t.exec(moveWait, d.Run, s.Position, opened.ID); err != nil {
		return err
	}
	if opened.State == corebot.WaitOpen {
		if _, err := t.exec(takeUpWait, opened.ID); err != nil {
			return err
		}
		opened.State = corebot.WaitAwaited
	}
	if err := recordWaitTx(t, d, s, row); err != nil {
		return err
	}
	*stands, err = overTx(t, opened)
	return err
}

func insertWaitTx(t *tx, d corebot.Delivery, s corebot.Step, wait corebot.Pending, rule, sender string) (int64, error) {
	return t.insert(insertWait, d.Life, d.Run, s.Position, string(wait.Kind), wait.For, string(wait.State), rule,
		sender, d.Caller().Results().String(), wait.Secret[:], t.now, wait.Until)
}

// recordWaitTx stores the step of a call that waits.
func recordWaitTx(t *tx, d corebot.Delivery, s corebot.Step, row stepRow) error {
	if err := recordStepTx(t, d.Life, d.Run, row); err != nil {
		return err
	}
	return madeTx(t, d, s)
}

// overTx ends a wait whose time has come.
func overTx(t *tx, w corebot.Pending) (corebot.Pending, error) {
	if !w.Waits() || w.Until.After(t.now) {
		return w, nil
	}
	w.State, w.EndedAt = corebot.WaitMet, t.now
	if w.Kind != corebot.WaitTime && w.Kind != corebot.WaitSpan {
		w.State = corebot.WaitExpired
		by := corebot.AuditEvent{Key: w.Key, Entry: corebot.EntryItself}
		if err := noteWaitTx(t, by, "wait.expire", w); err != nil {
			return w, err
		}
	}
	if err := storeEndTx(t, w); err != nil {
		return w, err
	}
	return w, stopAwaitedTx(t, w, corebot.AuditEvent{Entry: corebot.EntryItself})
}

// stopAwaitedTx stops the job that a call has waited for in vain.
func stopAwaitedTx(t *tx, w corebot.Pending, by corebot.AuditEvent) error {
	if w.Kind != corebot.WaitJob {
		return nil
	}
	j, err := oneJob(t, jobByID, w.ID)
	if err != nil || j.State != corebot.JobOpen {
		return err
	}
	return stopJobTx(t, j, by)
}

// storeEndTx stores how a wait has ended. The counters of jobs have the waits for them.
func storeEndTx(t *tx, w corebot.Pending) error {
	if w.Kind != corebot.WaitJob {
		t.count(waitsTotal, w.Key.Agent, string(w.State), "", 1)
	}
	_, err := t.exec(endWait, string(w.State), w.Word.Text, w.Word.Outside, w.Reason, w.By, t.now, w.ID)
	return err
}

func noteWaitTx(t *tx, by corebot.AuditEvent, event string, w corebot.Pending) error {
	note := map[string]any{
		"id": w.ID, "kind": w.Kind, "messageId": w.MessageID, "chat": w.Key.String(), "principal": w.Principal.String(),
	}
	if w.Reason != "" {
		note["reason"] = w.Reason
	}
	return changeTx(t, by, event, w.Key, note)
}

// goOnTx lets a turn go on whose lane waits for a reason: an approval, a time, a word or a job.
func goOnTx(t *tx, life int64, reason string) error {
	if _, err := t.exec(wakeWaiting, t.now, life, reason); err != nil {
		return err
	}
	t.wake(corebot.InboundPool, t.now.UnixMilli())
	return nil
}

// Why waits were given up, in words.
const (
	waitStopped = "it was stopped"
	waitSteered = "the user said something in the meantime"
	waitLeft    = "its turn ended without it"
)

// giveUpTx gives up the waits of a message that ends without them.
func giveUpTx(t *tx, life int64, reason string, by corebot.AuditEvent) error {
	waits, err := waitsTx(t, life)
	if err != nil {
		return err
	}
	return giveUpAllTx(t, waits, reason, by)
}

// hearNowTx gives up the wait of a turn that is to hear what somebody has just said to it. A word that no call waits
// for yet can still come.
func hearNowTx(t *tx, life int64) error {
	waits, err := waitsTx(t, life)
	if err != nil {
		return err
	}
	waits = slices.DeleteFunc(waits, func(w corebot.Pending) bool { return w.State != corebot.WaitAwaited })
	return giveUpAllTx(t, waits, waitSteered, corebot.AuditEvent{})
}

func giveUpAllTx(t *tx, waits []corebot.Pending, reason string, by corebot.AuditEvent) error {
	if len(waits) == 0 {
		return nil
	}
	if by.Principal == (corebot.Principal{}) {
		by.Entry = corebot.EntryItself
	}
	for _, w := range waits {
		w.State, w.Reason, w.By = corebot.WaitGivenUp, reason, maker(by)
		if by.Entry == corebot.EntryItself {
			w.By = itself
		}
		if err := storeEndTx(t, w); err != nil {
			return err
		}
		if err := noteWaitTx(t, by, "wait.end", w); err != nil {
			return err
		}
		if err := stopAwaitedTx(t, w, by); err != nil {
			return err
		}
		if err := goOnTx(t, w.Life, w.Awaiting()); err != nil {
			return err
		}
	}
	return nil
}

// waitsTx reads the waits of a message that have not ended. Most messages have none.
func waitsTx(t *tx, life int64) (all []corebot.Pending, err error) {
	var one int64
	if found, err := t.one(anyWait, []any{&one}, life); err != nil || !found {
		return nil, err
	}
	err = t.each(waitsOfLife, func(s scanner) error {
		w, err := scanWait(s)
		all = append(all, w)
		return err
	}, life)
	return all, err
}

// Give gives the word that a turn waits for, or ends the wait for a time early. If the wait has ended, the error is
// [*corebot.NoLongerWaits]. An unknown number is [corebot.ErrNotFound].
func (w *Waits) Give(ctx context.Context, id int64, word corebot.Word) error {
	return w.db.write(ctx, "resume", func(t *tx) error { return w.giveTx(t, id, word) })
}

// CheckKey says whether a key is that of a wait, in any state. If not, the error is [corebot.ErrWrongKey], as it is for
// a number that is not known.
func (w *Waits) CheckKey(ctx context.Context, id int64, key string) error {
	found, err := w.list(ctx, waitByID, id)
	if err == nil && (len(found) == 0 || !hasKey(found[0], key)) {
		err = corebot.ErrWrongKey
	}
	return err
}

// hasKey is false for every key of a wait without one: no key has the zero hash.
func hasKey(w corebot.Pending, key string) bool {
	sum := corebot.HashKey(key)
	return subtle.ConstantTimeCompare(w.Secret[:], sum[:]) == 1
}

// GiveByKey is [Waits.Give] for whoever has the key of the wait, and only for a wait that has one. The same word by
// the same key again is a duplicate, and changes nothing. A wrong key is [corebot.ErrWrongKey], and so is a number
// that is not known.
func (w *Waits) GiveByKey(ctx context.Context, id int64, key string, word corebot.Word) (duplicate bool, err error) {
	err = w.db.write(ctx, "resume", func(t *tx) error {
		duplicate = false
		found, err := oneWait(t, waitByID, id)
		if err == nil && !hasKey(found, key) {
			err = corebot.ErrWrongKey
		}
		if err != nil {
			return err
		}
		if found.State == corebot.WaitMet && found.By == corebot.ByKey && found.Word == word {
			duplicate = true
			return nil
		}
		return w.giveTx(t, id, word)
	})
	return duplicate, err
}

// giveTx checks its rules before it writes.
func (w *Waits) giveTx(t *tx, id int64, word corebot.Word) error {
	if err := word.Validate(); err != nil {
		return err
	}
	found, err := oneWait(t, waitByID, id)
	switch {
	case err != nil:
		return err
	case found.ID == 0:
		return fmt.Errorf("wait %d: %w", id, corebot.ErrNotFound)
	case found.Kind == corebot.WaitJob:
		return corebot.WithHint(corebot.ErrNoWord, fmt.Sprintf("/stop %d, or `corebot jobs stop %d`, stops it", id, id))
	case found.Waits() && !found.Until.After(t.now): // no claim of the lane has stored that yet
		if found.State = corebot.WaitMet; found.Kind == corebot.WaitWord {
			found.State = corebot.WaitExpired
		}
		return &corebot.NoLongerWaits{Was: found}
	case !found.Waits():
		return &corebot.NoLongerWaits{Was: found}
	}
	found.State, found.Word, found.By = corebot.WaitMet, word, maker(w.by)
	if w.by.Entry == corebot.EntryWord {
		found.By = corebot.ByKey
	}
	if err := storeEndTx(t, found); err != nil {
		return err
	}
	if err := noteWaitTx(t, w.by, "wait.word", found); err != nil {
		return err
	}
	return goOnTx(t, found.Life, found.Awaiting())
}

// Command accepts a /resume. One commit has its life, its effect on the wait (id 0: none) and the notice. Command calls
// notice with the result: nil, or an error of [Waits.Give]. by goes to the audit, also when its outcome is denied. A
// duplicate changes nothing.
func (w *Waits) Command(ctx context.Context, m corebot.Message, id int64, word corebot.Word, by corebot.AuditEvent,
	notice func(error) corebot.Message,
) (corebot.Receipt, error) {
	hands := w.As(by)
	return w.db.command(ctx, numbered{
		name: "resume", message: m, id: id, by: by, notice: notice,
		stands: func(t *tx) (bool, error) {
			found, err := oneWait(t, waitByID, id)
			return found.Waits() && found.Until.After(t.now), err
		},
		does: func(t *tx) error { return hands.giveTx(t, id, word) },
		tells: func(err error) bool {
			over := (*corebot.NoLongerWaits)(nil)
			return errors.As(err, &over) || errors.Is(err, corebot.ErrTooLarge) || errors.Is(err, corebot.ErrNoWord)
		},
	})
}

// Page gives at most limit waits behind a cursor, and the cursor behind them. Without all it gives the waits that have
// not ended, oldest first. With all it gives every wait, newest first.
func (w *Waits) Page(ctx context.Context, all bool, after string,
	limit int,
) (out []corebot.Pending, next string, err error) {
	list, q, place := "waits", listWaits, int64(0)
	if all {
		list, q, place = "all-waits", newestWaits, math.MaxInt64
	}
	if err := behind(after, list, &place); err != nil {
		return nil, "", err
	}
	out, err = w.list(ctx, q, place, limit)
	return out, nextPage(out, limit, func(w corebot.Pending) string { return cursor(list, w.ID) }), err
}

// Wait returns a wait in any state. An unknown number is [corebot.ErrNotFound].
func (w *Waits) Wait(ctx context.Context, id int64) (corebot.Pending, error) {
	found, err := w.list(ctx, waitByID, id)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("wait %d: %w", id, corebot.ErrNotFound)
	}
	if err != nil {
		return corebot.Pending{}, err
	}
	return found[0], nil
}

func (w *Waits) list(ctx context.Context, q *query, args ...any) (out []corebot.Pending, err error) {
	err = w.db.reader.each(ctx, q, func(s scanner) error {
		found, err := scanWait(s)
		out = append(out, found)
		return err
	}, args...)
	return out, err
}

// stillWaitsTx says whether a call of the turn still waits. If what it waits for came before the claim ended, the turn
// goes on at once.
func stillWaitsTx(t *tx, life int64) (bool, error) {
	var one int64
	return t.one(anyAwaited, []any{&one}, life)
}
