package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

var (
	approvalOfStep = &query{approvalColumns + `WHERE a.life_id = ? AND a.run = ? AND a.position = ?
		AND (a.answer = ? OR a.answer = a.position)
		AND a.state <> 'void'`}
	newestOfLife   = &query{`SELECT state FROM approvals WHERE life_id = ? ORDER BY id DESC LIMIT 1`}
	insertApproval = &query{`INSERT INTO approvals
		(life_id, run, position, answer, round, beyond, tool, definition, args, dir, files, digest, change, rule, taint,
		step_id, instead, because, binding, unbound, lapsed, session, declarable,
		request, state, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'awaiting', ?, ?)`}
	toldOfLife = &query{`SELECT 1 FROM approvals WHERE life_id = ? AND declarable <> 0 LIMIT 1`}
	sessionOf  = &query{`SELECT session FROM chats WHERE agent = ? AND channel = ? AND account = ? AND chat = ?
		AND thread = ?`}
	refusedOfLife = &query{`SELECT COUNT(DISTINCT request) FROM approvals WHERE life_id = ? AND run = ?
		AND state IN ('denied', 'expired')`}
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
// whose time is over expires here. If the answer has another request already, the error is [corebot.ErrNotAsked]. If
// too many requests of the message were refused, it is [corebot.ErrAskedEnough].
//
// A call of a later round has changed since it was approved. Its approval is void then, with the approvals of all calls
// behind it, and the asks are a new request. A worker that lost its lease gets [corebot.ErrLeaseLost] and changes
// nothing.
func (l *Ledger) Ask(ctx context.Context, d corebot.Delivery, s corebot.Step,
	asks []corebot.NewApproval,
) (stands corebot.ApprovalRequest, err error) {
	row, err := encodeStep(s)
	if err != nil {
		return stands, err
	}
	err = l.db.write(ctx, "ask", func(t *tx) (err error) {
		if err := holdsTx(t, d.Lease); err != nil {
			return err
		}
		own, known, err := approvalTx(t, approvalOfStep, d.Life, d.Run, s.Position, asks[0].Approval.Answer)
		if err == nil && !known {
			own, known, err = approvalTx(t, askedOfStep, d.Life, d.Run, s.Position)
		}
		switch {
		case err != nil:
			return err
		case !known:
			err = askTx(t, d, row, asks)
		case own.Detached() && own.AskedBy == d.Life:
			stands = corebot.ApprovalRequest{Approval: own}
			return nil
		case own.State == corebot.ApprovalApproved && asks[0].Approval.Round > own.Round:
			err = askAnewTx(t, d, row, own, asks)
		case own.State == corebot.ApprovalAwaited && !own.ExpiresAt.After(t.now):
			by := corebot.AuditEvent{Key: own.Key, Entry: corebot.EntryItself, StepID: d.StepID(s.Position)}
			err = closeTx(t, own, corebot.ApprovalExpired, itself, by)
		case own.State == corebot.ApprovalAwaited:
			detached, err := l.detachTx(t, d, own, asks[0].AnswerAfter)
			if err != nil || detached {
				stands.Approval, _, err = approvalTx(t, approvalByID, own.ID)
				return err
			}
		}
		if err == nil {
			stands, err = askedTx(t, d, asks[0].Approval.Answer, s.Position)
			stands.Until = looksAgain(t, stands.Approval, asks[0].AnswerAfter)
		}
		return err
	})
	return stands, err
}

// askTx stores a request.
func askTx(t *tx, d corebot.Delivery, row stepRow, asks []corebot.NewApproval) error {
	var others int64
	if _, err := t.one(countOfAnswer, []any{&others}, d.Life, d.Run, asks[0].Approval.Answer); err != nil {
		return err
	}
	if others > 0 {
		return corebot.ErrNotAsked
	}
	if before, err := t.one(askedBefore, []any{&others}, d.Life, d.Run); err != nil || before {
		return cmp.Or(err, corebot.ErrAskedBefore)
	}
	var refused int64
	if _, err := t.one(refusedOfLife, []any{&refused}, d.Life, d.Run); err != nil {
		return err
	}
	if refused >= corebot.MaxRefusals {
		return corebot.ErrAskedEnough
	}
	return requestTx(t, d, row, asks)
}

// askAnewTx replaces an approved request by a new one.
func askAnewTx(t *tx, d corebot.Delivery, row stepRow, own corebot.Approval, asks []corebot.NewApproval) error {
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

func requestTx(t *tx, d corebot.Delivery, row stepRow, asks []corebot.NewApproval) error {
	request, one := int64(0), int64(0)
	told, err := t.one(toldOfLife, []any{&one}, d.Life) // once in a turn is enough
	if err != nil {
		return err
	}
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
		binding := ""
		if a.Binding.Kind != "" {
			if binding, err = encode(a.Binding); err != nil {
				return err
			}
		}
		session, err := sessionTx(t, d.Message.Key.Acts(), ask)
		if err != nil {
			return err
		}
		sum := a.Bound.Digest()
		id, err := t.insert(insertApproval, d.Life, d.Run, a.Position, a.Answer, a.Round, a.Beyond, a.Bound.Tool,
			a.Bound.Definition, string(a.Bound.Args), a.Bound.Dir,
			files, sum[:], change, a.Rule, a.Taint, d.StepID(a.Position), a.Instead, a.Because, binding, a.Unbound,
			a.Lapsed, session, a.Declarable && !told, request, t.now, a.ExpiresAt)
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

// sessionTx is the session of a chat in which a call is made; 0: it is made in none.
func sessionTx(t *tx, k corebot.Key, ask corebot.NewApproval) (session int64, err error) {
	if ask.Apart {
		return 0, nil
	}
	session = 1 // of a chat that has no row yet
	_, err = t.one(sessionOf, []any{&session}, keyArgs(k)...)
	if ask.Opens {
		session++
	}
	return session, err
}

// askedTx returns the approval of a step with its whole request.
func askedTx(t *tx, d corebot.Delivery, answer, position int) (a corebot.ApprovalRequest, err error) {
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

// awaitedTx reads the request that a message waits for. Nobody can answer a request whose stored call is not
// the one that was asked about. Nothing behind it may wait for it: its approvals are void, and the turn goes on. The
// turn finds the damage itself, and ends with an error.
func awaitedTx(t *tx, q *query, of int64) (a corebot.Approval, found bool, err error) {
	a, found, err = approvalTx(t, q, of)
	if !errors.Is(err, errOtherCall) {
		return a, found, err
	}
	if _, err := t.exec(voidDamaged, errOtherCall.Error(), a.Life); err != nil {
		return a, false, err
	}
	return a, false, goOnTx(t, a.Life, corebot.AwaitingApproval)
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

var refuseNow = &query{
	`UPDATE message_life SET "end" = '` + string(corebot.EndRefused) +
		`', reason = ?, claimed_at = ?, ended_at = ? WHERE id = ?`,
}

// mistakenTx ends a message by which its sender meant to answer a request for an approval, such as "yes". The message
// answers nothing, and it must not give the call up either: the request stays open. The sender is told how to answer,
// the first time at length.
func mistakenTx(t *tx, p *parcel, l lane, life int64) (told bool, err error) {
	if !mayPass(p, l) || p.Kind != corebot.KindPrompt || !corebot.LooksLikeAnswer(p.Text()) {
		return false, nil
	}
	a, awaited, err := awaitedTx(t, awaitedInLane, l.id)
	if err != nil || !awaited || a.Principal != p.Sender || !a.ExpiresAt.After(t.now) {
		return false, err
	}
	return true, refuseAnswerTx(t, p, l, life, a)
}

// refuseAnswerTx ends a message by which its sender meant to answer a request, and tells the sender how to answer.
func refuseAnswerTx(t *tx, p *parcel, l lane, life int64, a corebot.Approval) error {
	if _, err := t.exec(takeHeardPlace, l.id); err != nil {
		return err
	}
	if _, err := t.exec(refuseNow, corebot.ReasonNoAnswer, t.now, t.now, life); err != nil {
		return err
	}
	about := corebot.Notice{Kind: corebot.NoticeCommand, Actions: a.Actions()}
	text := fmt.Sprintf("A message does not answer approval %d, so that no text can answer it by chance. "+
		"The approval is still open: %s. Any other message gives the call up.", a.Request, a.Usage())
	first := corebot.TextNotice(p.Key, corebot.OwnID("approval", a.Request, "mistaken"), p.ID, text, about)
	if err := noticeTx(t, &pack([]corebot.Message{first})[0], life); !errors.Is(err, corebot.ErrConflict) {
		return err
	}
	again := corebot.TextNotice(p.Key, corebot.OwnID("approval", a.Request, "mistaken", life), p.ID,
		fmt.Sprintf("Approval %d is still open: %s.", a.Request, a.Usage()), about)
	return noticeTx(t, &pack([]corebot.Message{again})[0], life)
}

// mayPass says whether a message can end the wait of the lane's head for an approval, if its sender is the head's.
func mayPass(p *parcel, l lane) bool {
	return l.waiting == corebot.AwaitingApproval && p.cause == 0 && p.Sender.ID != "" && p.steers == nil &&
		p.Relay == nil
}

// passAwaitedTx ends the wait for an approval when the sender of its message writes again. The answer goes on without
// the call, and then the new message is answered. A message of anybody else waits, and the chat is told so once. A
// /steer waits too: it is a part of the message.
func passAwaitedTx(t *tx, l lane, p *parcel, life int64) error {
	if !mayPass(p, l) {
		return tellAwaitedTx(t, l, p, life)
	}
	a, awaited, err := awaitedTx(t, awaitedInLane, l.id)
	if err != nil || !awaited || a.Principal != p.Sender {
		return errors.Join(err, tellAwaitedTx(t, l, p, life))
	}
	by := corebot.AuditEvent{Key: a.Key, Entry: corebot.EntryItself}
	if err := closeTx(t, a, corebot.ApprovalExpired, itself, by); err != nil {
		return err
	}
	told := corebot.TextNotice(p.Key, corebot.OwnID("approval", a.Request, "passed"), p.ID,
		fmt.Sprintf("Approval %d is given up, because you wrote again: the answer before this one goes on without %s.",
			a.Request, a.Bound.Tool), corebot.Notice{Kind: corebot.NoticeAwaited})
	return noticeTx(t, &pack([]corebot.Message{told})[0], life)
}

// tellAwaitedTx tells the chat once that its messages wait for a pending approval, or behind another call that waits.
func tellAwaitedTx(t *tx, l lane, p *parcel, life int64) error {
	switch {
	case p.cause != 0:
		return nil
	case l.waiting == corebot.AwaitingTime || l.waiting == corebot.AwaitingWord || l.waiting == corebot.AwaitingJob:
		return tellWaitingTx(t, l, p, life)
	case l.waiting != corebot.AwaitingApproval:
		return nil
	}
	a, awaited, err := awaitedTx(t, awaitedInLane, l.id)
	if err != nil || !awaited {
		return err
	}
	told := corebot.TextNotice(p.Key, corebot.OwnID("approval", a.Request, "awaited"), p.ID,
		fmt.Sprintf("This waits behind a call of %s that an admin has to approve first: /approve %d or /deny %d. "+
			"/stop gives it up.", a.Bound.Tool, a.Request, a.Request),
		corebot.Notice{
			Kind: corebot.NoticeAwaited, Actions: append(a.Actions(), corebot.StopAction()),
		})
	// a conflict: the chat was told in answer to an earlier message
	if err := noticeTx(t, &pack([]corebot.Message{told})[0], life); !errors.Is(err, corebot.ErrConflict) {
		return err
	}
	return nil
}

// tellWaitingTx tells the chat once that its messages wait behind a call that waits. A message that the turn is to
// merge has ended the wait.
func tellWaitingTx(t *tx, l lane, p *parcel, life int64) error {
	w, err := oneWait(t, headWaitsForWhat, l.id)
	if err != nil || w.ID == 0 {
		return err
	}
	text := fmt.Sprintf("This waits behind an answer that waits for %s, until %s at the latest. /resume %d lets "+
		"that answer go on now, and /stop gives it up.", w.Awaiting(),
		w.Until.UTC().Format("15:04:05 MST on 2 January"), w.ID)
	if w.Kind == corebot.WaitJob {
		text = "This waits behind an answer that waits for the results of jobs. /jobs lists them, and /stop gives " +
			"the answer up."
	}
	told := corebot.TextNotice(p.Key, corebot.OwnID("wait", w.ID, "behind"), p.ID, text,
		corebot.Notice{Kind: corebot.NoticeAwaited, Actions: w.Actions()})
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
		`UPDATE approvals SET ran = 1 WHERE life_id = ? AND run = ? AND position = ? AND state = 'approved'
			AND ran = 0`,
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
			t.count(approvalsTotal, a.Key.Agent, string(corebot.ApprovalVoid), "", 1)
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
	case s.State == corebot.StepIntended, s.State == corebot.StepWaiting, s.Result != nil && s.Result.Ran:
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

var anyApproval = &query{`SELECT 1 FROM approvals WHERE life_id = ? LIMIT 1`}

// endWaitingTx ends the approvals and the waits of an ended message. Most messages have none.
func endWaitingTx(t *tx, d *corebot.Delivery) error {
	if d.Message.Direction != corebot.Inbound {
		return nil
	}
	var one int64
	if found, err := t.one(anyApproval, []any{&one}, d.Life); err != nil || !found {
		return errors.Join(err, giveUpTx(t, d.Life, waitLeft, corebot.AuditEvent{}))
	}
	return endCallsTx(t, d.Life)
}

// endCallsTx gives up what the calls of a message wait for, denies those that wait for an approval, and makes its
// approvals void whose calls were not made.
func endCallsTx(t *tx, life int64) error {
	if err := giveUpTx(t, life, waitLeft, corebot.AuditEvent{}); err != nil {
		return err
	}
	if err := denyAwaitedTx(t, life, corebot.AuditEvent{}); err != nil {
		return err
	}
	if _, err := t.exec(clearDetached, life); err != nil {
		return err
	}
	return voidTx(t, "its turn ended without the call", unmadeOfLife, life)
}
