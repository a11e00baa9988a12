package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/corebot/corebot"
)

// Chats stores the settings of conversations beside their history. Every change leaves an audit event in its own
// commit.
type Chats struct {
	db *DB
	by corebot.AuditEvent
}

// NewChats returns the chats of a database, for changes by the operator.
func NewChats(db *DB) *Chats { return &Chats{db, byOperator()} }

// As returns the chats for changes by somebody else, as [DeadLetters.As] does.
func (c *Chats) As(by corebot.AuditEvent) *Chats { return &Chats{c.db, by} }

var (
	selectChat = &query{`SELECT id, display_name, registered, session, queue_mode,
		CASE model_session WHEN session THEN model ELSE '' END,
		CASE think_session WHEN session THEN think ELSE '' END, access, created_at, used_at FROM chats
		WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`}
	insertChat = &query{
		`INSERT INTO chats (agent, channel, account, chat, thread, created_at, used_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)`,
	}
	useChat   = &query{`UPDATE chats SET used_at = ? WHERE id = ?`}
	useChatOf = &query{`UPDATE chats SET used_at = ?1 WHERE agent = ?2 AND channel = ?3 AND account = ?4 AND chat = ?5
		AND thread = ?6 AND used_at NOT BETWEEN ?1 - 59999 AND ?1`}
	newSession  = &query{`UPDATE chats SET session = session + 1 WHERE id = ?`}
	setChat     = &query{`UPDATE chats SET registered = ?, display_name = ? WHERE id = ?`}
	setChatMode = &query{`UPDATE chats SET queue_mode = ? WHERE id = ?`}
	keptByChat  = &query{`SELECT c.queue_mode, MAX(COALESCE((SELECT MAX(s.through) FROM summaries s
		WHERE s.chat_id = c.id), 0),
		COALESCE((SELECT h.seq FROM history h WHERE h.chat_id = c.id ORDER BY h.session DESC, h.seq DESC LIMIT 1), 0))
		FROM chats c WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?`}
	setLaneMode = &query{
		`UPDATE lanes SET mode = ? WHERE direction = ? AND agent = ? AND channel = ? AND account = ? AND chat = ?
			AND thread = ?`,
	}
)

