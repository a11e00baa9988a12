package storage

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// This file forgets facts, and keeps them forgotten. A record of a forgotten fact has none of its words. It has a sum
// of them, by a key of this home: without the key nobody can try out which short text has the sum.

var (
	selectForgetKey = &query{`SELECT forget_key FROM store WHERE id = 1`}
	setForgetKey    = &query{`UPDATE store SET forget_key = ? WHERE id = 1`}
	anyForgotten    = &query{`SELECT EXISTS (SELECT 1 FROM forgotten WHERE chat_id = ?)`}
	putForgotten    = &query{`INSERT INTO forgotten (chat_id, sender, says, message_id, at, linked)
		VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET at = MAX(at, excluded.at)`}
	// When a fact was forgotten the last time: by its words, or by its message.
	forgottenAt = &query{`SELECT MAX(
		COALESCE((SELECT MAX(at) FROM forgotten WHERE chat_id = ?1 AND sender = ?2 AND says = ?3), 0),
		COALESCE((SELECT MAX(at) FROM forgotten WHERE chat_id = ?1 AND sender = ?2 AND message_id = ?4
			AND message_id <> ''), 0))`}
	liftForgotten  = &query{`DELETE FROM forgotten WHERE chat_id = ? AND sender = ? AND says = ?`}
	allForgotten   = &query{`SELECT sender, says, message_id, at, linked FROM forgotten WHERE chat_id = ?`}
	countForgotten = &query{`SELECT COUNT(*) FROM forgotten WHERE chat_id = ?`}
	// A sender who has very much forgotten pushes out no record of somebody else.
	dropOldestForgotten = &query{`DELETE FROM forgotten WHERE (chat_id, sender, says, message_id) IN (
		SELECT chat_id, sender, says, message_id FROM forgotten WHERE chat_id = ?1
		AND sender = (SELECT sender FROM forgotten WHERE chat_id = ?1 GROUP BY sender ORDER BY COUNT(*) DESC LIMIT 1)
		ORDER BY at LIMIT ?2 + 0)`}
	dropForgotten    = &query{`DELETE FROM forgotten WHERE chat_id = ?`}
	dropOldForgotten = &query{`DELETE FROM forgotten WHERE chat_id = ? AND at < ?`}
	// Records about words that came by a link go with these words: see [dropLinkedFacts].
	dropCarried         = &query{`DELETE FROM forgotten WHERE linked = ? AND linked <> 0`}
	dropLinkedForgotten = &query{`DELETE FROM forgotten WHERE (chat_id, message_id, sender) IN (
		SELECT chat_id, message_id, sender FROM history WHERE linked = ? AND linked <> 0)`}
	dropForgottenOfLinked = &query{`DELETE FROM forgotten WHERE chat_id = ?1 AND (message_id, sender) IN (
		SELECT message_id, sender FROM history WHERE chat_id = ?1 AND linked <> 0
		AND (session, seq, ordinal) <= (?2, ?3, ?4) AND (session, seq, ordinal) >= (?5, ?6, ?7))`}
)

// Forget deletes facts by their ids and counts them: those that a chat sees and for which may is true. Others stay, as
// if they were not there.
//
// A record without a word of the fact stays. [Ledger.Learn] then leaves out the same words of the same sender, and all
// that it finds in the same message. [Facts.Learn] stores the fact again, and so does Ledger.Learn for a later message
// in whose turn its sender had a line written into the chat's page.
func (f *Facts) Forget(ctx context.Context, k corebot.Key, ids []int64, may func(corebot.Fact) bool) (n int,
	err error,
) {
	err = f.db.write(ctx, "facts.forget", func(t *tx) (err error) {
		n, err = f.forgetTx(t, k, ids, may)
		return err
	})
	return n, err
}

