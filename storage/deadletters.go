package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/runes"
)

// DeadLetters stores the dead letters. None is ever dropped silently: every change leaves an audit event in its own
// commit.
type DeadLetters struct {
	db *DB
	by corebot.AuditEvent
}

// NewDeadLetters returns the dead letters of a database, for changes by the operator.
func NewDeadLetters(db *DB) *DeadLetters {
	return &DeadLetters{db, byOperator()}
}

// As returns the dead letters for changes by somebody else. The audit events of the changes have the principal, role,
// entry, rule, tool, step and conversation of by. If by has no conversation, they have the letter's.
func (l *DeadLetters) As(by corebot.AuditEvent) *DeadLetters { return &DeadLetters{l.db, by} }

var (
	reviveLife = &query{`UPDATE message_life SET "end" = '', reason = '', ended_at = 0, attempts = 0, run = run + 1,
		attempt_log = ?, body = NULL
		WHERE id = ?`}
	// A resumed journal moves its steps to the next run. A fresh start leaves the steps behind, except for what people
	// said.
	moveSteps = &query{`UPDATE execution_steps SET run = run + 1 WHERE life_id = ? AND run = ?`}
)

// Replay puts a dead letter back at the tail of its lane: the same id, its next run, and no attempts yet. The run
// resumes the journal unless fresh is set. Two replays, even at once from two places, deliver the letter once: the
// second gets [corebot.ErrNotFound].
//
// An inbound letter must pass [Options.Limits] like a new message. Without room it stays dead: [corebot.ErrLaneFull],
// [corebot.ErrOverloaded] or [corebot.ErrDiskFull]. A reply has already been paid for, and always passes.
func (l *DeadLetters) Replay(ctx context.Context, id int64, fresh bool) error {
	return l.db.write(ctx, "replay", func(t *tx) error { return l.replayTx(t, id, fresh) })
}

// stillDeadTx reads a letter that was dead at a moment. found is false if it is no longer dead, or died again since. A
// death later than now is of a clock that was set back since, and counts as before that moment.
func stillDeadTx(t *tx, id int64, at time.Time) (d letter, found bool, err error) {
	d, err = letterTx(t, id)
	if errors.Is(err, corebot.ErrNotFound) {
		return d, false, nil
	}
	return d, err == nil && (!d.diedAt.After(at) || d.diedAt.After(t.now)), err
}

// noRoom says whether an error is a refusal for want of room. Such a refusal has written nothing.
func noRoom(err error) bool {
	return errors.Is(err, corebot.ErrLaneFull) || errors.Is(err, corebot.ErrOverloaded) ||
		errors.Is(err, corebot.ErrDiskFull)
}

// replayTx checks its rules before it writes, so a broken rule leaves the transaction unchanged.
func (l *DeadLetters) replayTx(t *tx, id int64, fresh bool) error {
	d, err := letterTx(t, id)
	if err != nil {
		return err
	}
	return l.reviveTx(t, d, fresh)
}

// replayEffectTx handles [corebot.ReplayDeadLetter].
func (l *DeadLetters) replayEffectTx(t *tx, e corebot.ReplayDeadLetter) error {
	d, err := letterTx(t, e.ID)
	if err == nil && e.Agent != "" && d.key.Agent != e.Agent {
		err = fmt.Errorf("dead letter %d: %w", e.ID, corebot.ErrNotFound)
	}
	if err == nil {
		err = l.reviveTx(t, d, false)
	}
	if errors.Is(err, corebot.ErrNotFound) || noRoom(err) {
		err = &corebot.Refused{Err: err}
	}
	return err
}

