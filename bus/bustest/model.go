package bustest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

// ModelOptions select a random history and its length.
type ModelOptions struct {
	Operations int    // in one history
	Seed       uint64 // the same seed and number of operations are the same history
}

// RunModel plays a random history of operations against a store and, step by step, against a model of its lanes in
// memory. The two must agree on every answer. Time is virtual. A failure reports the seed and the last operations.
func RunModel(t *testing.T, open Open, o ModelOptions) {
	synctest.Test(t, func(t *testing.T) {
		s := newSuite(t, open)
		options := s.opts
		options.Limits = corebot.Limits{LaneDepth: modelLaneDepth, TotalDepth: modelTotalDepth}
		options.MaxLost = 1 << 30 // quarantine is off: other chapters test it
		s.reopenWith(options)
		newModel(s, o).run()
	})
}

// The limits are low, so that a history reaches them now and then.
const (
	modelChats      = 8
	modelLaneDepth  = 12
	modelTotalDepth = 50
	modelStale      = 32 // how many lost claims the model keeps and tries again
	modelTrace      = 40 // how many operations a failure reports
)

// model is the expected state of the lanes, in plain Go.
type model struct {
	s       *suite
	opts    ModelOptions
	rand    *rand.Rand
	lanes   []*modelLane
	claims  []modelClaim // that hold their lane
	stale   []modelClaim // claims that have lost their lane
	dead    []*modelMessage
	all     []*modelMessage
	known   map[string]*modelMessage // by lane and message id
	stops   []modelStop
	control map[string]bool // the chats that have a lane of controls
	waiting map[corebot.Direction]int64
	lives   int
	steps   int
	history int
	audit   int
	trace   []string // the last operations, oldest first
}

type modelLane struct {
	direction corebot.Direction
	chat      string
	queue     []*modelMessage
	nextSeq   int
	stopSeq   int   // the place of the message that a /stop has stopped
	wake      int64 // unix milliseconds: due, backoff, or the end of the lease
	leased    bool
	begun     bool  // its head was claimed
	heard     []int // the places of what is kept as context
	attempts  int   // counted ones of the head
	limited   int   // uncounted ones of the head
	lost      int   // leases of the head, in a row without a new step
	lostAt    int   // steps at the last loss
	lostEpoch int64 // the epoch of the newest lost claim
}

type modelMessage struct {
	corebot.Message
	lane       *modelLane
	life       int64 // 0 until the store has told it
	run, steps int
	seq        int           // its place in the lane
	edited     *modelMessage // that took its place
}

// modelClaim is a delivery with the model's view of it.
type modelClaim struct {
	corebot.Delivery
	m *modelMessage
}

// modelStop is an accepted /stop.
type modelStop struct{ chat, id string }

func newModel(s *suite, o ModelOptions) *model {
	return &model{
		s: s, opts: o, rand: rand.New(rand.NewPCG(o.Seed, 2)),
		known: map[string]*modelMessage{}, control: map[string]bool{}, waiting: map[corebot.Direction]int64{},
	}
}

func (m *model) run() {
	done := 0
	defer func() {
		if m.s.t.Failed() {
			m.s.t.Logf("seed %d, operation %d. The last operations:\n%s", m.opts.Seed, done,
				strings.Join(m.trace, "\n"))
		}
	}()
	moves := m.moves()
	total := 0
	for _, mv := range moves {
		total += mv.weight
	}
	for ; done < m.opts.Operations && !m.s.t.Failed(); done++ {
		n := m.rand.IntN(total)
		for _, mv := range moves {
			if n -= mv.weight; n < 0 {
				mv.move()
				break
			}
		}
		if (done+1)%max(1, m.opts.Operations/8) == 0 {
			m.agree()
		}
	}
	m.agree()
}

// weighted is an operation with its relative frequency.
type weighted struct {
	weight int
	move   func()
}

func (m *model) moves() []weighted {
	return []weighted{
		{280, m.publish},
		{50, m.publishAgain},
		{20, m.publishOther},
		{50, m.publishBatch},
		{300, m.claim},
		{250, m.settle},
		{150, m.commit},
		{60, m.staleReturns},
		{80, m.extend},
		{100, m.record},
		{20, m.stop},
		{40, m.change},
		{20, m.cancel},
		{120, m.sleep},
		{3, m.reopen},
		{30, m.replay},
		{10, m.edit},
		{10, m.drop},
	}
}

// note adds an operation to the trace that a failure reports.
func (m *model) note(format string, args ...any) {
	if len(m.trace) == modelTrace {
		m.trace = append(m.trace[:0], m.trace[1:]...)
	}
	m.trace = append(m.trace, fmt.Sprintf("  at %d ms: ", nowMS())+fmt.Sprintf(format, args...))
}

func nowMS() int64 { return time.Now().UnixMilli() }

// pick is a random element, or false if there is none.
func pick[T any](m *model, from []T) (x T, ok bool) {
	if len(from) == 0 {
		return x, false
	}
	return from[m.rand.IntN(len(from))], true
}

// lane is the lane of a chat; a missing lane is created.
func (m *model) lane(d corebot.Direction, chat string) *modelLane {
	for _, l := range m.lanes {
		if l.direction == d && l.chat == chat {
			return l
		}
	}
	l := &modelLane{direction: d, chat: chat, nextSeq: 1}
	m.lanes = append(m.lanes, l)
	return l
}

func (m *model) sleep() {
	d := time.Duration(m.rand.IntN(int(lease/time.Millisecond)*2/3)) * time.Millisecond
	time.Sleep(d)
	m.note("slept %v", d)
}

// reopen is a crash: every claim is stale, and every held lane is ready.
func (m *model) reopen() {
	m.note("reopen")
	m.s.reopen()
	for _, c := range m.claims {
		c.m.lane.lostEpoch = c.Epoch
		m.remember(c)
	}
	m.claims = nil
	for _, l := range m.lanes {
		if l.leased {
			l.wake = nowMS()
		}
	}
}

// agree compares the counts of the store and of the model.
func (m *model) agree() {
	m.s.t.Helper()
	want := Census{
		Lanes: len(m.lanes) + len(m.control), Lives: m.lives, Steps: m.steps, History: m.history,
		Audit: m.audit,
	}
	for _, n := range m.waiting {
		want.Waiting += int(n)
	}
	if got := m.s.census(); got != want {
		m.s.t.Errorf("the store has %+v, the model %+v", got, want)
	}
	lives := map[int64]bool{}
	for _, dl := range m.s.list(0, 0) {
		lives[dl.ID] = true
	}
	for _, msg := range m.dead {
		if !lives[msg.life] {
			m.s.t.Errorf("the store has no dead letter %d (%s)", msg.life, msg.ID)
		}
	}
	if len(lives) != len(m.dead) {
		m.s.t.Errorf("the store has %d dead letters, the model %d", len(lives), len(m.dead))
	}
	problems, err := m.s.Problems(m.s.t.Context())
	m.s.must(err)
	if len(problems) > 0 {
		m.s.t.Errorf("the store finds fault with itself: %v", problems)
	}
}
