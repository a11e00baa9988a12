package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

var (
	approvalOfStep = &query{approvalColumns + `WHERE a.life_id = ? AND a.run = ? AND a.position = ? AND (a.answer = ? OR a.answer = a.position)
		AND a.state <> 'void'`}
	newestOfLife   = &query{`SELECT state FROM approvals WHERE life_id = ? ORDER BY id DESC LIMIT 1`}
	insertApproval = &query{`INSERT INTO approvals
		(life_id, run, position, answer, round, beyond, tool, definition, args, dir, files, digest, change, rule, taint, step_id, instead, because,
		request, state, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'awaiting', ?, ?)`}
	beginRequest  = &query{`UPDATE approvals SET request = id WHERE id = ?`}
	countOfAnswer = &query{`SELECT COUNT(*) FROM approvals WHERE life_id = ? AND run = ? AND answer = ? AND state <> 'void'`}
	awaitedInLane = &query{approvalColumns + `JOIN message_queue q ON q.life_id = a.life_id WHERE a.state = 'awaiting' AND q.lane_id = ? LIMIT 1`}
)

// Ask stores that calls of an answer wait for an admin: the step of the first of them, their approvals, and the audit
// events of both are one commit. If the first one was asked for already, it is given as it stands, and nothing is
// stored; a request whose time is over expires here. A call of an answer that has another request is
// [corebot.ErrNotAsked].
//
// A call of a later round has changed since it was approved: that approval is void then, with those of all calls behind
// it, and the asks are a new request. A worker that lost its lease gets [corebot.ErrLeaseLost] and changes nothing.
func (l *Ledger) Ask(ctx context.Context, d corebot.Delivery, s corebot.Step, asks []corebot.Ask) (stands corebot.Asked, err error) {
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

// askAnewTx puts a request in the place of one that was approved.
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
		id, err := t.insert(insertApproval, d.Life, d.Run, a.Position, a.Answer, a.Round, a.Beyond, a.Bound.Tool, a.Bound.Definition, string(a.Bound.Args), a.Bound.Dir,
			files, sum[:], change, a.Rule, a.Taint, d.StepID(a.Position), a.Instead, a.Because, request, t.now, a.ExpiresAt)
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

// askedTx gives the approval of a step with all of its request.
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

// standsTx says until when the head of a lane waits for an approval: until it expires or, if it was resolved before the claim ended, until now.
func standsTx(t *tx, life int64, until time.Time) (time.Time, error) {
	var state string
	asked, err := t.one(newestOfLife, []any{&state}, life)
	if err == nil && asked && corebot.ApprovalState(state) != corebot.ApprovalAwaited {
		until = t.now
	}
	return until, err
}

// tellAwaitedTx tells a chat, once, that what is said now waits behind a call that waits for an admin's word.
func tellAwaitedTx(t *tx, l lane, p *parcel, life int64) error {
	if l.waiting != corebot.AwaitingApproval || p.cause != 0 {
		return nil
	}
	a, awaited, err := approvalTx(t, awaitedInLane, l.id)
	if err != nil || !awaited {
		return err
	}
	told := corebot.Message{
		ID: corebot.OwnID("approval", a.Request, "awaited"), Direction: corebot.Outbound, Key: p.Key, Kind: corebot.KindNotice, InReplyTo: p.ID,
		Parts: corebot.TextPart(fmt.Sprintf("This waits behind a call of %s that an admin has to approve first: /approve %d or /deny %d. /stop gives it up.", a.Bound.Tool, a.Request, a.Request)),
	}
	if err := noticeTx(t, &pack([]corebot.Message{told})[0], life); !errors.Is(err, corebot.ErrConflict) { // then it was told in answer to an earlier message
		return err
	}
	return nil
}
