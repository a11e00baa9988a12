package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// A request is detached when its answer comes without its calls. The commit that detaches it makes the message whose
// turn will run the calls, and gives the calls to that turn. The message is deferred until the request expires. Every
// end of the request is also an end of the wait, in one commit:
//
//   - An approval puts the message at the tail of its lane.
//   - A denial, the expiry, a /stop, a new session and the next message of its sender end the message. No turn runs.
//
// The lane names the message, so that a chat has one detached request at most, and publishing finds it at no cost. The
// message can be given up until its turn begins, also after the approval.

var (
	asDetached = &query{`UPDATE approvals SET asked_life = life_id, asked_run = run, asked_position = position,
		life_id = ?, run = 1, position = ?, answer = 0, step_id = ? WHERE id = ?`}
	// The planner needs "<> 0" to see that it can use the index.
	askedOfStep = &query{approvalColumns + `WHERE a.asked_life = ? AND a.asked_life <> 0 AND a.asked_run = ?
		AND a.asked_position = ? ORDER BY a.id DESC LIMIT 1`}
	askedBefore = &query{`SELECT 1 FROM approvals WHERE asked_life = ? AND asked_life <> 0 AND asked_run = ? LIMIT 1`}
	askedOfLife = &query{`SELECT l.id, l.detached FROM approvals a JOIN message_life m ON m.id = a.life_id
		JOIN lanes l ON l.id = m.lane_id
		WHERE a.asked_life = ? AND a.asked_life <> 0 AND l.detached = a.life_id LIMIT 1`}
	openOfDetached = &query{approvalColumns + `WHERE a.life_id = ? AND a.asked_life <> 0
		AND (a.state = 'awaiting' OR a.state = 'approved' AND a.ran = 0) ORDER BY a.id LIMIT 1`}

	detachedIn    = &query{`SELECT detached FROM lanes WHERE id = ?`}
	setDetached   = &query{`UPDATE lanes SET detached = ? WHERE id = ?`}
	clearDetached = &query{`UPDATE lanes SET detached = 0 WHERE id = (SELECT lane_id FROM message_life WHERE id = ?1)
		AND detached = ?1`}
	detachedOf = &query{`SELECT l.detached, m.sender FROM lanes l JOIN message_life m ON m.id = l.detached
		WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?`}
	waitsUntil  = &query{`UPDATE message_parked SET due_at = ? WHERE life_id = ?`}
	voidDamaged = &query{`UPDATE approvals SET state = 'void', reason = ? WHERE life_id = ?
		AND (state = 'awaiting' OR state = 'approved' AND ran = 0)`}
	because = &query{`UPDATE approvals SET reason = ? WHERE request = ?`}
)

// looksAgain is when a turn that waits for an approval goes on at the latest.
func looksAgain(t *tx, a corebot.Approval, answerAfter time.Duration) time.Time {
	if answer := a.CreatedAt.Add(answerAfter); answerAfter > 0 && answer.After(t.now) && answer.Before(a.ExpiresAt) {
		return answer
	}
	return a.ExpiresAt
}

// detachTx detaches a request that has waited long enough. A chat that has a detached request gets no other one: the
// call then holds its answer.
func (l *Ledger) detachTx(t *tx, d corebot.Delivery, own corebot.Approval, answerAfter time.Duration) (bool, error) {
	if answerAfter <= 0 || t.now.Before(own.CreatedAt.Add(answerAfter)) || own.Detached() || d.Message.Sender.ID == "" {
		return false, nil
	}
	var standing, refused int64
	if _, err := t.one(detachedIn, []any{&standing}, d.Lane); err != nil || standing != 0 {
		return false, err
	}
	if _, err := t.one(refusedOfLife, []any{&refused}, d.Life, d.Run); err != nil ||
		refused > corebot.MaxDetachedRefusals {
		return false, err
	}
	calls, err := callsOfTx(t, own.Request)
	if err != nil {
		return false, err
	}
	p := pack([]corebot.Message{d.Detach(calls)})
	p[0].cause, p[0].owed = d.Life, true
	r, err := publishTx(t, &p[0], l.db.limits)
	if err != nil || r.Err != nil || r.Duplicate {
		return false, errors.Join(err, r.Err)
	}
	runs := corebot.Delivery{Message: p[0].Message, Run: 1}
	for i, call := range calls {
		if _, err := t.exec(asDetached, r.Life, i, runs.StepID(i), call.ID); err != nil {
			return false, err
		}
	}
	if _, err := t.exec(setDetached, r.Life, d.Lane); err != nil {
		return false, err
	}
	by := corebot.AuditEvent{Key: own.Key, Entry: corebot.EntryItself, StepID: d.StepID(own.Position)}
	return true, changeTx(t, by, "approval.detach", own.Key, map[string]any{
		"id": own.Request, "calls": own.Calls, "tool": own.Bound.Tool, "messageId": d.Message.ID,
		"chat": own.Key.String(), "principal": own.Principal.String(), "runsAs": p[0].ID,
	})
}

