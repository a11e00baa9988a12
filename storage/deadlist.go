package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/internal/sorted"
)

const deadWhat = `SELECT m.id, l.direction, l.agent, l.channel, l.account, l.chat, l.thread, m.message_id,
	m.sender, m.reason, m.attempts, m.last_error, m.published_at, m.ended_at`

// deadWhole is read only where a letter's text or its last attempt counts.
const deadWhole = `, m.kind, m.checksum, m.body, m.attempt_log`

const deadFilter = ` AND ? IN (0, l.direction) AND ? IN ('', l.channel) AND ? IN ('', l.chat)
	AND ? IN ('', l.agent) AND (? = '' OR l.account = ? AND l.thread = ?)
	AND ? IN ('', m.sender) AND ? IN ('', m.reason)`

const (
	// deadNewest walks the partial index of the dead, newest first, and stops at its limit.
	deadNewest = ` FROM message_life m JOIN lanes l ON l.id = m.lane_id
	WHERE m."end" = 'dead' AND m.ended_at >= ? AND m.ended_at <= ? AND (m.ended_at < ? OR m.id < ?)` + deadFilter + `
	ORDER BY m.ended_at DESC, m.id DESC LIMIT ? + 0`
	// deadInOrder walks the dead in the order of their publishing.
	deadInOrder = ` FROM message_life m INDEXED BY message_life_dead_by_id JOIN lanes l ON l.id = m.lane_id
	WHERE m."end" = 'dead' AND m.ended_at >= ? AND m.ended_at <= ? AND m.id > ?` + deadFilter + `
	ORDER BY m.id LIMIT ? + 0`
)

var (
	listDead       = &query{deadWhat + deadNewest}
	listDeadWhole  = &query{deadWhat + deadWhole + deadNewest}
	orderDead      = &query{deadWhat + deadInOrder}
	orderDeadWhole = &query{deadWhat + deadWhole + deadInOrder}
)

// deadPlace is the place of a dead letter in the list.
type deadPlace struct{ at, id int64 }

// newestDeath is before every place.
var newestDeath = deadPlace{math.MaxInt64, math.MaxInt64}

func placeOf(d corebot.DeadLetter) deadPlace { return deadPlace{d.DeadAt.UnixMilli(), d.ID} }

// filterArgs are the parameters of deadFilter.
func filterArgs(f corebot.DeadLetterFilter) []any {
	return []any{
		int64(f.Direction), cmp.Or(f.Key.Channel, f.Channel), cmp.Or(f.Key.Chat, f.Chat),
		cmp.Or(f.Key.Agent, f.Agent), f.Key.Agent, f.Key.Account, f.Key.Thread, f.Sender, f.Reason,
	}
}

// lastDeath is the last moment of the deaths that a filter means, in unix milliseconds.
func lastDeath(f corebot.DeadLetterFilter, at int64) int64 {
	if f.Before.IsZero() {
		return at
	}
	return min(at, f.Before.UnixMilli()-1)
}

// deadRow is a dead letter as a list reads it. The text and the cause are there only if the whole row was read.
type deadRow struct {
	corebot.DeadLetter
	text  string // empty if the body cannot be read
	cause string // what the chat was told, or else the error
}

// headOfText bounds the beginning of a text in the list of a chat, in bytes.
const headOfText = 100

func scanDead(s scanner, whole bool) (d deadRow, err error) {
	var direction int
	var kind, log string
	var sum, body []byte
	k := &d.Key
	into := []any{
		&d.ID, &direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &d.MessageID, &d.Sender.ID, &d.Reason,
		&d.Attempts, &d.LastError,
		moment{&d.CreatedAt},
		moment{&d.DeadAt},
	}
	if whole {
		into = append(into, &kind, &sum, &body, &log)
	}
	if err := s.Scan(into...); err != nil {
		return d, err
	}
	d.Direction, d.Sender = corebot.Direction(direction), senderIn(*k, d.Sender.ID)
	if whole {
		if m, err := unpack(body, d.Direction, d.Key, corebot.Kind(kind), sum); err == nil {
			d.text = m.Text()
			d.Head = runes.Head(d.text, headOfText)
		}
		d.Plain = plainOf(log)
		d.cause = runes.Head(cmp.Or(d.Plain, d.LastError), maxCause)
	}
	return d, nil
}

// maxCause bounds the text of a cause, in bytes. Errors that differ behind it are one cause.
const maxCause = 200

// plainOf is why the last attempt failed, in the sentence for everybody; empty: there is none.
func plainOf(log string) string {
	var attempts []corebot.Attempt
	_ = json.Unmarshal([]byte(log), &attempts) // an unreadable log only informs people
	for _, a := range slices.Backward(attempts) {
		if a.What == attemptDead {
			return a.Plain
		}
	}
	return ""
}

