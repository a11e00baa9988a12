package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

const (
	answerIn  = 5 * time.Minute
	deliverIn = time.Minute
)

// objectivesOf counts what there is so far, so that only later messages count.
func objectivesOf(t *testing.T, db *DB) *Objectives {
	t.Helper()
	o := NewObjectives(db, ObjectiveOptions{Answered: answerIn, Delivered: deliverIn, Unpushed: []string{"cli"}})
	must(t, o.Count(t.Context()))
	return o
}

func (o *Objectives) want(t *testing.T, of corebot.Objective, last time.Duration, want corebot.Kept) {
	t.Helper()
	must(t, o.Count(t.Context()))
	sums, err := o.Sums(t.Context(), last)
	must(t, err)
	if sums[of] != want {
		t.Errorf("%s: %+v, want %+v", of, sums[of], want)
	}
}

var answeredWell = corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}

// TestAMessageIsCountedOnceItsTimeIsOverWhateverBecameOfIt has a message for each way in which one can stand then.
func TestAMessageIsCountedOnceItsTimeIsOverWhateverBecameOfIt(t *testing.T) {
	good, bad, neither := corebot.Kept{Good: 1}, corebot.Kept{Bad: 1}, corebot.Kept{}
	settle := func(o corebot.Outcome) func(*testing.T, *DB, corebot.Delivery) {
		return func(t *testing.T, db *DB, d corebot.Delivery) { must(t, NewQueue(db).Settle(t.Context(), d, o)) }
	}
	late := func(t *testing.T, db *DB, d corebot.Delivery) {
		time.Sleep(answerIn + time.Second)
		ends(t, db, d, answeredWell)
	}
	for name, c := range map[string]struct {
		change func(*corebot.Message)
		then   func(*testing.T, *DB, corebot.Delivery)
		want   corebot.Kept
	}{
		"answered": {then: func(t *testing.T, db *DB, d corebot.Delivery) { ends(t, db, d, answeredWell) }, want: good},
		"answered at the last moment": {then: func(t *testing.T, db *DB, d corebot.Delivery) {
			time.Sleep(answerIn)
			ends(t, db, d, answeredWell)
		}, want: good},
		"answered late": {then: late, want: bad},
		"not answered":  {want: bad},
		"given up":      {then: settle(corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}), want: bad},
		"backs off": {
			then: settle(corebot.Outcome{Verb: corebot.RetryAt, At: time.Now().Add(time.Hour)}), want: bad,
		},
		"stopped":         {then: settle(corebot.Outcome{Verb: corebot.Done, End: corebot.EndStopped}), want: neither},
		"merged":          {then: settle(corebot.Outcome{Verb: corebot.Done, End: corebot.EndMerged}), want: neither},
		"waits for a yes": {then: settle(waitsFor(corebot.AwaitingApproval)), want: neither},
		"waits for a job": {then: settle(waitsFor(corebot.AwaitingJob)), want: neither},
		"waits for a budget": {then: settle(corebot.Outcome{
			Verb: corebot.Defer, At: time.Now().Add(24 * time.Hour), Reason: "budget",
		}), want: neither},
		"at its own time": {
			change: func(m *corebot.Message) {
				m.Envelope.DeliverAt = time.Now().Add(time.Second).Truncate(time.Millisecond)
			},
			then: late, want: neither,
		},
		"a command": {change: func(m *corebot.Message) { m.Kind = corebot.KindCommand }, want: neither},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := openTest(t, t.TempDir())
				o := objectivesOf(t, db)
				m := testMessage("a", "1")
				if c.change != nil {
					c.change(&m)
				}
				_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
				must(t, err)
				began := time.Now()
				if c.then != nil {
					c.then(t, db, claimTest(t, db))
				}
				time.Sleep(answerIn - time.Since(began) - time.Second)
				if time.Since(began) < answerIn { // it did not sleep longer
					o.want(t, corebot.ObjectiveAnswered, time.Hour, neither)
				}
				time.Sleep(2 * time.Second)
				for range 3 {
					o.want(t, corebot.ObjectiveAnswered, time.Hour, c.want)
				}
				time.Sleep(7 * time.Hour)
				o.want(t, corebot.ObjectiveAnswered, 6*time.Hour, neither)
			})
		})
	}
}