func (l *DeadLetters) reviveTx(t *tx, d letter, fresh bool) error {
	if d.body == nil {
		return fmt.Errorf("dead letter %d: %w", d.id, errUnreadable)
	}
	lane, err := findLaneTx(t, d.direction, d.key)
	if err != nil {
		return err
	}
	if err := l.roomTx(t, d, lane, d.body); err != nil {
		return fmt.Errorf("dead letter %d: %w", d.id, err)
	}
	log := d.attemptLog
	if !endsDead(log, d.run) { // an earlier build did not log the death of the letter
		log = appendAttempt(log, corebot.Attempt{
			Run: d.run, At: d.diedAt, What: attemptDead,
			Error: cause(d.reason, d.failed),
		})
	}
	log = appendAttempt(log, corebot.Attempt{Run: d.run + 1, At: t.now, What: attemptReplayed})
	if _, err := t.exec(reviveLife, log, d.id); err != nil {
		return err
	}
	if fresh {
		if err := giveUpAskedTx(t, d.id, anew); err != nil {
			return err
		}
		if lane, err = findLaneTx(t, d.direction, d.key); err != nil { // the history has taken a place
			return err
		}
		if _, err := t.exec(carryMerges, d.id, d.run); err != nil {
			return err
		}
	} else {
		if _, err := t.exec(moveSteps, d.id, d.run); err != nil {
			return err
		}
	}
	if err := l.auditTx(t, d, "replay", map[string]any{"run": d.run + 1, "fresh": fresh}); err != nil {
		return err
	}
	if d.direction == corebot.Inbound {
		if err := t.waiting.addLife(t, d.id, 1, len(d.body)); err != nil {
			return err
		}
		if err := reopenJobTx(t, d.id, d.id, d.key); err != nil {
			return err
		}
	}
	return pushTx(t, d.direction, d.key, lane, d.id, d.body)
}

// roomTx checks the limits for a replayed letter, except for the limits of a sender: an operator or an admin replays
// it.
func (l *DeadLetters) roomTx(t *tx, d letter, lane lane, body []byte) error {
	if d.direction != corebot.Inbound {
		return nil
	}
	limits := l.db.limits
	limits.SenderDepth, limits.SenderBytes = 0, 0
	return overLimit(t, &parcel{Message: corebot.Message{Direction: d.direction, Key: d.key}, body: body}, lane, limits)
}

// Edit replays a dead letter with another text. The result is a new message with an id of its own, the same sender and
// the same attachments, caused by the old letter. The old letter ends as dropped. A used id is [corebot.ErrConflict].
// The limits are the limits of [DeadLetters.Replay].
func (l *DeadLetters) Edit(ctx context.Context, id int64, newID, text string) error {
	return l.db.write(ctx, "edit", func(t *tx) error {
		d, err := letterTx(t, id)
		if err != nil {
			return err
		}
		p, was, err := d.rewritten(newID, text)
		if err != nil {
			return err
		}
		limits := l.db.limits
		if d.direction != corebot.Inbound {
			limits = corebot.Limits{}
		}
		r, err := publishTx(t, &p, limits)
		if err != nil || r.Err != nil || r.Duplicate {
			return cmp.Or(err, r.Err, error(corebot.ErrConflict))
		}
		if err := reopenJobTx(t, d.id, r.Life, d.key); err != nil {
			return err
		}
		return l.dropTx(t, d, dropping{"edit", "edited"}, map[string]any{
			"newId": newID, "bytes": len(was),
			"newBytes": len(text),
		})
	})
}

// rewritten is the letter as a new message with another text; was is the old text.
func (d letter) rewritten(newID, text string) (p parcel, was string, err error) {
	m, err := unpack(d.body, d.direction, d.key, d.kind, d.checksum)
	if err != nil {
		return p, "", corebot.WithHint(err,
			"what was sent cannot be read any more: have it sent again, and drop this one")
	}
	was = m.Text()
	m.ID, m.Parts = newID, corebot.WithText(m.Parts, text)
	if err := cmp.Or(m.Validate(0), corebot.CheckID(newID)); err != nil {
		return p, was, err
	}
	packed := pack([]corebot.Message{m})
	packed[0].cause = d.id
	return packed[0], was, nil
}

var (
	selectDead = &query{`SELECT l.direction, l.agent, l.channel, l.account, l.chat, l.thread,
		m.message_id, m.run, m.kind, m.checksum, m.body, m.reason, m.last_error, m.attempt_log, m.ended_at
		FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m.id = ? AND m."end" = 'dead'`}
	dropLife = &query{
		`UPDATE message_life SET "end" = 'dropped', reason = ?, ended_at = ?, body = NULL WHERE id = ?
			AND "end" = 'dead'`,
	}
)

// letter is a dead letter with the columns that a change needs.
type letter struct {
	id             int64
	direction      corebot.Direction
	key            corebot.Key
	messageID      string
	run            int
	kind           corebot.Kind
	checksum, body []byte
	reason, failed string
	attemptLog     string
	diedAt         time.Time
}

// letterTx reads a dead letter, or returns [corebot.ErrNotFound].
func letterTx(t *tx, id int64) (letter, error) {
	d := letter{id: id}
	var direction int
	var kind string
	k := &d.key
	found, err := t.one(selectDead, []any{
		&direction, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread,
		&d.messageID, &d.run, &kind, &d.checksum, &d.body, &d.reason, &d.failed, &d.attemptLog,
		moment{&d.diedAt},
	}, id)
	if err == nil && !found {
		err = fmt.Errorf("dead letter %d: %w", id, corebot.ErrNotFound)
	}
	d.direction, d.kind = corebot.Direction(direction), corebot.Kind(kind)
	return d, err
}

