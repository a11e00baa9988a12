package storage

import (
	"context"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
)

// Forgetting deletes whole conversations: whatever any table has of them. It works in small commits, so that other
// chats go on meanwhile. A second call ends a deletion that was cut off. Messages that come meanwhile begin a new
// conversation.
type Forgetting struct {
	db *DB
	by corebot.AuditEvent
}

// NewForgetting returns what deletes conversations for the operator.
func NewForgetting(db *DB) *Forgetting { return &Forgetting{db, byOperator()} }

// forgetChunk bounds the rows that one commit deletes, and so how long other writers wait.
const forgetChunk = 200

// Chat deletes a conversation: its messages, history, summaries, facts, memory sources, tasks, roles, and all else
// that is kept of it. A chat without a thread means the chat with its threads. The conversations of its child turns
// belong to it, and so does what it asked other agents.
//
// The audit trail keeps that something happened, and loses what was said. Usage keeps its sums. The ids of the deleted
// messages are not known any more: a channel that delivers one again gets an answer.
//
// A conversation in which something waits or runs is [corebot.ErrInvalid], and nothing is deleted. An unknown one is
// [corebot.ErrNotFound]. No turn begins in the conversation until Chat returns: it would read what is half deleted, and
// write that down again. Chat calls outside, if it is not nil, for each conversation that goes before its rows do: for
// what lies outside of the database.
func (f *Forgetting) Chat(ctx context.Context, k corebot.Key,
	outside func(context.Context, corebot.Key) error,
) (all corebot.Forgotten, err error) {
	keys, resumed, err := f.meant(ctx, k)
	if err != nil {
		return all, err
	}
	release := f.db.deleting.hold(slices.Concat(keys, resumed))
	defer release()
	if err := f.begin(ctx, k, keys, resumed); err != nil {
		return all, err
	}
	for _, k := range keys {
		if outside == nil {
			break
		}
		if err := outside(ctx, k); err != nil {
			return all, err
		}
	}
	for _, k := range slices.Backward(keys) { // a deletion that is cut off finds the others by way of the first
		gone, err := f.one(ctx, k)
		all = all.Add(gone)
		if err != nil {
			return all, err
		}
	}
	err = f.db.write(ctx, "forget.note", func(t *tx) error {
		return changeTx(t, f.by, "chat.delete", k, map[string]any{
			"chat": k.String(), "messages": all.Messages, "history": all.History, "arguments": all.Arguments,
		})
	})
	return all, err
}

// begin looks in one commit that the conversations are at rest, and begins a new session in those that go. Their turns
// are held by then, so nothing begins behind the look.
func (f *Forgetting) begin(ctx context.Context, k corebot.Key, keys, resumed []corebot.Key) error {
	return f.db.write(ctx, "forget.begin", func(t *tx) error {
		for _, k := range slices.Concat(keys, resumed) {
			if err := atRest(k, t.one); err != nil {
				return err
			}
		}
		for _, k := range keys { // whoever writes or forks meanwhile finds none of what is half deleted
			if err := leaveSessionTx(t, k); err != nil {
				return err
			}
		}
		return changeTx(t, f.by, "chat.delete.begin", k, map[string]any{"chat": k.String(), "conversations": len(keys)})
	})
}

var (
	keysOfChat = &query{`SELECT agent, channel, account, chat, thread FROM chats
		WHERE agent = ?1 AND channel = ?2 AND account = ?3 AND chat = ?4 AND ?5 IN ('', thread)
		UNION SELECT agent, channel, account, chat, thread FROM lanes
		WHERE agent = ?1 AND channel = ?2 AND account = ?3 AND chat = ?4 AND ?5 IN ('', thread)`}
	// A child turn has the thread of its conversation behind the number of its job.
	keysOfJobs = &query{`SELECT DISTINCT agent, channel, account, chat, thread FROM lanes
		WHERE agent = ?1 AND channel = '` + corebot.JobChannel + `' AND account = ?2 || ':' || ?3 AND chat = ?4
		AND substr(thread, instr(thread, ':') + 1) = ?5`}
	keysOfQuestions = &query{`SELECT DISTINCT agent, channel, account, chat, thread FROM lanes
		WHERE channel = '` + corebot.AgentChannel + `' AND chat = ?`}
)