func (f *Facts) forgetTx(t *tx, k corebot.Key, ids []int64, may func(corebot.Fact) bool) (n int, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return 0, err
	}
	var gone []corebot.Fact
	if err := t.each(factsByID, func(s scanner) error {
		fact, err := scanFact(s)
		if err == nil && fact.SeenIn(k) && may(fact) {
			gone = append(gone, fact)
		}
		return err
	}, string(list)); err != nil {
		return 0, err
	}
	for _, fact := range gone {
		if _, err := t.exec(dropFact, fact.ID); err != nil {
			return 0, err
		}
		if err := recordForgottenTx(t, fact); err != nil {
			return 0, err
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	return len(gone), changeTx(t, f.by, "facts.forget", k, map[string]any{"chat": k.String(), "facts": len(gone)})
}

// forgetFactsTx makes the change of a turn.
func forgetFactsTx(t *tx, by corebot.AuditEvent, e corebot.ForgetFacts) error {
	n, err := (&Facts{by: by}).forgetTx(t, e.Chat, e.IDs, e.Takes)
	if err == nil && n == 0 {
		err = &corebot.Refused{Err: fmt.Errorf("facts %v: %w among those that may be forgotten here", e.IDs,
			corebot.ErrNotFound)}
	}
	return err
}

// forgetKeyTx is the key of the sums of this home. The first fact that is forgotten makes it.
func forgetKeyTx(t *tx) (key []byte, err error) {
	if _, err := t.one(selectForgetKey, []any{&key}); err != nil || len(key) > 0 {
		return key, err
	}
	key = make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	_, err = t.exec(setForgetKey, key)
	return key, err
}

// forgottenSum is what a record has in place of the words of a fact. A subject that is the sender is the same one under
// each of his names. Where the subject ends and the relation begins makes no difference: a model can draw the line
// elsewhere the next time.
func forgottenSum(key []byte, f corebot.Fact) []byte {
	subject := f.Subject
	if label := folded(f.Sender.Label()); label != "" && strings.HasSuffix(folded(subject), label) {
		subject = ""
	}
	who := ""
	if f.Sender.ID != "" {
		who = f.Sender.String()
	}
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{string(f.Scope), who, folded(subject + " " + f.Relation + " " + f.Object)} {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return mac.Sum(nil)
}

func factSender(f corebot.Fact) string {
	if f.Sender.ID == "" {
		return ""
	}
	return storedSender(f.Key, f.Sender)
}

// recordForgottenTx stores that a fact was forgotten.
func recordForgottenTx(t *tx, f corebot.Fact) error {
	chat, err := chatTx(t, f.Key)
	if err != nil {
		return err
	}
	key, err := forgetKeyTx(t)
	if err != nil {
		return err
	}
	if _, err := t.exec(putForgotten, chat.ID, factSender(f), forgottenSum(key, f), f.MessageID, t.now, 0); err != nil {
		return err
	}
	return trimForgottenTx(t, chat.ID)
}

// trimForgottenTx bounds the records of a chat as its facts are bounded.
func trimForgottenTx(t *tx, chat int64) error {
	var n int64
	if _, err := t.one(countForgotten, []any{&n}, chat); err != nil {
		return err
	}
	for n > corebot.MaxFacts {
		gone, err := t.exec(dropOldestForgotten, chat, n-corebot.MaxFacts)
		if err != nil {
			return err
		}
		n -= gone
	}
	return nil
}

// staysForgottenTx says whether a fact that a model found in a message was forgotten, by its words or by its message.
// If its sender had something remembered in the turn of the message since, he asks for it.
func staysForgottenTx(t *tx, chat int64, f corebot.Fact) (bool, error) {
	known := false
	if _, err := t.one(anyForgotten, []any{&known}, chat); err != nil || !known {
		return false, err
	}
	key, err := forgetKeyTx(t)
	if err != nil {
		return false, err
	}
	var at time.Time
	if _, err := t.one(forgottenAt, []any{moment{&at}}, chat, factSender(f), forgottenSum(key, f),
		f.MessageID); err != nil || at.IsZero() {
		return false, err
	}
	asked, err := askedForTx(t, f, at)
	if err != nil || !asked {
		return true, err
	}
	return liftsForgottenTx(t, chat, f)
}

// askedForTx says whether the sender of a fact had a line written into his chat's page after a time. The line counts if
// it is of the turn of the message that said the fact.
func askedForTx(t *tx, f corebot.Fact, after time.Time) (bool, error) {
	text, notes := "", []corebot.MemoryNote(nil)
	found, err := t.one(selectMemory, []any{&text}, keyArgs(f.Key)...)
	if err != nil || !found || json.Unmarshal([]byte(text), &notes) != nil { // of damaged notes nobody is known to ask
		return false, err
	}
	for _, n := range notes {
		if n.Sender == f.Sender && n.Sender.ID != "" && n.MessageID == f.MessageID && n.MessageID != "" &&
			n.At.After(after) {
			return true, nil
		}
	}
	return false, nil
}

// liftsForgottenTx stores no record of a fact any longer. The fact is never left out.
func liftsForgottenTx(t *tx, chat int64, f corebot.Fact) (bool, error) {
	known := false
	if _, err := t.one(anyForgotten, []any{&known}, chat); err != nil || !known {
		return false, err
	}
	key, err := forgetKeyTx(t)
	if err != nil {
		return false, err
	}
	_, err = t.exec(liftForgotten, chat, factSender(f), forgottenSum(key, f))
	return false, err
}

// carryForgottenTx gives a chat the records of another, of which it has a copy of the history. A fork (link 0) gets
// all. A link hands on no record that came by another link.
func carryForgottenTx(t *tx, from, to corebot.Chat, link int64) error {
	type record struct {
		sender, message string
		says            []byte
		at              time.Time
		linked          int64
	}
	var all []record
	if err := t.each(allForgotten, func(s scanner) error {
		var r record
		err := s.Scan(&r.sender, &r.says, &r.message, moment{&r.at}, &r.linked)
		if link == 0 || r.linked == 0 {
			r.linked = max(r.linked, link)
			all = append(all, r)
		}
		return err
	}, from.ID); err != nil {
		return err
	}
	for _, r := range all {
		if r.sender != "" {
			r.sender = storedSender(to.Key, senderIn(from.Key, r.sender))
		}
		if _, err := t.exec(putForgotten, to.ID, r.sender, r.says, r.message, r.at,
			r.linked); err != nil {
			return err
		}
	}
	return trimForgottenTx(t, to.ID)
}
