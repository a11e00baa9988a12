package storage

import (
	"context"
	"testing"

	"github.com/corebot/corebot"
)

// keptMessage is what a database says of a message.
type keptMessage struct {
	end     string
	waits   bool // its body is in the queue
	reply   bool // it has a reply, in the queue or in the mailbox
	history int
}

var (
	storedMessages = &query{`SELECT l.chat, m.message_id, m."end", q.seq IS NOT NULL,
		  EXISTS (SELECT 1 FROM message_life r WHERE r.cause_id = m.id
		    AND (SELECT COUNT(*) FROM message_queue b WHERE b.life_id = r.id) + (SELECT COUNT(*) FROM mailbox b WHERE
		    b.message_id = r.message_id) = 1),
		  (SELECT COUNT(*) FROM history h WHERE h.message_id = m.message_id)
		FROM message_life m JOIN lanes l ON l.id = m.lane_id LEFT JOIN message_queue q ON q.life_id = m.id
		WHERE l.direction = 1 ORDER BY l.id, q.seq`}
	storedReplies = &query{
		`SELECT m.message_id FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE l.direction = 2
		UNION ALL SELECT message_id FROM mailbox`,
	}
)

// keptMessages reads the inbound messages of a database by their ids, and what is wrong with their order or number.
func keptMessages(db *DB) (found map[string]keptMessage, wrong []string, err error) {
	found = map[string]keptMessage{}
	last := map[string]string{} // the last waiting message of a chat
	err = db.reader.each(context.Background(), storedMessages, func(s scanner) error {
		var chat, id string
		var m keptMessage
		if err := s.Scan(&chat, &id, &m.end, &m.waits, &m.reply, &m.history); err != nil {
			return err
		}
		if _, twice := found[id]; twice {
			wrong = append(wrong, id+" is there twice")
		}
		if m.waits && id <= last[chat] {
			wrong = append(wrong, id+" waits behind "+last[chat])
		}
		if m.waits {
			last[chat] = id
		}
		found[id] = m
		return nil
	})
	return found, wrong, err
}

// audit holds a database against the book as it was at a position, and names every contradiction. The writer of the
// database need not run.
func (w *workload) audit(t testing.TB, db *DB, at int) []string {
	t.Helper()
	wrong, err := db.Problems(t.Context())
	if err != nil {
		return []string{err.Error()}
	}
	found, disorder, err := keptMessages(db)
	if err != nil { // such as after a disk that lied
		return append(wrong, err.Error())
	}
	wrong = append(wrong, disorder...)
	complain := func(id, what string) { wrong = append(wrong, id+" "+what) }
	for id, m := range found {
		if r := w.book[id]; r == nil || !r.publish.tried(at) {
			complain(id, "was never published")
		} else {
			r.check(m, at, func(what string) { complain(id, what) })
		}
	}
	for id, r := range w.book {
		if _, there := found[id]; !there && r.publish.accepted(at) {
			complain(id, "was accepted and is lost")
		}
		if m, next := found[id], found[r.before()]; r.place > 0 && !m.waits && m.end != "" && next.waits {
			complain(id, "has ended before "+r.before())
		}
	}
	return append(wrong, w.auditReplies(t, db, at)...)
}

// check holds one stored message against what was said about it.
func (r *request) check(m keptMessage, at int, complain func(string)) {
	if r.publish.refused(at) {
		complain("was refused and is there")
	}
	ended := m.end != ""
	want := map[bool]string{true: string(corebot.EndDead), false: string(corebot.EndAnswered)}[r.ending() == byDeath]
	speaks := r.ending() == byTurn || r.ending() == bySteps
	switch {
	case ended == m.waits:
		complain("has ended and waits, or neither")
	case ended && !r.end.tried(at):
		complain("has ended and nobody ended it")
	case ended && m.end != want:
		complain("has ended as " + m.end)
	case ended && r.end.refused(at) && r.tries == 1:
		complain("has ended though that was refused")
	case !ended && r.end.accepted(at):
		complain("was ended and is lost: it waits again")
	case m.reply != (ended && speaks) || (m.history == 2) != (ended && speaks):
		complain("has half of a turn")
	}
}

func (w *workload) auditReplies(t testing.TB, db *DB, at int) (wrong []string) {
	t.Helper()
	asked := map[string]bool{}
	for id, r := range w.book {
		asked[replyID(id)] = r.end.tried(at)
	}
	err := db.reader.each(t.Context(), storedReplies, func(s scanner) error {
		var id string
		if err := s.Scan(&id); err != nil {
			return err
		}
		if !asked[id] {
			wrong = append(wrong, id+" is a reply that nobody gave")
		}
		return nil
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong
}
