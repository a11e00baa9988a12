package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// chatKey is a conversation of these tests.
func chatKey(chat string) corebot.Key {
	return corebot.Key{Agent: "main", Channel: "test", Chat: chat}
}

// take claims the one message of a pool that is ready.
func take(t *testing.T, db *DB, p corebot.Pool) corebot.Delivery {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	ds, err := NewQueue(db).Claim(ctx, p, 1, corebot.ClaimOptions{Lease: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claim: %v, %v", ds, err)
	}
	return ds[0]
}

// deadReply enqueues a reply and gives it up.
func deadReply(t *testing.T, db *DB, chat, id string) int64 {
	t.Helper()
	m := corebot.Message{
		ID: id, Direction: corebot.Outbound, Key: chatKey(chat), Kind: corebot.KindReply,
		Parts: corebot.TextPart("text of " + id),
	}
	if _, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{}); err != nil {
		t.Fatal(err)
	}
	d := take(t, db, corebot.OutboundPool("test"))
	if err := NewQueue(db).Settle(t.Context(), d, corebot.Outcome{
		Verb: corebot.Dead, Reason: "permanent",
		Error: "no such chat",
	}); err != nil {
		t.Fatal(err)
	}
	return d.Life
}

// limited is a database whose dead letters come back under limits.
func limited(t *testing.T, l corebot.Limits) *DB {
	t.Helper()
	db := openTest(t, t.TempDir())
	db.limits = l
	return db
}

