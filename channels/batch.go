package channels

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// AcceptBatch takes in what an account has received together, and moves the account's cursor behind it. A nil error
// means that every message is stored or refused for good, that the cursor is stored, and that the file is synced. Then
// the channel may acknowledge the batch, and a restart fetches only newer messages. The messages and the cursor are one
// commit.
//
// A message that was accepted before is a duplicate and no error, within the batch too. A message that is refused for
// good does not hold the cursor back. Its result has the error, and it is counted and audited as by Accept. Refused for
// good are: a sender who may not talk, an invalid or too large message, an id that was accepted with another body. A
// message whose chat or sender has too many waiting messages is refused for good too. Otherwise one person could
// silence the whole account. Its chat is told once.
//
// An error means that nothing is stored and that the cursor stays. The channel gives the same batch again. A
// [*corebot.Busy] says that the queue or the disk has no room for anybody, and how long to wait. After any other error
// the channel's own backoff decides. [corebot.ErrCursorMoved] means that another run has received meanwhile: Run must
// return the error, and the next run reads the cursor again. The cursor never goes back by itself.
//
// A control message, such as /stop, acts in a commit of its own, between the messages before it and those behind it. In
// such a batch the messages before it are stored even if an error follows. They are duplicates when the batch comes
// again.
//
// A batch has at most [corebot.MaxBatch] messages. A channel that has more gives them in several batches; all but the
// last keep the position of the cursor.
func (d *FrontDoor) AcceptBatch(ctx context.Context, a Account, batch []Incoming,
	c corebot.Cursor,
) (AcceptedBatch, error) {
	if len(batch) > corebot.MaxBatch {
		return AcceptedBatch{}, fmt.Errorf("%w: a batch of %d messages, the limit is %d", corebot.ErrTooLarge,
			len(batch),
			corebot.MaxBatch)
	}
	t := taking{door: d, of: a, results: make([]BatchResult, len(batch)), until: time.Now().Add(batchTime)}
	for i, in := range batch {
		t.results[i].ID = in.ID
		if err := t.take(ctx, i, in); err != nil {
			return AcceptedBatch{}, err
		}
	}
	next, err := t.receive(ctx, c)
	if err != nil {
		return AcceptedBatch{}, err
	}
	for _, tell := range t.tell {
		tell(ctx)
	}
	return AcceptedBatch{Messages: t.results, Cursor: next}, nil
}

// taking is a batch on its way in.
type taking struct {
	door    *FrontDoor
	of      Account
	results []BatchResult
	waiting []corebot.Message // that the next commit stores
	places  []int             // theirs in the batch
	has     []since           // of each message
	spends  map[spender]int   // waiting messages that count, by whom they count for
	until   time.Time         // when no more files are fetched
	// tell has what chats are told of refusals, once the batch is stored. Before that nothing is said: the same batch
	// can come again, and then there can be room for a message that found none.
	tell []func(context.Context)
}

// spender is a sender whose messages count.
type spender struct {
	hourly *Hourly
	sender string
}

// take looks at one message. Its error is one that holds the whole batch back.
func (t *taking) take(ctx context.Context, i int, in Incoming) error {
	if in.Channel != t.of.Kind || in.Account != t.of.Name {
		return fmt.Errorf("%w: a message of %s in a batch of %s", corebot.ErrInvalid,
			Account{in.Channel, in.Account}, t.of)
	}
	who := spender{in.Hourly, in.counted()}
	// Whether this message is answered depends on which of those before it are duplicates.
	if n := t.spends[who]; n > 0 && in.Hourly.left(who.sender, time.Now()) <= n {
		if err := t.store(ctx); err != nil {
			return err
		}
	}
	m, has, err := t.door.message(ctx, in, t.until)
	t.has = append(t.has, has)
	switch {
	case errors.Is(err, errHad):
		t.results[i].Duplicate = true
		return nil
	case err != nil:
		return t.refused(i, m, err)
	case in.Tell != "":
		t.tell = append(t.tell, func(ctx context.Context) { t.door.tellOnce(ctx, m, in.Tell) })
		return nil
	case m.Direction != corebot.Control:
		t.waiting, t.places = append(t.waiting, m), append(t.places, i)
		if has.hourly != nil {
			if t.spends == nil {
				t.spends = map[spender]int{}
			}
			t.spends[who]++
		}
		return nil
	}
	if err := t.store(ctx); err != nil { // what it acts on came before it
		return err
	}
	r, err := t.door.publish(ctx, m)
	return t.answered(ctx, i, m, r, err)
}

