package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
)

// ruleColumns select the rules that count: those of an ended session do not. A chat without a row is in its first
// session.
const ruleColumns = `SELECT r.id, r.agent, r.channel, r.account, r.chat, r.thread, r.principal, r.session, r.beyond,
	r.binding, r.request, r.created_at, r.created_by FROM approval_rules r `

const presentSession = `COALESCE((SELECT c.session FROM chats c WHERE c.agent = r.agent AND c.channel = r.channel
	AND c.account = r.account AND c.chat = r.chat AND c.thread = r.thread), 1)`

const ofChat = `r.agent = ? AND r.channel = ? AND r.account = ? AND r.chat = ? AND r.thread = ?`

var (
	standingRules = &query{ruleColumns + `WHERE ` + ofChat + ` AND r.principal = ?
		AND (r.session = 0 OR ? = 0 AND r.session = ` + presentSession + ` + ?)`}
	// A turn that begins a session can have been granted something for that session already.
	listRules = &query{ruleColumns + `WHERE r.id > ? AND (r.session = 0 OR r.session >= ` + presentSession + `)
		ORDER BY r.id LIMIT ? + 0`}
	listRulesOfChat = &query{ruleColumns + `WHERE ` + ofChat + ` AND (r.session = 0 OR r.session >= ` +
		presentSession + `)
		ORDER BY r.id LIMIT ? + 0`}
	ruleByID   = &query{ruleColumns + `WHERE r.id = ?`}
	insertRule = &query{`INSERT INTO approval_rules (agent, channel, account, chat, thread, principal, session, beyond,
		binding, request, created_at, created_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`}
	countRules = &query{`SELECT COUNT(*) FROM approval_rules r WHERE ` + ofChat + ` AND r.principal = ?
		AND (r.session = 0 OR r.session >= ` + presentSession + `)`}
	dropRule  = &query{`DELETE FROM approval_rules WHERE id = ?`}
	dropEnded = &query{`DELETE FROM approval_rules AS r WHERE ` + ofChat + `
		AND r.session <> 0 AND r.session < ` + presentSession}
)

func keyArgs(k corebot.Key) []any { return []any{k.Agent, k.Channel, k.Account, k.Chat, k.Thread} }

func scanRule(s scanner) (r corebot.ApprovalRule, err error) {
	var principal, binding string
	k := &r.Key
	err = s.Scan(&r.ID, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, &principal, &r.Session, &r.Beyond,
		&binding, &r.Request, moment{&r.CreatedAt}, &r.By)
	if err == nil {
		r.Principal, err = corebot.ParsePrincipal(principal)
	}
	if err == nil {
		err = json.Unmarshal([]byte(binding), &r.Binding)
	}
	return r, err
}

func (a *Approvals) rules(ctx context.Context, q *query, args ...any) (out []corebot.ApprovalRule, err error) {
	err = a.db.reader.each(ctx, q, func(s scanner) error {
		r, err := scanRule(s)
		out = append(out, r)
		return err
	}, args...)
	return out, err
}

// Standing lists the rules that can count for the calls of a turn.
func (a *Approvals) Standing(ctx context.Context, who corebot.Caller) ([]corebot.ApprovalRule, error) {
	return a.rules(ctx, standingRules, append(keyArgs(who.Key), who.Principal.String(), who.Apart, who.Opens)...)
}

// Rules gives at most limit rules behind a cursor, oldest first, and the next cursor.
func (a *Approvals) Rules(ctx context.Context, after string, limit int) (out []corebot.ApprovalRule, next string,
	err error,
) {
	place := int64(0)
	if err := behind(after, "rules", &place); err != nil {
		return nil, "", err
	}
	out, err = a.rules(ctx, listRules, place, limit)
	return out, nextPage(out, limit, func(r corebot.ApprovalRule) string { return cursor("rules", r.ID) }), err
}

// RulesOf lists the rules of a conversation, oldest first, at most limit.
func (a *Approvals) RulesOf(ctx context.Context, k corebot.Key, limit int) ([]corebot.ApprovalRule, error) {
	return a.rules(ctx, listRulesOfChat, append(keyArgs(k), limit)...)
}

// Revoke ends a rule for the calls that are judged from now on. An unknown rule is [corebot.ErrNotFound].
func (a *Approvals) Revoke(ctx context.Context, id int64) error {
	return a.db.write(ctx, "revoke-rule", func(t *tx) error { return a.revokeTx(t, id, nil) })
}

