package storage

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
)

// Stats are the figures of the queue at one moment.
type Stats struct {
	Pools            map[corebot.Pool]PoolStats
	DeadLetters      map[corebot.Direction]int64
	DeadFor          map[Death]int64 // the same dead letters, by reason too
	OldestUnanswered time.Time       // publish time of the oldest inbound message without an end; zero: there is none
	Chats            int64
	Awaited          int64            // tool calls that wait for an approval
	Deferred         map[string]int64 // deferred messages, by reason
	// lanes with unreadable heads, and unreadable deferred messages (Lane is then the negative life)
	Aside  []Aside
	Unread map[string]string // figures that cannot be read, with the reason
}

// Death groups dead letters.
type Death struct {
	Direction corebot.Direction
	Reason    string
}

// PoolStats are the figures of one pool.
type PoolStats struct {
	Depth   int64 // messages that wait or run
	Lanes   int64 // lanes that have any
	Leased  int64 // lanes with a running head
	Waiting int64 // lanes whose head waits, also for a backoff
}

var (
	poolStats = &query{
		`SELECT pool, SUM(depth), COUNT(*), SUM(leased), SUM(waiting <> '') FROM lanes WHERE wake_at IS NOT NULL
			GROUP BY pool`,
	}
	// Lanes with messages have a time to wake at, so that the index has them all.
	backlogStats = &query{`SELECT channel, account, SUM(depth) FROM lanes WHERE wake_at IS NOT NULL AND direction = ?
		GROUP BY channel, account`}

	deadStats = &query{`SELECT l.direction, m.reason, COUNT(*) FROM message_life m JOIN lanes l ON l.id = m.lane_id
		WHERE m."end" = 'dead'
		GROUP BY l.direction, m.reason`}
	// The rows of the queue are in the order of publishing, so the oldest is among the first inbound rows. It need not
	// be the very first: a message with a time of its delivery is as old as that time.
	oldestInbound = &query{`SELECT COALESCE(MIN(since), 0) FROM (SELECT MAX(m.published_at, m.deliver_at) AS since
		FROM message_queue q JOIN lanes l ON l.id = q.lane_id
		AND q.seq > l.past JOIN message_life m ON m.id = q.life_id
		WHERE l.direction = 1 ORDER BY q.life_id LIMIT 100)`}
	deferredStats = &query{`SELECT reason, COUNT(*) FROM message_parked
		WHERE reason <> '` + corebot.DeferredToApproval + `' GROUP BY reason`}
	countAwaited = &query{`SELECT COUNT(*) FROM approvals WHERE state = 'awaiting' AND expires_at > ?`}
	listAside    = &query{`SELECT id, pool, agent, channel, account, chat, thread, wake_at FROM lanes
		WHERE wake_at IS NOT NULL AND waiting = '` + corebot.Unreadable + `' ORDER BY id LIMIT ? + 0`}
	countChats = &query{`SELECT COUNT(*) FROM chats`}
)

// Stats reads the figures. It reads every lane that has messages, and only one message. If a damaged page hides a
// figure, [Stats.Unread] names the figure, and all others are set.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	s := Stats{
		Pools: map[corebot.Pool]PoolStats{}, DeadLetters: map[corebot.Direction]int64{}, DeadFor: map[Death]int64{},
		Deferred: map[string]int64{},
		Unread:   map[string]string{},
	}
	for _, f := range q.figures(ctx, &s) {
		switch err := f.read(); {
		case err == nil:
		case ofSQLite(err) && ofTheFile(err):
			s.Unread[f.name] = classify(err).Error()
		default:
			return s, err
		}
	}
	return s, nil
}

// The names of the figures that [Queue.Stats] reads.
const (
	figureQueue    = "queue"
	figureAside    = "setAside"
	figureDead     = "deadLetters"
	figureDeferred = "parked"
	figureOldest   = "oldestUnanswered"
	figureAwaited  = "approvalsWaiting"
	figureChats    = "chats"
	asideListed    = 100 // most lanes in the list
)

// figure is one of the figures, read separately.
type figure struct {
	name string
	read func() error
}

func (q *Queue) figures(ctx context.Context, s *Stats) []figure {
	one := func(q2 *query, dest any, args ...any) func() error {
		return func() error {
			_, err := q.db.reader.one(ctx, q2, []any{dest}, args...)
			return err
		}
	}
	each := func(q2 *query, fn func(scanner) error) func() error {
		return func() error { return q.db.reader.each(ctx, q2, fn) }
	}
	return []figure{
		{figureQueue, each(poolStats, s.scanPool)},
		{figureAside, func() (err error) {
			s.Aside, err = q.asideNow(ctx)
			return err
		}},
		{figureDead, func() error {
			counts, err := q.db.dead.read(ctx, q.countDead)
			for death, n := range counts {
				s.DeadLetters[death.Direction] += n
				s.DeadFor[death] = n
			}
			return err
		}},
		{figureDeferred, each(deferredStats, func(row scanner) error {
			var reason string
			var n int64
			err := row.Scan(&reason, &n)
			s.Deferred[reason] = n
			return err
		})},
		{figureOldest, one(oldestInbound, moment{&s.OldestUnanswered})},
		{figureAwaited, one(countAwaited, &s.Awaited, time.Now())},
		{figureChats, one(countChats, &s.Chats)},
	}
}