// means says whether a letter has the texts that a filter asks for, in any case of their letters.
func means(f corebot.DeadLetterFilter, d deadRow) bool {
	has := func(text, part string) bool {
		return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
	}
	return has(d.text, f.Text) && has(d.LastError, f.Error)
}

// searches says whether a filter asks for more than SQL can tell.
func searches(f corebot.DeadLetterFilter) bool { return f.Text != "" || f.Error != "" }

// deadLook bounds the letters that one page looks at for a text. A page with less than it could have then has a cursor.
const deadLook = 5_000

// List returns dead letters, newest first.
func (l *DeadLetters) List(ctx context.Context, f corebot.DeadLetterFilter) (all []corebot.DeadLetter, err error) {
	limit := cmp.Or(f.Limit, -1)
	err = l.walk(ctx, f, newestDeath, -1, f.Text != "", func(d deadRow) bool {
		if means(f, d) {
			all = append(all, d.DeadLetter)
		}
		return len(all) != limit
	})
	return all, err
}

// Page returns the dead letters behind a cursor, newest first, at most limit, and the cursor of the next page.
func (l *DeadLetters) Page(ctx context.Context, f corebot.DeadLetterFilter, after string,
	limit int,
) (found []corebot.DeadLetter, next string, err error) {
	p := newestDeath
	if err := behind(after, "dead", &p.at, &p.id); err != nil {
		return nil, "", err
	}
	look := limit
	if searches(f) {
		look = max(limit, deadLook)
	}
	seen := 0
	var last deadPlace
	err = l.walk(ctx, f, p, look, f.Text != "", func(d deadRow) bool {
		seen, last = seen+1, placeOf(d.DeadLetter)
		if means(f, d) {
			found = append(found, d.DeadLetter)
		}
		return len(found) < limit
	})
	if seen == look || seen > 0 && len(found) == limit {
		next = cursor("dead", last.at, last.id)
	}
	return found, next, err
}

// errEnough ends a walk before its last row.
var errEnough = errors.New("enough")

// walk shows the letters that a filter means, but for its texts, newest first, until fn has enough. look bounds the
// rows that are read; -1: all of them.
func (l *DeadLetters) walk(ctx context.Context, f corebot.DeadLetterFilter, p deadPlace, look int, whole bool,
	fn func(deadRow) bool,
) error {
	q := listDead
	if whole {
		q = listDeadWhole
	}
	args := append([]any{f.After, lastDeath(f, p.at), p.at, p.id}, append(filterArgs(f), look)...)
	err := l.db.reader.whole(ctx, q, func(s scanner) error {
		d, err := scanDead(s, whole)
		if err == nil && !fn(d) {
			err = errEnough
		}
		return err
	}, args...)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// maxGroups bounds the groups of one count.
const maxGroups = 1_000

// Count counts the letters that a filter means, in groups, the largest group first.
func (l *DeadLetters) Count(ctx context.Context, f corebot.DeadLetterFilter, by corebot.DeadBy) (corebot.DeadCounts,
	error,
) {
	whole := f.Text != "" || by == corebot.DeadByCause
	groups := map[corebot.DeadGroup]*corebot.DeadCount{}
	var all corebot.DeadCounts
	err := l.walk(ctx, f, newestDeath, -1, whole, func(d deadRow) bool {
		if !means(f, d) {
			return true
		}
		all.Total++
		g := groupOf(d, by)
		c := groups[g]
		switch {
		case c == nil && len(groups) == maxGroups:
			all.Others++
			return true
		case c == nil: // the walk begins with the newest
			c = &corebot.DeadCount{DeadGroup: g, Newest: d.DeadAt, LastError: d.LastError, LastID: d.ID}
			groups[g] = c
		}
		c.Count++
		c.Oldest = d.DeadAt
		return true
	})
	for _, c := range groups {
		all.Groups = append(all.Groups, *c)
	}
	sorted.By(all.Groups, func(a, b corebot.DeadCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.LastID, a.LastID))
	})
	return all, err
}

func groupOf(d deadRow, by corebot.DeadBy) corebot.DeadGroup {
	g := corebot.DeadGroup{Direction: d.Direction.String()}
	switch by {
	case corebot.DeadByAgent:
		g.Agent = d.Key.Agent
	case corebot.DeadByChannel:
		g.Channel = d.Key.Channel
	case corebot.DeadByChat:
		g.Chat = d.Key.String()
	case corebot.DeadByCause:
		g.Reason, g.Cause = d.Reason, d.cause
	default:
		g.Reason = d.Reason
	}
	return g
}