// RevokeHere accepts a chat command that revokes a rule of its own conversation. One commit has its life, its effect
// (id 0: none) and the notice. It calls notice with nil or [corebot.ErrNotFound]. A duplicate changes nothing.
func (a *Approvals) RevokeHere(ctx context.Context, m corebot.Message, id int64, by corebot.AuditEvent,
	notice func(error) corebot.Message,
) (r corebot.Receipt, err error) {
	packed := pack([]corebot.Message{m, notice(nil), notice(corebot.ErrNotFound)})
	hands := a.As(by)
	err = a.db.write(ctx, "revoke-rule", func(t *tx) (err error) {
		_, found, err := ruleTx(t, id, &m.Key)
		if err != nil {
			return err
		}
		if r, err = a.db.controlTx(t, &packed[0], found); err != nil || r.Duplicate {
			return err
		}
		if !found {
			return noticeTx(t, &packed[2], r.Life)
		}
		if err := hands.revokeTx(t, id, &m.Key); err != nil {
			return err
		}
		return noticeTx(t, &packed[1], r.Life)
	})
	return r, err
}

// ruleTx finds a rule. With a key, it must be one of that conversation.
func ruleTx(t *tx, id int64, in *corebot.Key) (r corebot.ApprovalRule, found bool, err error) {
	err = t.each(ruleByID, func(s scanner) error {
		found = true
		r, err = scanRule(s)
		return err
	}, id)
	return r, found && (in == nil || r.Key == *in), err
}

func (a *Approvals) revokeTx(t *tx, id int64, in *corebot.Key) error {
	r, found, err := ruleTx(t, id, in)
	if err == nil && !found {
		err = fmt.Errorf("rule %d: %w", id, corebot.ErrNotFound)
	}
	if err != nil {
		return err
	}
	if _, err := t.exec(dropRule, id); err != nil {
		return err
	}
	return changeTx(t, a.by, "approval.revoke", r.Key, ruleNote(r))
}

// bindTx stores what the calls of an approved request let run from now on. It checks before it writes: if nothing can
// be bound, the error is [corebot.ErrCannotBind] with the reason, and the request stays open.
func (a *Approvals) bindTx(t *tx, request int64, lasting corebot.Lasting) error {
	var calls []corebot.Approval
	why := ""
	err := t.each(callsOfRequest, func(s scanner) error {
		call, err := scanApproval(s)
		switch {
		case call.Binding.Kind == "":
			why = call.Unbound
		case lasting == corebot.ForSession && call.Session == 0:
			why = "the call stands outside of the chat's session"
		default:
			calls = append(calls, call)
		}
		return err
	}, request)
	if err != nil {
		return err
	}
	if len(calls) == 0 {
		return fmt.Errorf("%w: %s", corebot.ErrCannotBind, why)
	}
	var n int
	who := append(keyArgs(calls[0].Key), calls[0].Principal.String())
	if _, err := t.one(countRules, []any{&n}, who...); err != nil {
		return err
	}
	if n+len(calls) > corebot.MaxApprovalRules {
		return fmt.Errorf("%w: %s has %d rules here already, and the limit is %d", corebot.ErrCannotBind,
			calls[0].Principal, n, corebot.MaxApprovalRules)
	}
	if _, err := t.exec(dropEnded, keyArgs(calls[0].Key)...); err != nil {
		return err
	}
	for _, call := range calls {
		if err := a.keepTx(t, call, lasting, who); err != nil {
			return err
		}
	}
	return nil
}

// keepTx stores the rule of one call, unless its maker has made the same before.
func (a *Approvals) keepTx(t *tx, call corebot.Approval, lasting corebot.Lasting, who []any) error {
	r := corebot.ApprovalRule{
		Key: call.Key, Principal: call.Principal, Beyond: call.Beyond, Binding: call.Binding, Request: call.Request,
		By: maker(a.by),
	}
	if lasting == corebot.ForSession {
		r.Session = call.Session
	}
	binding, err := encode(r.Binding)
	if err != nil {
		return err
	}
	changed, err := t.exec(insertRule, append(slices.Clone(who), r.Session, r.Beyond, binding, r.Request, t.now,
		r.By)...)
	if err != nil || changed == 0 {
		return err
	}
	if _, err := t.one(lastRule, []any{&r.ID}); err != nil {
		return err
	}
	return changeTx(t, a.by, "approval.bind", r.Key, ruleNote(r))
}

var lastRule = &query{`SELECT MAX(id) FROM approval_rules`}

func ruleNote(r corebot.ApprovalRule) map[string]any {
	return map[string]any{
		"rule": r.ID, "binding": r.Binding, "session": r.Session, "request": r.Request, "chat": r.Key.String(),
		"principal": r.Principal.String(), "madeBy": r.By,
	}
}
