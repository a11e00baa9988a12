package storage

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/corebot/corebot"
)

var (
	chosen = &query{
		`SELECT CASE model_session WHEN session THEN model ELSE '' END,
			CASE think_session WHEN session THEN think ELSE '' END, skills
			FROM chats WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`,
	}
	// The settings of a turn's chat, and the summary of its session.
	recalled = &query{
		`SELECT c.id, c.session, CASE c.model_session WHEN c.session THEN c.model ELSE '' END,
			CASE c.think_session WHEN c.session THEN c.think ELSE '' END, c.skills,
			COALESCE(s.session, 0), COALESCE(s.through, 0), COALESCE(s.text, ''), COALESCE(s.model, ''),
			COALESCE(s.at, 0), COALESCE(s.sender, ''), COALESCE(s.others, 0), COALESCE(s.outside, 0),
			COALESCE(s.began_at, 0), COALESCE(s.ended_at, 0)
			FROM chats c LEFT JOIN summaries s ON s.chat_id = c.id AND s.session = c.session
			WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?`,
	}
	historyPage = &query{`SELECT ` + historyColumns + ` FROM history h WHERE h.chat_id = ? AND h.session = ?
		AND h.rewound = 0 AND h.seq > ? AND (h.seq, h.ordinal) < (?, ?)
		ORDER BY h.seq DESC, h.ordinal DESC LIMIT ? + 0`}
)

// pageRows is how many entries are read at once. Most prompts take no more. A page with the largest tool results fits
// into a few megabytes.
const pageRows = 50

// Recall returns what a turn finds of its chat, with at most so many undelivered replies. It also returns the session's
// entries behind the summary, newest first. The first page of entries belongs to the same moment as the rest. Further
// pages are read on demand, and nothing is held between them. So the caller can range slowly and stop at any entry. An
// error ends the entries.
func (h *History) Recall(ctx context.Context, d corebot.Delivery,
	undelivered int,
) (r corebot.Recollection, entries iter.Seq2[corebot.HistoryEntry, error], err error) {
	k := d.Message.Key
	session := openSession{key: k}
	var newest historyRows
	err = h.db.reader.view(ctx, func(c *prepared) (err error) {
		if err := c.each(recalled, session.into(&r), keyArgs(k)...); err != nil {
			return err
		}
		if acts := k.Acts(); acts != k {
			if err := choices(c, acts, &r); err != nil {
				return err
			}
		}
		if session.chat != 0 { // an unknown chat has no history
			if newest, err = session.before(c, place{seq: math.MaxInt64}); err != nil {
				return err
			}
		}
		r.Undelivered, err = undeliveredOf(c, d, undelivered)
		return err
	})
	return r, h.from(ctx, session, newest), err
}

// choices reads what was chosen in another conversation than the one that is recalled.
func choices(c *prepared, k corebot.Key, r *corebot.Recollection) error {
	r.Model, r.Think, r.Skills = "", "", nil
	return c.each(chosen, func(row scanner) error {
		skills := ""
		err := row.Scan(&r.Model, (*string)(&r.Think), &skills)
		r.Skills = corebot.ParseSkillChoices(skills)
		return err
	}, keyArgs(k)...)
}

// openSession is the session that is in play in a chat, behind its summary.
type openSession struct {
	key           corebot.Key
	chat, session int64
	after         int64 // the last place that the summary covers
}

// into reads the row of the chat.
func (o *openSession) into(r *corebot.Recollection) func(scanner) error {
	return func(row scanner) error {
		var skills string
		sum := &r.Summary
		err := row.Scan(&o.chat, &o.session, &r.Model, (*string)(&r.Think), &skills, &sum.Session, &sum.Through,
			&sum.Text, &sum.Model, moment{&sum.At}, &sum.Sender.ID, &sum.Others, &sum.Outside, moment{&sum.From},
			moment{&sum.To})
		r.Skills, o.after = corebot.ParseSkillChoices(skills), sum.Through
		named(sum, o.key)
		return err
	}
}