// Meant names the conversations that a deletion of one means, itself first. All of them are at rest. Otherwise the
// error is that of [Forgetting.Chat].
func (f *Forgetting) Meant(ctx context.Context, k corebot.Key) ([]corebot.Key, error) {
	keys, _, err := f.meant(ctx, k)
	return keys, err
}

// meant also names the conversations that resume one of them.
func (f *Forgetting) meant(ctx context.Context, k corebot.Key) (all, resumed []corebot.Key, err error) {
	if all, err = f.conversations(ctx, k); err != nil {
		return nil, nil, err
	}
	read := func(q *query, dest []any, args ...any) (bool, error) { return f.db.reader.one(ctx, q, dest, args...) }
	for _, k := range all {
		if err := atRest(k, read); err != nil {
			return nil, nil, err
		}
		links, err := NewLinks(f.db).Of(ctx, k)
		if err != nil {
			return nil, nil, err
		}
		for _, link := range links { // a turn there has read the words, and can be making a summary of them
			if link.From != k || link.To == (corebot.Key{}) {
				continue
			}
			if err := atRest(link.To, read); err != nil {
				return nil, nil, fmt.Errorf("its conversation goes on elsewhere: %w", err)
			}
			resumed = append(resumed, link.To)
		}
	}
	return all, resumed, nil
}

func (f *Forgetting) conversations(ctx context.Context, k corebot.Key) (all []corebot.Key, err error) {
	seen := map[corebot.Key]bool{}
	add := func(s scanner) error {
		var k corebot.Key
		err := s.Scan(&k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread)
		if err == nil && !seen[k] {
			seen[k] = true
			all = append(all, k)
		}
		return err
	}
	if err := f.db.reader.each(ctx, keysOfChat, add, keyArgs(k)...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, corebot.WithHint(fmt.Errorf("chat %s: %w", k, corebot.ErrNotFound),
			"`corebot chats list` shows the keys")
	}
	for i := 0; i < len(all); i++ { // the list grows while its end is not reached
		k := all[i]
		if err := f.db.reader.each(ctx, keysOfJobs, add, keyArgs(k)...); err != nil {
			return nil, err
		}
		asked := corebot.AskedFrom(k, "").Chat
		if err := f.db.reader.each(ctx, keysOfQuestions, add, asked); err != nil {
			return nil, err
		}
	}
	return all, nil
}

var openIn = &query{`SELECT COALESCE(SUM(depth), 0), COALESCE(SUM(leased), 0),
	COALESCE(SUM((SELECT COUNT(*) FROM message_parked p WHERE p.lane_id = lanes.id)), 0)
	FROM lanes WHERE direction IN (1, 2, 3) AND agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`}

// atRest refuses a conversation in which something waits or runs.
func atRest(k corebot.Key, one func(q *query, dest []any, args ...any) (bool, error)) error {
	var waiting, running, deferred int64
	if _, err := one(openIn, []any{&waiting, &running, &deferred}, keyArgs(k)...); err != nil {
		return err
	}
	if waiting+running+deferred == 0 {
		return nil
	}
	return corebot.WithHint(fmt.Errorf("%w: %s cannot be deleted now: %d messages and replies wait or run there, and "+
		"%d are deferred", corebot.ErrInvalid, k, waiting, deferred),
		"wait until they are done, or end them: /stop in the chat, `corebot jobs stop`, `corebot deferred drop`; "+
			"`corebot status` shows what waits")
}

var (
	lanesOf = &query{`SELECT id FROM lanes WHERE direction IN (1, 2, 3) AND agent = ? AND channel = ? AND account = ?
		AND chat = ? AND thread = ?`}
	newestIDs = &query{`SELECT (SELECT COALESCE(MAX(id), 0) FROM message_life),
		(SELECT COALESCE(MAX(id), 0) FROM history), (SELECT COALESCE(MAX(cursor), 0) FROM mailbox),
		(SELECT COALESCE(MAX(id), 0) FROM audit_events)`}
)