// deadFigure is the dead letters by reason, as they were last counted. Dead letters stay until somebody takes them
// away, and counting reads each of them: 100,000 take a second. So a count of more than [manyDead] holds for a while,
// and the next one is made beside those who ask. Counting then takes a twentieth of a processor at most, however many
// there are and however often somebody asks. Only the first count of a process is waited for, whatever it counts.
type deadFigure struct {
	mu       sync.Mutex
	counts   map[Death]int64 // nil: they were never counted
	err      error           // the last count beside those who ask has failed
	at       time.Time       // when the last count ended that did not fail
	counting bool            // a count is on its way
	closing  bool
	stop     context.CancelFunc // of the count that is on its way
	beside   sync.WaitGroup
}

const (
	manyDead  = 10_000                 // so many are counted at once: a tenth of a second
	countHold = 200 * time.Microsecond // for each dead letter of a long count: how long that count holds
)

// read gives the dead letters by reason. It counts them, or gives the last count of many.
func (f *deadFigure) read(ctx context.Context, count func(context.Context) (map[Death]int64, error)) (
	map[Death]int64, error,
) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := total(f.counts)
	if held <= manyDead {
		counts, err := count(ctx)
		if err == nil {
			f.counts, f.at = counts, time.Now()
		}
		return counts, err
	}
	if !f.counting && !f.closing && time.Since(f.at) >= time.Duration(held)*countHold {
		f.counting = true
		ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
		f.beside.Go(func() { f.refresh(ctx, count) })
	}
	return f.counts, f.err
}

