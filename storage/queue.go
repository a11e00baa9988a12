package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// Queue stores the lanes, the lives and the bodies: the mechanics of the bus. The rules are in package bus.
type Queue struct{ db *DB }

// NewQueue is the queue of a database.
func NewQueue(db *DB) *Queue { return &Queue{db} }

// Publish stores messages in one transaction and returns a receipt for each. A message that breaks a rule gets the
// error in its receipt, and the other messages are stored. The returned error is about the whole transaction.
func (q *Queue) Publish(ctx context.Context, messages []corebot.Message,
	lim corebot.Limits,
) ([]corebot.Receipt, error) {
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

// Claim waits until a lane of the pool is ready and leases up to max lanes, oldest due first. If ctx ends while it
// waits, it returns the cause of ctx and leases nothing.
func (q *Queue) Claim(ctx context.Context, pool corebot.Pool, max int,
	opts corebot.ClaimOptions,
) ([]corebot.Delivery, error) {
	if max < 1 {
		return nil, fmt.Errorf("%w: a claim for %d lanes", corebot.ErrInvalid, max)
	}
	c := &claim{ctx: ctx, pool: pool, max: max, opts: opts}
	if err := q.db.submit(ctx, &op{name: "claim", claim: c, done: make(chan error, 1)}); err != nil {
		return nil, err
	}
	return c.deliveries(), nil
}

var extend = &query{`UPDATE lanes SET wake_at = ? WHERE id = ? AND epoch = ? AND leased = 1`}

// Extend prolongs leases until a moment and returns the lost ones. A lease whose claim was settled meanwhile is not
// lost.
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
			if err := staleTx(t, l); !errors.Is(err, corebot.ErrSettled) { // an ended claim needs no lease
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

// Settle ends a claim. A stale claim changes nothing and gets [corebot.ErrLeaseLost].
func (q *Queue) Settle(ctx context.Context, d corebot.Delivery, o corebot.Outcome) error {
	_, err := q.SettleAndClaim(ctx, d, o, corebot.Claim{})
	return err
}

// SettleAndClaim is Settle, and claims the lanes that are ready then in the same commit, behind the claims that wait.
// It waits for no lane. With an error nothing is claimed.
func (q *Queue) SettleAndClaim(ctx context.Context, d corebot.Delivery, o corebot.Outcome,
	next corebot.Claim,
) (_ []corebot.Delivery, err error) {
	var last stepRow
	if o.Last != nil {
		if last, err = encodeStep(*o.Last); err != nil {
			return nil, err
		}
	}
	return q.db.writeAndClaim(ctx, "settle", next, func(t *tx) error {
		if err := settleTx(t, &d, o); err != nil || o.Last == nil {
			return err
		}
		return recordStepTx(t, d.Life, d.Run, last)
	})
}

// parcel is a message encoded for the writer, which must not spend time on encoding.
type parcel struct {
	corebot.Message
	checksum corebot.Checksum
	body     []byte
	cause    int64  // the life that caused it, or 0
	owed     bool   // no limit refuses it
	steers   *int64 // of a /steer: the life of the turn that is meant, 0 for none; the queue mode does not count then
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

// unpack decodes a stored body and compares it with its checksum.
func unpack(body []byte, d corebot.Direction, k corebot.Key, kind corebot.Kind, sum []byte) (corebot.Message, error) {
	m := corebot.Message{Direction: d, Key: k, Kind: kind}
	err := corebot.DecodeBody(body, sum, &m)
	return m, err
}

var wakeLane = &query{`UPDATE lanes SET wake_at = ? WHERE direction = ? AND agent = ? AND channel = ? AND account = ?
	AND chat = ? AND thread = ?
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

var wakeAccount = &query{`UPDATE lanes SET wake_at = ?1
	WHERE pool = ?2 AND wake_at > ?1 AND account = ?3 AND leased = 0`}

// MakeDue makes the outbound lanes of an account due now, whatever their heads wait for, and counts them. It is for an
// account that sends in another way than before.
func (q *Queue) MakeDue(ctx context.Context, channel, account string) (lanes int64, err error) {
	pool := corebot.OutboundPool(channel)
	err = q.db.write(ctx, "wake", func(t *tx) (err error) {
		if lanes, err = t.exec(wakeAccount, t.now, string(pool), account); lanes > 0 {
			t.wake(pool, t.now.UnixMilli())
		}
		return err
	})
	return lanes, err
}

// lane has the columns of a lane that publish needs.
type lane struct {
	id, nextSeq, depth, wakeAt, freeAt int64
	mode                               string // of the chat; empty is the default
	waiting                            string // why its head waits; empty: it does not wait
	detached                           int64  // the message of the chat's detached request; 0: there is none
	beside                             int64  // the lane of the chat's other incoming direction; 0: there is none
}

var (
	selectLane = &query{`SELECT id, next_seq, depth, wake_at, free_at, mode, waiting, detached, COALESCE((SELECT b.id
		FROM lanes b WHERE b.direction = ?7 AND b.agent = ?2 AND b.channel = ?3 AND b.account = ?4 AND b.chat = ?5
		AND b.thread = ?6), 0) FROM lanes
		WHERE direction = ?1 AND agent = ?2 AND channel = ?3 AND account = ?4 AND chat = ?5 AND thread = ?6`}
	insertLane = &query{`INSERT INTO lanes (direction, agent, channel, account, chat, thread, pool, mode, next_seq,
		swept)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	pushLane = &query{`UPDATE lanes SET next_seq = next_seq + 1, depth = depth + 1, bytes = bytes + ? WHERE id = ?`}
	// Setting wake_at rewrites its index even if the value is the same. So this is only for a lane without a wake_at.
	readyLane = &query{
		`UPDATE lanes SET next_seq = next_seq + 1, depth = depth + 1, bytes = bytes + ?, wake_at = ?, waiting = ?
			WHERE id = ?`,
	}

	insertLife = &query{`INSERT INTO message_life (id, lane_id, message_id, kind, checksum, sender, cause_id,
		published_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (message_id, lane_id) DO NOTHING`}
	selectLifeByID = &query{`SELECT id, checksum FROM message_life WHERE message_id = ? AND lane_id = ?`}
	// The lane of the other direction is looked up first: many chats can have used the id.
	selectLifeBeside = &query{`SELECT m.id, m.kind, m.checksum FROM lanes l CROSS JOIN message_life m
		WHERE l.direction = ? AND l.agent = ? AND l.channel = ? AND l.account = ? AND l.chat = ? AND l.thread = ?
		AND m.message_id = ? AND m.lane_id = l.id`}
	insertBody = &query{`INSERT INTO message_queue (life_id, lane_id, seq, body) VALUES (?, ?, ?, ?)`}
)

// publishTx appends a message to its lane, by the queue mode of its chat, unless the message was accepted before.
// Guarantee G2: the life row is the dedupe record, and it is written in the same transaction as the body.
//
// A message to a pulled conversation goes into the mailbox instead, if its lane is empty: see [MailClients].
func publishTx(t *tx, p *parcel, lim corebot.Limits) (corebot.Receipt, error) {
	l, err := findLaneTx(t, p.Direction, p.Key)
	if err != nil {
		return corebot.Receipt{}, err
	}
	var edits *editing
	if p.EditOf != "" && p.Direction == corebot.Inbound && p.Kind != corebot.KindHeard {
		e, err := editTx(t, p, l)
		if err != nil {
			return corebot.Receipt{}, err
		}
		edits = &e
	}
	later := p.isLater(t)
	if later { // such messages have a limit of their own: they are not in the lane
		if _, err := t.one(countDeferred, []any{&l.depth}, l.id); err != nil {
			return corebot.Receipt{}, err
		}
	}
	full := overLimit
	if edits != nil {
		full = edits.over
	}
	if full := full(t, p, l, lim); full != nil {
		r, found, err := duplicateTx(t, p, l) // a missing lane has id 0 and holds no duplicate
		if err == nil && !found {
			r.Err = full
		}
		return r, err
	}
	if r, taken, err := usedBesideTx(t, p, l); taken || err != nil {
		return r, err
	}
	if err := makeLaneTx(t, p.Direction, p.Key, &l); err != nil {
		return corebot.Receipt{}, err
	}
	pulled := pulledTx(t, p, l)
	begin := beginLifeTx
	if pulled {
		begin = beginSentTx
	}
	life, err := begin(t, p, l)
	if err != nil {
		return corebot.Receipt{}, err
	}
	if life == 0 {
		r, _, err := duplicateTx(t, p, l)
		return r, err
	}
	return placeTx(t, p, l, life, arrival{pulled, later, edits}, lim)
}

// arrival is what was found out about a message before its life began.
type arrival struct {
	pulled, later bool
	edits         *editing // nil: it edits none
}

// placeTx puts a message whose life has begun where it belongs.
func placeTx(t *tx, p *parcel, l lane, life int64, a arrival, lim corebot.Limits) (corebot.Receipt, error) {
	r := corebot.Receipt{Life: life}
	if l.detached != 0 {
		if told, err := spokenTx(t, p, &l, life); told || err != nil {
			return r, err
		}
	}
	switch {
	case a.pulled:
		return r, deliverTx(t, p, l)
	case a.edits != nil:
		return r, a.edits.applyTx(t, p, l, life, lim)
	case p.Kind == corebot.KindHeard:
		return r, hearTx(t, p, l, life)
	case a.later:
		t.waiting.begins(p, life, lim)
		return r, deferNewTx(t, p, l, life)
	}
	return queueTx(t, p, l, life, lim)
}

// queueTx has a message whose life has begun wait in its lane, or join what stands there.
func queueTx(t *tx, p *parcel, l lane, life int64, lim corebot.Limits) (corebot.Receipt, error) {
	if told, err := mistakenTx(t, p, l, life); told || err != nil {
		return corebot.Receipt{Life: life}, err
	}
	r, err := arriveTx(t, p, l, life)
	if err != nil {
		return r, err
	}
	t.waiting.begins(p, life, lim)
	return r, passAwaitedTx(t, l, p, life)
}

// beginLifeTx begins the life of a message in a lane and returns its number. Zero means that the lane had the message
// before. Numbers grow and are never used again. The writer stores the last number with the commit.
func beginLifeTx(t *tx, p *parcel, l lane) (int64, error) { return insertLifeTx(t, p, l, insertLife) }

// insertLifeTx begins a life by a statement. The statement has the parameters of [insertLife], and the given ones
// behind them.
func insertLifeTx(t *tx, p *parcel, l lane, q *query, more ...any) (int64, error) {
	var cause any
	if p.cause != 0 {
		cause = p.cause
	}
	life := t.lastLife + 1
	args := append(make([]any, 0, 10), life, l.id, p.ID, string(p.Kind), p.checksum[:], storedSender(p.Key, p.Sender),
		cause, t.now)
	n, err := t.exec(q, append(args, more...)...)
	if err != nil || n == 0 {
		return 0, err
	}
	t.lastLife = life
	return life, nil
}

// pushTx puts a body at the tail of a lane. It makes an empty lane ready.
func pushTx(t *tx, d corebot.Direction, k corebot.Key, l lane, life int64, body []byte) error {
	if _, err := t.exec(insertBody, life, l.id, l.nextSeq, body); err != nil {
		return err
	}
	t.total.depth[d]++
	t.total.bytes += int64(len(body))
	if l.wakeAt != 0 {
		_, err := t.exec(pushLane, len(body), l.id)
		return err
	}
	due, waiting := t.now.UnixMilli(), ""
	if l.freeAt > due {
		due, waiting = l.freeAt, corebot.Throttled
	}
	t.wake(corebot.PoolOf(d, k), due)
	_, err := t.exec(readyLane, len(body), due, waiting, l.id)
	return err
}

// findLaneTx returns a lane, or an empty lane with id 0 if there is none.
func findLaneTx(t *tx, d corebot.Direction, k corebot.Key) (lane, error) {
	l := lane{nextSeq: 1}
	_, err := t.one(selectLane, []any{
		&l.id, &l.nextSeq, &l.depth, &l.wakeAt, &l.freeAt, &l.mode, &l.waiting,
		&l.detached, &l.beside,
	}, int64(d), k.Agent, k.Channel, k.Account, k.Chat, k.Thread, int64(besideOf(d)))
	return l, err
}

// makeLaneTx stores a lane that findLaneTx has not found. A chat can still have history from an earlier lane, and
// history is ordered by places. So the new lane continues the numbers of the old one. The earlier places count as
// swept.
func makeLaneTx(t *tx, d corebot.Direction, k corebot.Key, l *lane) (err error) {
	if l.id != 0 {
		return nil
	}
	var places int64
	if d == corebot.Inbound {
		if l.mode, places, err = keptByChatTx(t, k); err != nil {
			return err
		}
	}
	l.nextSeq = places + 1
	l.id, err = t.insert(insertLane, int64(d), k.Agent, k.Channel, k.Account, k.Chat, k.Thread,
		string(corebot.PoolOf(d, k)), l.mode,
		l.nextSeq, places)
	return err
}

func overLimit(t *tx, p *parcel, l lane, lim corebot.Limits) error {
	switch {
	case p.owed:
		return nil
	case p.Kind == corebot.KindHeard: // it does not wait
		if t.diskLow {
			return fmt.Errorf("%w: its free space is under the floor", corebot.ErrDiskFull)
		}
		return nil
	}
	if err := t.waiting.over(p, lim); err != nil {
		return err
	}
	if p.Direction == corebot.Inbound && !lim.Owner.Is(p.Key.Channel) {
		lim.TotalDepth, lim.TotalBytes = lim.ForOthers(lim.TotalDepth), lim.ForOthers(lim.TotalBytes)
	}
	switch {
	case lim.LaneDepth > 0 && l.depth >= lim.LaneDepth:
		return fmt.Errorf("%w: %d of %d", corebot.ErrLaneFull, l.depth, lim.LaneDepth)
	case lim.TotalDepth > 0 && t.total.depth[p.Direction] >= lim.TotalDepth:
		return fmt.Errorf("%w: %d of %d", corebot.ErrOverloaded, t.total.depth[p.Direction], lim.TotalDepth)
	case lim.TotalBytes > 0 && t.total.bytes+int64(len(p.body)) > lim.TotalBytes:
		return fmt.Errorf("%w: %d of %d bytes", corebot.ErrOverloaded, t.total.bytes, lim.TotalBytes)
	// inbound messages wait outside; replies and settles make use of the remaining room
	case t.diskLow && p.Direction == corebot.Inbound:
		return fmt.Errorf("%w: its free space is under the floor", corebot.ErrDiskFull)
	}
	return nil
}

// duplicateTx says whether the message was accepted before, in its lane or as a message of the other direction. It
// refuses another body under the same id.
func duplicateTx(t *tx, p *parcel, l lane) (r corebot.Receipt, found bool, err error) {
	var sum []byte
	found, err = t.one(selectLifeByID, []any{&r.Life, &sum}, p.ID, l.id)
	if err != nil {
		return r, found, err
	}
	if !found {
		return besideTx(t, p)
	}
	if bytes.Equal(sum, p.checksum[:]) {
		r.Duplicate = true
	} else {
		r.Err = corebot.ErrConflict
	}
	return r, true, nil
}

// usedBesideTx says whether the chat has the id as a message of the other direction. An earlier version of Corebot
// could accept an id in both directions: then the message of the own lane counts.
func usedBesideTx(t *tx, p *parcel, l lane) (r corebot.Receipt, taken bool, err error) {
	if l.id != 0 && l.beside == 0 { // as nearly every chat: nobody has stopped a turn there
		return r, false, nil
	}
	if r, taken, err = besideTx(t, p); !taken || err != nil {
		return r, taken, err
	}
	return duplicateTx(t, p, l)
}

// besideOf is the other direction in which a chat's people can send a message of the same id; 0: there is none.
func besideOf(d corebot.Direction) corebot.Direction {
	switch d {
	case corebot.Inbound:
		return corebot.Control
	case corebot.Control:
		return corebot.Inbound
	}
	return 0
}

// besideTx looks for the id of a prompt among the control messages of its chat, and the other way round. For a sender
// both are messages to the chat. The kind does not tell such messages apart, because another version of Corebot can
// take a chat command for the other one.
func besideTx(t *tx, p *parcel) (r corebot.Receipt, found bool, err error) {
	other := besideOf(p.Direction)
	if other == 0 {
		return r, false, nil
	}
	var kind string
	var sum []byte
	k := p.Key
	found, err = t.one(selectLifeBeside, []any{&r.Life, &kind, &sum},
		int64(other), k.Agent, k.Channel, k.Account, k.Chat, k.Thread, p.ID)
	if err != nil || !found {
		return r, found, err
	}
	same := p.Message
	same.Kind = corebot.Kind(kind)
	if _, checksum := same.EncodeBody(); bytes.Equal(sum, checksum[:]) {
		r.Duplicate = true
	} else {
		r.Err = corebot.ErrConflict
	}
	return r, true, nil
}
