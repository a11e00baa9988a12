package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/runes"
	"github.com/corebot/corebot/internal/trace"
	"github.com/corebot/corebot/internal/watchdog"
	"github.com/corebot/corebot/policy"
)

// Queue is the part of the bus that the router needs.
type Queue interface {
	Claim(ctx context.Context, pool corebot.Pool, max int) ([]corebot.Delivery, error)
	Extend(ctx context.Context, leases []corebot.Lease) (lost []corebot.Lease, err error)
	Lease() time.Duration
	Unfit(d corebot.Delivery) (corebot.Outcome, bool)
	Verdict(d corebot.Delivery, err error) corebot.Outcome
	Settled(d corebot.Delivery, o corebot.Outcome)
	Next(pool corebot.Pool, max int) corebot.Claim
}

// Ledger ends turns, each in one commit, and accepts control messages together with their effects.
type Ledger interface {
	// CommitAndClaim ends a turn. In the same commit it makes the next claim, which gets what is ready and waits for
	// nothing. With an error, next got nothing.
	CommitAndClaim(ctx context.Context, d corebot.Delivery, r corebot.Result, next corebot.Claim) ([]corebot.Delivery,
		error)
	Head(ctx context.Context, k corebot.Key) (life int64, sender corebot.Principal, err error)
	// Another finds a principal other than p who has spoken in the chat's session. If the caller holds the lease of the
	// chat's lane, the answer stays true until the commit.
	Another(ctx context.Context, k corebot.Key, p corebot.Principal) (other corebot.Principal, found bool, err error)
	// Stop stops the turn of headLife; 0: nothing.
	Stop(ctx context.Context, m corebot.Message, headLife int64, by corebot.AuditEvent,
		notice func(found bool) corebot.Message, asked ...corebot.Head) (corebot.Stopped, error)
	// Asked returns the questions under way that the turns of a chat, and the turns of these questions, have asked
	// agents.
	Asked(ctx context.Context, k corebot.Key, agents []string) ([]corebot.Head, error)
	// Steer stores a prompt for the turn of headLife. If headLife is 0 or that turn has ended, the prompt gets a turn
	// of its own.
	Steer(ctx context.Context, m corebot.Message, headLife int64, by corebot.AuditEvent,
		notice func(merges bool) *corebot.Message) (corebot.Steered, error)
	// Cancel ends the message that m deletes, if it waits and no work on it has begun.
	Cancel(ctx context.Context, m corebot.Message) (corebot.Receipt, error)
	// Answer stores a control message that changes nothing, with its notice.
	Answer(ctx context.Context, m corebot.Message, notice corebot.Message) (corebot.Receipt, error)
	// Refuse is Answer for a denied command; by is its audit event.
	Refuse(ctx context.Context, m corebot.Message, by corebot.AuditEvent, notice corebot.Message) (corebot.Receipt,
		error)
}

// Agent runs a turn. With [corebot.ErrStopped] the result still has the history of the work done.
type Agent interface {
	Turn(ctx context.Context, d corebot.Delivery) (corebot.Result, error)
}

// Roles says what a principal may do in a chat.
type Roles interface {
	RoleOf(ctx context.Context, p corebot.Principal, k corebot.Key) (corebot.Role, error)
}

// Programs are those that run in the background of chats.
type Programs interface {
	// RunningOf counts the programs of a chat that a principal has started, or all of the chat.
	RunningOf(k corebot.Key, owner corebot.Principal, all bool) int
	// StopOf has these programs end.
	StopOf(k corebot.Key, owner corebot.Principal, all bool) int
}

// Parts are the parts of a router. All are required.
type Parts struct {
	Queue     Queue
	Ledger    Ledger
	Letters   Letters
	Lives     Lives
	Approvals Approvals
	Agent     Agent
	Roles     Roles
	Policy    *policy.Policy
}

func (p Parts) whole() bool {
	return p.Queue != nil && p.Ledger != nil && p.Letters != nil && p.Lives != nil && p.Approvals != nil &&
		p.Agent != nil && p.Roles != nil && p.Policy != nil
}