// extent is what a deletion reaches: nothing that came after it began.
type extent struct {
	key                         corebot.Key
	spelled                     string
	chat                        int64 // 0: no turn was committed there
	lanes                       []int64
	lives, history, mail, audit int64
}

func (f *Forgetting) extent(ctx context.Context, k corebot.Key) (e extent, err error) {
	e = extent{key: k, spelled: k.String()}
	chat, err := NewChats(f.db).Chat(ctx, k)
	if err != nil {
		return e, err
	}
	e.chat = chat.ID
	if err := f.db.reader.each(ctx, lanesOf, func(s scanner) error {
		var id int64
		err := s.Scan(&id)
		e.lanes = append(e.lanes, id)
		return err
	}, keyArgs(k)...); err != nil {
		return e, err
	}
	_, err = f.db.reader.one(ctx, newestIDs, []any{&e.lives, &e.history, &e.mail, &e.audit})
	return e, err
}

// one deletes one conversation. Rows that give a right, or that begin something, go first.
func (f *Forgetting) one(ctx context.Context, k corebot.Key) (gone corebot.Forgotten, err error) {
	e, err := f.extent(ctx, k)
	if err != nil {
		return gone, err
	}
	for _, step := range []func(context.Context, extent, *corebot.Forgotten) error{
		f.rights, f.messages, f.texts, f.versions, f.arguments, f.traces,
	} {
		if err := step(ctx, e, &gone); err != nil {
			return gone, fmt.Errorf("delete %s: %w", k, err)
		}
	}
	gone.Chats = 1
	return gone, nil
}

var (
	tasksOfKey = &query{`SELECT id FROM tasks WHERE agent = ? AND channel = ? AND account = ? AND chat = ?
		AND thread = ? ORDER BY id`}
	forgetRules  = &query{`DELETE FROM approval_rules WHERE ` + versionKey}
	forgetGrants = &query{`DELETE FROM grants WHERE scope = ?`}
	forgetPaired = &query{`DELETE FROM pairings WHERE chat = ? AND state = 'open'`}
)

// rights deletes tasks, approvals that last, roles, and requests to talk.
func (f *Forgetting) rights(ctx context.Context, e extent, gone *corebot.Forgotten) error {
	var tasks []int64
	if err := f.db.reader.each(ctx, tasksOfKey, func(s scanner) error {
		var id int64
		err := s.Scan(&id)
		tasks = append(tasks, id)
		return err
	}, keyArgs(e.key)...); err != nil {
		return err
	}
	return f.db.write(ctx, "forget.rights", func(t *tx) (err error) {
		now := corebot.Forgotten{Tasks: int64(len(tasks))}
		for _, id := range tasks {
			remove := corebot.ChangeTask{ID: id, Action: corebot.TaskRemove}
			if _, err := (&Tasks{f.db, f.by}).changeTx(t, remove); err != nil {
				return err
			}
		}
		if now.Rules, err = t.exec(forgetRules, keyArgs(e.key)...); err != nil {
			return err
		}
		if e.chat != 0 { // its words leave the chats that it was linked to
			links, err := theseLinksTx(t, linksFrom, e.chat)
			if err != nil {
				return err
			}
			if err := forgetLinksTx(t, links); err != nil {
				return err
			}
		}
		t.granted = true
		if now.Grants, err = t.exec(forgetGrants, e.spelled); err != nil {
			return err
		}
		if _, err = t.exec(forgetPaired, e.spelled); err != nil {
			return err
		}
		gone.Tasks, gone.Rules, gone.Grants = now.Tasks, now.Rules, now.Grants
		return nil
	})
}

// chunked deletes rows a chunk at a time until a chunk is not full, and counts them.
func (f *Forgetting) chunked(ctx context.Context, name string, sum *int64, drop func(t *tx) (int64, error)) error {
	for n := int64(forgetChunk); n >= forgetChunk; {
		if err := f.db.write(ctx, name, func(t *tx) (err error) {
			n, err = drop(t)
			return err
		}); err != nil {
			return err
		}
		*sum += n
	}
	return nil
}