// notes are the audit events about dead letters, oldest first.
func notes(t *testing.T, db *DB) []corebot.AuditEvent {
	t.Helper()
	events, err := NewAudit(db).List(t.Context(), corebot.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(events)
	return events
}

func lifeOf(t *testing.T, db *DB, id int64) corebot.Life {
	t.Helper()
	life, err := NewLives(db).Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return life
}

func TestEveryChangeOfADeadLetterSaysWhoMadeIt(t *testing.T) {
	db := openTest(t, t.TempDir())
	operator := NewDeadLetters(db)
	ann := operator.As(corebot.AuditEvent{
		Tool: "/retry", Key: chatKey("elsewhere"),
		Principal: corebot.Principal{ID: "ann"}, Role: corebot.RoleAdmin, Entry: "command", Rule: "own-message",
	})
	must(t, operator.Replay(t.Context(), deadLetter(t, db, "a", "1", "poison"), true))
	must(t, NewQueue(db).Settle(t.Context(), take(t, db, corebot.InboundPool),
		corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	must(t, operator.Drop(t.Context(), deadLetter(t, db, "a", "2", "poison")))
	must(t, operator.Edit(t.Context(), deadLetter(t, db, "b", "3", "poison"), "3b", "better"))
	must(t, NewQueue(db).Settle(t.Context(), take(t, db, corebot.InboundPool),
		corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered}))
	deadLetter(t, db, "a", "4", "poison")
	if n, err := operator.Purge(t.Context(), corebot.DeadLetterFilter{}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	last := deadLetter(t, db, "a", "5", "attempts")
	must(t, ann.Replay(t.Context(), last, false))

	var got []string
	for _, e := range notes(t, db) {
		got = append(got, fmt.Sprint(e.Event, " ", e.Entry, " ", e.Key.Chat, " ", e.Outcome))
	}
	want := []string{
		"dead_letter.replay operator a success", "dead_letter.drop operator a success",
		"dead_letter.edit operator b success",
		"dead_letter.purge operator a success", "dead_letter.replay command elsewhere success",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit has %q, want %q", got, want)
	}
	e := notes(t, db)[4]
	var args struct {
		ID        int64
		MessageID string
		Chat      string
		Reason    string
		Run       int
		Fresh     bool
	}
	must(t, json.Unmarshal([]byte(e.Args), &args))
	if e.Principal.ID != "ann" || e.Role != corebot.RoleAdmin || e.Tool != "/retry" || e.Rule != "own-message" ||
		args.ID != last || args.MessageID != "5" || args.Chat != "main:test::a" || args.Reason != "attempts" ||
		args.Run != 2 || args.Fresh {
		t.Errorf("the note is %+v", e)
	}
}

func TestAReplayIsHeldToTheLimitsAndAReplyIsNot(t *testing.T) {
	db := limited(t, corebot.Limits{LaneDepth: 1})
	letters := NewDeadLetters(db)
	first, second, reply := deadLetter(t, db, "a", "1", "poison"), deadLetter(t, db, "a", "2", "poison"),
		deadReply(t, db, "a", "r")
	must(t, letters.Replay(t.Context(), first, false))
	before := len(notes(t, db))
	for what, err := range map[string]error{
		"replay": letters.Replay(t.Context(), second, false), "edit": letters.Edit(t.Context(), second, "2b", "better"),
	} {
		if !errors.Is(err, corebot.ErrLaneFull) {
			t.Errorf("%s into a full lane: %v", what, err)
		}
	}
	if life := lifeOf(t, db, second); life.End != corebot.EndDead || life.Message == nil || life.Run != 1 ||
		len(notes(t, db)) != before {
		t.Errorf("a refused replay left %+v", life)
	}
	must(t, letters.Replay(t.Context(), reply, false))
	m := corebot.Message{
		ID: "r2", Direction: corebot.Outbound, Key: chatKey("a"), Kind: corebot.KindReply,
		Parts: corebot.TextPart("x"),
	}
	_, err := NewQueue(db).Publish(t.Context(), []corebot.Message{m}, corebot.Limits{})
	must(t, err)
	must(t, NewQueue(db).Settle(t.Context(), take(t, db, corebot.OutboundPool("test")),
		corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
	must(t, letters.Replay(t.Context(), reply, false)) // behind r2, over the lane's cap
	healthy(t, db)
}

func TestReplayingManyKeepsTheOrderOfAChatAndLeavesWhatHasNoRoom(t *testing.T) {
	const letters, room = changeChunk + 4, changeChunk + 2
	db := limited(t, corebot.Limits{LaneDepth: room})
	for i := range letters {
		deadLetter(t, db, "a", fmt.Sprintf("%03d", i), "attempts")
	}
	deadLetter(t, db, "b", "other", "poison")
	r, err := NewDeadLetters(db).ReplayAll(t.Context(), corebot.DeadLetterFilter{Reason: "attempts"}, false)
	if err != nil || r.Done != room || r.Left != letters-room || !errors.Is(r.Why, corebot.ErrLaneFull) {
		t.Fatalf("replayed %+v: %v", r, err)
	}
	queued := sideQuery(t, db.path,
		`SELECT m.message_id FROM message_queue q JOIN message_life m ON m.id = q.life_id ORDER BY q.seq`)
	if len(queued) != room || !slices.IsSorted(queued) || queued[0] != "000" {
		t.Errorf("the queue has %q", queued)
	}
	left, err := NewDeadLetters(db).List(t.Context(), corebot.DeadLetterFilter{})
	if err != nil || len(left) != letters-room+1 {
		t.Errorf("%d are left: %v", len(left), err)
	}
	healthy(t, db)
}

func TestAChangeOfManyLeavesALetterThatDiedMeanwhile(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	id := deadLetter(t, db, "a", "1", "poison")
	var r corebot.Replayed
	must(t, db.write(t.Context(), "replay", func(t *tx) (err error) {
		before := replaying{Replaying: corebot.Replaying{BeganAt: time.Now().Add(-time.Minute)}}
		r, _, _, err = letters.replayChunkTx(t, []int64{id, 4711}, before)
		return err
	}))
	if r.Done != 0 || r.Left != 0 || lifeOf(t, db, id).End != corebot.EndDead {
		t.Errorf("replayed %+v", r)
	}
}

// deadTurn gives up a message whose run has one model answer in its journal, and counts its tokens.
func deadTurn(t *testing.T, db *DB, spent corebot.Usage) int64 {
	t.Helper()
	id := deadLetter(t, db, "a", "1", "permanent")
	must(t, NewDeadLetters(db).Replay(t.Context(), id, false))
	d := take(t, db, corebot.InboundPool)
	step := corebot.Step{
		Kind: corebot.StepModel, State: corebot.StepDone,
		Answer: &corebot.Answer{Text: "look", Usage: spent},
	}
	must(t, NewLedger(db).Record(t.Context(), d, step))
	must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{
		Verb:   corebot.Dead,
		Reason: "permanent", Error: "no credit",
	}}))
	return id
}

func TestAResumedRunCountsTheTokensOfItsJournalOnce(t *testing.T) {
	spent := corebot.Usage{InputTokens: 100, OutputTokens: 10}
	for fresh, want := range map[bool]corebot.Usage{
		false: {InputTokens: 150, OutputTokens: 15},
		true:  {InputTokens: 250, OutputTokens: 25},
	} {
		db := openTest(t, t.TempDir())
		id := deadTurn(t, db, spent)
		if got := lifeOf(t, db, id).Usage; got != spent {
			t.Errorf("a dead letter has cost %+v, want %+v", got, spent)
		}
		must(t, NewDeadLetters(db).Replay(t.Context(), id, fresh))
		d := take(t, db, corebot.InboundPool)
		if resumed := len(d.Journal) == 1; resumed == fresh {
			t.Fatalf("fresh is %v and the journal has %d steps", fresh, len(d.Journal))
		}
		// The usage in the journal was counted when it was recorded. A fresh start makes these calls again. Each makes
		// one more call.
		more := []corebot.ModelUsage{{Usage: corebot.Usage{InputTokens: 50, OutputTokens: 5}}}
		if fresh {
			more = append(more, corebot.ModelUsage{Usage: spent})
		}
		must(t, NewLedger(db).Commit(t.Context(), d, corebot.Result{Outcome: corebot.Outcome{
			Verb: corebot.Done,
			End:  corebot.EndAnswered,
		}, Spent: more}))
		if got := lifeOf(t, db, id).Usage; got != want {
			t.Errorf("fresh is %v: the message has cost %+v, want %+v", fresh, got, want)
		}
	}
}

func TestALifeTellsItsRunsAndWhatItCameOf(t *testing.T) {
	db := openTest(t, t.TempDir())
	id := deadLetter(t, db, "a", "1", "poison")
	must(t, NewDeadLetters(db).Replay(t.Context(), id, false))
	log := lifeOf(t, db, id).AttemptLog
	if len(log) != 2 || log[0].What != "dead" || log[0].Run != 1 || log[0].Error != "poison: it failed" ||
		log[0].At.IsZero() ||
		log[1].What != "replayed" || log[1].Run != 2 || log[1].At.IsZero() {
		t.Errorf("between the runs the log has %+v", log)
	}
	must(t, NewQueue(db).Settle(t.Context(), take(t, db, corebot.InboundPool),
		corebot.Outcome{Verb: corebot.Dead, Reason: "permanent"}))
	must(t, NewDeadLetters(db).Edit(t.Context(), id, "2", "better"))
	old := lifeOf(t, db, id)
	edited := lifeOf(t, db, old.Replies[0].ID)
	if old.Cause != nil || edited.MessageID != "2" || edited.Cause == nil ||
		*edited.Cause != (corebot.Origin{Life: id, MessageID: "1"}) {
		t.Errorf("lineage: %+v of %+v", edited.Cause, old)
	}
}

// retryOf is a /retry of a chat.
func retryOf(chat, id string) corebot.Message {
	return corebot.Message{
		ID: id, Direction: corebot.Control, Kind: corebot.KindControl, Key: chatKey(chat),
		Parts:  corebot.TextPart("/retry"),
		Sender: corebot.Principal{Channel: "test", ID: "u"},
	}
}

// verdict words what came of a /retry as the error itself.
func verdict(m corebot.Message) func(error) corebot.Message {
	return func(err error) corebot.Message {
		return corebot.Message{
			ID: m.ID + "/retry", Direction: corebot.Outbound, Kind: corebot.KindNotice, Key: m.Key,
			Parts: corebot.TextPart(fmt.Sprint(err)),
		}
	}
}

func TestManyRetriesAndReplaysAtOnceDeliverOnce(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	id := deadLetter(t, db, "a", "1", "poison")
	var replayed atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if i%2 == 0 {
				if letters.Replay(t.Context(), id, false) == nil {
					replayed.Add(1)
				}
				return
			}
			m := retryOf("a", fmt.Sprint("retry ", i/4)) // each command twice
			_, err := letters.Retry(t.Context(), m, id, corebot.AuditEvent{Key: m.Key},
				func(err error) corebot.Message {
					return verdict(m)(err)
				})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	told := 0
	for range 13 { // 25 commands of 13 ids
		d := take(t, db, corebot.OutboundPool("test"))
		if d.Message.Text() == "<nil>" {
			told++
		}
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
	}
	if n := int(replayed.Load()) + told; n != 1 {
		t.Errorf("%d callers hear that they replayed it", n)
	}
	if d := take(t, db, corebot.InboundPool); d.Run != 2 || len(notes(t, db)) != 1 {
		t.Errorf("run %d, %d notes", d.Run, len(notes(t, db)))
	}
	healthy(t, db)
}

func TestARetryIsStoredWithItsEffectAndItsNotice(t *testing.T) {
	db := limited(t, corebot.Limits{LaneDepth: 1})
	letters := NewDeadLetters(db)
	first, second := deadLetter(t, db, "a", "1", "poison"), deadLetter(t, db, "a", "2", "poison")
	denied := corebot.AuditEvent{
		Event: "dead_letter.replay", Tool: "/retry", Key: chatKey("a"),
		Principal: corebot.Principal{ID: "u"}, Outcome: corebot.OutcomeDenied,
	}
	for i, c := range []struct {
		letter int64
		by     corebot.AuditEvent
		want   error
		notes  int
	}{
		{first, corebot.AuditEvent{}, nil, 1},
		{first, corebot.AuditEvent{}, corebot.ErrNotFound, 1},
		{second, corebot.AuditEvent{}, corebot.ErrOverloaded, 1},
		{0, corebot.AuditEvent{}, corebot.ErrNotFound, 1},
		{0, denied, corebot.ErrNotFound, 2},
	} {
		m := retryOf("a", fmt.Sprint("c", i))
		for range 2 { // the second is a duplicate
			r, err := letters.Retry(t.Context(), m, c.letter, c.by, verdict(m))
			if err != nil || r.Life == 0 {
				t.Fatal(r, err)
			}
		}
		d := take(t, db, corebot.OutboundPool("test"))
		if d.Message.Text() != fmt.Sprint(c.want) || len(notes(t, db)) != c.notes {
			t.Errorf("case %d: told %q, %d notes", i, d.Message.Text(), len(notes(t, db)))
		}
		must(t, NewQueue(db).Settle(t.Context(), d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndSent}))
	}
	other := retryOf("a", "c0")
	other.Parts = corebot.TextPart("/retry another")
	elsewhere := verdict(retryOf("a", "its notice would have an id of its own"))
	if _, err := letters.Retry(t.Context(), other, second, corebot.AuditEvent{}, elsewhere); !errors.Is(err,
		corebot.ErrConflict) {
		t.Errorf("the same id with another body: %v", err)
	}
	healthy(t, db)
}

func TestARetryMeansAMessageOfItsChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		letters := NewDeadLetters(db)
		first := deadLetter(t, db, "a", "1", "poison")
		time.Sleep(time.Millisecond) // deaths of one millisecond have no order
		second := deadLetter(t, db, "a", "2", "poison")
		deadLetter(t, db, "b", "3", "poison")
		u, v := corebot.Principal{Channel: "test", ID: "u"}, corebot.Principal{Channel: "test", ID: "v"}
		for _, c := range []struct {
			chat, id string
			asker    corebot.Principal
			want     int64
		}{
			{"a", "", u, second},
			{"a", "1", u, first},
			{"a", "1", v, first},
			{"a", "", v, 0},
			{"a", "3", u, 0},
			{"a", "nothing", u, 0},
			{"c", "", u, 0},
		} {
			life, err := letters.Meant(t.Context(), chatKey(c.chat), c.id, c.asker)
			if life.ID != c.want || errors.Is(err, corebot.ErrNotFound) != (c.want == 0) {
				t.Errorf("%+v means %+v: %v", c, life, err)
			}
			if c.want != 0 && (life.Sender != u || life.End != corebot.EndDead) {
				t.Errorf("%+v means %+v", c, life)
			}
		}
	})
}

func TestADamagedJournalKeepsNoLetterFromItsReplay(t *testing.T) {
	db := openTest(t, t.TempDir())
	id := deadTurn(t, db, corebot.Usage{InputTokens: 100, OutputTokens: 10})
	sideQuery(t, db.path, `UPDATE execution_steps SET result = '{'`)
	must(t, NewDeadLetters(db).Replay(t.Context(), id, false))
	if d := take(t, db, corebot.InboundPool); d.Damaged == nil || d.Run != 3 {
		t.Errorf("delivered as run %d, damaged: %v", d.Run, d.Damaged)
	}
}

func TestUnderTheDiskFloorALetterStaysDeadAndAReplyGoesOut(t *testing.T) {
	db := openTest(t, t.TempDir())
	letters := NewDeadLetters(db)
	prompt, reply := deadLetter(t, db, "a", "1", "poison"), deadReply(t, db, "a", "r")
	db.diskLow.Store(true)
	if err := letters.Replay(t.Context(), prompt, false); !errors.Is(err, corebot.ErrDiskFull) {
		t.Errorf("a replay under the floor: %v", err)
	}
	must(t, letters.Replay(t.Context(), reply, false))
	must(t, letters.Drop(t.Context(), prompt)) // what makes room always passes
}
