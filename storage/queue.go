package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// Queue keeps the lanes, the lives and the bodies: the mechanics of the bus. The rules are in package bus.
type Queue struct{ db *DB }

// NewQueue is the queue of a database.
func NewQueue(db *DB) *Queue { return &Queue{db} }

// Publish stores messages in one transaction and returns a receipt for each. Messages that break a rule get it in their
// receipt and leave the others alone; the error is of the whole transaction.
func (q *Queue) Publish(ctx context.Context, messages []corebot.Message, lim corebot.Limits) ([]corebot.Receipt, error) {
	parcels := pack(messages)
	receipts := make([]corebot.Receipt, len(parcels))
	err := q.db.write(ctx, "publish", func(t *tx) (err error) {
		for i := range parcels {
			if receipts[i], err = publishTx(t, &parcels[i], lim); err != nil {
				return err
			}
		}
		return nil
	})
	return receipts, err
}

// Claim waits until a lane of the pool is ready and leases up to max of them, oldest due first. When ctx ends while it waits,
// its cause is returned and nothing is leased.
func (q *Queue) Claim(ctx context.Context, pool corebot.Pool, max int, terms corebot.Terms) ([]corebot.Delivery, error) {
	if max < 1 {
		return nil, fmt.Errorf("%w: a claim for %d lanes", corebot.ErrInvalid, max)
	}
	c := &claim{ctx: ctx, pool: pool, max: max, terms: terms}
	if err := q.db.submit(ctx, &op{name: "claim", claim: c, done: make(chan error, 1)}); err != nil {
		return nil, err
	}
	out := make([]corebot.Delivery, len(c.got))
	for i := range c.got {
		out[i] = c.got[i].delivery(pool)
	}
	return out, nil
}

var extend = &query{`UPDATE lanes SET wake_at = ? WHERE id = ? AND epoch = ? AND leased = 1`}

// Extend prolongs leases until a moment and returns those that are lost. One whose claim was settled meanwhile is not lost.
func (q *Queue) Extend(ctx context.Context, leases []corebot.Lease, until time.Time) (lost []corebot.Lease, err error) {
	err = q.db.write(ctx, "extend", func(t *tx) error {
		lost = lost[:0]
		for _, l := range leases {
			n, err := t.exec(extend, until, l.Lane, l.Epoch)
			if err != nil {
				return err
			}
			if n > 0 {
				continue
			}
			if err := staleTx(t, l); !errors.Is(err, corebot.ErrSettled) { // whose claim has ended needs no lease
				if !errors.Is(err, corebot.ErrLeaseLost) {
					return err
				}
				lost = append(lost, l)
			}
		}
		return nil
	})
	return lost, err
}

// Settle ends a claim. A stale one changes nothing and gets [corebot.ErrLeaseLost].
func (q *Queue) Settle(ctx context.Context, d corebot.Delivery, o corebot.Outcome) error {
	return q.db.write(ctx, "settle", func(t *tx) error { return settleTx(t, &d, o) })
}

// parcel is a message made ready for the writer, which must not spend time on encoding.
type parcel struct {
	corebot.Message
	checksum corebot.Checksum
	body     []byte
	cause    int64  // the life that caused it, or 0
	steers   *int64 // of a /steer: the life whose turn it is meant for, or 0 for none; the mode of its chat does not matter then
}

func pack(messages []corebot.Message) []parcel {
	parcels := make([]parcel, len(messages))
	for i, m := range messages {
		p := &parcels[i]
		p.Message = m
		p.body, p.checksum = m.EncodeBody()
	}
	return parcels
}

// unpack reads a stored body back and holds it against its checksum.
func unpack(body []byte, d corebot.Direction, k corebot.Key, kind corebot.Kind, sum []byte) (corebot.Message, error) {
	m := corebot.Message{Direction: d, Key: k, Kind: kind}
	err := corebot.DecodeBody(body, sum, &m)
	return m, err
}

var wakeLane = &query{`UPDATE lanes SET wake_at = ? WHERE direction = ? AND agent = ? AND channel = ? AND account = ? AND chat = ? AND thread = ?
	AND leased = 0 AND waiting = '` + corebot.NotNow + `'`}

// Wake makes the outbound lane of a conversation due now, if its head waits for the place where it is shown.
func (q *Queue) Wake(ctx context.Context, k corebot.Key) error {
	return q.db.write(ctx, "wake", func(t *tx) error {
		n, err := t.exec(wakeLane, t.now, int64(corebot.Outbound), k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
		if n > 0 {
			t.wake(corebot.PoolOf(corebot.Outbound, k), t.now.UnixMilli())
		}
		return err
	})
}