// store publishes the messages before a control message, each by itself.
func (t *taking) store(ctx context.Context) error {
	for n, m := range t.waiting {
		i := t.places[n]
		r, err := t.door.publish(ctx, m)
		if err := t.answered(ctx, i, m, r, err); err != nil {
			return err
		}
	}
	t.waiting, t.places, t.spends = nil, nil, nil
	return nil
}

// receive stores the rest of the batch and the cursor.
func (t *taking) receive(ctx context.Context, c corebot.Cursor) (corebot.Cursor, error) {
	receipts, next, err := t.door.bus.Receive(ctx, corebot.Batch{
		Channel: t.of.Kind, Account: t.of.Name, Messages: t.waiting, Cursor: c,
	})
	if err != nil {
		return next, t.door.episodes.held(err)
	}
	for n, r := range receipts {
		i := t.places[n]
		t.door.interrupt(r)
		if err := t.answered(ctx, i, t.waiting[n], r, r.Err); err != nil {
			return next, err
		}
	}
	return next, nil
}

// answered notes what the bus says of a message.
func (t *taking) answered(ctx context.Context, i int, m corebot.Message, r corebot.Receipt, err error) error {
	t.results[i].Duplicate = r.Duplicate
	if err == nil && !r.Duplicate {
		t.door.stored(ctx, m, t.has[i])
	}
	return t.refused(i, m, err)
}

// refused notes what became of a message. An error that is not of this message alone is returned: it holds the batch
// back.
func (t *taking) refused(i int, m corebot.Message, err error) error {
	if err == nil {
		return nil
	}
	if !ofOneMessage(err) {
		return t.door.episodes.held(err)
	}
	if errors.Is(err, corebot.ErrInvalid) && !errors.Is(err, ErrNotAdmitted) {
		t.door.opts.Log.Warn().Err(err).Str("account", t.of.String()).Str("message", m.ID).
			Msg("a message that no platform sends was left out")
	}
	t.results[i].Err = err
	t.tell = append(t.tell, func(ctx context.Context) {
		err := t.door.episodes.busy(m.Key, err)
		t.results[i].Err = err
		if busy := (*corebot.Busy)(nil); errors.As(err, &busy) && busy.Tell {
			t.door.tellBusy(ctx, m, busy)
		}
	})
	return nil
}

// ofOneMessage says whether an error concerns only one message, its chat or its sender.
func ofOneMessage(err error) bool {
	for _, own := range []error{
		corebot.ErrInvalid, corebot.ErrTooLarge, corebot.ErrConflict, corebot.ErrLaneFull, corebot.ErrCommandRate,
	} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// held makes an error that holds a batch back one that says when to come again. No chat is told: nothing is lost.
func (e *episodes) held(err error) error {
	if after := RetryAfter(err); after > 0 {
		return &corebot.Busy{Err: err, RetryAfter: after}
	}
	return err
}

// tellBusy tells a chat that a message was refused. The notice is not stored with the refusal: a crash in between
// leaves the chat untold.
func (d *FrontDoor) tellBusy(ctx context.Context, m corebot.Message, busy *corebot.Busy) {
	d.tell(ctx, m, corebot.NoticeBusy, "This message was not accepted: "+busy.Error()+". Please send it again later.")
}

// tell enqueues a notice about a message.
func (d *FrontDoor) tell(ctx context.Context, m corebot.Message, kind corebot.NoticeKind, text string) {
	notice := corebot.TextNotice(m.Key, m.ID+"/"+string(kind), m.ID, text, corebot.Notice{Kind: kind})
	if _, err := d.bus.Publish(ctx, notice); err != nil {
		d.opts.Log.Warn().Err(err).Str("chat", m.Key.String()).
			Msg("a chat was not told of a message that is not answered")
	}
}

// AcceptAll gives a door any number of messages, in several batches if need be, and moves the cursor to a position with
// the last of them. After an error the cursor of the result is that to go on with: it has kept its position.
func AcceptAll(ctx context.Context, door Door, all []Incoming, c corebot.Cursor, to string) (AcceptedBatch, error) {
	taken := AcceptedBatch{Cursor: c}
	for {
		n := min(len(all), corebot.MaxBatch)
		next := taken.Cursor
		if n == len(all) {
			next = next.To(to)
		}
		batch, err := door.AcceptBatch(ctx, all[:n], next)
		if err != nil {
			return taken, err
		}
		taken.Messages, taken.Cursor = append(taken.Messages, batch.Messages...), batch.Cursor
		if all = all[n:]; len(all) == 0 {
			return taken, nil
		}
	}
}