// from returns the entries of a page and of the pages that follow.
func (h *History) from(ctx context.Context, session openSession,
	page historyRows,
) iter.Seq2[corebot.HistoryEntry, error] {
	return func(yield func(corebot.HistoryEntry, error) bool) {
		for {
			for _, e := range page.entries {
				if !yield(e, nil) {
					return
				}
			}
			if len(page.entries) < pageRows {
				return
			}
			err := h.db.reader.use(ctx, func(c *prepared) (err error) {
				page, err = session.before(c, page.last)
				return err
			})
			if err != nil {
				yield(corebot.HistoryEntry{}, err)
				return
			}
		}
	}
}

// historyRows are entries, newest first.
type historyRows struct {
	entries []corebot.HistoryEntry
	last    place // the place of the oldest of the entries
}

// before reads the newest entries before a place in the history.
func (o *openSession) before(c *prepared, last place) (rows historyRows, err error) {
	scan := newEntryScan(o.key)
	err = c.each(historyPage, func(s scanner) error {
		e, ordinal, err := scan.row(s)
		if rows.entries == nil {
			rows.entries = make([]corebot.HistoryEntry, 0, 8)
		}
		rows.entries, rows.last = append(rows.entries, e), place{e.Session, e.Seq, ordinal}
		return err
	}, o.chat, o.session, o.after, last.seq, last.ordinal, pageRows)
	return rows, err
}

// Sessions makes a new chat of a session, and takes the newest exchanges out of a session. Every change leaves an audit
// event in its own commit.
type Sessions struct {
	db *DB
	by corebot.AuditEvent
}

// NewSessions returns the sessions of a database, for changes by the operator.
func NewSessions(db *DB) *Sessions { return &Sessions{db, byOperator()} }

// As returns the sessions for changes by somebody else, as [DeadLetters.As] does.
func (s *Sessions) As(by corebot.AuditEvent) *Sessions { return &Sessions{s.db, by} }

// Bounds of what one fork copies. Older entries stay in the old chat.
const (
	forkEntries = 2_000
	forkBytes   = 8 << 20
)

var (
	forkOf   = &query{`SELECT origin, life, entries, older FROM forks WHERE chat_id = ?`}
	forksOf  = &query{`SELECT COUNT(*) FROM forks WHERE origin = ?`}
	forkKeys = &query{`SELECT c.agent, c.channel, c.account, c.chat, c.thread FROM forks f
		JOIN chats c ON c.id = f.chat_id WHERE f.origin = ? ORDER BY c.id`}
	insertFork = &query{`INSERT INTO forks (chat_id, origin, life, entries, older) VALUES (?, ?, ?, ?, ?)`}
	placeSaid  = &query{`SELECT COALESCE(MAX(seq), 0) FROM history WHERE chat_id = ? AND session = ? AND message_id = ?
		AND rewound = 0`}
	sizesOfSession = &query{`SELECT seq, COUNT(*), SUM(OCTET_LENGTH(text) + OCTET_LENGTH(parts)
		+ OCTET_LENGTH(metadata) + OCTET_LENGTH(calls))
		FROM history WHERE chat_id = ? AND session = ? AND seq > ? AND seq <= ? AND rewound = 0
		GROUP BY seq ORDER BY seq DESC`}
	copyHistory = &query{`INSERT INTO history (chat_id, session, seq, ordinal, speaker, sender, name, text, parts,
		metadata, calls, call_id, outside, message_id, at, linked)
		SELECT ?, 1, seq, ordinal, speaker, sender, name, text, parts, metadata, calls, call_id, outside, message_id,
		at, linked FROM history WHERE chat_id = ? AND session = ? AND seq >= ? AND seq <= ? AND rewound = 0
		ORDER BY seq, ordinal`}
	copySummary = &query{`INSERT INTO summaries (chat_id, session, through, text, model, at, sender, others, outside,
		began_at, ended_at)
		SELECT ?, 1, through, text, model, at, sender, others, outside, began_at, ended_at
		FROM summaries WHERE chat_id = ? AND session = ?`}
	summaryReach = &query{`SELECT through FROM summaries WHERE chat_id = ? AND session = ?`}
)

