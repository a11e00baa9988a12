package bustest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

func modelSpecs() []spec {
	var specs []spec
	for seed := range uint64(3) {
		specs = append(specs, spec{fmt.Sprintf("a random history of seed %d agrees with a model in memory", seed), func(s *suite) {
			newModel(s, seed).run(600)
		}})
	}
	return specs
}

// model is what the lanes should be like, in a few lines of Go.
type model struct {
	s       *suite
	rand    *rand.Rand
	lanes   []*modelLane // in the order of their first publish: the tie-break of equal wake times
	claims  []claimed
	stale   []claimed
	dead    []*modelMessage
	all     []*modelMessage
	waiting int
}

type modelLane struct {
	chat    string
	queue   []*modelMessage
	wake    int64 // unix milliseconds
	leased  bool
	lost    int
	lostAt  int // steps at the last loss
	attempt int
}

type modelMessage struct {
	id    string
	lane  *modelLane
	life  int64
	run   int
	steps int
}

// claimed is a delivery and what the model knows of it.
type claimed struct {
	corebot.Delivery
	m *modelMessage
}

func newModel(s *suite, seed uint64) *model {
	return &model{s: s, rand: rand.New(rand.NewPCG(seed, 2))}
}

func (m *model) run(operations int) {
	moves := []struct {
		weight int
		move   func()
	}{
		{30, m.publish},
		{5, m.publishAgain},
		{25, m.claim},
		{30, m.settle},
		{6, m.settleStale},
		{8, m.extend},
		{10, m.record},
		{12, m.sleep},
		{2, m.reopen},
		{5, m.replay},
	}
	total := 0
	for _, mv := range moves {
		total += mv.weight
	}
	for range operations {
		n := m.rand.IntN(total)
		for _, mv := range moves {
			if n -= mv.weight; n < 0 {
				mv.move()
				break
			}
		}
	}
	m.agree()
}

func nowMS() int64 { return time.Now().UnixMilli() }

func (m *model) publish() {
	chat := fmt.Sprint("chat ", m.rand.IntN(6))
	i := slices.IndexFunc(m.lanes, func(l *modelLane) bool { return l.chat == chat })
	if i < 0 {
		i = len(m.lanes)
		m.lanes = append(m.lanes, &modelLane{chat: chat})
	}
	msg := &modelMessage{id: fmt.Sprint("m", len(m.all)), lane: m.lanes[i], run: 1}
	r, err := m.s.bus.Publish(m.s.t.Context(), prompt(chat, msg.id))
	m.s.must(err)
	msg.life = r.Life
	m.all = append(m.all, msg)
	m.push(msg)
}

func (m *model) push(msg *modelMessage) {
	if len(msg.lane.queue) == 0 {
		msg.lane.wake = nowMS()
	}
	msg.lane.queue = append(msg.lane.queue, msg)
	m.waiting++
}

func (m *model) publishAgain() {
	if len(m.all) == 0 {
		return
	}
	msg := m.all[m.rand.IntN(len(m.all))]
	r, err := m.s.bus.Publish(m.s.t.Context(), prompt(msg.lane.chat, msg.id))
	m.s.must(err)
	if !r.Duplicate || r.Life != msg.life {
		m.s.t.Fatalf("publish %s again: %+v", msg.id, r)
	}
}

// claim predicts which lanes come, in which order and with which counts.
func (m *model) claim() {
	n := 1 + m.rand.IntN(3)
	var want []*modelLane
	for _, l := range m.lanes {
		if len(l.queue) > 0 && l.wake <= nowMS() {
			want = append(want, l)
		}
	}
	slices.SortStableFunc(want, func(a, b *modelLane) int { return cmp.Compare(a.wake, b.wake) })
	want = want[:min(n, len(want))]
	got := m.s.ready(corebot.InboundPool, n)
	if len(got) != len(want) {
		m.s.t.Fatalf("claimed %d, want %d", len(got), len(want))
	}
	for i, l := range want {
		head, d := l.queue[0], got[i]
		if l.leased {
			m.lose(l, head)
		}
		if d.Message.ID != head.id || d.Lost != l.lost || d.Attempt != l.attempt+1 || d.Run != head.run || len(d.Journal) != head.steps {
			m.s.t.Fatalf("claim %d: got %s lost %d attempt %d run %d steps %d, want %+v of %+v", i, d.Message.ID, d.Lost, d.Attempt, d.Run, len(d.Journal), *head, *l)
		}
		l.leased, l.wake = true, nowMS()+lease.Milliseconds()
		m.claims = append(m.claims, claimed{d, head})
	}
}

