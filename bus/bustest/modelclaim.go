package bustest

import (
	"cmp"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// claim predicts the claimed lanes, their order and their counts.
func (m *model) claim() {
	n, pool := m.anyClaim()
	got := m.s.ready(pool, n)
	m.note("claim %d of %s: %s", n, pool, ids(got))
	m.got(pool, n, got)
}

// anyClaim is a claim for 1 to 4 lanes.
func (m *model) anyClaim() (n int, pool corebot.Pool) {
	if n = 1 + m.rand.IntN(4); m.rand.IntN(4) == 0 {
		return n, corebot.OutboundPool("test")
	}
	return n, corebot.InboundPool
}

// got compares what a claim got with the lanes that are due.
func (m *model) got(pool corebot.Pool, n int, got []corebot.Delivery) {
	m.s.t.Helper()
	direction := corebot.Outbound
	if pool == corebot.InboundPool {
		direction = corebot.Inbound
	}
	var due []*modelLane
	for _, l := range m.lanes {
		if l.direction == direction && len(l.queue) > 0 && l.wake <= nowMS() {
			due = append(due, l)
		}
	}
	slices.SortFunc(due, func(a, b *modelLane) int { return cmp.Compare(a.wake, b.wake) })
	due = due[:min(len(due), m.dueTogether(due, n))]
	if want := min(n, len(due)); len(got) != want {
		m.s.t.Fatalf("claimed %d lanes, want %d", len(got), want)
	}
	for i, d := range got {
		m.claimed(d, due, due[i].wake)
	}
}

// dueTogether is how many of the lanes, sorted by their wake time, a claim for n can return. Lanes that wake together
// have no order.
func (m *model) dueTogether(due []*modelLane, n int) int {
	for n < len(due) && due[n].wake == due[n-1].wake {
		n++
	}
	return n
}

func ids(ds []corebot.Delivery) (out []string) {
	for _, d := range ds {
		out = append(out, d.Message.ID)
	}
	return out
}

// claimed compares one delivery with the model. Its lane must be one of the due lanes with this wake time.
func (m *model) claimed(d corebot.Delivery, due []*modelLane, wake int64) {
	m.s.t.Helper()
	i := slices.IndexFunc(due, func(l *modelLane) bool { return l.chat == d.Message.Key.Chat })
	if i < 0 || due[i].wake != wake {
		m.s.t.Fatalf("claimed the lane of %s, want one that woke at %d", d.Message.Key.Chat, wake)
	}
	l := due[i]
	head := l.queue[0]
	if l.leased {
		m.lose(l, head)
	}
	type told struct {
		id, text                           string
		lost, attempt, limited, run, steps int
		stopped                            bool
	}
	got := told{d.Message.ID, d.Message.Text(), d.Lost, d.Attempt, d.Limited, d.Run, len(d.Journal), d.Stopped}
	want := told{head.ID, head.Text(), l.lost, l.attempts + 1, l.limited, head.run, head.steps, l.stopSeq >= head.seq}
	if got != want || d.Damaged != nil || head.life != 0 && d.Life != head.life {
		m.s.t.Fatalf("claimed %+v (life %d, damaged: %v), want %+v (life %d)", got, d.Life, d.Damaged, want, head.life)
	}
	head.life = d.Life
	l.leased, l.begun, l.wake = true, true, nowMS()+lease.Milliseconds()
	m.claims = append(m.claims, modelClaim{d, head})
}

// lose counts a lost lease and makes its holder stale.
func (m *model) lose(l *modelLane, head *modelMessage) {
	if head.steps != l.lostAt {
		l.lost, l.lostAt = 0, head.steps
	}
	l.lost++
	for _, c := range m.claims {
		if c.m == head {
			l.lostEpoch = c.Epoch
		}
	}
	m.forget(head)
}

// forget makes the claim of a message stale, if there is one.
func (m *model) forget(head *modelMessage) {
	if i := slices.IndexFunc(m.claims, func(c modelClaim) bool { return c.m == head }); i >= 0 {
		m.remember(m.claims[i])
		m.claims = slices.Delete(m.claims, i, i+1)
	}
}

// remember keeps a stale claim. If there are many, it replaces an older one.
func (m *model) remember(c modelClaim) {
	if len(m.stale) < modelStale {
		m.stale = append(m.stale, c)
		return
	}
	m.stale[m.rand.IntN(modelStale)] = c
}

// extend prolongs every claim, also the stale ones. A claim that another claim has replaced must come back as lost.
func (m *model) extend() {
	var leases, want []corebot.Lease
	for _, c := range slices.Concat(m.claims, m.stale) {
		leases = append(leases, c.Lease)
	}
	for _, c := range m.stale {
		if c.Epoch <= c.m.lane.lostEpoch {
			want = append(want, c.Lease)
		}
	}
	lost, err := m.s.bus.Extend(m.s.t.Context(), leases)
	m.note("extend %d, lost %d", len(leases), len(lost))
	m.s.must(err)
	if !slices.Equal(lost, want) {
		m.s.t.Fatalf("lost %v, want %v", lost, want)
	}
	for _, c := range m.claims {
		c.m.lane.wake = nowMS() + lease.Milliseconds()
	}
}

func (m *model) record() {
	c, ok := pick(m, m.claims)
	if !ok {
		return
	}
	m.note("record step %d of %s", c.m.steps, c.m.ID)
	m.s.record(c.Delivery, c.m.steps)
	c.m.steps++
	m.steps++
}

// staleReturns lets a worker that lost its lease try everything that a worker can do.
func (m *model) staleReturns() {
	c, ok := pick(m, m.stale)
	if !ok {
		return
	}
	o, _ := pick(m, everyOutcome())
	m.note("the stale worker of %s, epoch %d, returns with %+v", c.m.ID, c.Epoch, o)
	ctx := m.s.t.Context()
	m.s.wantErr(m.s.bus.Settle(ctx, c.Delivery, o), corebot.ErrLeaseLost)
	m.s.wantErr(m.s.Ledger.Record(ctx, c.Delivery, step(c.m.steps)), corebot.ErrLeaseLost)
	m.s.wantErr(m.s.Ledger.Commit(ctx, c.Delivery, turn(o)), corebot.ErrLeaseLost)
}

// anyOutcome is a random outcome. Its pauses end before or after leases expire.
func (m *model) anyOutcome() corebot.Outcome {
	pause := time.Duration(m.rand.IntN(40_000)) * time.Millisecond
	o, _ := pick(m, []corebot.Outcome{
		answered(), answered(), answered(), retryIn(pause), limitedFor(pause),
		waitFor(pause), given("permanent"),
	})
	return o
}

func (m *model) settle() {
	c, ok := pick(m, m.claims)
	if !ok {
		return
	}
	o := m.anyOutcome()
	m.note("settle %s: %+v", c.m.ID, o)
	if m.rand.IntN(2) == 0 {
		m.s.settle(c.Delivery, o)
		m.settled(c, o)
		return
	}
	n, pool := m.anyClaim()
	got, err := m.s.bus.SettleAndClaim(m.s.t.Context(), c.Delivery, o, m.s.bus.Next(pool, n))
	m.s.must(err)
	m.note("  and claim %d of %s: %s", n, pool, ids(got))
	m.settled(c, o)
	m.got(pool, n, got)
}

// commit ends a claim as a turn does: with history and a reply, whose id is the same in every attempt of a run.
func (m *model) commit() {
	c, ok := pick(m, m.claims)
	if !ok || c.m.lane.direction != corebot.Inbound {
		return
	}
	o := m.anyOutcome()
	answer := reply(c.m.lane.chat, c.RunID()+"/0")
	r := corebot.Result{Outcome: o, Replies: []corebot.Message{answer}}
	if o.Verb == corebot.Done {
		r.History = []corebot.HistoryEntry{
			{Speaker: corebot.SpeakerUser, Parts: corebot.TextPart(c.m.Text())},
			{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart(answer.Text())},
		}
		m.history += len(r.History)
	}
	m.note("commit %s: %+v", c.m.ID, o)
	next := corebot.Claim{}
	if m.rand.IntN(2) == 0 {
		next = m.s.bus.Next(corebot.InboundPool, 1+m.rand.IntN(4))
	}
	got, err := m.s.Ledger.CommitAndClaim(m.s.t.Context(), c.Delivery, r, next)
	m.s.must(err)
	m.settled(c, o)
	if m.known[name(m.lane(corebot.Outbound, c.m.lane.chat), answer.ID)] == nil {
		m.push(answer, 0)
	}
	if next.Max > 0 {
		m.note("  and claim %d: %s", next.Max, ids(got))
		m.got(next.Pool, next.Max, got)
	}
}

func (m *model) settled(c modelClaim, o corebot.Outcome) {
	l := c.m.lane
	m.forget(c.m)
	l.leased, l.wake = false, o.At.UnixMilli()
	switch o.Verb {
	case corebot.RetryAt:
		if o.Uncounted {
			l.limited++
		} else {
			l.attempts++
		}
	case corebot.Done, corebot.Dead:
		l.queue, l.wake, l.attempts, l.limited, l.begun = l.queue[1:], nowMS(), 0, 0, false
		m.waiting[l.direction]--
		if o.Verb == corebot.Dead {
			m.dead = append(m.dead, c.m)
		}
	}
	l.lost, l.lostAt = 0, 0
	if (o.Verb == corebot.RetryAt || o.Verb == corebot.Wait) && l.stopSeq >= c.m.seq {
		l.wake = nowMS() // a stopped message does not wait for the end of its backoff
	}
}