// Drop ends a dead letter for good. Its content is deleted; its life row stays until retention deletes it.
func (l *DeadLetters) Drop(ctx context.Context, id int64) error {
	return l.db.write(ctx, "drop", func(t *tx) error {
		d, err := letterTx(t, id)
		if err != nil {
			return err
		}
		return l.dropTx(t, d, dropping{"drop", "dropped"}, nil)
	})
}

// dropping is a way to drop a dead letter: its name in the audit, and the reason that its life keeps.
type dropping struct{ change, reason string }

// dropTx drops a dead letter. detail is a further note for the audit.
func (l *DeadLetters) dropTx(t *tx, d letter, how dropping, detail map[string]any) error {
	if _, err := t.exec(dropLife, how.reason, t.now, d.id); err != nil {
		return err
	}
	if err := giveUpAskedTx(t, d.id, anew); err != nil {
		return err
	}
	return l.auditTx(t, d, how.change, detail)
}

// changeChunk bounds the letters that one commit changes, and so how long other writers wait.
const changeChunk = 50

// Purge drops every dead letter that the filter selects, and returns their number. [DeadLetters.List] with the same
// filter shows them first. Purge works in small commits: after an error the earlier letters stay dropped. It leaves
// letters that died after the call.
func (l *DeadLetters) Purge(ctx context.Context, f corebot.DeadLetterFilter) (dropped int, err error) {
	began := time.Now()
	ids, err := l.ids(ctx, f)
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(ids, changeChunk) {
		n := 0
		err := l.db.write(ctx, "purge", func(t *tx) error {
			n = 0
			for _, id := range chunk {
				d, found, err := stillDeadTx(t, id, began)
				if err == nil && found {
					n++
					err = l.dropTx(t, d, dropping{"purge", "purged"}, nil)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return dropped, fmt.Errorf("%d dropped, then: %w", dropped, err)
		}
		dropped += n
	}
	return dropped, nil
}

// auditTx writes the audit event of a change of a letter.
func (l *DeadLetters) auditTx(t *tx, d letter, change string, detail map[string]any) error {
	note := map[string]any{
		"id": d.id, "messageId": d.messageID, "direction": d.direction.String(),
		"chat": d.key.String(), "reason": d.reason,
	}
	for name, value := range detail {
		note[name] = value
	}
	args, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode the audit note of dead letter %d: %w", d.id, err)
	}
	e := l.by
	if e.Key == (corebot.Key{}) {
		e.Key = d.key
	}
	e.Event, e.Outcome, e.Args = "dead_letter."+change, corebot.OutcomeSuccess, string(args)
	return auditTx(t, []corebot.AuditEvent{e})
}

// Notices of dead letters of one cause in one chat are grouped once there are many. A chat is told of the first
// [loneNotices] at once, and of further ones together when a window ends. The windows grow while the flood goes on. A
// window that ends without another dead letter is forgotten. Nothing is lost over a restart: the counts are rows.
const (
	loneNotices = 3
	firstWindow = time.Minute
	lastWindow  = 10 * time.Minute
	maxCauses   = 8 // of one chat; further causes are grouped as one
	toldAtOnce  = 20
)

var (
	selectGrouped = &query{`SELECT shown, counted FROM dead_notices WHERE agent = ? AND channel = ? AND account = ?
		AND chat = ? AND thread = ? AND cause = ?`}
	countGrouped = &query{`SELECT COUNT(*) FROM dead_notices WHERE agent = ? AND channel = ? AND account = ?
		AND chat = ? AND thread = ?`}
	putGrouped = &query{`INSERT INTO dead_notices (agent, channel, account, chat, thread, cause, shown, counted,
		last_id, last, rounds, due_at) VALUES (?, ?, ?, ?, ?, ?, 1, 0, '', '', 0, ?)`}
	showGrouped = &query{`UPDATE dead_notices SET shown = shown + 1 WHERE agent = ? AND channel = ? AND account = ?
		AND chat = ? AND thread = ? AND cause = ?`}
	addGrouped = &query{`UPDATE dead_notices SET counted = counted + 1, last_id = ?, last = ? WHERE agent = ?
		AND channel = ? AND account = ? AND chat = ? AND thread = ? AND cause = ?`}
	nextGrouped = &query{`SELECT MIN(due_at) FROM dead_notices`}
	dueGrouped  = &query{`SELECT agent, channel, account, chat, thread, cause, counted, last_id, last, rounds
		FROM dead_notices WHERE due_at <= ? OR due_at > ? ORDER BY due_at LIMIT ? + 0`}
	tellGrouped = &query{`UPDATE dead_notices SET counted = 0, shown = ?, rounds = rounds + 1, due_at = ?
		WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ? AND cause = ?`}
	endGrouped = &query{`DELETE FROM dead_notices WHERE agent = ? AND channel = ? AND account = ? AND chat = ?
		AND thread = ? AND cause = ?`}
)

// groupDeadTx says whether a reply is a notice of a dead letter that the chat is told of later, together with others.
func groupDeadTx(t *tx, r corebot.Result, notice *parcel) (grouped bool, err error) {
	if r.Cause == "" || notice.Notice == nil || notice.Notice.Kind != corebot.NoticeGaveUp {
		return false, nil
	}
	k, cause := notice.Key, runes.Head(r.Cause, maxCause)
	place := []any{k.Agent, k.Channel, k.Account, k.Chat, k.Thread}
	shown, counted, causes := 0, 0, 0
	known, err := t.one(selectGrouped, []any{&shown, &counted}, append(place, cause)...)
	if err == nil && !known {
		_, err = t.one(countGrouped, []any{&causes}, place...)
		if causes >= maxCauses {
			cause = ""
			known, err = t.one(selectGrouped, []any{&shown, &counted}, append(place, cause)...)
		}
	}
	place = append(place, cause)
	switch {
	case err != nil:
		return false, err
	case !known:
		t.grouped = true
		_, err = t.exec(putGrouped, append(place, t.now.Add(firstWindow))...)
	case shown < loneNotices:
		_, err = t.exec(showGrouped, place...)
	default:
		grouped = true
		_, err = t.exec(addGrouped, append([]any{notice.ID, notice.InReplyTo}, place...)...)
	}
	return grouped, err
}

// RunNotices tells chats of several dead letters at once, until ctx ends. notice words what a chat is told.
func (l *DeadLetters) RunNotices(ctx context.Context, notice func(corebot.DeadNotice) corebot.Message) error {
	for ctx.Err() == nil {
		wait, err := l.tellGroups(ctx, notice)
		if err != nil {
			wait = firstWindow
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, corebot.ErrClosed) {
			l.db.log.Warn().Err(err).Msg("chats are told of their dead letters later")
		}
		select {
		case <-l.db.grouped:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return nil
}

// tellGroups tells the chats whose windows have ended, and says how long the next window lasts.
func (l *DeadLetters) tellGroups(ctx context.Context, notice func(corebot.DeadNotice) corebot.Message) (time.Duration,
	error,
) {
	err := l.db.write(ctx, "dead.notices", func(t *tx) error { return tellGroupsTx(t, notice) })
	if err != nil {
		return 0, err
	}
	var next time.Time
	if _, err := l.db.reader.one(ctx, nextGrouped, []any{moment{&next}}); err != nil || next.IsZero() {
		return noReplay, err
	}
	return min(max(next.Sub(l.db.clock.now()), time.Millisecond), lastWindow), nil
}

// tellGroupsTx ends windows. A time that is further ahead than any window is of a clock that was set back since.
func tellGroupsTx(t *tx, notice func(corebot.DeadNotice) corebot.Message) error {
	type group struct {
		corebot.DeadNotice
		rounds int
	}
	var due []group
	err := t.each(dueGrouped, func(s scanner) error {
		var g group
		k := &g.Key
		err := s.Scan(&k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &g.Cause, &g.Count, &g.RunID, &g.Last,
			&g.rounds)
		due = append(due, g)
		return err
	}, t.now, t.now.Add(lastWindow), toldAtOnce)
	for _, g := range due {
		k := g.Key
		place := []any{k.Agent, k.Channel, k.Account, k.Chat, k.Thread, g.Cause}
		switch {
		case err != nil:
			return err
		case g.Count == 0:
			_, err = t.exec(endGrouped, place...)
			continue
		}
		told := pack([]corebot.Message{notice(g.DeadNotice)})
		if err = noticeTx(t, &told[0], 0); err == nil {
			window := min(firstWindow<<min(g.rounds+1, 10), lastWindow)
			_, err = t.exec(tellGrouped, append([]any{loneNotices, t.now.Add(window)}, place...)...)
		}
	}
	return err
}
