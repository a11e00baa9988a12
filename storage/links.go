package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/corebot/corebot"
)

// Links has a chat resume the conversation of another one, on another channel or account. It takes the consent of both.
// The first offers its conversation and gets a code. The second enters the code. The first is told who that is, and
// agrees. Every step leaves an audit event in its own commit.
type Links struct {
	db *DB
	by corebot.AuditEvent
}

// NewLinks returns the links of a database, for changes by the operator.
func NewLinks(db *DB) *Links { return &Links{db, byOperator()} }

// As returns the links for changes by somebody else, as [DeadLetters.As] does.
func (l *Links) As(by corebot.AuditEvent) *Links { return &Links{l.db, by} }

const linkColumns = `SELECT l.id, l.giver, l.state, l.taker, l.entries, l.expires_at, l.at, l.from_chat, l.to_chat,
	f.agent, f.channel, f.account, f.chat, f.thread,
	COALESCE(o.agent, ''), COALESCE(o.channel, ''), COALESCE(o.account, ''), COALESCE(o.chat, ''),
	COALESCE(o.thread, '')
	FROM links l JOIN chats f ON f.id = l.from_chat LEFT JOIN chats o ON o.id = l.to_chat `

var (
	linkByCode = &query{linkColumns + `WHERE l.code = ? AND l.code <> '' AND l.expires_at > ?`}
	linkAsked  = &query{linkColumns + `WHERE l.from_chat = ? AND l.state = 'asked' AND l.expires_at > ?`}
	linksOf    = &query{linkColumns + `WHERE (l.from_chat = ?1 OR l.to_chat = ?1) AND l.state = 'linked' ORDER BY l.id`}
	linksFrom  = &query{linkColumns + `WHERE l.from_chat = ? ORDER BY l.id`}
	linksInto  = &query{`SELECT COUNT(*) FROM links WHERE to_chat = ? AND state = 'linked'`}
	openLinks  = &query{`SELECT COUNT(*) FROM links WHERE code <> ''`}
	giverLinks = &query{`SELECT COUNT(*) FROM links WHERE code <> '' AND giver = ?`}
	offerLink  = &query{`INSERT INTO links (from_chat, giver, code, state, expires_at, at)
		VALUES (?, ?, ?, 'offered', ?, ?)`}
	askLink = &query{`UPDATE links SET state = 'asked', to_chat = ?, taker = ?, code = '' WHERE id = ?
		AND state = 'offered'`}
	putLink = &query{`INSERT INTO links (from_chat, giver, state, to_chat, taker, expires_at, at)
		VALUES (?, ?, 'linked', ?, ?, 0, ?)`}
	dropLink        = &query{`DELETE FROM links WHERE id = ?`}
	dropOpenLinks   = &query{`DELETE FROM links WHERE state <> 'linked' AND (expires_at <= ? OR from_chat = ?)`}
	countLinked     = &query{`UPDATE links SET entries = ? WHERE id = ?`}
	dropLinkedNotes = &query{`DELETE FROM summaries WHERE (chat_id, session) IN (
		SELECT DISTINCT chat_id, session FROM history WHERE linked = ? AND linked <> 0)`}
	dropLinkedFacts = &query{`DELETE FROM facts WHERE (chat_id, message_id, sender) IN (
		SELECT chat_id, message_id, sender FROM history WHERE linked = ? AND linked <> 0)`}
	dropLinked   = &query{`DELETE FROM history WHERE linked = ? AND linked <> 0`}
	linkableRows = &query{`SELECT h.session, h.seq, h.ordinal, h.speaker, h.sender, h.name, h.text, h.parts, h.metadata,
		h.calls, h.call_id, h.outside, h.message_id, h.at FROM history h
		WHERE h.chat_id = ? AND h.session = ? AND h.seq >= ? AND h.rewound = 0 AND h.linked = 0
		ORDER BY h.seq, h.ordinal`}
	appendLinked = &query{`INSERT INTO history (chat_id, session, seq, ordinal, speaker, sender, name, text, parts,
		metadata, calls, call_id, outside, message_id, at, linked)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	linkedBefore = &query{`SELECT COUNT(*) FROM history WHERE chat_id = ? AND session = ? AND seq <= ?
		AND linked <> 0`}
	busyWithLink = &query{`SELECT COUNT(*) FROM lanes l JOIN chats c ON l.agent = c.agent AND l.channel = c.channel
		AND l.account = c.account AND l.chat = c.chat AND l.thread = c.thread
		WHERE l.direction = 1 AND l.depth > 0
		AND c.id IN (SELECT chat_id FROM history WHERE linked = ? AND linked <> 0)`}
	linkableCount = &query{`SELECT COUNT(*) FROM history h WHERE h.chat_id = ? AND h.session = ? AND h.seq >= ?
		AND h.rewound = 0 AND h.linked = 0`}
	takePlaces = &query{`UPDATE lanes SET next_seq = next_seq + ?1, swept = swept + ?1 WHERE id = ?2`}
)

func scanLink(s scanner) (k corebot.Link, from, to int64, err error) {
	err = s.Scan(&k.ID, &k.Giver, &k.State, &k.Taker, &k.Entries, moment{&k.ExpiresAt}, moment{&k.At}, &from, &to,
		&k.From.Agent, &k.From.Channel, &k.From.Account, &k.From.Chat, &k.From.Thread,
		&k.To.Agent, &k.To.Channel, &k.To.Account, &k.To.Chat, &k.To.Thread)
	return k, from, to, err
}

// linkTx finds one link.
func linkTx(t *tx, q *query, args ...any) (k corebot.Link, found bool, err error) {
	err = t.each(q, func(s scanner) (err error) {
		found = true
		k, _, _, err = scanLink(s)
		return err
	}, args...)
	return k, found, err
}

// Of gives the links of a chat, those from it and those into it.
func (l *Links) Of(ctx context.Context, k corebot.Key) (all []corebot.Link, err error) {
	chat, err := NewChats(l.db).Chat(ctx, k)
	if err != nil || chat.ID == 0 {
		return nil, err
	}
	err = l.db.reader.each(ctx, linksOf, func(s scanner) error {
		k, _, _, err := scanLink(s)
		all = append(all, k)
		return err
	}, chat.ID)
	return all, err
}

// Asked is who wants to resume the conversation of a chat now, if somebody does.
func (l *Links) Asked(ctx context.Context, from corebot.Key) (k corebot.Link, found bool, err error) {
	chat, err := NewChats(l.db).Chat(ctx, from)
	if err != nil || chat.ID == 0 {
		return k, false, err
	}
	err = l.db.reader.each(ctx, linkAsked, func(s scanner) (err error) {
		found = true
		k, _, _, err = scanLink(s)
		return err
	}, chat.ID, time.Now())
	return k, found, err
}

// Command accepts a /link or an /unlink together with its effect and its notices, in one commit. It calls notices with
// what the command did, or with the rule that forbids it: [corebot.ErrNotFound] or another [corebot.ErrInvalid]. A
// command that by says is denied has no effect. A duplicate changes nothing.
func (l *Links) Command(ctx context.Context, m corebot.Message, step corebot.LinkStep, code string,
	by corebot.AuditEvent, notices func([]corebot.Link, error) []corebot.Message,
) (r corebot.Receipt, err error) {
	packed, hands := &pack([]corebot.Message{m})[0], l.As(by)
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	fresh := corebot.PairingCode(random)
	err = l.db.write(ctx, "link."+string(step), func(t *tx) (err error) {
		if r, err = l.db.controlTx(t, packed, false); err != nil || r.Duplicate {
			return err
		}
		var k corebot.Link
		var ended []corebot.Link
		if by.Outcome == corebot.OutcomeDenied {
			err = auditTx(t, []corebot.AuditEvent{by})
		} else {
			switch step {
			case corebot.LinkOffer:
				k, err = hands.offerTx(t, m.Key, m.Sender, fresh)
			case corebot.LinkEnter:
				k, err = hands.enterTx(t, m.Key, m.Sender, code)
			case corebot.LinkAgree:
				k, err = hands.agreeTx(t, m.Key, m.Sender)
			case corebot.Unlink:
				ended, err = hands.unlinkTx(t, m.Key)
			}
			if k.ID != 0 {
				ended = []corebot.Link{k}
			}
		}
		if err != nil && !errors.Is(err, corebot.ErrInvalid) && !errors.Is(err, corebot.ErrNotFound) {
			return err
		}
		all := pack(notices(ended, err))
		for i := range all {
			if err := noticeTx(t, &all[i], r.Life); err != nil {
				return err
			}
		}
		return nil
	})
	return r, err
}

// offerTx gives a chat a code. An earlier offer of the chat ends.
func (l *Links) offerTx(t *tx, from corebot.Key, giver corebot.Principal, code string) (k corebot.Link, err error) {
	chat, err := knownChatTx(t, from)
	if err != nil {
		return k, err
	}
	if _, err := t.exec(dropOpenLinks, t.now, chat.ID); err != nil {
		return k, err
	}
	var open int64
	if _, err := t.one(openLinks, []any{&open}); err != nil {
		return k, err
	}
	if open >= corebot.MaxOpenLinks {
		return k, fmt.Errorf("%w: %d chats offer their conversation now, which is the most", corebot.ErrInvalid, open)
	}
	if _, err := t.one(giverLinks, []any{&open}, giver.String()); err != nil {
		return k, err
	}
	if open >= corebot.MaxGiverLinks {
		return k, corebot.WithHint(fmt.Errorf("%w: you offer %d conversations now, which is the most",
			corebot.ErrInvalid, open), fmt.Sprintf("an offer ends within %v", corebot.LinkTime))
	}
	k = corebot.Link{
		From: from, Giver: giver.String(), State: "offered", Code: code, ExpiresAt: t.now.Add(corebot.LinkTime),
		At: t.now,
	}
	if k.ID, err = t.insert(offerLink, chat.ID, k.Giver, code, k.ExpiresAt, t.now); err != nil {
		return k, err
	}
	return k, changeTx(t, l.by, "chat.link.offer", from, map[string]any{"chat": from.String(), "giver": k.Giver})
}

// enterTx notes who wants to resume a conversation, by a code that can be wrong. A code counts once.
func (l *Links) enterTx(t *tx, to corebot.Key, taker corebot.Principal, code string) (k corebot.Link, err error) {
	if err := mayEnterTx(t, to, taker); err != nil {
		return k, err
	}
	k, found, err := linkTx(t, linkByCode, code, t.now)
	if err != nil {
		return k, err
	}
	if !found {
		if err := wrongCodeTx(t, to, taker); err != nil {
			return k, err
		}
		return k, fmt.Errorf("the code %s: %w", code, corebot.ErrNotFound)
	}
	if err := fitsTx(t, k.From, to); err != nil {
		return k, err
	}
	chat, err := chatTx(t, to)
	if err != nil {
		return k, err
	}
	if _, err := t.exec(askLink, chat.ID, taker.String(), k.ID); err != nil {
		return k, err
	}
	k.To, k.Taker, k.State = to, taker.String(), "asked"
	return k, changeTx(t, l.by, "chat.link.enter", to, map[string]any{
		"chat": k.From.String(), "to": to.String(), "taker": k.Taker,
	})
}

// fitsTx refuses two chats that cannot be linked.
func fitsTx(t *tx, from, to corebot.Key) error {
	switch {
	case from.Agent != to.Agent:
		return fmt.Errorf("%w: another agent answers there, which was not told this", corebot.ErrInvalid)
	case from.Channel == to.Channel && from.Account == to.Account && from.Chat == to.Chat:
		return fmt.Errorf("%w: that is the same chat", corebot.ErrInvalid)
	}
	lane, err := findLaneTx(t, corebot.Inbound, to)
	if err == nil && lane.depth > 0 { // its answer would stand before the conversation that it did not know
		err = fmt.Errorf("%w: something waits or runs in the chat that would resume", corebot.ErrInvalid)
		err = corebot.WithHint(err, "try again after the answer")
	}
	return err
}

// agreeTx links what was asked for. Nobody agrees but the principal who offered. The policy was asked before this
// commit, and others can have spoken in his conversation since.
func (l *Links) agreeTx(t *tx, from corebot.Key, giver corebot.Principal) (k corebot.Link, err error) {
	chat, err := knownChatTx(t, from)
	if err != nil {
		return k, err
	}
	k, found, err := linkTx(t, linkAsked, chat.ID, t.now)
	if err != nil {
		return k, err
	}
	if !found || k.Giver != giver.String() {
		return corebot.Link{}, fmt.Errorf("a chat that wants to resume this conversation: %w", corebot.ErrNotFound)
	}
	if l.by.Role != corebot.RoleAdmin {
		met, err := othersTx(t, from, giver)
		if err != nil || met {
			return corebot.Link{}, cmp.Or(err, errOthersHere)
		}
	}
	asked := k.ID
	if k, err = l.putTx(t, k.From, k.To, k.Giver, k.Taker); err != nil {
		return k, err
	}
	_, err = t.exec(dropLink, asked)
	return k, err
}

// Put links two chats for the operator, who stands for both.
func (l *Links) Put(ctx context.Context, from, to corebot.Key) (k corebot.Link, err error) {
	if err := to.Validate(); err != nil {
		return k, err
	}
	err = l.db.write(ctx, "link.put", func(t *tx) error {
		k, err = l.putTx(t, from, to, "", "")
		return err
	})
	return k, err
}

var (
	errOthersThere = fmt.Errorf("%w: others have spoken in the chat that would resume", corebot.ErrInvalid)
	errOthersHere  = fmt.Errorf("%w: others have spoken in this session meanwhile, and only an admin of this chat can "+
		"link it", corebot.ErrInvalid)
)

// othersTx says whether others than a principal have spoken in the session of a chat.
func othersTx(t *tx, k corebot.Key, p corebot.Principal) (bool, error) {
	other := ""
	return t.one(anotherInSession, []any{&other}, append(keyArgs(k), storedSender(k, p))...)
}

// putTx begins a new session in a chat with what is in play in another one. Words that came there by a link stay there:
// whoever gave them agreed to one chat.
func (l *Links) putTx(t *tx, from, to corebot.Key, giver, taker string) (k corebot.Link, err error) {
	if err := fitsTx(t, from, to); err != nil {
		return k, err
	}
	source, err := knownChatTx(t, from)
	if err != nil {
		return k, err
	}
	target, err := chatTx(t, to)
	if err != nil {
		return k, err
	}
	if err := copiesTx(t, from, to); err != nil {
		return k, err
	}
	var links int64
	if _, err := t.one(linksInto, []any{&links}, target.ID); err != nil {
		return k, err
	}
	if links >= corebot.MaxLinks {
		return k, corebot.WithHint(fmt.Errorf("%w: the chat has resumed %d conversations, and can have no more",
			corebot.ErrInvalid, links), "/unlink there ends them")
	}
	var done corebot.Forked
	first, _, err := newestTx(t, source, 0, math.MaxInt64, &done)
	if err != nil {
		return k, err
	}
	if taker != "" {
		who, err := corebot.ParsePrincipal(taker)
		if err != nil {
			return k, err
		}
		met, err := othersTx(t, to, who)
		if err != nil || met {
			return k, cmp.Or(err, errOthersThere)
		}
	}
	var linkable int64
	if _, err := t.one(linkableCount, []any{&linkable}, source.ID, source.Session, first); err != nil {
		return k, err
	}
	if linkable == 0 {
		return k, fmt.Errorf("%w: nothing was said in that conversation", corebot.ErrInvalid)
	}
	k = corebot.Link{From: from, To: to, Giver: giver, Taker: taker, State: "linked", At: t.now}
	if k.ID, err = t.insert(putLink, source.ID, giver, target.ID, taker, t.now); err != nil {
		return k, err
	}
	if k.Entries, err = carryTx(t, source, target, k.ID, first); err != nil {
		return k, err
	}
	if _, err := t.exec(countLinked, k.Entries, k.ID); err != nil {
		return k, err
	}
	if err := carryForgottenTx(t, source, target, k.ID); err != nil {
		return k, err
	}
	return k, changeTx(t, l.by, "chat.link", from, map[string]any{
		"chat": from.String(), "to": to.String(), "giver": giver, "taker": taker, "entries": k.Entries,
	})
}

// carryTx copies entries into a new session of a chat, at places of its lane.
func carryTx(t *tx, source, target corebot.Chat, link, first int64) (n int64, err error) {
	lane, err := findLaneTx(t, corebot.Inbound, target.Key)
	if err != nil {
		return 0, err
	}
	if err := makeLaneTx(t, corebot.Inbound, target.Key, &lane); err != nil {
		return 0, err
	}
	if err := passSessionTx(t, lane.id, 0); err != nil {
		return 0, err
	}
	if _, err := t.exec(newSession, target.ID); err != nil {
		return 0, err
	}
	target.Session++
	place, was := lane.nextSeq-1, int64(math.MinInt64)
	write := func(e corebot.HistoryEntry, row entryRow, ordinal int64) error {
		if e.Seq != was {
			place, was = place+1, e.Seq
		}
		sender := ""
		if e.Sender.ID != "" {
			sender = storedSender(target.Key, e.Sender)
		}
		n++
		_, err := t.exec(appendLinked, target.ID, target.Session, place, ordinal, string(e.Speaker), sender, e.Name,
			row.text, row.parts, row.metadata, row.calls, e.CallID, e.Outside, e.MessageID, e.At, link)
		return err
	}
	var rows []corebot.HistoryEntry
	var ordinals []int64
	scan := newEntryScan(source.Key)
	if err := t.each(linkableRows, func(s scanner) error {
		e, ordinal, err := scan.row(s)
		rows, ordinals = append(rows, e), append(ordinals, ordinal)
		return err
	}, source.ID, source.Session, first); err != nil {
		return 0, err
	}
	encoded, err := encodeHistory(rows)
	if err != nil {
		return 0, err
	}
	for i, e := range rows {
		if err := write(e, encoded[i], ordinals[i]); err != nil {
			return 0, err
		}
	}
	t.said = true
	_, err = t.exec(takePlaces, place+1-lane.nextSeq, lane.id)
	return n, err
}

// Unlink ends the links of a chat, those from it and those into it. It deletes the entries that they copied.
func (l *Links) Unlink(ctx context.Context, k corebot.Key) (all []corebot.Link, err error) {
	err = l.db.write(ctx, "link.end", func(t *tx) error {
		all, err = l.unlinkTx(t, k)
		return err
	})
	return all, err
}

func (l *Links) unlinkTx(t *tx, k corebot.Key) (all []corebot.Link, err error) {
	chat, err := knownChatTx(t, k)
	if err != nil {
		return nil, err
	}
	if all, err = theseLinksTx(t, linksOf, chat.ID); err != nil {
		return nil, err
	}
	for _, link := range all {
		var busy int64
		if _, err := t.one(busyWithLink, []any{&busy}, link.ID); err != nil {
			return nil, err
		}
		if busy > 0 { // its turn has read the words, and can be making a summary of them
			return nil, corebot.WithHint(fmt.Errorf("%w: something waits or runs in a chat that has the words",
				corebot.ErrInvalid), "try again after the answer")
		}
	}
	if err := forgetLinksTx(t, all); err != nil {
		return nil, err
	}
	open, err := t.exec(dropOpenLinks, t.now, chat.ID)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && open == 0 {
		return nil, fmt.Errorf("a link of this chat: %w", corebot.ErrNotFound)
	}
	return all, changeTx(t, l.by, "chat.unlink", k, map[string]any{"chat": k.String(), "links": len(all)})
}

// theseLinksTx gives the links of a chat.
func theseLinksTx(t *tx, which *query, chat int64) (all []corebot.Link, err error) {
	if err := t.each(which, func(s scanner) error {
		k, _, _, err := scanLink(s)
		all = append(all, k)
		return err
	}, chat); err != nil {
		return nil, err
	}
	return all, nil
}

// forgetLinksTx deletes what links have copied, what was made of it, and the links.
func forgetLinksTx(t *tx, all []corebot.Link) error {
	for _, k := range all {
		for _, q := range []*query{
			dropCarried, dropLinkedFacts, dropLinkedForgotten, dropLinkedNotes, dropLinked, dropLink,
		} {
			if _, err := t.exec(q, k.ID); err != nil {
				return err
			}
		}
	}
	return nil
}
