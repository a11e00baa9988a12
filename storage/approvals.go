package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// Approvals stores the calls that wait for an approval. Each is resolved once; the first decision counts. Every
// resolution leaves an audit event and wakes the lane, in its own commit.
type Approvals struct {
	db *DB
	by corebot.AuditEvent
}

// NewApprovals returns the approvals of a database, for changes by the operator.
func NewApprovals(db *DB) *Approvals { return &Approvals{db, byOperator()} }

// As returns the approvals for changes by somebody else, as [DeadLetters.As] does.
func (a *Approvals) As(by corebot.AuditEvent) *Approvals { return &Approvals{a.db, by} }

const approvalColumns = `SELECT a.id, a.request, (SELECT COUNT(*) FROM approvals r WHERE r.request = a.request),
	a.position, a.answer, a.beyond, a.life_id, m.message_id, l.agent, l.channel, l.account, l.chat, l.thread, m.sender,
	a.tool, a.definition, a.args, a.dir, a.files, a.digest, a.change, a.rule, a.taint, a.round, a.instead, a.because,
			a.binding, a.unbound, a.lapsed, a.session, a.declarable,
	a.state, a.ran, a.reason, a.asked_life,
	a.created_at, a.expires_at, a.resolved_at, a.resolved_by
	FROM approvals a JOIN message_life m ON m.id = a.life_id JOIN lanes l ON l.id = m.lane_id `

var (
	approvalByID  = &query{approvalColumns + `WHERE a.id = ?`}
	awaitedOfLife = &query{approvalColumns + `WHERE a.state = 'awaiting' AND a.life_id = ?`}
	listAwaited   = &query{approvalColumns +
		`WHERE a.state = 'awaiting' AND a.expires_at > ? AND a.id > ? ORDER BY a.id LIMIT ? + 0`}
	listNewest    = &query{approvalColumns + `WHERE a.id < ? ORDER BY a.id DESC LIMIT ? + 0`}
	awaitedInChat = &query{approvalColumns + `WHERE a.state = 'awaiting' AND a.expires_at > ? AND l.direction = 1
		AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ? ORDER BY a.id`}
	awaitedOfJobs = &query{approvalColumns + `JOIN jobs j ON j.life_id = a.life_id WHERE a.state = 'awaiting'
		AND a.expires_at > ? AND j.results = ? AND j.state = 'open' ORDER BY a.id LIMIT ? + 0`}
	callsOfRequest  = &query{approvalColumns + `WHERE a.request = ? ORDER BY a.id`}
	resolveApproval = &query{
		`UPDATE approvals SET state = ?, resolved_at = ?, resolved_by = ? WHERE request = ? AND state = 'awaiting'`,
	}
)

// errOtherCall says that the stored call is not the call that was asked about.
var errOtherCall = errors.New("what is stored of it is not what it was given for")

func scanApproval(s scanner) (a corebot.Approval, err error) {
	var args, files, change, binding string
	var digest []byte
	k := &a.Key
	err = s.Scan(&a.ID, &a.Request, &a.Calls, &a.Position, &a.Answer, &a.Beyond, &a.Life, &a.MessageID, &k.Agent,
		&k.Channel, &k.Account, &k.Chat, &k.Thread, &a.Principal.ID,
		&a.Bound.Tool, &a.Bound.Definition, &args, &a.Bound.Dir, &files, &digest, &change, &a.Rule, &a.Taint,
		&a.Round, &a.Instead, &a.Because, &binding, &a.Unbound, &a.Lapsed, &a.Session, &a.Declarable,
		(*string)(&a.State), &a.Ran, &a.Reason, &a.AskedBy,
		moment{&a.CreatedAt}, moment{&a.ExpiresAt}, moment{&a.ResolvedAt}, &a.By)
	if err != nil {
		return a, err
	}
	a.Principal, a.Bound.Args = senderIn(*k, a.Principal.ID), json.RawMessage(args)
	a.Key = k.Acts()
	if files != "" {
		err = json.Unmarshal([]byte(files), &a.Bound.Files)
	}
	if err == nil && change != "" {
		err = json.Unmarshal([]byte(change), &a.Change)
	}
	if err == nil && binding != "" {
		err = json.Unmarshal([]byte(binding), &a.Binding)
	}
	if len(digest) == 0 && a.State != corebot.ApprovalAwaited { // its words are deleted: see [Retention]
		return a, err
	}
	if sum := a.Bound.Digest(); err != nil || !bytes.Equal(sum[:], digest) {
		return a, fmt.Errorf("approval %d: %w", a.ID, errOtherCall)
	}
	return a, nil
}