func waitsFor(what string) corebot.Outcome {
	return corebot.Outcome{Verb: corebot.Wait, At: time.Now().Add(24 * time.Hour), Reason: what}
}

// TestAnAnswerThatWaitedForADecisionIsNotLate: Corebot could not answer sooner.
func TestAnAnswerThatWaitedForADecisionIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		o := objectivesOf(t, db)
		publishTest(t, db, "a", "1")
		d := claimTest(t, db)
		must(t, db.write(t.Context(), "test", func(t *tx) error {
			_, err := t.exec(&query{`INSERT INTO waits (life_id, run, position, kind, purpose, chat, sender, state,
				created_at, due_at) VALUES (?, 1, 1, 'time', '', '', '', 'over', ?, ?)`}, d.Life, t.now, t.now)
			return err
		}))
		time.Sleep(2 * answerIn)
		ends(t, db, d, answeredWell)
		o.want(t, corebot.ObjectiveAnswered, time.Hour, corebot.Kept{})
	})
}

// TestAnAnswerThatCameWithoutItsCallIsNotLate: it waited for a decision before.
func TestAnAnswerThatCameWithoutItsCallIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		o := objectivesOf(t, db)
		publishTest(t, db, "a", "1")
		d := claimTest(t, db)
		ask := corebot.NewApproval{Approval: corebot.Approval{
			Bound:     corebot.Bound{Tool: "x", Args: []byte(`{}`)},
			ExpiresAt: time.Now().Add(time.Hour),
		}, AnswerAfter: time.Millisecond}
		step := corebot.Step{
			Kind: corebot.StepTool, State: corebot.StepAwaiting,
			Call: &corebot.ToolCall{ID: "c", Tool: "x", Args: []byte(`{}`)},
		}
		for range 2 {
			_, err := NewLedger(db).Ask(t.Context(), d, step, []corebot.NewApproval{ask})
			must(t, err)
			time.Sleep(answerIn)
		}
		ends(t, db, d, answeredWell)
		o.want(t, corebot.ObjectiveAnswered, time.Hour, corebot.Kept{})
	})
}

func TestARepliesDeliveryIsCountedWhereItIsPushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		o := objectivesOf(t, db)
		reply := func(channel, id string) corebot.Delivery {
			k := chatKey(id)
			k.Channel = channel
			_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{{
				ID: id, Direction: corebot.Outbound, Key: k, Kind: corebot.KindReply, Parts: corebot.TextPart("x"),
			}}, corebot.Limits{})
			must(t, err)
			return take(t, db, corebot.OutboundPool(channel))
		}
		must(t, NewQueue(db).Settle(t.Context(), reply("test", "sent"), corebot.Outcome{
			Verb: corebot.Done, End: corebot.EndSent,
		}))
		reply("test", "under way")
		reply("cli", "nobody looks")
		must(t, NewQueue(db).Settle(t.Context(), reply("test", "refused"), corebot.Outcome{
			Verb: corebot.Dead, Reason: "permanent",
		}))
		time.Sleep(deliverIn)
		o.want(t, corebot.ObjectiveDelivered, time.Hour, corebot.Kept{Good: 1, Bad: 2})
	})
}

// TestTheNoticeOfAnAlarmDoesNotCount: where it cannot be delivered, each alarm would be the cause of the next one.
func TestTheNoticeOfAnAlarmDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		o := objectivesOf(t, db)
		alarm := corebot.Alarm{Objective: corebot.ObjectiveDelivered, Severity: "page", Since: time.Now(), Told: true}
		for _, id := range []string{corebot.OwnID(corebot.ObjectiveNotices, "delivered", 1), "another"} {
			notice := corebot.TextNotice(chatKey("gone"), id, "", "x", corebot.Notice{Kind: corebot.NoticeObjective})
			must(t, o.Change(t.Context(), alarm, &notice))
		}
		time.Sleep(deliverIn)
		o.want(t, corebot.ObjectiveDelivered, time.Hour, corebot.Kept{Bad: 1})
	})
}