var (
	// The lives of a conversation, along the primary key: no index of all lives goes by lanes.
	livesOfKey = &query{`SELECT m.id FROM message_life m CROSS JOIN lanes l ON l.id = m.lane_id
		WHERE m.id > ? AND m.id <= ? AND m."end" <> '' AND l.direction IN (1, 2, 3) AND l.agent = ? AND l.channel = ?
		AND l.account = ? AND l.chat = ? AND l.thread = ? ORDER BY m.id LIMIT ? + 0`}
	forgetLife = []*query{
		{`DELETE FROM execution_steps WHERE life_id = ?`},
		{`DELETE FROM approvals WHERE life_id = ?`},
		{`DELETE FROM waits WHERE life_id = ?`},
		{`DELETE FROM jobs WHERE life_id = ?`},
		{`UPDATE message_life SET cause_id = NULL WHERE cause_id = ?`},
		{`UPDATE lanes SET swept = swept + m.run FROM message_life m WHERE m.id = ? AND lanes.id = m.lane_id`},
	}
	forgetLifeRow = &query{`DELETE FROM message_life WHERE id = ?`}
)

// messages deletes lives with their journals, and all that hangs on them.
func (f *Forgetting) messages(ctx context.Context, e extent, gone *corebot.Forgotten) error {
	for after := int64(0); ; {
		var lives []int64
		args := append([]any{after, e.lives}, keyArgs(e.key)...)
		if err := f.db.reader.each(ctx, livesOfKey, func(s scanner) error {
			var id int64
			err := s.Scan(&id)
			lives = append(lives, id)
			return err
		}, append(args, forgetChunk)...); err != nil || len(lives) == 0 {
			return err
		}
		after = lives[len(lives)-1]
		if err := f.db.write(ctx, "forget.messages", func(t *tx) error { return forgetLivesTx(t, lives) }); err != nil {
			return err
		}
		gone.Messages += int64(len(lives))
	}
}

func forgetLivesTx(t *tx, lives []int64) error {
	for _, id := range lives {
		for _, q := range forgetLife {
			if _, err := t.exec(q, id); err != nil {
				return err
			}
		}
		if _, err := t.exec(forgetLifeRow, id); err != nil {
			return err
		}
	}
	return nil
}

var (
	forgetHistory = &query{`DELETE FROM history WHERE id IN (SELECT id FROM history WHERE chat_id = ? AND id <= ?
		LIMIT ? + 0)`}
	forgetMail = &query{`DELETE FROM mailbox WHERE cursor IN (SELECT cursor FROM mailbox WHERE chat_id = ?
		AND cursor <= ? LIMIT ? + 0)`}
	forgetSummary = &query{`DELETE FROM summaries WHERE chat_id = ?`}
)

// texts deletes what was said, and what was made of it.
func (f *Forgetting) texts(ctx context.Context, e extent, gone *corebot.Forgotten) error {
	if e.chat == 0 {
		return nil
	}
	if err := f.db.write(ctx, "forget.summary", func(t *tx) error {
		if _, err := t.exec(forgetSummary, e.chat); err != nil {
			return err
		}
		_, err := t.exec(dropMemory, e.chat)
		return err
	}); err != nil {
		return err
	}
	facts, err := NewFacts(f.db).DeleteChat(ctx, e.key)
	if gone.Facts += facts; err != nil {
		return err
	}
	if err := f.chunked(ctx, "forget.history", &gone.History, func(t *tx) (int64, error) {
		return t.exec(forgetHistory, e.chat, e.history, forgetChunk)
	}); err != nil {
		return err
	}
	return f.chunked(ctx, "forget.mail", &gone.Mail, func(t *tx) (int64, error) {
		return t.exec(forgetMail, e.chat, e.mail, forgetChunk)
	})
}

// forgetVersion deletes one version at a time: each can have megabytes.
var forgetVersion = &query{`DELETE FROM file_versions WHERE id = (SELECT id FROM file_versions WHERE ` + versionKey +
	` LIMIT 1)`}

