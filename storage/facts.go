package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/sorted"
	"github.com/corebot/corebot/internal/terms"
)

// Facts stores what was said as subject, relation and object. It promises:
//
//   - A chat sees the facts of its own, of its account of a channel, and of its agent. It sees no other.
//   - Only a fact that the same sender said in the same chat takes the place of a fact. The old one stays stored. A
//     tainted fact takes the place of no other than a tainted one.
//   - A fact that is stored again is the same fact. Said without taint, it takes the place of a tainted one.
//   - However much others say, their facts displace none of somebody who asks: see [Facts.RecallFor].
//   - A fact that is deleted or superseded is in no index.
//   - A fact that was forgotten is not learned from messages again: see [Facts.Forget].
//
// Limit: a chat has at most [corebot.MaxFacts]. Beyond that the oldest facts of the sender who has the most are
// deleted, his superseded ones first.
type Facts struct {
	db *DB
	by corebot.AuditEvent
}

// NewFacts returns the facts of a database, for changes by the operator.
func NewFacts(db *DB) *Facts { return &Facts{db, byOperator()} }

// As returns the facts for changes by somebody else, as [DeadLetters.As] does.
func (f *Facts) As(by corebot.AuditEvent) *Facts { return &Facts{f.db, by} }

const (
	factFields = `f.id, f.subject, f.relation, f.object, f.sender, f.message_id, f.taint, f.trusted, f.at,
	f.superseded_by, o.channel, o.chat, c.agent, c.channel, c.account, c.chat, c.thread`
	factColumns = `SELECT ` + factFields + ` FROM facts f JOIN fact_owners o ON o.id = f.owner_id
	JOIN chats c ON c.id = f.chat_id `
)