// callsOfTx reads the calls of a request.
func callsOfTx(t *tx, request int64) (calls []corebot.Approval, err error) {
	err = t.each(callsOfRequest, func(s scanner) error {
		call, err := scanApproval(s)
		calls = append(calls, call)
		return err
	}, request)
	return calls, err
}

// settleDetachedTx has the message of a detached request run, or ends it and tells the chat, unless it has ended
// already. Where a command of the chat itself has denied the request, its answer tells the chat.
func settleDetachedTx(t *tx, a corebot.Approval, state corebot.ApprovalState, who string, by corebot.AuditEvent) error {
	_, _, waits, err := isDeferredTx(t, a.Life)
	if err != nil || !waits {
		return err
	}
	if state == corebot.ApprovalApproved {
		if _, err := t.exec(deliverNow, t.now, a.Life, t.now); err != nil {
			return err
		}
		return returnTx(t, returning{life: a.Life, direction: corebot.Inbound, key: a.Key})
	}
	if _, err := takeDeferredTx(t, a.Life, corebot.EndRefused, string(state)); err != nil {
		return err
	}
	if _, err := t.exec(clearDetached, a.Life); err != nil {
		return err
	}
	text := fmt.Sprintf("Approval %d has expired, because nobody answered in time: %s not run.", a.Request, didNot(a))
	if state == corebot.ApprovalDenied {
		text = fmt.Sprintf("Approval %d was denied by %s: %s not run.", a.Request, who, didNot(a))
	}
	return tellDetachedTx(t, a, text, by.Entry != corebot.EntryCommand || by.Key != a.Key)
}

// didNot begins a sentence about the calls of a request.
func didNot(a corebot.Approval) string {
	if a.Calls > 1 {
		return fmt.Sprintf("its %d calls do", a.Calls)
	}
	return a.Bound.Tool + " does"
}

// tellDetachedTx enters the end of a detached request into the history, whose last entry says that it is open. It also
// tells the chat, unless the chat knows.
func tellDetachedTx(t *tx, a corebot.Approval, text string, tell bool) error {
	told := corebot.TextNotice(a.Key, corebot.OwnID("approval", a.Request, "ended"), a.MessageID, text,
		corebot.Notice{Kind: corebot.NoticeRefused})
	if tell {
		if err := noticeTx(t, &pack([]corebot.Message{told})[0], a.Life); err != nil {
			return err
		}
	}
	return sayTx(t, a.Key, told, "", false)
}

// expireDetachedTx ends a detached request whose time is over. The clock can have been set back meanwhile.
func expireDetachedTx(t *tx, r returning) error {
	a, found, err := approvalTx(t, awaitedOfLife, r.life)
	switch {
	case errors.Is(err, errOtherCall):
		return abandonDetachedTx(t, r.life, r.key)
	case err != nil:
		return err
	case !found:
		_, err := endDeferredTx(t, r.life, corebot.EndRefused, string(corebot.ApprovalVoid))
		return err
	case a.ExpiresAt.After(t.now):
		_, err := t.exec(waitsUntil, a.ExpiresAt, r.life)
		return err
	}
	return closeTx(t, a, corebot.ApprovalExpired, itself, corebot.AuditEvent{Key: a.Key, Entry: corebot.EntryItself})
}

