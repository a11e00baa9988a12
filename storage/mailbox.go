package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage/engine"
)

// Mailbox stores replies that clients fetch: a durable list for each conversation, read by cursor.
type Mailbox struct{ db *DB }

// NewMailbox is the mailbox of a database.
func NewMailbox(db *DB) *Mailbox { return &Mailbox{db} }

// MailClients are the clients that fetch their messages from the mailbox. The store asks and tells them in the writer,
// which waits for the answer.
type MailClients interface {
	// Pulled says whether the clients of a conversation fetch what is sent to them. The store puts a message to such a
	// conversation into the mailbox in the commit that causes the message. The message waits in no lane, and nobody
	// claims it. A message never overtakes an earlier one that still waits in the lane: the later one waits behind it.
	Pulled(k corebot.Key) bool
	// Posted is called after the commit that put a message into the mailbox of a pulled conversation was synced.
	Posted(k corebot.Key)
}

// MailFor sets the clients of the mailbox. Without clients, every outbound message waits in a lane.
func (db *DB) MailFor(clients MailClients) { db.clients.Store(&clients) }

// clientsNow are the clients of the mailbox; nil: there are none.
func (db *DB) clientsNow() MailClients {
	if c := db.clients.Load(); c != nil {
		return *c
	}
	return nil
}

// The life of a message that is in the mailbox with its publish: no claim, no attempt, and an end.
var insertSent = &query{`INSERT INTO message_life
		(id, lane_id, message_id, kind, checksum, sender, cause_id, published_at, "end", ended_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, '` + string(corebot.EndSent) + `', ?) ON CONFLICT (message_id, lane_id) DO NOTHING`}

// usePlace uses up a lane's next place for a message that never waits there.
var usePlace = &query{`UPDATE lanes SET next_seq = next_seq + 1 WHERE id = ?`}

// pulledTx says whether a message goes into the mailbox at once. If earlier messages wait in the lane, as after an
// upgrade or a change of the settings, the message waits behind them.
func pulledTx(t *tx, p *parcel, l lane) bool {
	return p.Direction == corebot.Outbound && l.depth == 0 && t.clients != nil && t.clients.Pulled(p.Key)
}

// beginSentTx is [beginLifeTx] for a message that goes into the mailbox.
func beginSentTx(t *tx, p *parcel, l lane) (int64, error) {
	return insertLifeTx(t, p, l, insertSent, t.now)
}

// deliverTx puts a message into the mailbox of its conversation, in the commit that publishes the message.
func deliverTx(t *tx, p *parcel, l lane) error {
	if err := mailTx(t, p.Message); err != nil {
		return err
	}
	_, err := t.exec(usePlace, l.id)
	t.posted = append(t.posted, p.Key)
	return err
}

// mailTx appends a message to its conversation's list, unless the list has it.
func mailTx(t *tx, m corebot.Message) error {
	text, parts, err := encodeParts(m.Parts)
	if err != nil {
		return err
	}
	notice, err := encode(m.Notice)
	if err != nil {
		return err
	}
	chat, err := chatTx(t, m.Key)
	if err != nil {
		return err
	}
	_, err = t.exec(insertMail, chat.ID, m.ID, m.InReplyTo, string(m.Kind), text, parts, notice, t.now)
	return err
}

// mailColumns are the columns that scanMail reads, of the mailbox as m.
const mailColumns = `m.cursor, m.message_id, m.in_reply_to, m.kind, m.content, m.parts, m.notice, m.created_at`

func scanMail(s scanner) (p corebot.Posted, err error) {
	var content corebot.Content
	var parts, notice string
	if err := s.Scan(&p.Cursor, &p.ID, &p.InReplyTo, (*string)(&p.Kind), &content.Text, &parts, &notice,
		moment{&p.CreatedAt}); err != nil {
		return p, err
	}
	if parts != "" {
		err = json.Unmarshal([]byte(parts), &content.Parts)
	}
	if err == nil && notice != "" {
		err = json.Unmarshal([]byte(notice), &p.Notice)
	}
	if err != nil {
		return p, fmt.Errorf("the stored reply %s is damaged: %w", p.ID, err)
	}
	p.Parts = content.All()
	return p, nil
}

var (
	insertMail = &query{`INSERT INTO mailbox
		(chat_id, message_id, in_reply_to, kind, content, parts, notice, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (chat_id, message_id) DO NOTHING`}
	selectMail = &query{`SELECT ` + mailColumns + `
		FROM chats c JOIN mailbox m ON m.chat_id = c.id AND m.cursor > ?
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ? ORDER BY m.cursor
		LIMIT ? + 0`}
	lastMail = &query{`SELECT COALESCE((SELECT m.cursor FROM chats c JOIN mailbox m ON m.chat_id = c.id
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?
		ORDER BY m.cursor DESC LIMIT 1), 0)`}
)