var (
	findOwner = &query{`SELECT id FROM fact_owners WHERE agent = ? AND channel = ? AND account = ? AND chat = ?
		AND thread = ?`}
	addOwner = &query{`INSERT INTO fact_owners (agent, channel, account, chat, thread) VALUES (?, ?, ?, ?, ?)`}
	// The owners whose facts a chat sees: the narrowest comes first.
	ownersOf = &query{`SELECT id FROM fact_owners WHERE agent = ?1 AND ((channel = ?2 AND account = ?3 AND chat = ?4
		AND thread = ?5) OR (channel = ?2 AND account = ?3 AND chat = '' AND thread = '')
		OR (channel = '' AND account = '' AND chat = '' AND thread = '')) ORDER BY chat DESC, channel DESC`}
	// The facts whose place a new one takes, of which only one can hold. Others can have had a hand in a tainted fact,
	// so it takes the place of none that is its sender's own.
	factsAbout = &query{`SELECT id FROM facts WHERE owner_id = ?1 AND about = ?2 AND sender = ?4 AND chat_id = ?5
		AND superseded_by = 0 AND (?6 = '' OR taint <> '')`}
	// The same fact with a taint, whose place one without takes.
	taintedFact = &query{`SELECT id FROM facts WHERE owner_id = ?1 AND about = ?2 AND says = ?3 AND sender = ?4
		AND chat_id = ?5 AND superseded_by = 0 AND ?6 = '' AND taint <> ''`}
	sameFact = &query{`SELECT id FROM facts WHERE owner_id = ?1 AND about = ?2 AND says = ?3 AND sender = ?4
		AND chat_id = ?5 AND superseded_by = 0 AND (taint = '' OR ?6 <> '')`}
	addFact = &query{`INSERT INTO facts (owner_id, chat_id, subject, relation, object, about, says, sender, message_id,
		taint, trusted, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	supersede  = &query{`UPDATE facts SET superseded_by = ? WHERE id = ?`}
	addWord    = &query{`INSERT OR IGNORE INTO fact_words (owner_id, word, fact_id) VALUES (?, ?, ?)`}
	countFacts = &query{`SELECT COUNT(*) FROM facts WHERE chat_id = ?`}
	dropOldest = &query{`DELETE FROM facts WHERE id IN (SELECT id FROM facts WHERE chat_id = ?1
		AND sender = (SELECT sender FROM facts WHERE chat_id = ?1 GROUP BY sender ORDER BY COUNT(*) DESC LIMIT 1)
		ORDER BY superseded_by = 0, id LIMIT ?2 + 0)`}
	wordFacts = &query{`SELECT fact_id FROM fact_words WHERE owner_id = ? AND word >= ? AND word < ? LIMIT ? + 0`}
	factsByID = &query{factColumns + `WHERE f.id IN (SELECT value FROM json_each(?))`}
	factsPage = &query{factColumns + `WHERE f.owner_id = ?1 AND f.id < ?2 AND (?3 OR f.superseded_by = 0)
		ORDER BY f.id DESC LIMIT ?4 + 0`}
	factsList = &query{factColumns + `WHERE f.id < ?1 AND (?2 OR f.superseded_by = 0) AND (?3 = '' OR c.agent = ?3)
		AND (?4 = 'null' OR f.owner_id IN (SELECT value FROM json_each(?4))) ORDER BY f.id DESC LIMIT ?5 + 0`}
	dropFact      = &query{`DELETE FROM facts WHERE id = ?`}
	dropFacts     = &query{`DELETE FROM facts WHERE id IN (SELECT id FROM facts WHERE chat_id = ? LIMIT ? + 0)`}
	dropFactOwner = &query{`DELETE FROM fact_owners WHERE agent = ? AND channel = ? AND account = ? AND chat = ?
		AND thread = ? AND NOT EXISTS (SELECT 1 FROM facts WHERE owner_id = fact_owners.id)`}
)

func scanFact(s scanner) (f corebot.Fact, err error) {
	var sender, channel, chat string
	k := &f.Key
	if err := s.Scan(&f.ID, &f.Subject, &f.Relation, &f.Object, &sender, &f.MessageID, &f.Taint, &f.Trusted,
		moment{&f.At}, &f.SupersededBy, &channel, &chat, &k.Agent, &k.Channel, &k.Account, &k.Chat,
		&k.Thread); err != nil {
		return f, err
	}
	switch {
	case chat != "":
		f.Scope = corebot.FactsOfChat
	case channel != "":
		f.Scope = corebot.FactsOfChannel
	default:
		f.Scope = corebot.FactsOfAgent
	}
	if sender != "" {
		f.Sender = senderIn(f.Key, sender)
	}
	return f, nil
}

// Learn stores facts that were said in a chat, for those who see the facts of their scope.
// Somebody asks for these facts themselves: they are stored although they were forgotten before.
func (f *Facts) Learn(ctx context.Context, facts ...corebot.Fact) error {
	return f.db.write(ctx, "facts", func(t *tx) error { return learnTx(t, facts, liftsForgottenTx) })
}

// Learn stores facts and the step that found them, in one commit: a crash leaves both or neither. A worker that lost
// its lease gets [corebot.ErrLeaseLost] and changes nothing. A model found these facts: what was forgotten is left out,
// see [Facts.Forget].
func (l *Ledger) Learn(ctx context.Context, d corebot.Delivery, step corebot.Step, facts []corebot.Fact) error {
	return l.step(ctx, d, step, func(t *tx) error { return learnTx(t, facts, staysForgottenTx) })
}

// learnTx stores facts. The question is asked of each, in its chat: it is true for a fact that is left out.
func learnTx(t *tx, facts []corebot.Fact, leftOut func(*tx, int64, corebot.Fact) (bool, error)) error {
	for _, f := range facts {
		if err := f.Validate(); err != nil {
			return err
		}
	}
	chats := map[corebot.Key]int64{}
	for _, f := range facts {
		chat, err := chatTx(t, f.Key)
		if err != nil {
			return err
		}
		chats[f.Key] = chat.ID
		out, err := leftOut(t, chat.ID, f)
		if err == nil && !out {
			err = factTx(t, chat.ID, f)
		}
		if err != nil {
			return err
		}
	}
	for _, chat := range chats {
		var n int64
		if _, err := t.one(countFacts, []any{&n}, chat); err != nil {
			return err
		}
		for n > corebot.MaxFacts {
			gone, err := t.exec(dropOldest, chat, n-corebot.MaxFacts)
			if err != nil {
				return err
			}
			n -= gone
		}
	}
	return nil
}

func ownerTx(t *tx, k corebot.Key) (id int64, err error) {
	found, err := t.one(findOwner, []any{&id}, keyArgs(k)...)
	if err == nil && !found {
		id, err = t.insert(addOwner, keyArgs(k)...)
	}
	return id, err
}

// factTx stores a fact. A fact of one object takes the place of the facts of its sender about the same.
func factTx(t *tx, chat int64, f corebot.Fact) error {
	owner, err := ownerTx(t, f.Owner())
	if err != nil {
		return err
	}
	sender := factSender(f)
	about, says := folded(f.Subject)+"\n"+folded(f.Relation), folded(f.Object)
	var id int64
	this := []any{owner, about, says, sender, chat, f.Taint}
	known, err := t.one(sameFact, []any{&id}, this...)
	if err != nil || known {
		return err
	}
	var old []int64
	replaced := taintedFact
	if f.Replaces {
		replaced = factsAbout
	}
	if err := t.each(replaced, func(s scanner) error {
		err := s.Scan(&id)
		old = append(old, id)
		return err
	}, this...); err != nil {
		return err
	}
	id, err = t.insert(addFact, owner, chat, f.Subject, f.Relation, f.Object, about, says, sender, f.MessageID, f.Taint,
		f.Trusted, t.now)
	if err != nil {
		return err
	}
	for _, was := range old {
		if _, err := t.exec(supersede, id, was); err != nil {
			return err
		}
	}
	for _, word := range factWords(f.Subject+" "+f.Relation+" "+f.Object, maxFactWords) {
		for _, of := range []string{"", ofSender(sender)} {
			if _, err := t.exec(addWord, owner, of+word, id); err != nil { // without a sender the second is the first
				return err
			}
		}
	}
	return nil
}

// ofSender stands before the words of what one sender said. No word begins like it.
func ofSender(sender string) string {
	if sender == "" {
		return ""
	}
	return "\x00" + sender + "\x00"
}

const (
	maxFactWords   = 64 // of a fact
	maxRecallWords = 16 // of a query
	// recallEach is how many facts of one word, of one owner, are looked at: the newest. It bounds what a recall costs,
	// however many facts there are.
	recallEach = 48
)

// factWords are the different folded words of a text, at most so many.
func factWords(text string, most int) (words []string) {
	for term := range terms.All(text) {
		if len(words) == most {
			break
		}
		if !slices.Contains(words, term.Text) {
			words = append(words, term.Text)
		}
	}
	return words
}

func folded(text string) string { return strings.Join(factWords(text, math.MaxInt), " ") }

// Recall finds the facts that a chat sees and that have words of a text, the best first. A word counts the more, the
// fewer facts have it. A long word also finds longer ones that begin like it. Superseded facts are not found.
func (f *Facts) Recall(ctx context.Context, k corebot.Key, text string, limit int) ([]corebot.Fact, error) {
	return f.RecallFor(ctx, k, corebot.Principal{}, text, limit)
}

// RecallFor is Recall for a principal. Half of the places are for what he said himself, if so much of it has words of
// the text. So nobody else displaces it by saying very much.
func (f *Facts) RecallFor(ctx context.Context, k corebot.Key, who corebot.Principal, text string,
	limit int,
) (found []corebot.Fact, err error) {
	err = f.db.reader.view(ctx, func(c *prepared) error {
		owners, err := ownersIn(c, k)
		if err != nil || len(owners) == 0 {
			return err
		}
		words := factWords(text, maxRecallWords)
		scores, err := scoresIn(c, owners, "", words)
		if err != nil || len(scores) == 0 {
			return err
		}
		ids, err := withOwnHalf(c, k, owners, who, words, bestOf(scores, limit), limit)
		if err == nil {
			found, err = factsIn(c, ids)
		}
		return err
	})
	sorted.By(found, func(a, b corebot.Fact) int { return cmp.Compare(b.ID, a.ID) })
	return found, err
}

// withOwnHalf keeps half of limit places for facts of a principal that have some of the words. ids are the facts that
// were found, whoever said them. If there are fewer than limit, they displaced nobody.
func withOwnHalf(c *prepared, k corebot.Key, owners []int64, who corebot.Principal, words []string, ids []int64,
	limit int,
) ([]int64, error) {
	if len(ids) < limit || who.ID == "" {
		return ids, nil
	}
	own, err := scoresIn(c, owners, ofSender(storedSender(k, who)), words)
	if err != nil {
		return nil, err
	}
	return joined(limit, bestOf(own, limit/2), ids), nil
}

// joined is the different numbers of two lists, the first list first, at most limit.
func joined(limit int, first, then []int64) []int64 {
	for _, id := range then {
		if len(first) < limit && !slices.Contains(first, id) {
			first = append(first, id)
		}
	}
	return first
}

// factsIn reads facts by their numbers.
func factsIn(c *prepared, ids []int64) (found []corebot.Fact, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	err = c.each(factsByID, func(s scanner) error {
		fact, err := scanFact(s)
		found = append(found, fact)
		return err
	}, string(list))
	return found, err
}

func ownersIn(c *prepared, k corebot.Key) (owners []int64, err error) {
	err = c.each(ownersOf, func(s scanner) error {
		var id int64
		err := s.Scan(&id)
		owners = append(owners, id)
		return err
	}, keyArgs(k)...)
	return owners, err
}

// scoresIn weighs the facts that have words; with [ofSender] those of one sender.
func scoresIn(c *prepared, owners []int64, of string, words []string) (map[int64]float64, error) {
	scores := map[int64]float64{}
	for _, word := range words {
		from, to := word, word+"\x00"
		if utf8.RuneCountInString(word) >= 4 { // lives finds live, and live finds lives
			from = strings.TrimSuffix(word, "s")
			to = from + "\U0010FFFF"
		}
		var ids []int64
		for _, owner := range owners {
			if err := c.each(wordFacts, func(s scanner) error {
				var id int64
				err := s.Scan(&id)
				if !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
				return err
			}, owner, of+from, of+to, recallEach); err != nil {
				return nil, err
			}
		}
		weight := 1 / (1 + math.Log2(float64(1+len(ids))))
		for _, id := range ids {
			scores[id] += weight
		}
	}
	return scores, nil
}

// bestOf gives the ids with the highest scores, the newest of equal ones first.
func bestOf(scores map[int64]float64, limit int) []int64 {
	ids := make([]int64, 0, len(scores))
	for id := range scores {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b int64) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(b, a)) })
	return ids[:min(len(ids), limit)]
}

// Page gives the facts that a chat sees, newest first within each scope and the narrowest scope first, at most limit.
// The facts of [corebot.Key.InChannel] and [corebot.Key.OfAgent] are those of the scope alone. With all it also gives
// superseded ones.
func (f *Facts) Page(ctx context.Context, k corebot.Key, all bool, limit int) (found []corebot.Fact, err error) {
	err = f.db.reader.view(ctx, func(c *prepared) error {
		owners, err := ownersIn(c, k)
		for _, owner := range owners {
			if err != nil || len(found) >= limit {
				return err
			}
			err = c.each(factsPage, func(s scanner) error {
				fact, err := scanFact(s)
				found = append(found, fact)
				return err
			}, owner, int64(math.MaxInt64), all, limit-len(found))
		}
		return err
	})
	return found, err
}

// List gives at most limit facts behind a cursor, newest first, and the next cursor. With a key it gives the facts that
// Page gives for the key.
func (f *Facts) List(ctx context.Context, q corebot.FactFilter, after string, limit int) (found []corebot.Fact,
	next string, err error,
) {
	place := int64(math.MaxInt64)
	if err := behind(after, "facts", &place); err != nil {
		return nil, "", err
	}
	err = f.db.reader.view(ctx, func(c *prepared) error {
		owners := []int64(nil) // of anybody
		if q.Key != (corebot.Key{}) {
			seen, err := ownersIn(c, q.Key)
			if err != nil {
				return err
			}
			owners = append([]int64{}, seen...)
		}
		list, err := json.Marshal(owners)
		if err != nil {
			return err
		}
		return c.each(factsList, func(s scanner) error {
			fact, err := scanFact(s)
			found = append(found, fact)
			return err
		}, place, q.Superseded, q.Agent, string(list), limit)
	})
	return found, nextPage(found, limit, func(f corebot.Fact) string { return cursor("facts", f.ID) }), err
}

// Fact gives a fact by its number. An unknown number is [corebot.ErrNotFound].
func (f *Facts) Fact(ctx context.Context, id int64) (fact corebot.Fact, err error) {
	err = f.db.reader.view(ctx, func(c *prepared) error {
		found, err := factsIn(c, []int64{id})
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("fact %d: %w", id, corebot.ErrNotFound)
		}
		if err == nil {
			fact = found[0]
		}
		return err
	})
	return fact, err
}

// DeleteChat deletes all facts that were said in a chat, also those that other chats see, and counts them. The records
// of what was forgotten there go, too.
func (f *Facts) DeleteChat(ctx context.Context, k corebot.Key) (n int64, err error) {
	chat, err := NewChats(f.db).Chat(ctx, k)
	if err != nil {
		return 0, err
	}
	for gone := int64(1); gone > 0 && chat.ID != 0; n += gone {
		if err := f.db.write(ctx, "forget.facts", func(t *tx) (err error) {
			gone, err = t.exec(dropFacts, chat.ID, forgetChunk)
			return err
		}); err != nil {
			return n, err
		}
	}
	return n, f.db.write(ctx, "forget.facts", func(t *tx) error {
		_, err := t.exec(dropForgotten, chat.ID)
		if err == nil {
			_, err = t.exec(dropFactOwner, keyArgs(k)...)
		}
		if err != nil {
			return fmt.Errorf("forget the facts of %s: %w", k, err)
		}
		return nil
	})
}
