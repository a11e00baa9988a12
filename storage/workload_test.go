package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// told is when a request began and when it was answered, as positions in a recording, and what the answer was. A
// request that nobody made has begun never.
type told struct {
	begun, answered int
	err             error
}

const never = int(^uint(0) >> 1)

func (x told) tried(at int) bool    { return x.begun <= at }
func (x told) accepted(at int) bool { return x.answered <= at && x.err == nil }

// refused: the answer was that nothing happened. An unknown outcome is no such answer.
func (x told) refused(at int) bool {
	return x.answered <= at && x.err != nil && !errors.Is(x.err, corebot.ErrCommitUnknown)
}

// ending is what a worker does with a message.
type ending int

const (
	bySettle ending = iota // settled as answered
	byTurn                 // a turn's commit, with history and a reply
	bySteps                // the same after a journaled step
	byDeath                // a dead letter
	endings
)

// request is one message and what the store said about it.
type request struct {
	chat    string
	place   int // among the messages of its chat, from 0
	publish told
	end     told
	tries   int // of ending it
}

func (r *request) id() string     { return messageID(r.chat, r.place) }
func (r *request) before() string { return messageID(r.chat, r.place-1) }
func (r *request) ending() ending { return ending(r.place % int(endings)) }

func messageID(chat string, place int) string { return fmt.Sprintf("%s-%04d", chat, place) }

// workload is publishers and workers on one store, and the book of what they were told.
type workload struct {
	db       *DB
	position func() int // in the recording

	mu   sync.Mutex
	book map[string]*request
}

// newWorkload makes a workload. The clients of every second chat fetch their replies.
func newWorkload(db *DB, position func() int) *workload {
	db.MailFor(odd{})
	return &workload{db: db, position: position, book: map[string]*request{}}
}

// odd are clients that fetch their messages, in the chats whose names end with an odd digit.
type odd struct{}

func (odd) Pulled(k corebot.Key) bool { return (k.Chat[len(k.Chat)-1]-'0')%2 == 1 }
func (odd) Posted(corebot.Key)        {}

// carryOn begins the book of a store that has lived before with what of the earlier book is in it.
func (w *workload) carryOn(t testing.TB, earlier *workload) {
	t.Helper()
	found, wrong, err := keptMessages(w.db)
	must(t, err)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	for id, m := range found {
		before := earlier.book[id]
		r := &request{chat: before.chat, place: before.place, end: told{begun: never, answered: never}}
		if m.end != "" {
			r.end = told{}
		}
		w.book[id] = r
	}
}

// note makes an entry in the book.
func (w *workload) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// publishers publish in each chat, one message after the other, until enough says so of the next one. An error is
// noted, and the next message is tried.
func (w *workload) publishers(chats []string, enough func(place int) bool) {
	var wg sync.WaitGroup
	for _, chat := range chats {
		wg.Go(func() {
			for place := 0; !enough(place); place++ {
				w.publish(chat, place)
			}
		})
	}
	wg.Wait()
}

func (w *workload) publish(chat string, place int) {
	r := &request{
		chat: chat, place: place, publish: told{begun: w.position(), answered: never},
		end: told{begun: never, answered: never},
	}
	w.note(func() { w.book[r.id()] = r })
	err := w.publishOnce(r)
	w.note(func() { r.publish.answered, r.publish.err = w.position(), err })
	if err == nil && place%5 == 0 {
		_ = w.publishOnce(r) // a duplicate: whatever the answer, it changes nothing
	}
}

func (w *workload) publishOnce(r *request) error {
	receipts, err := NewQueue(w.db).Publish(context.Background(), []corebot.Message{testMessage(r.chat, r.id())},
		corebot.Limits{})
	if err != nil {
		return err
	}
	return receipts[0].Err
}

// worker claims and ends messages until ctx ends. If ending a message fails, it tries again, because it holds the
// lease.
func (w *workload) worker(ctx context.Context) {
	for ctx.Err() == nil {
		ds, err := NewQueue(w.db).Claim(ctx, corebot.InboundPool, 1, corebot.ClaimOptions{Lease: time.Hour})
		if err != nil {
			continue // a broken disk: the store itself says when it is worth trying
		}
		for _, d := range ds {
			for !w.end(d) && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// end tries to end a message and says whether nothing is left to do.
func (w *workload) end(d corebot.Delivery) bool {
	var r *request
	var postponed bool
	w.note(func() {
		r = w.book[d.Message.ID]
		postponed = r.place%7 == 3 && d.Attempt == 1
		if !postponed {
			r.end.begun = min(r.end.begun, w.position())
			r.tries++
		}
	})
	if postponed {
		err := NewQueue(w.db).Settle(context.Background(), d, corebot.Outcome{
			Verb: corebot.RetryAt, At: time.Now(),
			Error: "again",
		})
		return err == nil || errors.Is(err, corebot.ErrLeaseLost)
	}
	err := w.endOnce(d, r.ending())
	w.note(func() {
		if !errors.Is(err, corebot.ErrLeaseLost) { // after an unknown outcome: it had happened
			r.end.answered, r.end.err = w.position(), err
		}
	})
	return err == nil || errors.Is(err, corebot.ErrLeaseLost)
}

func (w *workload) endOnce(d corebot.Delivery, how ending) error {
	ctx := context.Background()
	switch how {
	case bySettle:
		return NewQueue(w.db).Settle(ctx, d, corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered})
	case byDeath:
		return NewQueue(w.db).Settle(ctx, d, corebot.Outcome{Verb: corebot.Dead, Reason: "test"})
	case bySteps:
		step := corebot.Step{
			Kind: corebot.StepModel, State: corebot.StepDone,
			Answer: &corebot.Answer{Text: "thinking"}, StartedAt: time.Now(),
		}
		if err := NewLedger(w.db).Record(ctx, d, step); err != nil {
			return err
		}
	}
	reply := corebot.Message{
		ID: replyID(d.Message.ID), Direction: corebot.Outbound, Kind: corebot.KindReply, Key: d.Message.Key,
		Parts: corebot.TextPart("answer"), InReplyTo: d.Message.ID,
	}
	return NewLedger(w.db).Commit(ctx, d, corebot.Result{
		Outcome: corebot.Outcome{Verb: corebot.Done, End: corebot.EndAnswered},
		History: []corebot.HistoryEntry{
			{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart(d.Message.Text()), At: time.Now()},
			{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart("answer"), At: time.Now()},
		},
		Replies: []corebot.Message{reply},
	})
}

func replyID(message string) string { return message + "/1/0" }

// run publishes and ends messages at once; some are left waiting when the publishers have enough.
func (w *workload) run(chats []string, workers int, enough func(place int) bool) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { w.worker(ctx) })
	}
	w.publishers(chats, enough)
	stop()
	wg.Wait()
}

// chats are names of chats that begin with a prefix.
func chats(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}