// Options of a [Router]. Zero values mean the defaults.
type Options struct {
	Workers   int           // turns that run at once, beside those that take long (see [crew]); 64
	Drain     time.Duration // how long turns can go on after shutdown began; 30 s
	MaxBytes  int           // of one control message; 1 MiB
	Spending  Spending      // usage and its caps
	Agents    []string      // ids of all agents: a /stop also stops what the turns of its chat have asked them
	AdminChat corebot.Key   // where requests for approval are shown, beside the chat itself; zero: nowhere
	Owner     corebot.OwnersChannel
	Chats     Situations // for /status; nil: /status tells nothing
	// Models are those that /model can name in the chats of an agent; nil: none.
	Models   func(agent string) []string
	Versions Versions // for /undo, with Reverter; nil: nothing can be undone
	Reverter Reverter
	Choices  Choices  // stores what /model and /think choose; nil: nothing can be chosen
	Thinks   Thinks   // for /think; nil: nobody knows how models think
	Pairings Pairings // for /pair; nil: nobody is paired
	Skills   Skills   // for /skills; nil: there are none
	// Remembered is for /memory; nil: nothing is remembered.
	Remembered Remembered
	Links      Links               // for /link and /unlink; nil: chats are not linked
	Rooms      Rooms               // for /link; nil: chats stay as they were when they asked
	Sessions   Sessions            // for /rewind and /fork; nil: neither is there
	Redact     func(string) string // removes secrets from errors before a chat reads them; nil: removes nothing
	Tasks      Tasks               // for /tasks and /remind, with Planner; nil: there are none
	Planner    Planner
	Describe   Describer // the agent of a chat, for /status; nil: not told
	// Accounts has a line for each account of each channel, for /status of admins; nil: none
	Accounts func(ctx context.Context) []string
	Contexts Contexts // for /context; nil: it tells nothing
	Waits    Waits    // for /resume; nil: nothing waits
	Jobs     Jobs     // for /jobs and /stop JOB; nil: there are none
	// Groups says whether notices of dead letters are grouped in the chats of a kind of channel. People read them
	// there, and no program waits for the answer to each message. Nil: nowhere.
	Groups   func(channel string) bool
	Programs Programs // in the background, which a /stop ends too; nil: there are none
	Live     *live.Hub
	Work     *live.Work // where turns are noted that run; nil: nowhere
	Log      zerolog.Logger
	Metrics  prometheus.Registerer
	Tracer   *trace.Tracer // nil: nothing is traced
}

// Describer returns the display names of an agent and its model. The name is empty where there is only one agent.
type Describer func(agent string) (name, model string)

// Router runs turns.
type Router struct {
	queue     Queue
	ledger    Ledger
	letters   Letters
	lives     Lives
	approvals Approvals
	agent     Agent
	roles     Roles
	policy    *policy.Policy
	opts      Options
	active    active
	crew      atomic.Pointer[crew]          // of the Run that goes on; nil: none yet
	steps     watchdog.Steps[corebot.Lease] // what workers do outside of the agent
	shared    sharedUse
	budget    atomic.Pointer[corebot.Budget] // instead of the budget of opts; nil: it has not changed
	metrics   *metrics
}

// New makes a router; it starts nothing. A missing part and a negative number are [corebot.ErrInvalid].
func New(p Parts, o Options) (*Router, error) {
	if !p.whole() {
		return nil, fmt.Errorf("%w: router: a part of it is missing", corebot.ErrInvalid)
	}
	o.Workers = cmp.Or(o.Workers, 64)
	o.Drain = cmp.Or(o.Drain, 30*time.Second)
	o.MaxBytes = cmp.Or(o.MaxBytes, 1<<20)
	if o.Workers < 0 || o.Drain < 0 || o.MaxBytes < 0 {
		return nil, fmt.Errorf("%w: router: workers %d, drain %v, %d bytes", corebot.ErrInvalid, o.Workers, o.Drain,
			o.MaxBytes)
	}
	if o.Live == nil {
		o.Live = new(live.Hub)
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	router := &Router{
		queue: p.Queue, ledger: p.Ledger, letters: p.Letters, lives: p.Lives, approvals: p.Approvals, agent: p.Agent,
		roles: p.Roles, policy: p.Policy, opts: o, active: active{work: o.Work},
	}
	var err error
	router.metrics, err = newMetrics(o.Metrics, &router.active)
	return router, err
}

// Run claims and runs turns until ctx ends, and then drains: see the package doc.
func (r *Router) Run(ctx context.Context) error {
	work, abort := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abort(nil)
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(r.opts.Drain, func() { abort(corebot.ErrShutdown) })
	})()
	var heart sync.WaitGroup
	beat, still := context.WithCancel(context.WithoutCancel(ctx))
	heart.Go(func() { r.heartbeat(beat) })
	crew := &crew{router: r, claims: ctx, work: work}
	r.crew.Store(crew)
	for range r.opts.Workers {
		crew.start()
	}
	crew.here.Wait()
	still()
	heart.Wait()
	return nil
}