// Fork makes a new chat with the history of a chat's session: its summary and the entries behind it. They keep their
// senders, names, times and marks of untrusted text. With a message id the history ends with the exchange of that
// message. The new chat has nothing else of the old one: no role, no approval that lasts, no memory page, no fact, no
// task, no setting.
//
// The same command again gets the fork that it has made. A name that is taken, and more than [corebot.MaxForks] forks
// of one chat, are [corebot.ErrInvalid]. So is a last message that one copy does not take with its
// answer. An unknown chat or message is [corebot.ErrNotFound].
func (s *Sessions) Fork(ctx context.Context, f corebot.Fork) (done corebot.Forked, err error) {
	if err := f.Validate(); err != nil {
		return done, err
	}
	err = s.db.write(ctx, "fork", func(t *tx) error {
		done, err = s.forkTx(t, f)
		return err
	})
	return done, err
}

// ForkFor is Fork for a command: by says who gave it.
func (s *Sessions) ForkFor(ctx context.Context, by corebot.AuditEvent, f corebot.Fork) (corebot.Forked, error) {
	return s.As(by).Fork(ctx, f)
}

// RewindFor is Rewind for a command: by says who gave it.
func (s *Sessions) RewindFor(ctx context.Context, by corebot.AuditEvent, k corebot.Key, n int,
	life int64,
) (corebot.Rewound, error) {
	return s.As(by).Rewind(ctx, k, n, life)
}

// Forks are the chats that were forked from a chat, and from its forks.
func (s *Sessions) Forks(ctx context.Context, k corebot.Key) (all []corebot.Key, err error) {
	err = s.db.reader.each(ctx, forkKeys, func(row scanner) error {
		var f corebot.Key
		err := row.Scan(&f.Agent, &f.Channel, &f.Account, &f.Chat, &f.Thread)
		all = append(all, f)
		return err
	}, k.String())
	return all, err
}

func (s *Sessions) forkTx(t *tx, f corebot.Fork) (done corebot.Forked, err error) {
	from, err := knownChatTx(t, f.From)
	if err != nil {
		return done, err
	}
	done, again, err := takenTx(t, f)
	if err != nil || again {
		return done, err
	}
	origin, err := originTx(t, from)
	if err != nil {
		return done, err
	}
	if err := copiesTx(t, f.From, f.To); err != nil {
		return done, err
	}
	after, first, through, err := extentTx(t, from, f.At, &done)
	if err != nil {
		return done, err
	}
	to, err := chatTx(t, f.To)
	if err != nil {
		return done, err
	}
	done.Key = f.To
	if done.Entries, err = t.exec(copyHistory, to.ID, from.ID, from.Session, first, through); err != nil {
		return done, err
	}
	if after > 0 {
		if _, err := t.exec(copySummary, to.ID, from.ID, from.Session); err != nil {
			return done, err
		}
	}
	if err := carryForgottenTx(t, from, to, 0); err != nil {
		return done, err
	}
	if _, err := t.exec(insertFork, to.ID, origin, f.Life, done.Entries, done.Older); err != nil {
		return done, err
	}
	t.said = true
	return done, changeTx(t, s.by, "chat.fork", f.From, map[string]any{
		"chat": f.From.String(), "to": f.To.String(), "at": f.At, "entries": done.Entries,
	})
}

// takenTx looks whether the new chat is there already: again, if the same command has made it.
func takenTx(t *tx, f corebot.Fork) (done corebot.Forked, again bool, err error) {
	chat := corebot.Chat{Key: f.To}
	known, err := t.one(selectChat, chatColumns(&chat), keyArgs(f.To)...)
	if err != nil {
		return done, false, err
	}
	if known && f.Life != 0 {
		origin, life := "", int64(0)
		done.Key = f.To
		if _, err := t.one(forkOf, []any{&origin, &life, &done.Entries, &done.Older}, chat.ID); err != nil {
			return done, false, err
		}
		if life == f.Life {
			return done, true, nil
		}
	}
	for _, d := range []corebot.Direction{corebot.Inbound, corebot.Outbound} {
		lane, err := findLaneTx(t, d, f.To)
		if err != nil {
			return done, false, err
		}
		known = known || lane.id != 0
	}
	if known {
		return done, false, corebot.WithHint(fmt.Errorf("%w: there is a chat %s already", corebot.ErrInvalid, f.To),
			"give the new chat another name")
	}
	return done, false, nil
}