// refresh counts beside those who ask.
func (f *deadFigure) refresh(ctx context.Context, count func(context.Context) (map[Death]int64, error)) {
	counts, err := count(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop()
	f.counting, f.err = false, err
	if err == nil {
		f.counts, f.at = counts, time.Now()
	}
}

// close ends a count that is on its way, and has no other begin.
func (f *deadFigure) close() {
	f.mu.Lock()
	f.closing = true
	if f.counting {
		f.stop()
	}
	f.mu.Unlock()
	f.beside.Wait()
}

func total(counts map[Death]int64) (n int64) {
	for _, of := range counts {
		n += of
	}
	return n
}

// countDead reads each dead letter.
func (q *Queue) countDead(ctx context.Context) (map[Death]int64, error) {
	counts := map[Death]int64{}
	err := q.db.reader.each(ctx, deadStats, func(row scanner) error {
		var direction int
		var death Death
		var n int64
		err := row.Scan(&direction, &death.Reason, &n)
		death.Direction = corebot.Direction(direction)
		counts[death] = n
		return err
	})
	return counts, err
}

func (s *Stats) scanPool(row scanner) error {
	var pool string
	var p PoolStats
	err := row.Scan(&pool, &p.Depth, &p.Lanes, &p.Leased, &p.Waiting)
	s.Pools[corebot.Pool(pool)] = p
	return err
}

// Backlog counts the messages that wait to be sent, by channel and account. It looks at every lane that has messages.
func (q *Queue) Backlog(ctx context.Context) (map[[2]string]int64, error) {
	all := map[[2]string]int64{}
	err := q.db.reader.each(ctx, backlogStats, func(row scanner) error {
		var channel, account string
		var n int64
		err := row.Scan(&channel, &account, &n)
		all[[2]string{channel, account}] = n
		return err
	}, int64(corebot.Outbound))
	return all, err
}

// oldestDue reads lanes alone: a damaged message must not hide that nobody claims the others.
var oldestDue = &query{`SELECT id, epoch, wake_at FROM lanes WHERE pool = ? AND wake_at <= ?
	ORDER BY wake_at LIMIT ? + 0`}

// Overdue names the lane of a pool that has been due the longest, as it is now; empty: none is due. Lanes that are set
// aside do not count. A worker that waits for a claim gets a due lane at once.
func (q *Queue) Overdue(ctx context.Context, pool corebot.Pool) (mark string, err error) {
	err = q.db.reader.each(ctx, oldestDue, func(row scanner) error {
		var lane, epoch, wake int64
		err := row.Scan(&lane, &epoch, &wake)
		if err == nil && mark == "" && q.db.aside.stands(lane, q.db.clock.now()) == asideNot {
			since := fromMillis(wake).UTC().Format(time.RFC3339)
			mark = fmt.Sprintf("lane %d, due since %s, epoch %d", lane, since, epoch)
		}
		return err
	}, string(pool), q.db.clock.now(), 1+q.db.aside.remembered(pool))
	return mark, err
}

// SetAside lists the lanes and deferred messages that this process has found unreadable.
func (db *DB) SetAside() []Aside { return db.aside.all() }

// asideNow lists the lanes that are set aside, from their rows and from this process's memory.
func (q *Queue) asideNow(ctx context.Context) ([]Aside, error) {
	known := q.db.aside.all()
	err := q.db.reader.each(ctx, listAside, func(row scanner) error {
		var l Aside
		var pool string
		k := &l.Key
		err := row.Scan(&l.Lane, &pool, &k.Agent, &k.Channel, &k.Account, &k.Chat, &k.Thread, moment{&l.Until})
		l.Pool = corebot.Pool(pool)
		if !slices.ContainsFunc(known, func(a Aside) bool { return a.Lane == l.Lane }) {
			known = append(known, l)
		}
		return err
	}, asideListed)
	return known, err
}

// KnowPools exports the figures of pools from the start.
func (db *DB) KnowPools(pools ...corebot.Pool) { db.pools.Store(&pools) }

// begin has figures that are zero shown, too.
func (s *Stats) begin(pools []corebot.Pool) {
	for _, pool := range pools {
		if _, there := s.Pools[pool]; !there {
			s.Pools[pool] = PoolStats{}
		}
	}
	for direction, reasons := range deadReasons {
		for _, reason := range reasons {
			s.DeadFor[Death{direction, reason}] += 0
		}
	}
	s.Deferred[corebot.DeferredToTime] += 0
	for _, scope := range corebot.BudgetScopes() {
		s.Deferred[scope.Reason()] += 0
	}
}

// collector reads the figures of the queue when a scrape asks for them.
type collector struct{ queue *Queue }

var (
	depthDesc = prometheus.NewDesc("corebot_queue_messages", "Messages that wait or run, by pool.", []string{"pool"},
		nil)
	laneDesc = prometheus.NewDesc("corebot_queue_lanes",
		"Lanes with messages, by pool and state of their head: ready, leased, waiting.", []string{"pool", "state"}, nil)
	deadDesc = prometheus.NewDesc("corebot_dead_letters", "Messages in the dead letters, by direction and reason. "+
		"A count of more than 10,000 holds for 0.2 ms for each.", []string{"direction", "reason"}, nil)
	oldestDesc = prometheus.NewDesc("corebot_oldest_unanswered_seconds",
		"Age of the oldest accepted inbound message that has not ended; 0 if there is none.", nil, nil)
	deferredDesc = prometheus.NewDesc("corebot_parked_messages",
		"Messages that have left their lanes until a time, by reason.", []string{"reason"}, nil)
	waitDesc = prometheus.NewDesc("corebot_approvals_waiting", "Calls of tools that wait for an admin's approval.", nil,
		nil)
	asideDesc = prometheus.NewDesc("corebot_lanes_set_aside",
		"Chats whose next message cannot be read from the database; `corebot status` names them.", nil, nil)
	unreadDesc = prometheus.NewDesc("corebot_store_unread_figures",
		"Figures that could not be read for this scrape because a page of the database is damaged.", nil, nil)
	bytesDesc = prometheus.NewDesc("corebot_store_file_bytes", "Size of the database's files.", []string{"file"}, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		depthDesc, laneDesc, deadDesc, oldestDesc, deferredDesc, waitDesc, asideDesc,
		unreadDesc, bytesDesc,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s, err := c.queue.Stats(context.Background())
	if err != nil {
		out <- prometheus.NewInvalidMetric(depthDesc, err)
		return
	}
	read := func(figure string) bool { return s.Unread[figure] == "" }
	if known := c.queue.db.pools.Load(); known != nil && len(s.Unread) == 0 {
		s.begin(*known)
	}
	for pool, p := range s.Pools {
		gauge(depthDesc, float64(p.Depth), string(pool))
		gauge(laneDesc, float64(p.Leased), string(pool), "leased")
		gauge(laneDesc, float64(p.Waiting), string(pool), "waiting")
		gauge(laneDesc, float64(p.Lanes-p.Leased-p.Waiting), string(pool), "ready")
	}
	if read(figureAside) {
		gauge(asideDesc, float64(len(s.Aside)))
	}
	for death, n := range s.DeadFor {
		gauge(deadDesc, float64(n), death.Direction.String(), death.Reason)
	}
	for reason, n := range s.Deferred {
		gauge(deferredDesc, float64(n), reason)
	}
	if read(figureAwaited) {
		gauge(waitDesc, float64(s.Awaited))
	}
	if read(figureOldest) {
		age := 0.0
		if !s.OldestUnanswered.IsZero() {
			age = time.Since(s.OldestUnanswered).Seconds()
		}
		gauge(oldestDesc, age)
	}
	gauge(unreadDesc, float64(len(s.Unread)))
	for name, size := range c.queue.db.fileSizes() {
		gauge(bytesDesc, float64(size), name)
	}
}