// givingUp says why a detached request is given up, and how.
type givingUp struct {
	state corebot.ApprovalState // of a request that nobody has answered
	why   string
	by    corebot.AuditEvent
	tell  bool
}

// stoppedBy is how a /stop gives up a request.
func stoppedBy(by corebot.AuditEvent) givingUp {
	return givingUp{state: corebot.ApprovalDenied, why: "it was stopped", by: by, tell: true}
}

// anew is how a request is given up whose message was dropped or starts over.
var anew = givingUp{
	state: corebot.ApprovalExpired, why: "the message that asked for it was dropped, or starts over", tell: true,
}

// giveUpDetachedTx gives up the detached request of a lane. An approval that came before is void. A turn that has begun
// goes on: gone is false then.
func giveUpDetachedTx(t *tx, lane, life int64, g givingUp) (gone bool, err error) {
	a, open, err := approvalTx(t, openOfDetached, life)
	if err != nil || !open {
		return false, err
	}
	if gone, err = takeDeferredTx(t, life, corebot.EndRefused, "given up"); err == nil && !gone {
		gone, err = cutDetachedTx(t, lane, life, a.Key)
	}
	if err != nil || !gone {
		return gone, err
	}
	if _, err := t.exec(because, g.why, a.Request); err != nil {
		return true, err
	}
	if a.State == corebot.ApprovalAwaited {
		who := g.by.Principal.String()
		if g.by.Principal == (corebot.Principal{}) {
			who, g.by = itself, corebot.AuditEvent{Key: a.Key, Entry: corebot.EntryItself}
		}
		err = closeTx(t, a, g.state, who, g.by)
	} else {
		err = voidTx(t, g.why, unmadeOfLife, life)
	}
	if err != nil {
		return true, err
	}
	if _, err := t.exec(clearDetached, life); err != nil {
		return true, err
	}
	text := fmt.Sprintf("Approval %d is given up, because %s: %s not run.", a.Request, g.why, didNot(a))
	return true, tellDetachedTx(t, a, text, g.tell)
}

// cutDetachedTx takes an approved message out of its lane, if its turn has not begun.
func cutDetachedTx(t *tx, laneID, life int64, k corebot.Key) (gone bool, err error) {
	var o original
	found, err := t.one(originalLife, o.columns(), life)
	if err != nil || !found || o.seq == 0 || o.journal || o.run > 1 {
		return false, err
	}
	l := lane{id: laneID}
	h, err := busyHeadTx(t, l)
	if err != nil || h.life == life && h.begun {
		return false, err
	}
	if err := cutTx(t, k, l, o, h.life == life); err != nil {
		return false, err
	}
	_, err = t.exec(endDeferred, string(corebot.EndRefused), "given up", t.now, life)
	return true, err
}

// abandonDetachedTx ends a detached request whose stored calls are not those that were asked about. Nobody can answer
// such a request, and it must not hold up the messages of its chat.
func abandonDetachedTx(t *tx, life int64, k corebot.Key) error {
	if _, err := takeDeferredTx(t, life, corebot.EndRefused, "damaged"); err != nil {
		return err
	}
	if _, err := t.exec(voidDamaged, errOtherCall.Error(), life); err != nil {
		return err
	}
	if _, err := t.exec(clearDetached, life); err != nil {
		return err
	}
	told := corebot.TextNotice(k, corebot.OwnID("approval", life, "damaged"), "", "A request for an approval in "+
		"this chat is given up: what is stored of its calls has changed since people were asked. They do not run.",
		corebot.Notice{Kind: corebot.NoticeRefused})
	return noticeTx(t, &pack([]corebot.Message{told})[0], life)
}

// giveUpAskedTx gives up the detached request that the turn of a message has asked for.
func giveUpAskedTx(t *tx, life int64, g givingUp) error {
	var lane, detached int64
	found, err := t.one(askedOfLife, []any{&lane, &detached}, life)
	if err != nil || !found {
		return err
	}
	_, err = giveUpDetachedTx(t, lane, detached, g)
	return err
}

