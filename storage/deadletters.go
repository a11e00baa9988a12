package storage

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/corebot/corebot"
)

// DeadLetters keeps the messages that were given up. They are never dropped silently: every change of one leaves an audit event, in
// the commit that makes it.
type DeadLetters struct {
	db *DB
	by corebot.AuditEvent
}

// NewDeadLetters are the dead letters of a database, in the hands of the operator.
func NewDeadLetters(db *DB) *DeadLetters {
	return &DeadLetters{db, byOperator()}
}

// As gives the dead letters into other hands: the audit events of changes have the principal, role, entry, rule, tool, step and
// conversation of by. Without a conversation they have that of the letter.
func (l *DeadLetters) As(by corebot.AuditEvent) *DeadLetters { return &DeadLetters{l.db, by} }

// deadWhere walks the partial index of the dead, the newest first, and stops at its limit.
const deadWhere = ` FROM message_life m JOIN lanes l ON l.id = m.lane_id
	WHERE m."end" = 'dead' AND m.ended_at >= ? AND m.ended_at < ? AND ? IN (0, l.direction) AND ? IN ('', l.channel) AND ? IN ('', l.chat)
	AND ? IN ('', l.agent) AND (? = '' OR l.account = ? AND l.thread = ?)
	AND ? IN ('', m.sender) AND ? IN ('', m.reason)
	ORDER BY m.ended_at DESC, m.id DESC LIMIT ? + 0`

var (
	listDead = &query{`SELECT m.id, l.direction, l.agent, l.channel, l.account, l.chat, l.thread, m.message_id, m.sender, m.reason, m.attempts,
		m.last_error, m.published_at, m.ended_at` + deadWhere}
	deadIDs = &query{`SELECT m.id` + deadWhere}
)

// conditions are the parameters of deadWhere.
func conditions(f corebot.DeadLetterFilter) []any {
	limit := f.Limit
	if limit <= 0 {
		limit = -1 // SQLite: no limit
	}
	before := f.Before
	if before.IsZero() {
		before = time.UnixMilli(math.MaxInt64)
	}
	return []any{
		f.After, before, int64(f.Direction), cmp.Or(f.Key.Channel, f.Channel), cmp.Or(f.Key.Chat, f.Chat),
		cmp.Or(f.Key.Agent, f.Agent), f.Key.Agent, f.Key.Account, f.Key.Thread, f.Sender, f.Reason, limit,
	}
}

// List gives dead letters, newest first.
func (l *DeadLetters) List(ctx context.Context, f corebot.DeadLetterFilter) ([]corebot.DeadLetter, error) {
	var out []corebot.DeadLetter
	err := l.db.reader.each(ctx, listDead, func(s scanner) error {
		var dl corebot.DeadLetter
		var direction int
		k := &dl.Key
		err := s.Scan(&dl.ID, &direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &dl.MessageID, &dl.Sender.ID, &dl.Reason,
			&dl.Attempts, &dl.LastError, moment{&dl.CreatedAt}, moment{&dl.DeadAt})
		dl.Direction = corebot.Direction(direction)
		dl.Sender.Channel, dl.Sender.Account = k.Channel, k.Account
		out = append(out, dl)
		return err
	}, conditions(f)...)
	return out, err
}

// ids gives the letters that a filter means, in the order of their publishing.
func (l *DeadLetters) ids(ctx context.Context, f corebot.DeadLetterFilter) (ids []int64, err error) {
	err = l.db.reader.each(ctx, deadIDs, func(s scanner) error {
		var id int64
		err := s.Scan(&id)
		ids = append(ids, id)
		return err
	}, conditions(f)...)
	return ids, err
}