func (f *Forgetting) versions(ctx context.Context, e extent, gone *corebot.Forgotten) error {
	for n := int64(1); n > 0; gone.Versions += n {
		if err := f.db.write(ctx, "forget.versions", func(t *tx) (err error) {
			n, err = t.exec(forgetVersion, keyArgs(e.key)...)
			return err
		}); err != nil {
			return err
		}
	}
	return f.chunked(ctx, "forget.files", &gone.Files, func(t *tx) (int64, error) {
		return t.exec(forgetFiles, chatArgs(e.key, forgetChunk)...)
	})
}

var (
	argumentsOfKey = &query{`SELECT id, args_sum <> x'' FROM audit_events WHERE id > ? AND id <= ? AND agent = ?
		AND channel = ? AND account = ? AND chat = ? AND thread = ? AND args <> '' ORDER BY id LIMIT ? + 0`}
	emptyArguments = &query{`UPDATE audit_events SET args = '', args_salt = x'' WHERE id = ? AND args_sum <> x''`}
)

// arguments takes the arguments out of the events of the audit trail. The hash of an event is over their salted sum.
func (f *Forgetting) arguments(ctx context.Context, e extent, gone *corebot.Forgotten) error {
	for after := int64(0); ; {
		var sealed []int64
		rows, kept := 0, int64(0)
		args := append([]any{after, e.audit}, keyArgs(e.key)...)
		if err := f.db.reader.each(ctx, argumentsOfKey, func(s scanner) error {
			var is bool
			err := s.Scan(&after, &is)
			if rows++; is {
				sealed = append(sealed, after)
			} else {
				kept++
			}
			return err
		}, append(args, forgetChunk)...); err != nil {
			return err
		}
		if err := f.db.write(ctx, "forget.arguments", func(t *tx) error {
			for _, id := range sealed {
				if _, err := t.exec(emptyArguments, id); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		gone.Arguments += int64(len(sealed))
		if gone.KeptArguments += kept; rows < forgetChunk {
			return nil
		}
	}
}

var (
	forgetNotices = &query{`DELETE FROM dead_notices WHERE agent = ? AND channel = ? AND account = ? AND chat = ?
		AND thread = ?`}
	forgetCharges = &query{`DELETE FROM file_charges WHERE chat = ?`}
	forgetReplays = &query{`UPDATE replays SET filter = '{}' WHERE ended_at > 0 AND instr(filter, ?) > 0`}
	forgetFork    = &query{`DELETE FROM forks WHERE chat_id = ?`}
	forgetOrigin  = &query{`UPDATE forks SET origin = '' WHERE origin = ?`} // its forks are chats of their own
	forgetChatRow = &query{`DELETE FROM chats WHERE id = ?1
		AND NOT EXISTS (SELECT 1 FROM history h WHERE h.chat_id = ?1)
		AND NOT EXISTS (SELECT 1 FROM mailbox b WHERE b.chat_id = ?1)`}
)

// traces deletes the last rows that name the conversation. Its lanes and its chat stay if a new message has come.
func (f *Forgetting) traces(ctx context.Context, e extent, _ *corebot.Forgotten) error {
	return f.db.write(ctx, "forget.traces", func(t *tx) error {
		for _, step := range []struct {
			q    *query
			args []any
		}{
			{forgetNotices, keyArgs(e.key)},
			{dropDraft, keyArgs(e.key)},
			{forgetPage, keyArgs(e.key)},
			{forgetCharges, []any{e.spelled}},
			{forgetReplays, []any{e.key.Chat}},
			{forgetAnswers, nil},
			{forgetFork, []any{e.chat}},
			{forgetOrigin, []any{e.spelled}},
		} {
			if _, err := t.exec(step.q, step.args...); err != nil {
				return err
			}
		}
		if err := forgetUsageTx(t, e.key); err != nil {
			return err
		}
		for _, lane := range e.lanes {
			if _, err := t.exec(dropLanes, lane, lane); err != nil {
				return err
			}
		}
		t.admitted = true
		_, err := t.exec(forgetChatRow, e.chat)
		return err
	})
}