// passSessionTx gives up the detached request of a lane whose chat begins a new session. A turn does not give up what
// it has asked for itself.
func passSessionTx(t *tx, lane, life int64) error {
	var detached int64
	if _, err := t.one(detachedIn, []any{&detached}, lane); err != nil || detached == 0 {
		return err
	}
	a, open, err := approvalTx(t, openOfDetached, detached)
	if err != nil || !open || life != 0 && a.AskedBy == life {
		return err
	}
	_, err = giveUpDetachedTx(t, lane, detached, givingUp{
		state: corebot.ApprovalExpired, why: "a new conversation began", tell: true,
	})
	return err
}

// spokenTx gives up the detached request of a lane when its sender writes again, in whatever way. A plain yes answers
// nothing and is refused, as [mistakenTx] does: told is true then. What Corebot publishes for the sender says nothing.
// The lane is read again if it has changed.
func spokenTx(t *tx, p *parcel, l *lane, life int64) (told bool, err error) {
	if p.Direction != corebot.Inbound || p.Kind == corebot.KindHeard || p.Sender.ID == "" || p.cause != 0 ||
		p.Relay != nil || p.Errand != nil || p.Child != nil || p.Detached != nil {
		return false, nil
	}
	a, open, err := approvalTx(t, openOfDetached, l.detached)
	if errors.Is(err, errOtherCall) {
		if err = abandonDetachedTx(t, l.detached, p.Key); err == nil {
			*l, err = findLaneTx(t, p.Direction, p.Key)
		}
		return false, err
	}
	if err != nil || !open || a.Principal != p.Sender {
		return false, err
	}
	if a.State == corebot.ApprovalAwaited && a.ExpiresAt.After(t.now) && p.Kind == corebot.KindPrompt &&
		p.EditOf == "" && p.steers == nil && !p.isLater(t) && corebot.LooksLikeConsent(p.Text()) {
		return true, refuseAnswerTx(t, p, *l, life, a)
	}
	gone, err := giveUpDetachedTx(t, l.id, l.detached, givingUp{
		state: corebot.ApprovalExpired, why: "its sender wrote again", tell: true,
	})
	if err == nil && gone {
		*l, err = findLaneTx(t, p.Direction, p.Key)
	}
	return false, err
}

// stillOpenTx tells the chat, behind an answer that came without calls, that their request is open.
func stillOpenTx(t *tx, d corebot.Delivery, request int64) error {
	calls, err := callsOfTx(t, request)
	if err != nil || len(calls) == 0 || calls[0].State != corebot.ApprovalAwaited || !calls[0].ExpiresAt.After(t.now) {
		return err
	}
	asked := corebot.ApprovalRequest{Approval: calls[0], All: calls}
	text := fmt.Sprintf("Approval %d is still open: %s, until %s. The next message of %s in this chat gives it up.",
		request, asked.Usage(), asked.ExpiresAt.UTC().Format("15:04:05 MST"), asked.Principal)
	told := corebot.TextNotice(d.Message.Key, corebot.OwnID("approval", request, "open"), asked.MessageID, text,
		asked.NoticeOf())
	// a conflict: an earlier run of the message has told the chat
	if err := noticeTx(t, &pack([]corebot.Message{told})[0], asked.Life); !errors.Is(err, corebot.ErrConflict) {
		return err
	}
	return nil
}

// Detached returns the message of the detached request of a chat, and its sender. A life of 0 means that there is none.
func (l *Ledger) detached(ctx context.Context, k corebot.Key) (h []corebot.Head, err error) {
	err = l.db.reader.each(ctx, detachedOf, func(s scanner) error {
		var sender string
		one := corebot.Head{Key: k}
		err := s.Scan(&one.Life, &sender)
		one.Sender = senderIn(k, sender)
		h = append(h, one)
		return err
	}, int64(corebot.Inbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	return h, err
}

// stopsDetached says whether the message of the lane's detached request is among those that a /stop ends.
func stopsDetached(l lane, asked []corebot.Head) bool {
	return l.detached != 0 && slices.ContainsFunc(asked, func(h corebot.Head) bool { return h.Life == l.detached })
}