// Awaited lists the calls that wait for an approval, oldest first, at most limit.
func (a *Approvals) Awaited(ctx context.Context, limit int) ([]corebot.Approval, error) {
	return a.list(ctx, listAwaited, time.Now(), 0, limit)
}

// Page gives at most limit calls behind a cursor, and the next cursor. Without all it gives the calls that wait, oldest
// first. With all it gives every call, newest first.
func (a *Approvals) Page(ctx context.Context, all bool, after string,
	limit int,
) (out []corebot.Approval, next string, err error) {
	list, place := "awaited", int64(0)
	if all {
		list, place = "approvals", math.MaxInt64
	}
	if err := behind(after, list, &place); err != nil {
		return nil, "", err
	}
	if all {
		out, err = a.list(ctx, listNewest, place, limit)
	} else {
		out, err = a.list(ctx, listAwaited, time.Now(), place, limit)
	}
	return out, nextPage(out, limit, func(a corebot.Approval) string { return cursor(list, a.ID) }), err
}

// Request lists the calls of a request, in any state. id is the number of any call of the request. An unknown number is
// [corebot.ErrNotFound].
func (a *Approvals) Request(ctx context.Context, id int64) ([]corebot.Approval, error) {
	one, err := a.Approval(ctx, id)
	if err != nil {
		return nil, err
	}
	return a.list(ctx, callsOfRequest, one.Request)
}

func (a *Approvals) list(ctx context.Context, q *query, args ...any) (out []corebot.Approval, err error) {
	err = a.db.reader.each(ctx, q, func(s scanner) error {
		found, err := scanApproval(s)
		out = append(out, found)
		return err
	}, args...)
	return out, err
}

// Approval returns an approval in any state. An unknown id is [corebot.ErrNotFound].
func (a *Approvals) Approval(ctx context.Context, id int64) (corebot.Approval, error) {
	found, err := a.list(ctx, approvalByID, id)
	if err == nil && len(found) == 0 {
		err = unknownApproval(id)
	}
	if err != nil {
		return corebot.Approval{}, err
	}
	return found[0], nil
}

func unknownApproval(id int64) error { return fmt.Errorf("approval %d: %w", id, corebot.ErrNotFound) }

// Resolve decides a request, and stores what an approval that lasts lets run from now on. If the request was resolved
// before or its time is over, the error is [*corebot.Resolved]. An unknown id is [corebot.ErrNotFound]. An approval
// that cannot last is [corebot.ErrCannotBind], and the request stays open.
func (a *Approvals) Resolve(ctx context.Context, id int64, decision corebot.Decision) error {
	return a.db.write(ctx, resolution(decision), func(t *tx) error { return a.resolveTx(t, id, decision) })
}

// Decide accepts an /approve or a /deny. One commit has its life, its effect on the approval (id 0: none) and the
// notice. Decide calls notice with the result: nil, or an error of [Approvals.Resolve]. by goes to the audit,
// also when its outcome is denied. A duplicate changes nothing.
func (a *Approvals) Decide(ctx context.Context, m corebot.Message, id int64, decision corebot.Decision,
	by corebot.AuditEvent, notice func(error) corebot.Message,
) (r corebot.Receipt, err error) {
	hands := a.As(by)
	return a.db.command(ctx, numbered{
		name: resolution(decision), message: m, id: id, by: by, notice: notice,
		stands: func(t *tx) (bool, error) { return stillAwaitedTx(t, id) },
		does:   func(t *tx) error { return hands.resolveTx(t, id, decision) },
		tells: func(err error) bool {
			again := (*corebot.Resolved)(nil)
			return errors.As(err, &again) || errors.Is(err, corebot.ErrCannotBind)
		},
	})
}

// resolution is the name of the writer's operation.
func resolution(d corebot.Decision) string {
	if d.Approve {
		return "approve"
	}
	return "deny"
}

// stillAwaitedTx says whether the approval can still be resolved.
func stillAwaitedTx(t *tx, id int64) (bool, error) {
	a, found, err := approvalTx(t, approvalByID, id)
	return found && a.State == corebot.ApprovalAwaited && a.ExpiresAt.After(t.now), err
}

