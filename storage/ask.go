package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

var (
	approvalOfStep = &query{approvalColumns + `WHERE a.life_id = ? AND a.run = ? AND a.position = ?`}
	newestOfLife   = &query{`SELECT state FROM approvals WHERE life_id = ? ORDER BY id DESC LIMIT 1`}
	insertApproval = &query{`INSERT INTO approvals (life_id, run, position, tool, args, dir, files, digest, rule, taint, step_id, state, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'awaiting', ?, ?)`}
	awaitedInLane = &query{approvalColumns + `JOIN message_queue q ON q.life_id = a.life_id WHERE a.state = 'awaiting' AND q.lane_id = ? LIMIT 1`}
)

// Ask stores that a call waits for an admin's word: the step, the approval, and the audit event of both are one commit. A call that waits already
// is given as it stands; one whose time is over expires here. A worker that lost its lease gets [corebot.ErrLeaseLost] and changes nothing.
func (l *Ledger) Ask(ctx context.Context, d corebot.Delivery, s corebot.Step, a corebot.Approval, event corebot.AuditEvent) (corebot.Approval, error) {
	row, err := encodeStep(s)
	if err != nil {
		return a, err
	}
	var stands corebot.Approval
	err = l.db.write(ctx, "ask", func(t *tx) (err error) {
		if err := holdsTx(t, d.Lease); err != nil {
			return err
		}
		known := false
		if stands, known, err = approvalTx(t, approvalOfStep, d.Life, d.Run, s.Position); err != nil {
			return err
		}
		if !known {
			stands, err = askTx(t, d, row, a, event)
			return err
		}
		if stands.State == corebot.ApprovalAwaited && !stands.ExpiresAt.After(t.now) {
			stands.State = corebot.ApprovalExpired
			return closeTx(t, stands, corebot.ApprovalExpired, itself, corebot.AuditEvent{Key: stands.Key, Entry: itself, StepID: d.StepID(s.Position)})
		}
		return nil
	})
	return stands, err
}

func askTx(t *tx, d corebot.Delivery, row stepRow, a corebot.Approval, event corebot.AuditEvent) (corebot.Approval, error) {
	files, err := encode(a.Bound.Files)
	if err != nil {
		return a, err
	}
	sum := a.Bound.Digest()
	a.ID, err = t.insert(insertApproval, d.Life, d.Run, row.Position, a.Bound.Tool, string(a.Bound.Args), a.Bound.Dir, files, sum[:], a.Rule, a.Taint,
		d.StepID(row.Position), t.now, a.ExpiresAt)
	if err != nil {
		return a, err
	}
	if err := recordStepTx(t, d.Life, d.Run, row); err != nil {
		return a, err
	}
	if err := auditTx(t, []corebot.AuditEvent{event}); err != nil {
		return a, err
	}
	stands, _, err := approvalTx(t, approvalByID, a.ID)
	return stands, err
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

// endAwaitedTx has no call wait for a message that has ended. Most answered ones have had none.
func endAwaitedTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	if d.Message.Direction != corebot.Inbound || o.End == corebot.EndAnswered && !awaits(d.Journal) {
		return nil
	}
	return denyAwaitedTx(t, d.Life, corebot.AuditEvent{})
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
		ID: fmt.Sprintf("approval/%d/awaited", a.ID), Direction: corebot.Outbound, Key: p.Key, Kind: corebot.KindNotice, InReplyTo: p.ID,
		Parts: corebot.TextPart(fmt.Sprintf("This waits behind a call of %s that an admin has to approve first: /approve %d or /deny %d. /stop gives it up.", a.Bound.Tool, a.ID, a.ID)),
	}
	if err := noticeTx(t, &pack([]corebot.Message{told})[0], life); !errors.Is(err, corebot.ErrConflict) { // then it was told in answer to an earlier message
		return err
	}
	return nil
}

// awaits says whether a journal has a call that waits.
func awaits(journal []corebot.Step) bool {
	return len(journal) > 0 && journal[len(journal)-1].State == corebot.StepAwaiting
}