// Chat returns the settings of a conversation. A conversation without any turn is not stored; it is in its first
// session.
func (c *Chats) Chat(ctx context.Context, k corebot.Key) (corebot.Chat, error) {
	chat := corebot.Chat{Key: k, Session: 1}
	_, err := c.db.reader.one(ctx, selectChat, chatColumns(&chat), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	chat.UsedAt = time.Time{} // to the minute: lists look for the exact time
	return chat, err
}

// Register marks a chat as registered or not, and gives it a display name. It creates an unknown chat.
func (c *Chats) Register(ctx context.Context, k corebot.Key, registered bool, name string) error {
	return c.db.write(ctx, "register", func(t *tx) error { return c.registerTx(t, k, registered, name) })
}

func (c *Chats) registerTx(t *tx, k corebot.Key, registered bool, name string) error {
	chat, err := chatTx(t, k)
	if err != nil {
		return err
	}
	if name == "" {
		name = chat.DisplayName
	}
	t.admitted = true
	if _, err := t.exec(setChat, registered, name, chat.ID); err != nil {
		return err
	}
	return c.noteTx(t, "chat.register", k, map[string]any{"registered": registered, "name": name})
}

// registerEffectTx handles [corebot.RegisterChat].
func (c *Chats) registerEffectTx(t *tx, e corebot.RegisterChat) error {
	return c.registerTx(t, e.Chat, true, "")
}

// noteTx writes the audit event of a change.
func (c *Chats) noteTx(t *tx, event string, k corebot.Key, note map[string]any) error {
	all := map[string]any{"chat": k.String()}
	maps.Copy(all, note)
	return changeTx(t, c.by, event, k, all)
}

// Reset begins a new session. The old history entries stay stored, outside of the new session. An unknown chat is
// [corebot.ErrNotFound].
func (c *Chats) Reset(ctx context.Context, k corebot.Key) error {
	return c.db.write(ctx, "reset", func(t *tx) error {
		chat, err := knownChatTx(t, k)
		if err != nil {
			return err
		}
		lane, err := findLaneTx(t, corebot.Inbound, k)
		if err == nil {
			err = passSessionTx(t, lane.id, 0)
		}
		if err != nil {
			return err
		}
		if _, err := t.exec(newSession, chat.ID); err != nil {
			return err
		}
		return c.noteTx(t, "chat.reset", k, map[string]any{"session": chat.Session + 1})
	})
}

// leaveSessionTx begins a new session in a conversation, if there is one.
func leaveSessionTx(t *tx, k corebot.Key) error {
	chat, err := knownChatTx(t, k)
	if errors.Is(err, corebot.ErrNotFound) {
		return nil
	}
	if err == nil {
		_, err = t.exec(newSession, chat.ID)
	}
	return err
}

// SetQueueMode sets the queue mode of a chat for new prompts; an empty mode means the configured default. Waiting
// prompts keep their mode. It creates an unknown chat.
func (c *Chats) SetQueueMode(ctx context.Context, k corebot.Key, mode corebot.QueueMode) error {
	if mode != "" {
		if _, err := corebot.ParseQueueMode(string(mode)); err != nil {
			return err
		}
	}
	return c.db.write(ctx, "queue-mode", func(t *tx) error {
		chat, err := chatTx(t, k)
		if err != nil {
			return err
		}
		if _, err := t.exec(setChatMode, string(mode), chat.ID); err != nil {
			return err
		}
		if _, err = t.exec(setLaneMode, string(mode), int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat,
			k.Thread); err != nil {
			return err
		}
		return c.noteTx(t, "chat.queue_mode", k, map[string]any{"mode": mode})
	})
}

// keptByChatTx reads what a chat keeps for a new lane: its mode, and the last place that its history and its summary
// name.
func keptByChatTx(t *tx, k corebot.Key) (mode string, places int64, err error) {
	_, err = t.one(keptByChat, []any{&mode, &places}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return mode, places, err
}

func chatColumns(c *corebot.Chat) []any {
	return []any{
		&c.ID, &c.DisplayName, &c.Registered, &c.Session, (*string)(&c.QueueMode), &c.Model,
		(*string)(&c.Think),
		(*string)(&c.Access),
		moment{&c.CreatedAt},
		moment{&c.UsedAt},
	}
}

// usedTx notes that a chat is used, at most once a minute. An index goes by the time: each note costs a turn as much as
// one more entry of its history.
func usedTx(t *tx, c corebot.Chat) error {
	if since := t.now.Sub(c.UsedAt); since >= 0 && since < time.Minute {
		return nil
	}
	_, err := t.exec(useChat, t.now, c.ID)
	return err
}

// knownChatTx finds the chat of a key. An unknown chat is [corebot.ErrNotFound].
func knownChatTx(t *tx, k corebot.Key) (corebot.Chat, error) {
	chat := corebot.Chat{Key: k}
	found, err := t.one(selectChat, chatColumns(&chat), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err == nil && !found {
		err = fmt.Errorf("chat %s: %w", k, corebot.ErrNotFound)
	}
	return chat, err
}

// chatTx finds or makes the chat of a key.
func chatTx(t *tx, k corebot.Key) (corebot.Chat, error) {
	chat := corebot.Chat{Key: k, Session: 1, CreatedAt: t.now, UsedAt: t.now}
	found, err := t.one(selectChat, chatColumns(&chat), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err != nil || found {
		return chat, err
	}
	chat.ID, err = t.insert(insertChat, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, t.now)
	return chat, err
}

// contentsOf counts what a deletion of a conversation would reach. No index of all lives goes by lanes.
var contentsOf = &query{`SELECT (SELECT COUNT(*) FROM message_life m WHERE m.lane_id IN (SELECT id FROM lanes
		WHERE direction IN (1, 2, 3) AND agent = ?1 AND channel = ?2 AND account = ?3 AND chat = ?4 AND thread = ?5)),
	(SELECT COUNT(*) FROM history WHERE chat_id = c.id), (SELECT COUNT(*) FROM facts WHERE chat_id = c.id),
	(SELECT COUNT(*) FROM tasks WHERE agent = ?1 AND channel = ?2 AND account = ?3 AND chat = ?4 AND thread = ?5),
	(SELECT COUNT(*) FROM attached_files WHERE agent = ?1 AND channel = ?2 AND account = ?3 AND chat = ?4
		AND thread = ?5), (SELECT COUNT(*) FROM mailbox WHERE chat_id = c.id),
	(SELECT COUNT(*) FROM approval_rules WHERE ` + versionKey + `), (SELECT COUNT(*) FROM grants WHERE scope = ?6),
	(SELECT COUNT(*) FROM file_versions WHERE ` + versionKey + `)
	FROM (SELECT 1) LEFT JOIN chats c ON c.agent = ?1 AND c.channel = ?2 AND c.account = ?3
	AND c.chat = ?4 AND c.thread = ?5`}

// Contents counts what a deletion of a conversation would reach. It counts no events of the audit trail, which would
// have to be read whole, and no pages of the database.
func (c *Chats) Contents(ctx context.Context, k corebot.Key) (has corebot.Forgotten, err error) {
	_, err = c.db.reader.one(ctx, contentsOf, []any{
		&has.Messages, &has.History, &has.Facts, &has.Tasks, &has.Files, &has.Mail, &has.Rules, &has.Grants,
		&has.Versions,
	}, append(keyArgs(k), k.String())...)
	has.Chats = 1
	return has, err
}

var setChatAccess = &query{`UPDATE chats SET access = ? WHERE id = ?`}

// SetAccess makes a chat an exception from the rule of its channel; "" ends the exception. It holds for the next
// message; waiting messages are still answered. It creates an unknown chat.
func (c *Chats) SetAccess(ctx context.Context, k corebot.Key, access corebot.ChatAccess) error {
	if access != "" {
		if _, err := corebot.ParseChatAccess(string(access)); err != nil {
			return err
		}
	}
	return c.db.write(ctx, "access", func(t *tx) error {
		chat, err := chatTx(t, k)
		if err != nil {
			return err
		}
		t.admitted = true
		if _, err := t.exec(setChatAccess, string(access), chat.ID); err != nil {
			return err
		}
		return c.noteTx(t, "chat.access", k, map[string]any{"access": access})
	})
}

// Note writes an event that belongs to no step of a turn, in a commit of its own.
func (a *Audit) Note(ctx context.Context, e corebot.AuditEvent) error {
	return a.db.write(ctx, "audit", func(t *tx) error { return auditTx(t, []corebot.AuditEvent{e}) })
}

// NoteSkill writes that the operator has installed or removed a skill.
func (a *Audit) NoteSkill(ctx context.Context, change string, note map[string]any) error {
	return a.db.write(ctx, "audit", func(t *tx) error { return changeTx(t, byOperator(), change, corebot.Key{}, note) })
}

var (
	laneNow = &query{`SELECT id, leased, claimed_at, depth, waiting, COALESCE(wake_at, 0) FROM lanes
		WHERE direction = ? AND agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`}
	deferredNow = &query{`SELECT COUNT(*), COALESCE(MIN(due_at), 0) FROM message_parked WHERE lane_id = ?
		AND reason <> '` + corebot.DeferredToApproval + `'`}
	setChatModel = &query{`UPDATE chats SET model = ?, model_session = session WHERE id = ?`}
	setChatThink = &query{`UPDATE chats SET think = ?, think_session = session WHERE id = ?`}
)

// Situation says what a chat does at this moment. A chat without messages is idle in its first session.
func (c *Chats) Situation(ctx context.Context, k corebot.Key) (s corebot.Situation, err error) {
	chat, err := c.Chat(ctx, k)
	if err != nil {
		return s, err
	}
	s.Session, s.QueueMode, s.Model, s.Think = chat.Session, chat.QueueMode, chat.Model, chat.Think
	var lane int64
	found, err := c.db.reader.one(ctx, laneNow, []any{
		&lane, &s.Running,
		moment{&s.RunningSince},
		&s.Waiting, &s.Why,
		moment{&s.WakeAt},
	},
		int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err != nil || !found {
		return s, err
	}
	if s.Running {
		s.Waiting--
	} else {
		s.RunningSince = time.Time{}
	}
	if s.Why == "" { // for a running head WakeAt would be the end of its lease
		s.WakeAt = time.Time{}
	}
	if _, err = c.db.reader.one(ctx, deferredNow, []any{&s.Deferred, moment{&s.BackAt}}, lane); err != nil {
		return s, err
	}
	s.Awaited, err = NewApprovals(c.db).list(ctx, awaitedInChat, time.Now(), k.Agent, k.Channel, k.Account, k.Chat,
		k.Thread)
	if err == nil {
		s.AwaitedOfJobs, err = NewApprovals(c.db).list(ctx, awaitedOfJobs, time.Now(), k.String(), maxWaitsShown)
	}
	if err == nil {
		s.Waits, err = NewWaits(c.db).list(ctx, waitsInChat, k.String(), maxWaitsShown)
	}
	return s, err
}

// SetModel sets the model of the chat's current session; "" means the configured model. The next session uses the
// configured model again. An unknown chat is [corebot.ErrNotFound].
func (c *Chats) SetModel(ctx context.Context, k corebot.Key, model string) error {
	return c.db.write(ctx, "model", func(t *tx) error { return c.setModelTx(t, k, model) })
}

func (c *Chats) setModelTx(t *tx, k corebot.Key, model string) error {
	chat, err := knownChatTx(t, k)
	if err != nil {
		return err
	}
	if _, err := t.exec(setChatModel, model, chat.ID); err != nil {
		return err
	}
	return c.noteTx(t, "chat.model", k, map[string]any{"model": model})
}

// SetThinking sets how much models think in the chat's current session; "" means as configured. The next session is as
// configured again. An unknown chat is [corebot.ErrNotFound].
func (c *Chats) SetThinking(ctx context.Context, k corebot.Key, think corebot.Thinking) error {
	if think != corebot.ThinkDefault {
		if _, err := corebot.ParseThinking(string(think)); err != nil {
			return err
		}
	}
	return c.db.write(ctx, "think", func(t *tx) error { return c.setThinkingTx(t, k, think) })
}

func (c *Chats) setThinkingTx(t *tx, k corebot.Key, think corebot.Thinking) error {
	chat, err := knownChatTx(t, k)
	if err != nil {
		return err
	}
	if _, err := t.exec(setChatThink, string(think), chat.ID); err != nil {
		return err
	}
	return c.noteTx(t, "chat.think", k, map[string]any{"think": think})
}

// ChooseModel stores a /model, the model of the chat's session and the notice in one commit. It calls notice with the
// result: nil, or [corebot.ErrNotFound] in a chat without any message. The event goes to the audit. If the outcome of
// the event is denied, nothing else changes. A duplicate changes nothing.
func (c *Chats) ChooseModel(ctx context.Context, m corebot.Message, model string, by corebot.AuditEvent,
	notice func(error) corebot.Message,
) (corebot.Receipt, error) {
	return c.choose(ctx, m, by, notice, func(t *tx) error { return c.As(by).setModelTx(t, m.Key, model) })
}

// ChooseThinking is ChooseModel for a /think.
func (c *Chats) ChooseThinking(ctx context.Context, m corebot.Message, think corebot.Thinking, by corebot.AuditEvent,
	notice func(error) corebot.Message,
) (corebot.Receipt, error) {
	return c.choose(ctx, m, by, notice, func(t *tx) error { return c.As(by).setThinkingTx(t, m.Key, think) })
}

func (c *Chats) choose(ctx context.Context, m corebot.Message, by corebot.AuditEvent,
	notice func(error) corebot.Message, set func(*tx) error,
) (r corebot.Receipt, err error) {
	control := &pack([]corebot.Message{m})[0]
	err = c.db.write(ctx, "choose", func(t *tx) (err error) {
		if r, err = c.db.controlTx(t, control, false); err != nil || r.Duplicate {
			return err
		}
		var verdict error
		if by.Outcome == corebot.OutcomeDenied {
			err = auditTx(t, []corebot.AuditEvent{by})
		} else if verdict = set(t); !errors.Is(verdict, corebot.ErrNotFound) &&
			!errors.Is(verdict, corebot.ErrInvalid) {
			err = verdict
		}
		if err != nil {
			return err
		}
		return noticeTx(t, &pack([]corebot.Message{notice(verdict)})[0], r.Life)
	})
	return r, err
}

var (
	selectSkills = &query{`SELECT skills FROM chats
		WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?`}
	setSkills = &query{`UPDATE chats SET skills = ? WHERE id = ?`}
)

// Skills are the skills that are switched on or off in a chat.
func (c *Chats) Skills(ctx context.Context, k corebot.Key) (corebot.SkillChoices, error) {
	text := ""
	_, err := c.db.reader.one(ctx, selectSkills, []any{&text}, keyArgs(k)...)
	return corebot.ParseSkillChoices(text), err
}

// ChooseSkill stores a /skills that switches a skill, the switch and the notice in one commit, as ChooseModel does. Too
// many switches of a chat are [corebot.ErrInvalid].
func (c *Chats) ChooseSkill(ctx context.Context, m corebot.Message, skill string, on bool, by corebot.AuditEvent,
	notice func(error) corebot.Message,
) (corebot.Receipt, error) {
	return c.choose(ctx, m, by, notice, func(t *tx) error {
		return c.As(by).chooseSkillTx(t, corebot.ChooseSkill{Chat: m.Key, Skill: skill, On: on})
	})
}

// chooseSkillTx handles [corebot.ChooseSkill]. A chat with too many choices refuses one more.
func (c *Chats) chooseSkillTx(t *tx, e corebot.ChooseSkill) error {
	chat, err := chatTx(t, e.Chat)
	if err != nil {
		return err
	}
	text := ""
	if _, err := t.one(selectSkills, []any{&text}, keyArgs(e.Chat)...); err != nil {
		return err
	}
	all := corebot.ParseSkillChoices(text)
	if all == nil {
		all = corebot.SkillChoices{}
	}
	if all[e.Skill] = e.On; len(all) > corebot.MaxSkillChoices {
		return &corebot.Refused{Err: fmt.Errorf("%w: %d skills are switched in this chat already", corebot.ErrInvalid,
			corebot.MaxSkillChoices)}
	}
	if _, err := t.exec(setSkills, all.String(), chat.ID); err != nil {
		return err
	}
	return c.noteTx(t, "chat.skill", e.Chat, map[string]any{"skill": e.Skill, "on": e.On})
}

var (
	selectMemory = &query{`SELECT m.notes FROM memory_sources m JOIN chats c ON c.id = m.chat_id
		WHERE c.agent = ? AND c.channel = ? AND c.account = ? AND c.chat = ? AND c.thread = ?`}
	putMemory = &query{`INSERT INTO memory_sources (chat_id, notes, at) VALUES (?, ?, ?)
		ON CONFLICT (chat_id) DO UPDATE SET notes = excluded.notes, at = excluded.at`}
	dropMemory = &query{`DELETE FROM memory_sources WHERE chat_id = ?`}

	selectShared = &query{`SELECT notes FROM page_sources WHERE agent = ? AND channel = ? AND account = ?`}
	putShared    = &query{`INSERT INTO page_sources (agent, channel, account, notes, at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (agent, channel, account) DO UPDATE SET notes = excluded.notes, at = excluded.at`}
	dropShared = &query{`DELETE FROM page_sources WHERE agent = ? AND channel = ? AND account = ?`}
)

// shared says whether a key names a page that several chats share: see [corebot.Key.InChannel].
func shared(k corebot.Key) bool { return k.Chat == "" }

// MemoryNotes tells where the pieces of a memory page came from, in the order of the page. The key is a chat's, or that
// of a page that chats share.
func (c *Chats) MemoryNotes(ctx context.Context, k corebot.Key) (notes []corebot.MemoryNote, err error) {
	text, of, args := "", selectMemory, keyArgs(k)
	if shared(k) {
		of, args = selectShared, args[:3]
	}
	found, err := c.db.reader.one(ctx, of, []any{&text}, args...)
	if err != nil || !found {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &notes); err != nil {
		return nil, fmt.Errorf("the stored sources of the memory of %s are damaged: %w", k, err)
	}
	return notes, nil
}

// SetMemoryNotes replaces what is stored of a memory page, of which some lines go. A change that is no call of a tool
// names the event of the audit.
func (c *Chats) SetMemoryNotes(ctx context.Context, k corebot.Key, notes []corebot.MemoryNote, gone []string,
	event string,
) error {
	text, err := encode(notes)
	if err != nil {
		return err
	}
	return c.db.write(ctx, "memory", func(t *tx) error {
		put, drop, args := putShared, dropShared, keyArgs(k)[:3]
		if !shared(k) {
			chat, err := chatTx(t, k)
			if err != nil {
				return err
			}
			put, drop, args = putMemory, dropMemory, []any{chat.ID}
		}
		if len(notes) == 0 {
			_, err = t.exec(drop, args...)
		} else {
			_, err = t.exec(put, append(args, text, t.now)...)
		}
		if err == nil {
			err = pageChangedTx(t, k, gone)
		}
		if err != nil || event == "" {
			return err
		}
		return c.noteTx(t, event, k, map[string]any{"pieces": len(notes)})
	})
}
