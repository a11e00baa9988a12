package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

const approvalColumns = `SELECT a.id, a.request, (SELECT COUNT(*) FROM approvals r WHERE r.request = a.request), a.position, a.answer, a.beyond, a.life_id, m.message_id, l.agent, l.channel, l.account, l.chat, l.thread, m.sender,
	a.tool, a.definition, a.args, a.dir, a.files, a.digest, a.change, a.rule, a.taint, a.round, a.instead, a.because, a.state, a.ran, a.reason,
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
	callsOfRequest  = &query{approvalColumns + `WHERE a.request = ? ORDER BY a.id`}
	resolveApproval = &query{
		`UPDATE approvals SET state = ?, resolved_at = ?, resolved_by = ? WHERE request = ? AND state = 'awaiting'`,
	}
	wakeAwaiting = &query{`UPDATE lanes SET wake_at = MIN(wake_at, ?) WHERE id = (SELECT lane_id FROM message_life WHERE id = ?)
		AND leased = 0 AND waiting = '` + corebot.AwaitingApproval + `'`}
)

func scanApproval(s scanner) (a corebot.Approval, err error) {
	var args, files, change string
	var digest []byte
	k := &a.Key
	err = s.Scan(&a.ID, &a.Request, &a.Calls, &a.Position, &a.Answer, &a.Beyond, &a.Life, &a.MessageID, &k.Agent,
		&k.Channel, &k.Account, &k.Chat, &k.Thread, &a.Principal.ID,
		&a.Bound.Tool, &a.Bound.Definition, &args, &a.Bound.Dir, &files, &digest, &change, &a.Rule, &a.Taint,
		&a.Round, &a.Instead, &a.Because, (*string)(&a.State), &a.Ran, &a.Reason,
		moment{&a.CreatedAt}, moment{&a.ExpiresAt}, moment{&a.ResolvedAt}, &a.By)
	if err != nil {
		return a, err
	}
	a.Principal, a.Bound.Args = senderIn(*k, a.Principal.ID), json.RawMessage(args)
	if files != "" {
		err = json.Unmarshal([]byte(files), &a.Bound.Files)
	}
	if err == nil && change != "" {
		err = json.Unmarshal([]byte(change), &a.Change)
	}
	if sum := a.Bound.Digest(); err != nil || !bytes.Equal(sum[:], digest) {
		return a, fmt.Errorf("what is stored of approval %d is not what it was given for", a.ID)
	}
	return a, nil
}

// Awaited lists the calls that wait for an approval, oldest first, at most limit.
func (a *Approvals) Awaited(ctx context.Context, limit int) ([]corebot.Approval, error) {
	return a.list(ctx, listAwaited, time.Now(), 0, limit)
}

// Page gives the calls behind a cursor, at most limit of them, and the cursor behind them: those that wait, oldest first,
// or with all set every call, newest first.
func (a *Approvals) Page(ctx context.Context, all bool, after string, limit int) (out []corebot.Approval, next string, err error) {
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

// Resolve approves or denies a call. If the call was resolved before or its time is over, the error is
// [*corebot.Resolved]. An unknown id is [corebot.ErrNotFound].
func (a *Approvals) Resolve(ctx context.Context, id int64, state corebot.ApprovalState) error {
	return a.db.write(ctx, resolution(state), func(t *tx) error { return a.resolveTx(t, id, state) })
}

// Decide accepts an /approve or a /deny. One commit has its life, its effect on the approval (id 0: none) and the
// notice. Decide calls notice with the result: nil, [*corebot.Resolved] or [corebot.ErrNotFound]. by goes to the audit,
// also when its outcome is denied. A duplicate changes nothing.
func (a *Approvals) Decide(ctx context.Context, m corebot.Message, id int64, state corebot.ApprovalState,
	by corebot.AuditEvent, notice func(error) corebot.Message,
) (r corebot.Receipt, err error) {
	control := &pack([]corebot.Message{m})[0]
	hands := a.As(by)
	err = a.db.write(ctx, resolution(state), func(t *tx) (err error) {
		awaited, err := stillAwaitedTx(t, id)
		if err != nil {
			return err
		}
		if r, err = a.db.controlTx(t, control, awaited); err != nil || r.Duplicate {
			return err
		}
		verdict := corebot.ErrNotFound
		switch {
		case by.Outcome == corebot.OutcomeDenied:
			err = auditTx(t, []corebot.AuditEvent{by})
		case id != 0:
			verdict = hands.resolveTx(t, id, state)
			if again := (*corebot.Resolved)(nil); verdict != nil && !errors.As(verdict, &again) &&
				!errors.Is(verdict, corebot.ErrNotFound) {
				err = verdict
			}
		}
		if err != nil {
			return err
		}
		return noticeTx(t, &pack([]corebot.Message{notice(verdict)})[0], r.Life)
	})
	return r, err
}

// resolution is the name of the writer's operation.
func resolution(state corebot.ApprovalState) string {
	if state == corebot.ApprovalApproved {
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
func (a *Approvals) resolveTx(t *tx, id int64, state corebot.ApprovalState) error {
	if state != corebot.ApprovalApproved && state != corebot.ApprovalDenied {
		return fmt.Errorf("%w: an approval cannot be made %q", corebot.ErrInvalid, state)
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
	return closeTx(t, found, state, maker(a.by), a.by)
}

// closeTx ends the wait of all calls of a request, stores who ended it, and lets its turn go on.
func closeTx(t *tx, a corebot.Approval, state corebot.ApprovalState, who string, by corebot.AuditEvent) error {
	if _, err := t.exec(resolveApproval, string(state), t.now, who, a.Request); err != nil {
		return err
	}
	if _, err := t.exec(wakeAwaiting, t.now, a.Life); err != nil {
		return err
	}
	t.wake(corebot.InboundPool, t.now.UnixMilli())
	t.count(approvalsTotal, string(state), "", 1)
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
	a, found, err := approvalTx(t, awaitedOfLife, life)
	if err != nil || !found { // a turn waits for at most one request
		return err
	}
	who := by.Principal.String()
	if by.Principal == (corebot.Principal{}) {
		who, by.Entry = itself, corebot.EntryItself
	}
	return closeTx(t, a, corebot.ApprovalDenied, who, by)
}

// CanApprove says whether any known principal can approve a call of a chat. An admin everywhere can. An admin of the
// chat can, unless the call reaches beyond the chat.
func (g *Grants) CanApprove(ctx context.Context, k corebot.Key, beyond bool) (bool, error) {
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

var (
	approvalOfStep = &query{approvalColumns + `WHERE a.life_id = ? AND a.run = ? AND a.position = ? AND (a.answer = ? OR a.answer = a.position)
		AND a.state <> 'void'`}
	newestOfLife   = &query{`SELECT state FROM approvals WHERE life_id = ? ORDER BY id DESC LIMIT 1`}
	insertApproval = &query{`INSERT INTO approvals
		(life_id, run, position, answer, round, beyond, tool, definition, args, dir, files, digest, change, rule, taint, step_id, instead, because,
		request, state, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'awaiting', ?, ?)`}
	beginRequest  = &query{`UPDATE approvals SET request = id WHERE id = ?`}
	countOfAnswer = &query{
		`SELECT COUNT(*) FROM approvals WHERE life_id = ? AND run = ? AND answer = ? AND state <> 'void'`,
	}
	awaitedInLane = &query{approvalColumns +
		`JOIN message_queue q ON q.life_id = a.life_id WHERE a.state = 'awaiting' AND q.lane_id = ? LIMIT 1`}
)

// Ask stores a request for approvals. One commit has the step of the first call, the approvals of all calls of the
// answer that need one, and the audit events.
//
// If the first call was asked for already, Ask stores nothing and returns the approval in its present state. A request
// whose time is over expires here. If the answer has another request already, the error is [corebot.ErrNotAsked].
//
// A call of a later round has changed since it was approved. Its approval is void then, with the approvals of all calls
// behind it, and the asks are a new request. A worker that lost its lease gets [corebot.ErrLeaseLost] and changes
// nothing.
func (l *Ledger) Ask(ctx context.Context, d corebot.Delivery, s corebot.Step,
	asks []corebot.Ask,
) (stands corebot.Asked, err error) {
	row, err := encodeStep(s)
	if err != nil {
		return stands, err
	}
	err = l.db.write(ctx, "ask", func(t *tx) (err error) {
		if err := holdsTx(t, d.Lease); err != nil {
			return err
		}
		own, known, err := approvalTx(t, approvalOfStep, d.Life, d.Run, s.Position, asks[0].Approval.Answer)
		switch {
		case err != nil:
			return err
		case !known:
			err = askTx(t, d, row, asks)
		case own.State == corebot.ApprovalApproved && asks[0].Approval.Round > own.Round:
			err = askAnewTx(t, d, row, own, asks)
		case own.State == corebot.ApprovalAwaited && !own.ExpiresAt.After(t.now):
			by := corebot.AuditEvent{Key: own.Key, Entry: corebot.EntryItself, StepID: d.StepID(s.Position)}
			err = closeTx(t, own, corebot.ApprovalExpired, itself, by)
		}
		if err == nil {
			stands, err = askedTx(t, d, asks[0].Approval.Answer, s.Position)
		}
		return err
	})
	return stands, err
}

// askTx stores a request.
func askTx(t *tx, d corebot.Delivery, row stepRow, asks []corebot.Ask) error {
	var others int64
	if _, err := t.one(countOfAnswer, []any{&others}, d.Life, d.Run, asks[0].Approval.Answer); err != nil {
		return err
	}
	if others > 0 {
		return corebot.ErrNotAsked
	}
	return requestTx(t, d, row, asks)
}

// askAnewTx replaces an approved request by a new one.
func askAnewTx(t *tx, d corebot.Delivery, row stepRow, own corebot.Approval, asks []corebot.Ask) error {
	because := asks[0].Approval.Because
	if err := voidTx(t, because+" since it was approved", unmadeFrom, d.Life, d.Run, own.Position); err != nil {
		return err
	}
	for i := range asks {
		a := &asks[i].Approval
		a.Round, a.Instead, a.Because = own.Round+1, own.Request, because
	}
	return requestTx(t, d, row, asks)
}

func requestTx(t *tx, d corebot.Delivery, row stepRow, asks []corebot.Ask) error {
	request := int64(0)
	for _, ask := range asks {
		a := ask.Approval
		files, err := encode(a.Bound.Files)
		if err != nil {
			return err
		}
		change := ""
		if a.Change != (corebot.FileChange{}) {
			if change, err = encode(a.Change); err != nil {
				return err
			}
		}
		sum := a.Bound.Digest()
		id, err := t.insert(insertApproval, d.Life, d.Run, a.Position, a.Answer, a.Round, a.Beyond, a.Bound.Tool,
			a.Bound.Definition, string(a.Bound.Args), a.Bound.Dir,
			files, sum[:], change, a.Rule, a.Taint, d.StepID(a.Position), a.Instead, a.Because, request, t.now,
			a.ExpiresAt)
		if err == nil && request == 0 {
			request = id
			_, err = t.exec(beginRequest, id)
		}
		if err == nil {
			err = auditTx(t, []corebot.AuditEvent{ask.Event})
		}
		if err != nil {
			return err
		}
	}
	return recordStepTx(t, d.Life, d.Run, row)
}

// askedTx returns the approval of a step with its whole request.
func askedTx(t *tx, d corebot.Delivery, answer, position int) (a corebot.Asked, err error) {
	if a.Approval, _, err = approvalTx(t, approvalOfStep, d.Life, d.Run, position, answer); err != nil {
		return a, err
	}
	err = t.each(callsOfRequest, func(s scanner) error {
		call, err := scanApproval(s)
		a.All = append(a.All, call)
		return err
	}, a.Request)
	return a, err
}

// standsTx says how long the head of a lane waits for an approval: until the approval expires. If the approval was
// resolved before the claim ended, the wait is over.
func standsTx(t *tx, life int64, until time.Time) (time.Time, error) {
	var state string
	asked, err := t.one(newestOfLife, []any{&state}, life)
	if err == nil && asked && corebot.ApprovalState(state) != corebot.ApprovalAwaited {
		until = t.now
	}
	return until, err
}

// tellAwaitedTx tells the chat once that its messages wait for a pending approval.
func tellAwaitedTx(t *tx, l lane, p *parcel, life int64) error {
	if l.waiting != corebot.AwaitingApproval || p.cause != 0 {
		return nil
	}
	a, awaited, err := approvalTx(t, awaitedInLane, l.id)
	if err != nil || !awaited {
		return err
	}
	told := corebot.Message{
		ID: corebot.OwnID("approval", a.Request, "awaited"), Direction: corebot.Outbound, Key: p.Key,
		Kind: corebot.KindNotice, InReplyTo: p.ID,
		Parts: corebot.TextPart(fmt.Sprintf("This waits behind a call of %s that an admin has to approve first: "+
			"/approve %d or /deny %d. /stop gives it up.", a.Bound.Tool, a.Request, a.Request)),
	}
	// a conflict: the chat was told in answer to an earlier message
	if err := noticeTx(t, &pack([]corebot.Message{told})[0], life); !errors.Is(err, corebot.ErrConflict) {
		return err
	}
	return nil
}

// An approval ends with its call. If the call will not be made any more, its approval is void. The reason is one of
// four: a steer skipped the call, the call has changed, the sender lost his role, or the message was stopped. The
// commit that decides this also stores it in the table.

var (
	// The columns of the step's index come first.
	unmadeFrom = &query{approvalColumns +
		`WHERE a.life_id = ? AND a.run = ? AND a.position >= ? AND a.state = 'approved' AND a.ran = 0 ORDER BY a.id`}
	unmadeOf = &query{approvalColumns +
		`WHERE a.life_id = ? AND a.run = ? AND a.position = ? AND a.state = 'approved' AND a.ran = 0`}
	unmadeOfLife = &query{approvalColumns + `WHERE a.life_id = ? AND a.state = 'approved' AND a.ran = 0 ORDER BY a.id`}
	voidApproval = &query{`UPDATE approvals SET state = 'void', reason = ? WHERE id = ?`}
	beginCall    = &query{
		`UPDATE approvals SET ran = 1 WHERE life_id = ? AND run = ? AND position = ? AND state = 'approved' AND ran = 0`,
	}
)

// voidTx makes approvals void whose calls will not be made.
func voidTx(t *tx, reason string, which *query, args ...any) error {
	var unmade []corebot.Approval
	err := t.each(which, func(s scanner) error {
		a, err := scanApproval(s)
		unmade = append(unmade, a)
		return err
	}, args...)
	if err != nil {
		return err
	}
	for i, a := range unmade {
		if _, err := t.exec(voidApproval, reason, a.ID); err != nil {
			return err
		}
		if i == 0 || unmade[i-1].Request != a.Request {
			t.count(approvalsTotal, string(corebot.ApprovalVoid), "", 1)
		}
		by := corebot.AuditEvent{Entry: itself, Key: a.Key}
		err := changeTx(t, by, "approval.void", a.Key, map[string]any{
			"id": a.Request, "tool": a.Bound.Tool, "messageId": a.MessageID, "chat": a.Key.String(),
			"principal":  a.Principal.String(),
			"approvedBy": a.By, "reason": reason,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// madeTx updates the approval of a step's call: the call is begun, or has ended without being made.
func madeTx(t *tx, d corebot.Delivery, s corebot.Step) error {
	switch {
	case !s.Awaited:
		return nil
	case s.State == corebot.StepIntended, s.Result != nil && s.Result.Ran:
		_, err := t.exec(beginCall, d.Life, d.Run, s.Position)
		return err
	}
	if err := voidTx(t, withoutCall(s.Result), unmadeOf, d.Life, d.Run, s.Position); err != nil {
		return err
	}
	return denyAwaitedTx(t, d.Life, corebot.AuditEvent{}) // the tool is gone, or the sender lost the right to it
}

// withoutCall says why an approved call was not made.
func withoutCall(r *corebot.ToolResult) string {
	if r == nil {
		return "the call was not made"
	}
	return fmt.Sprintf("the call was not made (%s)", r.Outcome)
}

// endApprovalsTx ends the approvals of an ended message. A message that was answered in its first claim has none.
func endApprovalsTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	if d.Message.Direction != corebot.Inbound || o.End == corebot.EndAnswered && len(d.Journal) == 0 {
		return nil
	}
	return endCallsTx(t, d.Life)
}

// endCallsTx denies the waiting calls of a message, and makes its approvals void whose calls were not made.
func endCallsTx(t *tx, life int64) error {
	if err := denyAwaitedTx(t, life, corebot.AuditEvent{}); err != nil {
		return err
	}
	return voidTx(t, "its turn ended without the call", unmadeOfLife, life)
}