// deliver takes one delivery to its end. It returns what it has claimed in the commit of that end, if anything.
func (r *Router) deliver(w *worker, d corebot.Delivery) (claimed []corebot.Delivery) {
	log := r.opts.Log.With().Str("chat", d.Message.Key.String()).Str("message_id", d.Message.ID).Str("execution",
		d.RunID()).Int("attempt", d.Attempt).Logger()
	r.opts.Tracer.Claim(&d)
	span := r.opts.Tracer.Work(trace.Consumer, "process", d)
	if span.Recorded() {
		log = log.With().Str("trace_id", span.At().IDText()).Logger()
	}
	ctx, release := r.active.begin(trace.With(log.WithContext(w.crew.work), span), d)
	defer release()
	r.steps.Begin(d.Lease, time.Now())
	defer r.steps.End(d.Lease)
	fault.Point("router", "claimed")
	started := time.Now()
	result := toItsCall(d, r.run(ctx, d))
	next := corebot.Claim{}
	if w.claims() {
		next = r.queue.Next(corebot.InboundPool, 1)
	}
	claimed, err := r.commit(ctx, d, result, next)
	if result.Outcome.Verb == corebot.Defer && errors.Is(err, corebot.ErrLaneFull) {
		result = noPlace(d)
		claimed, err = r.commit(ctx, d, result, next)
	}
	if corebot.Unstorable(err) {
		result, err = r.unstored(ctx, d, result, err)
	}
	took := time.Since(started)
	if err != nil {
		log.Error().Err(err).Dur("took_ms", took).Msg("the turn was not committed; it will run again from its journal")
		r.metrics.turn(took, span)
		r.metrics.lost.Inc()
		span.Fail("uncommitted")
		span.End()
		return nil
	}
	r.queue.Settled(d, result.Outcome)
	name := ending(result.Outcome)
	r.metrics.turn(took, span)
	endSpan(span, result.Outcome, name)
	r.opts.Live.Publish(live.Event{Kind: live.TurnEnded, Key: d.Message.Key, MessageID: d.Message.ID, Text: name})
	event := log.Info()
	if result.Outcome.Error != "" {
		event = log.Warn().Str("error", result.Outcome.Error)
	}
	event.Str("end", name).Dur("took_ms", took).Msg("turn")
	return claimed
}

// endSpan ends the span of a turn.
func endSpan(s *trace.Span, o corebot.Outcome, name string) {
	s.Text("corebot.end", name)
	if o.Error != "" {
		s.Fail(cmp.Or(o.Class, o.Reason, name))
	}
	s.End()
}

// ending names the end of a claim, for the log, metrics and watchers.
func ending(o corebot.Outcome) string {
	switch o.Verb {
	case corebot.Done:
		return string(o.End)
	case corebot.RetryAt:
		return "retrying"
	case corebot.Wait:
		return live.Waiting
	case corebot.Defer:
		return "parked"
	}
	return "dead"
}