// originTx is the chat with which the forks began, if it can have one more.
func originTx(t *tx, from corebot.Chat) (origin string, err error) {
	var life, entries, older, forks int64
	if _, err := t.one(forkOf, []any{&origin, &life, &entries, &older}, from.ID); err != nil {
		return "", err
	}
	if origin == "" {
		origin = from.Key.String()
	}
	if _, err := t.one(forksOf, []any{&forks}, origin); err != nil {
		return "", err
	}
	if forks >= corebot.MaxForks {
		return "", corebot.WithHint(fmt.Errorf("%w: %s has %d forks, and can have no more", corebot.ErrInvalid, origin,
			forks), "`corebot chats delete KEY` deletes one")
	}
	return origin, nil
}

// extentTx finds what a fork copies: the summary if after is not 0, and the entries from first to through.
func extentTx(t *tx, from corebot.Chat, at string, done *corebot.Forked) (after, first, through int64, err error) {
	if through = math.MaxInt64; at != "" {
		if _, err := t.one(placeSaid, []any{&through}, from.ID, from.Session, at); err != nil {
			return 0, 0, 0, err
		}
		if through == 0 {
			return 0, 0, 0, fmt.Errorf("message %q in the session of %s: %w", at, from.Key, corebot.ErrNotFound)
		}
	}
	if _, err := t.one(summaryReach, []any{&after}, from.ID, from.Session); err != nil {
		return 0, 0, 0, err
	}
	if after > through { // it says what came after the message
		after = 0
	}
	var linked int64 // a summary of words that came by a link would stay where they are deleted
	if _, err := t.one(linkedBefore, []any{&linked}, from.ID, from.Session, after); err != nil {
		return 0, 0, 0, err
	}
	if linked > 0 {
		after = 0
	}
	if first, _, err = newestTx(t, from, after, through, done); err == nil && first == math.MaxInt64 && after == 0 {
		err = corebot.WithHint(fmt.Errorf("%w: nothing was said in the session of %s", corebot.ErrInvalid, from.Key),
			"a fork has the history of its chat")
	}
	return after, first, through, err
}

// newestTx finds where the newest entries of a session begin that one copy can have; [math.MaxInt64]: there are none.
// A turn is copied whole or not at all. If the newest one is too large, the error is [corebot.ErrInvalid].
func newestTx(t *tx, from corebot.Chat, after, through int64, done *corebot.Forked) (first, entries int64, err error) {
	first = math.MaxInt64
	var bytes int64
	var large error
	err = t.each(sizesOfSession, func(row scanner) error {
		var seq, n, size int64
		if err := row.Scan(&seq, &n, &size); err != nil {
			return err
		}
		if entries, bytes = entries+n, bytes+size; entries > forkEntries || bytes > forkBytes {
			if done.Older += n; first == math.MaxInt64 && large == nil {
				large = tooLarge(n, size)
			}
			return nil
		}
		first = seq
		return nil
	}, from.ID, from.Session, after, through)
	return first, entries, cmp.Or(err, large)
}

// tooLarge says that a message and its answer are more than one copy takes.
func tooLarge(entries, bytes int64) error {
	what := fmt.Sprintf("%d entries, and a copy takes at most %d", entries, forkEntries)
	if bytes > forkBytes {
		tenths := (bytes*10 + 1<<20 - 1) >> 20 // rounded up, so it is more than what a copy takes
		what = fmt.Sprintf("%d.%d MiB, and a copy takes at most %d MiB", tenths/10, tenths%10, forkBytes>>20)
	}
	return corebot.WithHint(fmt.Errorf("%w: the last message and its answer have %s", corebot.ErrInvalid, what),
		"end the copy with an earlier message, or take this one back with /rewind")
}