// ids returns the letters that a filter selects, in the order of their publishing.
func (l *DeadLetters) ids(ctx context.Context, f corebot.DeadLetterFilter) (ids []int64, err error) {
	err = l.walk(ctx, f, newestDeath, -1, f.Text != "", func(d deadRow) bool {
		if means(f, d) {
			ids = append(ids, d.ID)
		}
		return len(ids) != cmp.Or(f.Limit, -1)
	})
	slices.Sort(ids)
	return ids, err
}

var (
	deadOfChat = &query{deadWhat + deadWhole + ` FROM lanes l JOIN message_life m ON m.lane_id = l.id
	WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?
	AND m."end" = 'dead' AND (? OR m.sender = ?) ORDER BY m.ended_at DESC LIMIT ? + 0`}
	countDeadOfChat = &query{`SELECT COUNT(*) FROM lanes l JOIN message_life m ON m.lane_id = l.id
	WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?
	AND m."end" = 'dead' AND (? OR m.sender = ?)`}
	oldestDeadOfChat = &query{`SELECT m.id FROM lanes l JOIN message_life m ON m.lane_id = l.id
	WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?
	AND m."end" = 'dead' AND (? OR m.sender = ?) ORDER BY m.ended_at, m.id LIMIT ? + 0`}
)

func lettersOf(k corebot.Key, c corebot.ChatLetters) []any {
	return []any{
		int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread, c.Any, storedSender(k, c.Of),
	}
}

// OfChat lists the newest inbound dead letters of a chat, at most limit, and says how many there are.
func (l *DeadLetters) OfChat(ctx context.Context, k corebot.Key, c corebot.ChatLetters,
	limit int,
) (found []corebot.DeadLetter, all int, err error) {
	err = l.db.reader.each(ctx, deadOfChat, func(s scanner) error {
		d, err := scanDead(s, true)
		found = append(found, d.DeadLetter)
		return err
	}, append(lettersOf(k, c), limit)...)
	if err == nil {
		_, err = l.db.reader.one(ctx, countDeadOfChat, []any{&all}, lettersOf(k, c)...)
	}
	return found, all, err
}

// ChangeOfChat accepts a chat command about dead letters of its chat. One commit has its life row, the changes and the
// notice of their result. by goes to the audit. A duplicate changes nothing.
func (l *DeadLetters) ChangeOfChat(ctx context.Context, m corebot.Message, c corebot.ChatLetters, by corebot.AuditEvent,
	notice func(corebot.Replayed) corebot.Message,
) (r corebot.Receipt, err error) {
	packed := pack([]corebot.Message{m})
	letters := l.As(by)
	err = l.db.write(ctx, "letters", func(t *tx) (err error) {
		ids, all, err := meantTx(t, m.Key, c)
		if err != nil {
			return err
		}
		if r, err = l.db.controlTx(t, &packed[0], len(ids) > 0); err != nil || r.Duplicate {
			return err
		}
		done, err := letters.changeTx(t, ids, c)
		if err != nil {
			return err
		}
		done.More = all - len(ids)
		told := pack([]corebot.Message{notice(done)})
		return noticeTx(t, &told[0], r.Life)
	})
	return r, err
}

// meantTx finds the letters that a command means now, at most [corebot.MaxChatLetters], and how many there are.
func meantTx(t *tx, k corebot.Key, c corebot.ChatLetters) (ids []int64, all int, err error) {
	if c.ID != 0 {
		_, err := letterTx(t, c.ID)
		if errors.Is(err, corebot.ErrNotFound) {
			return nil, 0, nil
		}
		return []int64{c.ID}, 1, err
	}
	err = t.each(oldestDeadOfChat, func(s scanner) error {
		var id int64
		err := s.Scan(&id)
		ids = append(ids, id)
		return err
	}, append(lettersOf(k, c), corebot.MaxChatLetters)...)
	if err == nil {
		_, err = t.one(countDeadOfChat, []any{&all}, lettersOf(k, c)...)
	}
	slices.Sort(ids)
	return ids, all, err
}

func (l *DeadLetters) changeTx(t *tx, ids []int64, c corebot.ChatLetters) (done corebot.Replayed, err error) {
	if !c.Drop {
		done, _, _, err = l.replayChunkTx(t, ids, replaying{Replaying: corebot.Replaying{BeganAt: t.now}})
		return done, err
	}
	for _, id := range ids {
		d, err := letterTx(t, id)
		if err == nil {
			err = l.dropTx(t, d, dropping{"drop", "dropped"}, nil)
		}
		if err != nil {
			return done, err
		}
		done.Done++
	}
	return done, nil
}
