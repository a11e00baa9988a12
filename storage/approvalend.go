package storage

import (
	"fmt"

	"github.com/corebot/corebot"
)

// An approval ends with its call. An approval whose call is not made any more is void. A steer skipped the call, what it
// was given for has changed, the sender lost his role, or the message was stopped. The commit that decides it says so in
// the table.

var (
	// The columns that the step's index has come first.
	unmadeFrom   = &query{approvalColumns + `WHERE a.life_id = ? AND a.run = ? AND a.position >= ? AND a.state = 'approved' AND a.ran = 0 ORDER BY a.id`}
	unmadeOf     = &query{approvalColumns + `WHERE a.life_id = ? AND a.run = ? AND a.position = ? AND a.state = 'approved' AND a.ran = 0`}
	unmadeOfLife = &query{approvalColumns + `WHERE a.life_id = ? AND a.state = 'approved' AND a.ran = 0 ORDER BY a.id`}
	voidApproval = &query{`UPDATE approvals SET state = 'void', reason = ? WHERE id = ?`}
	beginCall    = &query{`UPDATE approvals SET ran = 1 WHERE life_id = ? AND run = ? AND position = ? AND state = 'approved' AND ran = 0`}
)

// voidTx ends approvals whose calls are not made any more.
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
			"id": a.Request, "tool": a.Bound.Tool, "messageId": a.MessageID, "chat": a.Key.String(), "principal": a.Principal.String(),
			"approvedBy": a.By, "reason": reason,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// madeTx notes what a step says of the approval of its call: the call is begun, or has ended without being made.
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
	return denyAwaitedTx(t, d.Life, corebot.AuditEvent{}) // its tool is gone, or who asked may not have it any more
}

// withoutCall says why an approved call was not made.
func withoutCall(r *corebot.ToolResult) string {
	if r == nil {
		return "the call was not made"
	}
	return fmt.Sprintf("the call was not made (%s)", r.Outcome)
}

// endApprovalsTx ends the approvals of a message that has ended. A message that was answered in its first claim has none.
func endApprovalsTx(t *tx, d *corebot.Delivery, o corebot.Outcome) error {
	if d.Message.Direction != corebot.Inbound || o.End == corebot.EndAnswered && len(d.Journal) == 0 {
		return nil
	}
	return endCallsTx(t, d.Life)
}

// endCallsTx denies the calls of a message that wait, and makes approvals of those void that were not made.
func endCallsTx(t *tx, life int64) error {
	if err := denyAwaitedTx(t, life, corebot.AuditEvent{}); err != nil {
		return err
	}
	return voidTx(t, "its turn ended without the call", unmadeOfLife, life)
}