// lose counts a lease that was lost and makes its holder stale.
func (m *model) lose(l *modelLane, head *modelMessage) {
	if head.steps != l.lostAt {
		l.lost, l.lostAt = 0, head.steps
	}
	l.lost++
	m.forget(head)
}

// forget turns the claim of a message into a stale one.
func (m *model) forget(head *modelMessage) {
	if i := slices.IndexFunc(m.claims, func(c claimed) bool { return c.m == head }); i >= 0 {
		m.stale = append(m.stale, m.claims[i])
		m.claims = slices.Delete(m.claims, i, i+1)
	}
}

func (m *model) settle() {
	if len(m.claims) == 0 {
		return
	}
	c := m.claims[m.rand.IntN(len(m.claims))]
	l, pause := c.m.lane, time.Duration(m.rand.IntN(40_000))*time.Millisecond
	o := []corebot.Outcome{answered(), answered(), retryIn(pause), waitFor(pause), given("permanent")}[m.rand.IntN(5)]
	m.s.settle(c.Delivery, o)
	m.forget(c.m)
	l.leased, l.wake = false, o.At.UnixMilli()
	switch o.Verb {
	case corebot.RetryAt:
		l.attempt, l.lost, l.lostAt = l.attempt+1, 0, 0
	case corebot.Wait:
		l.lost, l.lostAt = 0, 0
	case corebot.Done, corebot.Dead:
		l.queue, l.wake, l.attempt, l.lost, l.lostAt = l.queue[1:], nowMS(), 0, 0, 0
		m.waiting--
		if o.Verb == corebot.Dead {
			m.dead = append(m.dead, c.m)
		}
	}
}

func (m *model) settleStale() {
	if len(m.stale) == 0 {
		return
	}
	c := m.stale[m.rand.IntN(len(m.stale))]
	o := everyOutcome()[m.rand.IntN(4)]
	m.s.wantErr(m.s.bus.Settle(m.s.t.Context(), c.Delivery, o), corebot.ErrLeaseLost)
	m.s.wantErr(m.s.Ledger.Record(m.s.t.Context(), c.Delivery, step(c.m.steps)), corebot.ErrLeaseLost)
}

// extend prolongs every claim, the stale ones too, which must come back as lost.
func (m *model) extend() {
	var leases []corebot.Lease
	for _, c := range slices.Concat(m.claims, m.stale) {
		leases = append(leases, c.Lease)
	}
	lost, err := m.s.bus.Extend(m.s.t.Context(), leases)
	m.s.must(err)
	if len(lost) != len(m.stale) {
		m.s.t.Fatalf("lost %d leases, want %d", len(lost), len(m.stale))
	}
	for _, c := range m.claims {
		c.m.lane.wake = nowMS() + lease.Milliseconds()
	}
}

func (m *model) record() {
	if len(m.claims) == 0 {
		return
	}
	c := m.claims[m.rand.IntN(len(m.claims))]
	m.s.record(c.Delivery, c.m.steps)
	c.m.steps++
}

func (m *model) sleep() { time.Sleep(time.Duration(m.rand.IntN(20_000)) * time.Millisecond) }

func (m *model) reopen() {
	m.s.reopen()
	m.stale = append(m.stale, m.claims...)
	m.claims = nil
	for _, l := range m.lanes {
		if l.leased {
			l.wake = nowMS()
		}
	}
}

func (m *model) replay() {
	if len(m.dead) == 0 {
		return
	}
	i := m.rand.IntN(len(m.dead))
	msg := m.dead[i]
	fresh := m.rand.IntN(2) == 0
	m.s.must(m.s.DeadLetters.Replay(m.s.t.Context(), msg.life, fresh))
	m.dead = slices.Delete(m.dead, i, i+1)
	msg.run++
	if fresh {
		msg.steps = 0
	}
	m.push(msg)
}

// agree compares the totals at the end.
func (m *model) agree() {
	if c := m.s.census(); c.Lives != len(m.all) || c.Waiting != m.waiting || c.Lanes != len(m.lanes) {
		m.s.t.Errorf("the store has %+v; the model %d lives, %d waiting, %d lanes", c, len(m.all), m.waiting, len(m.lanes))
	}
	if got := m.s.list(corebot.Inbound, 10_000); len(got) != len(m.dead) {
		m.s.t.Errorf("the store has %d dead letters, the model %d", len(got), len(m.dead))
	}
}