// TestADamagedPageOfMessagesEndsNoCounting: the messages of the page count as nothing, and those behind it count.
func TestADamagedPageOfMessagesEndsNoCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		const all = 300
		earlier(t, dir, func(db *DB) {
			objectivesOf(t, db)
			for n := range all {
				publishTest(t, db, string(rune('a'+n%20)), corebot.OwnID("n", n))
			}
		})
		root := rootOf(t, dir, "message_life")
		page := make([]byte, 4096)
		f, err := os.Open(filepath.Join(dir, FileName))
		must(t, err)
		_, err = f.ReadAt(page, (root-1)*4096)
		must(t, errors.Join(err, f.Close()))
		if page[0] != 5 || binary.BigEndian.Uint16(page[3:]) < 3 {
			t.Fatalf("the root is of kind %d with %d children", page[0], binary.BigEndian.Uint16(page[3:]))
		}
		cell := binary.BigEndian.Uint16(page[12+2:]) // of the second child
		spoilPage(t, dir, int64(binary.BigEndian.Uint32(page[cell:])))
		db := openTest(t, dir)
		o := NewObjectives(db, ObjectiveOptions{Answered: answerIn})
		time.Sleep(answerIn + time.Second)
		must(t, o.Count(t.Context()))
		sums, err := o.Sums(t.Context(), time.Hour)
		must(t, err)
		n := sums[corebot.ObjectiveAnswered].Bad
		if n < all/2 || n >= all {
			t.Errorf("%d of %d messages were counted", n, all)
		}
		publishTest(t, db, "later", "later")
		time.Sleep(answerIn + time.Second)
		o.want(t, corebot.ObjectiveAnswered, time.Hour, corebot.Kept{Bad: n + 1})
	})
}

// TestEachMessageIsCountedOnce counts more messages than one commit does, also over a restart in between.
func TestEachMessageIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		db := openTest(t, dir)
		o := objectivesOf(t, db)
		var all []corebot.Message
		for n := range 2*countedLives + 7 {
			all = append(all, testMessage(string(rune('a'+n%20)), corebot.OwnID("n", n)))
		}
		_, err := NewQueue(db).Publish(t.Context(), all, corebot.Limits{})
		must(t, err)
		time.Sleep(answerIn + time.Second)
		more, err := o.count(t.Context(), corebot.ObjectiveAnswered, answerIn, o.answered)
		if err != nil || !more {
			t.Fatalf("after one commit there is more: %v, %v", more, err)
		}
		again := NewObjectives(db, o.opts)
		again.want(t, corebot.ObjectiveAnswered, time.Hour, corebot.Kept{Bad: int64(len(all))})
		again.want(t, corebot.ObjectiveAnswered, time.Hour, corebot.Kept{Bad: int64(len(all))})
	})
}

// TestAClockThatWasSetBackHidesNoLaterMessage: counts of a time that has not come yet are forgotten.
func TestAClockThatWasSetBackHidesNoLaterMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		o := objectivesOf(t, db)
		publishTest(t, db, "ahead", "1")
		must(t, db.write(t.Context(), "test", func(t *tx) error {
			if _, err := t.exec(&query{`UPDATE message_life SET published_at = ?`}, t.now.Add(time.Hour)); err != nil {
				return err
			}
			_, err := t.exec(addMinute, string(corebot.ObjectiveAnswered), minuteOf(t.now)+60, int64(0), int64(50))
			return err
		}))
		publishTest(t, db, "now", "2")
		time.Sleep(answerIn + time.Second)
		o.want(t, corebot.ObjectiveAnswered, time.Hour, corebot.Kept{Bad: 1})
		time.Sleep(2 * time.Hour)
		o.want(t, corebot.ObjectiveAnswered, 6*time.Hour, corebot.Kept{Bad: 1})
	})
}

func TestADueTaskIsCountedByWhenItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, Seed(dir))
		db, err := Open(context.Background(), dir, Options{TasksWithin: time.Minute})
		must(t, err)
		runTest(t, db)
		o := objectivesOf(t, db)
		for _, after := range []time.Duration{0, time.Minute, 2 * time.Minute} {
			task := makeTask(t, db, nil)
			time.Sleep(after)
			d := fire(t, db, task)
			ends(t, db, d, answeredWell)
		}
		o.want(t, corebot.ObjectiveTasks, time.Hour, corebot.Kept{Good: 2, Bad: 1})
	})
}