func approvalTx(t *tx, q *query, args ...any) (a corebot.Approval, found bool, err error) {
	err = t.each(q, func(s scanner) error {
		found = true
		a, err = scanApproval(s)
		return err
	}, args...)
	return a, found, err
}

// resolveTx checks its rules before it writes.
func (a *Approvals) resolveTx(t *tx, id int64, decision corebot.Decision) error {
	if err := decision.Validate(); err != nil {
		return err
	}
	found, known, err := approvalTx(t, approvalByID, id)
	switch {
	case err != nil:
		return err
	case !known:
		return unknownApproval(id)
	// its time is over, and no claim of the lane has stored that yet
	case found.State == corebot.ApprovalAwaited && !found.ExpiresAt.After(t.now):
		found.State = corebot.ApprovalExpired
		return &corebot.Resolved{Approval: found}
	case found.State != corebot.ApprovalAwaited:
		return &corebot.Resolved{Approval: found}
	}
	if decision.For != corebot.Once {
		if err := a.bindTx(t, found.Request, decision.For); err != nil {
			return err
		}
	}
	err = closeTx(t, found, decision.State(), maker(a.by), a.by)
	if err != nil || !decision.Stop {
		return err
	}
	h := standing{life: found.Life}
	if found.Detached() { // its answer can be under way still
		h.life = found.AskedBy
	}
	if heads, err := t.one(placeOfLife, []any{&h.lane, &h.seq}, h.life); err != nil || !heads {
		return err
	}
	return stopHeadTx(t, h, a.by)
}

// closeTx ends the wait of all calls of a request, stores who ended it, and lets its turn go on.
func closeTx(t *tx, a corebot.Approval, state corebot.ApprovalState, who string, by corebot.AuditEvent) error {
	if _, err := t.exec(resolveApproval, string(state), t.now, who, a.Request); err != nil {
		return err
	}
	if !a.Detached() {
		if err := goOnTx(t, a.Life, corebot.AwaitingApproval); err != nil {
			return err
		}
	} else if err := settleDetachedTx(t, a, state, who, by); err != nil {
		return err
	}
	t.count(approvalsTotal, a.Key.Agent, string(state), "", 1)
	event := map[corebot.ApprovalState]string{
		corebot.ApprovalApproved: "approval.approve", corebot.ApprovalDenied: "approval.deny",
		corebot.ApprovalExpired: "approval.expire",
	}[state]
	return changeTx(t, by, event, a.Key, map[string]any{
		"id": a.Request, "calls": a.Calls, "tool": a.Bound.Tool, "messageId": a.MessageID, "chat": a.Key.String(),
		"principal": a.Principal.String(), "by": who,
	})
}

// itself stands for Corebot where nobody else ended the wait.
const itself = "corebot"

// denyAwaitedTx denies the waiting calls of a message that goes on or ends without them.
func denyAwaitedTx(t *tx, life int64, by corebot.AuditEvent) error {
	a, found, err := awaitedTx(t, awaitedOfLife, life)
	if err != nil || !found { // a turn waits for at most one request
		return err
	}
	who := by.Principal.String()
	if by.Principal == (corebot.Principal{}) {
		who, by.Entry = itself, corebot.EntryItself
	}
	return closeTx(t, a, corebot.ApprovalDenied, who, by)
}

// CanApprove says whether any known principal can approve a call of a chat. The owner of the home can, if somebody
// can be the owner at a terminal. An admin everywhere can, and an admin of the chat, unless the call reaches beyond the
// chat.
func (g *Grants) CanApprove(ctx context.Context, k corebot.Key, beyond bool) (bool, error) {
	if g.db.attended && g.db.isOwner(g.db.owner) {
		return true, nil
	}
	var n int64
	if beyond {
		k = corebot.Key{}
	}
	_, err := g.db.reader.one(ctx, countApprovers, []any{&n}, scopeOf(wholeChat(k)), scopeOf(k))
	if err != nil {
		return false, fmt.Errorf("look for an admin of %s: %w", k, err)
	}
	return n > 0, nil
}

var countApprovers = &query{`SELECT COUNT(*) FROM grants WHERE role = 'admin' AND scope IN ('', ?, ?)`}

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
	// The sessions of a chat that comes back are counted from 1 again, so a rule of an ended one would hold once more.
	dropOfSessions = &query{`DELETE FROM approval_rules AS r WHERE ` + ofChat + ` AND r.session <> 0`}
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