// run decides what a delivery needs and does it. It returns no error, because every failure is an outcome.
func (r *Router) run(ctx context.Context, d corebot.Delivery) corebot.Result {
	if result, ends := r.sessionOfOthers(ctx, d); ends {
		return result
	}
	if o, unfit := r.queue.Unfit(d); unfit {
		return r.deadLetter(ctx, d, o, nil, nil)
	}
	if d.Message.Kind == corebot.KindCommand {
		if d.Stopped {
			return stopped(d, corebot.Result{}, d.Interrupted)
		}
		return r.inLane(ctx, d)
	}
	if deferred, over := r.overBudget(ctx, d); over {
		return deferred
	}
	result, err := r.turn(ctx, d)
	switch {
	case err == nil:
		return result
	case errors.Is(err, corebot.ErrStopped):
		return stopped(d, result, errors.Is(err, corebot.ErrInterrupted))
	}
	if waits := (*corebot.AwaitsApproval)(nil); errors.As(err, &waits) {
		return r.awaits(d, result, waits.Asked)
	}
	if waits := (*corebot.Waiting)(nil); errors.As(err, &waits) {
		return r.waits(d, result, waits.Call)
	}
	o := r.queue.Verdict(d, err)
	if o.Verb == corebot.Dead {
		return r.deadLetter(ctx, d, o, err, result.Spent)
	}
	return corebot.Result{Outcome: o, Spent: result.Spent, Replies: delayed(d, o)}
}

// questionBytes bounds the part of a message that its watchers are shown.
const questionBytes = 4 << 10

// turn runs the agent. A panic of the agent is a failure of this message, not the end of the process.
func (r *Router) turn(ctx context.Context, d corebot.Delivery) (result corebot.Result, err error) {
	r.steps.End(d.Lease) // the agent has limits of its own
	defer func() {
		r.steps.Begin(d.Lease, time.Now())
		if p := recover(); p != nil {
			zerolog.Ctx(ctx).Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("the turn panicked")
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	question := runes.Head(d.Message.Text(), questionBytes)
	r.opts.Live.Publish(live.Event{Kind: live.TurnStarted, Key: d.Message.Key, MessageID: d.Message.ID, Text: question})
	return r.agent.Turn(ctx, d)
}

// Overdue names what a worker should have finished by now; empty: nothing. The time of the agent does not count.
func (r *Router) Overdue() (mark string) { return r.steps.Overdue("a worker with lane and epoch") }

// Free says whether a worker waits for a message.
func (r *Router) Free() bool {
	c := r.crew.Load()
	return c == nil || c.room(r.active.count())
}

// commitTries bounds the tries of a commit while its lease is extended.
const commitTries = 6

// commit ends the turn in one commit, which also makes the next claim. The end of the turn's context does not stop it,
// because a shutdown must not lose the work done. Trying again is safe: if an earlier try took effect after all, the
// claim is settled, and the store says so.
func (r *Router) commit(ctx context.Context, d corebot.Delivery, result corebot.Result,
	next corebot.Claim,
) (claimed []corebot.Delivery, err error) {
	ctx, span := trace.Start(context.WithoutCancel(ctx), trace.Internal, "commit", d.Message.Direction.String())
	if span != nil {
		defer span.End()
		for i := range result.Replies {
			result.Replies[i].Trace = span.At() // the commit publishes them
		}
	}
	return r.commitTraced(ctx, d, result, next)
}

func (r *Router) commitTraced(ctx context.Context, d corebot.Delivery, result corebot.Result,
	next corebot.Claim,
) (claimed []corebot.Delivery, err error) {
	pause := backoff.Policy{Base: 200 * time.Millisecond, Max: 5 * time.Second}
	maybeDone := false
	for n := 1; n <= commitTries; n++ {
		claimed, err = r.ledger.CommitAndClaim(ctx, d, result, next)
		switch {
		case err == nil:
			return claimed, nil
		case errors.Is(err, corebot.ErrSettled) && maybeDone:
			return nil, nil // the earlier try of unknown outcome has ended the claim: nobody else could
		case errors.Is(err, corebot.ErrLeaseLost), errors.Is(err, corebot.ErrClosed),
			errors.Is(err, corebot.ErrLaneFull), corebot.Unstorable(err):
			return nil, err
		}
		maybeDone = maybeDone || errors.Is(err, corebot.ErrCommitUnknown)
		zerolog.Ctx(ctx).Warn().Err(err).Int("try", n).Msg("commit")
		backoff.Sleep(ctx, pause.After(n))
	}
	return nil, err
}
