package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
)

// History reads the history entries of a chat.
type History struct{ db *DB }

// NewHistory is the history of a database.
func NewHistory(db *DB) *History { return &History{db} }

var (
	appendHistory = &query{`INSERT INTO history (chat_id, session, seq, ordinal, speaker, sender, name, text, parts,
		metadata, calls, call_id, outside, message_id, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	recentHistory = &query{inSession + `AND h.rewound = 0 ORDER BY h.seq DESC, h.ordinal DESC LIMIT ?`}
	// A sender of copied entries neither speaks here nor reads.
	anotherInSession = &query{`SELECT h.sender FROM history h JOIN chats c ON c.id = h.chat_id AND h.session = c.session
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?
		AND h.speaker = '` + string(corebot.SpeakerUser) + `' AND h.sender <> ?
		AND h.linked = 0 LIMIT 1`}
)

const historyColumns = `h.session, h.seq, h.ordinal, h.speaker, h.sender, h.name, h.text, h.parts, h.metadata,
	h.calls, h.call_id, h.outside, h.message_id, h.at`

// inSession selects the entries of a chat's current session.
const inSession = `SELECT ` + historyColumns + `
	FROM history h JOIN chats c ON c.id = h.chat_id AND h.session = c.session
	WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ? `

// Recent returns the newest entries of a chat's session, oldest first, at most limit.
func (h *History) Recent(ctx context.Context, k corebot.Key, limit int) ([]corebot.HistoryEntry, error) {
	var out []corebot.HistoryEntry
	rows := newEntryScan(k)
	err := h.db.reader.each(ctx, recentHistory, func(s scanner) error {
		e, _, err := rows.row(s)
		out = append(out, e)
		return err
	}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, limit)
	slices.Reverse(out)
	return out, err
}

// Another finds a principal other than p who has spoken in the chat's current session. All senders that the channel
// could not name count as one. Turns of the chat's lane add speakers, and so do messages that the chat only hears. A
// holder of the lane's lease can miss a speaker whom the chat has heard since.
func (l *Ledger) Another(
	ctx context.Context, k corebot.Key, p corebot.Principal,
) (other corebot.Principal, found bool, err error) {
	found, err = l.db.reader.one(ctx, anotherInSession, []any{&other.ID},
		k.Agent, k.Channel, k.Account, k.Chat, k.Thread, storedSender(k, p))
	return senderIn(k, other.ID), found, err
}

// entryScan reads rows of the history of one chat. The places for the columns are allocated once for all rows.
type entryScan struct {
	key                             corebot.Key
	e                               corebot.HistoryEntry
	ordinal                         int64
	speaker, parts, metadata, calls string
	said                            corebot.Content
	into                            [14]any
}

func newEntryScan(k corebot.Key) *entryScan {
	r := &entryScan{key: k}
	e := &r.e
	r.into = [...]any{
		&e.Session, &e.Seq, &r.ordinal, &r.speaker, &e.Sender.ID, &e.Name, &r.said.Text, &r.parts, &r.metadata,
		&r.calls, &e.CallID, &e.Outside, &e.MessageID,
		moment{&e.At},
	}
	return r
}

// row reads one row.
func (r *entryScan) row(s scanner) (e corebot.HistoryEntry, ordinal int64, err error) {
	r.e, r.said.Parts = corebot.HistoryEntry{}, nil
	if err = s.Scan(r.into[:]...); err != nil {
		return r.e, r.ordinal, err
	}
	r.e.Speaker = corebot.Speaker(r.speaker)
	if r.e.Speaker == corebot.SpeakerUser || r.e.Sender.ID != "" {
		r.e.Sender = senderIn(r.key, r.e.Sender.ID)
	}
	err = decodeIf(r.parts, &r.said.Parts)
	if err == nil {
		err = decodeIf(r.metadata, &r.e.Metadata)
	}
	if err == nil {
		err = decodeIf(r.calls, &r.e.Calls)
	}
	if err != nil {
		return r.e, r.ordinal, fmt.Errorf("a stored history entry is damaged: %w", err)
	}
	r.e.Parts = r.said.All()
	return r.e, r.ordinal, nil
}

// decodeIf reads JSON, if there is any.
func decodeIf(text string, into any) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), into)
}

// entryRow is an entry encoded for the writer.
type entryRow struct {
	corebot.HistoryEntry
	text, parts, metadata, calls string
}

// encodeParts is content as two columns: its text, which is searched, and all parts if they are more than that.
func encodeParts(parts []corebot.Part) (text, all string, err error) {
	c := corebot.ContentOf(parts)
	if len(c.Parts) > 0 {
		all, err = encode(c.Parts)
	}
	return c.Text, all, err
}

func encodeHistory(entries []corebot.HistoryEntry) ([]entryRow, error) {
	rows := make([]entryRow, len(entries))
	for i, e := range entries {
		rows[i].HistoryEntry = e
		text, parts, err := encodeParts(e.Parts)
		if err != nil {
			return nil, err
		}
		rows[i].text, rows[i].parts = text, parts
		if !e.Metadata.Empty() {
			rows[i].metadata = e.Metadata.String()
		}
		if len(e.Calls) > 0 {
			calls, err := encode(e.Calls)
			if err != nil {
				return nil, err
			}
			rows[i].calls = calls
		}
	}
	return rows, nil
}

// keepsNothingTx says whether nothing that is said in a chat stays behind the turn that needs it.
func keepsNothingTx(t *tx, k corebot.Key) (bool, error) {
	keeping, err := keepingTx(t, k)
	return keeping.Nothing, err
}

// copiesTx refuses to copy a conversation to a chat that keeps nothing, or that keeps it for longer than the chat in
// which it was said.
func copiesTx(t *tx, from, to corebot.Key) error {
	theirs, err := keepingTx(t, to)
	if err != nil {
		return err
	}
	ours, err := keepingTx(t, from)
	switch longer := ours.For > 0 && (theirs.For == 0 || theirs.For > ours.For); {
	case err != nil:
		return err
	case theirs.Nothing:
		return corebot.WithHint(fmt.Errorf("%w: chat %s keeps nothing of what is said there", corebot.ErrInvalid, to),
			"`chats.store` and `chats.rules` in the settings say which chats do")
	case longer:
		return corebot.WithHint(fmt.Errorf("%w: chat %s keeps what is said there for %v, and chat %s for longer",
			corebot.ErrInvalid, from, ours.For, to), "choose a chat that a rule with this time names, too: "+
			"`chats.rules` in the settings has the rules")
	}
	return nil
}

// keepingTx is how long a chat keeps what is said in it.
func keepingTx(t *tx, k corebot.Key) (corebot.Keeping, error) {
	if !t.keeper.Distinguishes() {
		return corebot.Keeping{}, nil
	}
	origin, registered := k.Origin(), false
	if t.keeper.AsksRegistered() {
		if err := t.each(selectAdmission, func(s scanner) error {
			var here bool
			var access string
			err := s.Scan(&here, &access)
			registered = registered || here
			return err
		}, keyArgs(origin)...); err != nil {
			return corebot.Keeping{}, err
		}
	}
	return t.keeper.Of(origin, registered), nil
}

// dropJournal deletes the steps of a life.
var dropJournal = &query{`DELETE FROM execution_steps WHERE life_id = ?`}

// appendHistoryTx writes a turn's entries into the current session. If the turn begins a session, they go into the new
// one. If the turn ends the session, the session ends behind them. A chat that keeps nothing gets no entries, and loses
// the journal of a turn that is over.
func appendHistoryTx(t *tx, d corebot.Delivery, entries []entryRow, r corebot.Result) error {
	nothing, err := keepsNothingTx(t, d.Message.Key)
	if err != nil {
		return err
	}
	if nothing {
		entries = nil
		if _, err := t.exec(useChatOf, append([]any{t.now}, keyArgs(d.Message.Key)...)...); err != nil {
			return err
		}
		if r.Outcome.Verb == corebot.Done && r.Detached == 0 {
			if _, err := t.exec(dropJournal, d.Life); err != nil {
				return err
			}
		}
	}
	if len(entries) == 0 && !r.NewSession && !(nothing && r.BeginsSession) {
		return nil
	}
	chat, err := chatTx(t, d.Message.Key)
	if err != nil {
		return err
	}
	if r.BeginsSession || r.NewSession {
		if err := passSessionTx(t, d.Lane, d.Life); err != nil {
			return err
		}
	}
	if r.BeginsSession {
		if _, err := t.exec(newSession, chat.ID); err != nil {
			return err
		}
		chat.Session++
	}
	if err := usedTx(t, chat); err != nil {
		return err
	}
	t.said = true
	for i, e := range entries {
		sender := ""
		if e.Speaker == corebot.SpeakerUser {
			sender = storedSender(d.Message.Key, e.Sender)
		}
		_, err := t.exec(appendHistory, chat.ID, chat.Session, d.Seq, i, string(e.Speaker), sender, e.Name,
			e.text, e.parts, e.metadata, e.calls, e.CallID, e.Outside, d.Message.ID, e.At)
		if err != nil {
			return err
		}
	}
	if r.NewSession {
		_, err = t.exec(newSession, chat.ID)
	}
	return err
}

var (
	selectSummary = &query{`SELECT ` + summaryColumns + ` FROM summaries s
		JOIN chats c ON c.id = s.chat_id AND c.session = s.session
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?`}
	// A summary that reaches no further than the stored one changes nothing.
	putSummary = &query{`INSERT INTO summaries (chat_id, session, through, text, model, at, sender, others, outside,
		began_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (chat_id, session) DO UPDATE SET through = excluded.through,
		text = excluded.text, model = excluded.model, at = excluded.at, sender = excluded.sender,
		others = excluded.others, outside = excluded.outside, ended_at = excluded.ended_at
		WHERE excluded.through > summaries.through`}
	// Ranges of sessions and times both have to hold; a zero bounds nothing.
	summariesWithin = &query{`SELECT ` + summaryColumns + ` FROM summaries s JOIN chats c ON c.id = s.chat_id
		WHERE c.agent = ?1 AND c.channel = ?2 AND c.account = ?3 AND c.chat = ?4 AND c.thread = ?5
		AND s.session >= ?6 AND (?7 = 0 OR s.session <= ?7)
		AND CASE s.ended_at WHEN 0 THEN s.at ELSE s.ended_at END >= ?8 AND (?9 = 0 OR s.began_at <= ?9)
		ORDER BY s.session DESC LIMIT ?10 + 0`}
)

const summaryColumns = `s.session, s.through, s.text, s.model, s.at, s.sender, s.others, s.outside, s.began_at,
	s.ended_at`

// Summaries gives the summaries of a chat's sessions that a range has, the newest session first, at most limit. The
// session in play is among them.
func (h *History) Summaries(ctx context.Context, k corebot.Key, r corebot.SummaryRange, limit int,
) (out []corebot.Summary, err error) {
	args := append(keyArgs(k), r.FirstSession, r.LastSession, r.From, r.To, limit)
	err = h.db.reader.each(ctx, summariesWithin, func(row scanner) error {
		s, err := scanSummary(row, k)
		out = append(out, s)
		return err
	}, args...)
	return out, err
}

// Summary returns the summary of a chat's session; the zero Summary if there is none.
func (h *History) Summary(ctx context.Context, k corebot.Key) (s corebot.Summary, err error) {
	err = h.db.reader.each(ctx, selectSummary, func(row scanner) (err error) {
		s, err = scanSummary(row, k)
		return err
	}, keyArgs(k)...)
	return s, err
}

func scanSummary(row scanner, k corebot.Key) (s corebot.Summary, err error) {
	err = row.Scan(&s.Session, &s.Through, &s.Text, &s.Model, moment{&s.At}, &s.Sender.ID, &s.Others, &s.Outside,
		moment{&s.From}, moment{&s.To})
	named(&s, k)
	return s, err
}

// named makes a principal of the stored sender of a summary.
func named(s *corebot.Summary, k corebot.Key) {
	if s.Through > 0 && s.Sender.ID != "" {
		s.Sender = senderIn(k, s.Sender.ID)
	}
}

// Summarize stores a summary of a chat's session and the step that made it, in one commit: a crash leaves both or
// neither. The summary covers history and deletes none. If the stored summary reaches as far or further, nothing
// changes. A worker that lost its lease gets [corebot.ErrLeaseLost] and changes nothing.
func (l *Ledger) Summarize(ctx context.Context, d corebot.Delivery, step corebot.Step, s corebot.Summary) error {
	return l.step(ctx, d, step, func(t *tx) error {
		chat, err := chatTx(t, d.Message.Key)
		if err != nil {
			return err
		}
		sender := ""
		if s.Sender.ID != "" {
			sender = storedSender(d.Message.Key, s.Sender)
		}
		_, err = t.exec(putSummary, chat.ID, s.Session, s.Through, s.Text, s.Model, t.now, sender, s.Others, s.Outside,
			s.From, s.To)
		return err
	})
}

// undelivered selects replies by the times of claims. A reply counts as untold if it was dead-lettered before this
// claim and after the chat's last completed turn started. A message that the chat only heard is no turn. The run of an
// isolated task is told of no reply, and so does not count. Claims and deaths have the writer's clock, so each death
// falls between two claims. If retention has deleted the life of the last turn, the time of its history entry counts.
var undelivered = &query{`SELECT m.id, m.message_id, m.kind, m.checksum, m.reason, m.last_error, m.ended_at, m.body
	FROM lanes l CROSS JOIN message_life m INDEXED BY message_life_dead_of_lane ON m.lane_id = l.id
	WHERE m."end" = 'dead' AND m.ended_at < ?1 AND m.ended_at >= COALESCE((
		SELECT p.claimed_at FROM message_life p JOIN lanes i ON i.id = p.lane_id
		WHERE i.direction = 1 AND i.agent = ?2 AND i.channel = ?3 AND i.account = ?4 AND i.chat = ?5 AND i.thread = ?6
		AND p.message_id = (
			SELECT h.message_id FROM chats c JOIN history h ON h.chat_id = c.id
			WHERE c.agent = ?2 AND c.channel = ?3 AND c.account = ?4 AND c.chat = ?5 AND c.thread = ?6
			AND h.speaker = 'user' AND h.message_id NOT GLOB '` + corebot.IsolatedRuns + `' AND NOT EXISTS (
				SELECT 1 FROM message_life e WHERE e.message_id = h.message_id AND e.lane_id = i.id
				AND e."end" = '` + string(corebot.EndHeard) + `')
			ORDER BY h.session DESC, h.seq DESC, h.ordinal DESC LIMIT 1)), (
		SELECT h.at FROM chats c JOIN history h ON h.chat_id = c.id
		WHERE c.agent = ?2 AND c.channel = ?3 AND c.account = ?4 AND c.chat = ?5 AND c.thread = ?6
		AND h.speaker = 'user' AND h.message_id NOT GLOB '` + corebot.IsolatedRuns + `'
		ORDER BY h.session DESC, h.seq DESC, h.ordinal DESC LIMIT 1), 0)
	AND m.kind = 'reply'
	AND l.direction = 2 AND l.agent = ?2 AND l.channel = ?3 AND l.account = ?4 AND l.chat = ?5 AND l.thread = ?6
	ORDER BY m.ended_at DESC LIMIT ?7 + 0`}

// undeliveredOf returns the dead replies of a chat that no turn before this claim was told about, newest first, at most
// limit. The last turn that left history counts as told. A turn that failed does not.
func undeliveredOf(c *prepared, d corebot.Delivery, limit int) ([]corebot.Life, error) {
	k := d.Message.Key
	var out []corebot.Life
	err := c.each(undelivered, func(s scanner) error {
		life := corebot.Life{Direction: corebot.Outbound, Key: k, End: corebot.EndDead}
		var kind string
		var sum, body []byte
		err := s.Scan(&life.ID, &life.MessageID, &kind, &sum, &life.Reason, &life.LastError, moment{&life.EndedAt},
			&body)
		if err != nil {
			return err
		}
		life.Kind = corebot.Kind(kind)
		// a damaged reply is reported without its text
		if m, err := unpack(body, life.Direction, k, life.Kind, sum); err == nil {
			life.Message = &m
		}
		out = append(out, life)
		return nil
	}, d.ClaimedAt, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, limit)
	return out, err
}