var (
	// A turn in which somebody spoke and got an answer. The newest come first.
	exchanges = &query{`SELECT seq FROM history WHERE chat_id = ? AND session = ? AND rewound = 0
		GROUP BY seq HAVING SUM(speaker = '` + string(corebot.SpeakerUser) + `') > 0
		AND SUM(speaker <> '` + string(corebot.SpeakerUser) + `') > 0 ORDER BY seq DESC LIMIT ? + 0`}
	// How many entries and turns a command has rewound.
	rewoundBy = &query{`SELECT COALESCE(SUM(n), 0), COALESCE(SUM(asked > 0 AND asked < n), 0) FROM (
		SELECT COUNT(*) AS n, SUM(speaker = '` + string(corebot.SpeakerUser) + `') AS asked
		FROM history WHERE chat_id = ? AND session = ? AND rewound = ? GROUP BY seq)`}
	// Facts of what people say in entries from a place on: 0, or a command that has rewound them.
	factsSaid = &query{`SELECT COUNT(*) FROM facts WHERE chat_id = ?1 AND superseded_by = 0
		AND (message_id, sender) IN (SELECT message_id, sender FROM history WHERE chat_id = ?1 AND session = ?2
		AND seq >= ?3 AND rewound = ?4 AND speaker = '` + string(corebot.SpeakerUser) + `')`}
	rewindFrom = &query{`UPDATE history SET rewound = ? WHERE chat_id = ? AND session = ? AND seq >= ? AND rewound = 0`}
	// A summary that has words of a rewound exchange goes. The entries that it covered are all kept.
	dropSummaryFrom = &query{`DELETE FROM summaries WHERE chat_id = ? AND session = ? AND through >= ?`}
)

// rewoundByOperator marks entries that no command has rewound.
const rewoundByOperator = -1

// Rewind takes the newest exchanges out of a chat's session: what somebody said, and the answer. The model is not shown
// them any more. They stay stored. All entries after the first of them go along. A summary that covers one of them
// is dropped, and the entries before it are shown again.
//
// life is the command that asks for it, in its place of the lane; the same command again changes nothing. The operator
// has 0, and is refused with [corebot.ErrInvalid] while something waits or runs in the chat. An unknown chat is
// [corebot.ErrNotFound].
func (s *Sessions) Rewind(ctx context.Context, k corebot.Key, n int, life int64) (done corebot.Rewound, err error) {
	if n < 1 || n > corebot.MaxRewound {
		return done, fmt.Errorf("%w: %d exchanges cannot be rewound: want 1 to %d", corebot.ErrInvalid, n,
			corebot.MaxRewound)
	}
	err = s.db.write(ctx, "rewind", func(t *tx) error {
		done, err = s.rewindTx(t, k, n, life)
		return err
	})
	return done, err
}

func (s *Sessions) rewindTx(t *tx, k corebot.Key, n int, life int64) (done corebot.Rewound, err error) {
	chat, err := knownChatTx(t, k)
	if err != nil {
		return done, err
	}
	mark := life
	if life == 0 {
		mark = rewoundByOperator
		lane, err := findLaneTx(t, corebot.Inbound, k)
		if err != nil {
			return done, err
		}
		if lane.depth > 0 { // a turn that has begun has read the exchanges, and can be making a summary of them
			return done, corebot.WithHint(fmt.Errorf("%w: %s cannot be rewound now: %d messages wait or run there",
				corebot.ErrInvalid, k, lane.depth), "wait until they are answered, or write /rewind in the chat")
		}
	} else if _, err := t.one(rewoundBy, []any{&done.Entries, &done.Exchanges}, chat.ID, chat.Session,
		life); err != nil || done.Entries > 0 {
		if err == nil {
			_, err = t.one(factsSaid, []any{&done.Facts}, chat.ID, chat.Session, 0, life)
		}
		return done, err
	}
	cut := int64(0)
	if err := t.each(exchanges, func(row scanner) error {
		done.Exchanges++
		return row.Scan(&cut)
	}, chat.ID, chat.Session, n); err != nil || cut == 0 {
		return done, err
	}
	if _, err := t.one(factsSaid, []any{&done.Facts}, chat.ID, chat.Session, cut, 0); err != nil {
		return done, err
	}
	if done.Entries, err = t.exec(rewindFrom, mark, chat.ID, chat.Session, cut); err != nil {
		return done, err
	}
	if _, err = t.exec(dropSummaryFrom, chat.ID, chat.Session, cut); err != nil {
		return done, err
	}
	return done, changeTx(t, s.by, "chat.rewind", k, map[string]any{
		"chat": k.String(), "exchanges": done.Exchanges, "entries": done.Entries,
	})
}