// Post appends a message to its conversation's list. Posting it again changes nothing.
func (m *Mailbox) Post(ctx context.Context, msg corebot.Message) error {
	return m.db.write(ctx, "post", func(t *tx) error { return mailTx(t, msg) })
}

// After lists the messages of a conversation behind a cursor, oldest first, at most limit.
func (m *Mailbox) After(ctx context.Context, k corebot.Key, cursor int64, limit int) ([]corebot.Posted, error) {
	return m.posted(ctx, selectMail, cursor, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, limit)
}

func (m *Mailbox) posted(ctx context.Context, q *query, args ...any) (out []corebot.Posted, err error) {
	err = m.db.reader.each(ctx, q, func(s scanner) error {
		p, err := scanMail(s)
		out = append(out, p)
		return err
	}, args...)
	return out, err
}

// Last is the cursor of a conversation's newest message; 0: there is none.
func (m *Mailbox) Last(ctx context.Context, k corebot.Key) (cursor int64, err error) {
	_, err = m.db.reader.one(ctx, lastMail, []any{&cursor}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return cursor, err
}

// takePlace uses up a lane's next place for something that waits in no queue. The place has no life and counts as
// swept.
var takePlace = &query{`UPDATE lanes SET next_seq = next_seq + 1, swept = swept + 1 WHERE id = ?`}

// errSendOutside: the id of a sent message contains the life of its turn, so only a turn can send.
var errSendOutside = errors.New("a message can be sent by a turn only")

// sendTx handles [corebot.SendMessage]. It enqueues the message under an id that is the same in every attempt. It also
// enters the message into the history of the target conversation. There the message has a place of its own, behind the
// turns that have begun or wait. In the turn's own conversation, the turn's history already has the message as the call
// that sent it. A conversation without room is [*corebot.Refused]. So is an unknown conversation, if the effect wants a
// known one.
func (db *DB) sendTx(t *tx, asks *asking, p corebot.SendMessage) error {
	d := asks.turn
	if d.Life == 0 {
		return &corebot.Refused{Err: fmt.Errorf("%w: %w", corebot.ErrInvalid, errSendOutside)}
	}
	own := p.To == d.Message.Key
	if p.Known && !own {
		if err := knownTx(t, p.To); err != nil {
			return err
		}
	}
	m := corebot.Message{
		ID: d.PostID(asks.position), Direction: corebot.Outbound, Key: p.To, Kind: corebot.KindReply,
		Parts: corebot.TextPart(p.Text),
	}
	packed := pack([]corebot.Message{m})
	packed[0].cause = d.Life
	r, err := publishTx(t, &packed[0], db.limits)
	switch {
	case err != nil:
		return err
	case noRoom(r.Err):
		return &corebot.Refused{Err: fmt.Errorf("send to chat %q: %w", p.To.Chat, r.Err)}
	case r.Err != nil:
		return r.Err
	case own || r.Duplicate:
		return nil
	}
	return sayTx(t, p.To, m, "", false)
}

// knownTx refuses a conversation that has neither a chat row nor a waiting message.
func knownTx(t *tx, k corebot.Key) error {
	var chat int64
	known, err := t.one(chatNumber, []any{&chat}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err != nil || known {
		return err
	}
	lane, err := findLaneTx(t, corebot.Inbound, k)
	if err == nil && lane.id == 0 {
		err = &corebot.Refused{Err: fmt.Errorf("chat %q on %s: %w: nobody has written there yet", k.Chat, k.Channel,
			corebot.ErrNotFound)}
	}
	return err
}

// sayTx enters a message into the history of its conversation. outside says that others than the operator and those who
// speak there can have written it.
func sayTx(t *tx, k corebot.Key, m corebot.Message, by string, outside bool) error {
	chat, err := chatTx(t, k)
	if err != nil {
		return err
	}
	lane, err := findLaneTx(t, corebot.Inbound, k)
	if err != nil {
		return err
	}
	if err := makeLaneTx(t, corebot.Inbound, k, &lane); err != nil {
		return err
	}
	if _, err := t.exec(takePlace, lane.id); err != nil {
		return err
	}
	if err := usedTx(t, chat); err != nil {
		return err
	}
	if nothing, err := keepsNothingTx(t, k); err != nil || nothing {
		return err
	}
	text, parts, err := encodeParts(m.Parts)
	if err != nil {
		return err
	}
	t.said = true
	_, err = t.exec(appendHistory, chat.ID, chat.Session, lane.nextSeq, 0, string(corebot.SpeakerAssistant), by, "",
		text, parts, "", "", "", outside, m.ID, t.now)
	return err
}

// errStillAsked refuses a second question to an agent that has not ended the first. So no turn floods another agent,
// and the conversation of two agents goes by turns.
var errStillAsked = errors.New("the agent still works on what it was asked from this chat")

// stillAsked is errStillAsked, of an agent.
func stillAsked(agent string) error {
	return corebot.WithHint(fmt.Errorf("ask the agent %q: %w", agent, errStillAsked), "its answer comes into this chat")
}

// askAgentTx handles [corebot.AskAgent]. The question waits in the other agent's lane like any message of the
// principal, under an id that is the same in every attempt. Agents that have asked often enough in a row, a
// conversation in which a question waits, and one without room, are [*corebot.Refused].
func (db *DB) askAgentTx(t *tx, asks *asking, e corebot.AskAgent) error {
	d := asks.turn
	if d.Life == 0 {
		return &corebot.Refused{Err: fmt.Errorf("%w: %w", corebot.ErrInvalid, errSendOutside)}
	}
	m, err := d.Question(asks.position, e.Asks, e.Agent, e.Text)
	if err != nil {
		return &corebot.Refused{Err: err}
	}
	lane, err := findLaneTx(t, corebot.Inbound, m.Key)
	if err != nil {
		return err
	}
	if lane.depth > 0 {
		return &corebot.Refused{Err: stillAsked(e.Agent)}
	}
	packed := pack([]corebot.Message{m})
	packed[0].cause = d.Life
	r, err := publishTx(t, &packed[0], db.limits)
	if err == nil && noRoom(r.Err) {
		return &corebot.Refused{Err: fmt.Errorf("ask the agent %q: %w", e.Agent, r.Err)}
	}
	if err != nil {
		return err
	}
	return r.Err
}

// Drafts stores which messages of platforms show answers that grow.
type Drafts struct{ db *DB }

// NewDrafts is the drafts of a database.
func NewDrafts(db *DB) *Drafts { return &Drafts{db} }

var (
	allDrafts = &query{`SELECT agent, channel, account, chat, thread, answers, shown, reply, began FROM drafts`}
	putDraft  = &query{`INSERT INTO drafts (agent, channel, account, chat, thread, answers, shown, reply, began)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent, channel, account, chat, thread) DO UPDATE SET
		answers = excluded.answers, shown = excluded.shown, reply = excluded.reply, began = excluded.began`}
	draftWaits = &query{`SELECT COALESCE(SUM(depth), 0) FROM lanes WHERE direction IN (1, 2)
		AND agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`}
	dropDraft = &query{`DELETE FROM drafts WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`}
)

// All gives every draft: those of turns that run, and those that a crash has left.
func (d *Drafts) All(ctx context.Context) (all []corebot.Draft, err error) {
	err = d.db.reader.each(ctx, allDrafts, func(s scanner) error {
		var f corebot.Draft
		err := s.Scan(&f.Key.Agent, &f.Key.Channel, &f.Key.Account, &f.Key.Chat, &f.Key.Thread, &f.Answers, &f.Shown,
			&f.Reply, moment{&f.Began})
		all = append(all, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the drafts: %w", err)
	}
	return all, nil
}

// Put stores the draft of a conversation, in the place of an earlier one.
func (d *Drafts) Put(ctx context.Context, f corebot.Draft) error {
	return d.db.write(ctx, "draft.put", func(t *tx) error {
		_, err := t.exec(putDraft, append(keyArgs(f.Key), f.Answers, f.Shown, f.Reply, engine.Millis(f.Began))...)
		return err
	})
}

// Idle says whether no message of a conversation waits or is at work, in either direction.
func (d *Drafts) Idle(ctx context.Context, k corebot.Key) (bool, error) {
	var waiting int64
	_, err := d.db.reader.one(ctx, draftWaits, []any{&waiting}, keyArgs(k)...)
	if err != nil {
		return false, fmt.Errorf("look whether %s is idle: %w", k, err)
	}
	return waiting == 0, nil
}

// Drop forgets the draft of a conversation.
func (d *Drafts) Drop(ctx context.Context, k corebot.Key) error {
	return d.db.write(ctx, "draft.drop", func(t *tx) error {
		_, err := t.exec(dropDraft, keyArgs(k)...)
		return err
	})
}
