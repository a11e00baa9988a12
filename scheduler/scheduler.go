package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/fault"
	"github.com/corebot/corebot/internal/watchdog"
)

// Store is what the scheduler needs of the database.
type Store interface {
	Now() time.Time
	Due(ctx context.Context, now time.Time, after corebot.Task, limit int) ([]corebot.Task, error)
	NextDue(ctx context.Context, after time.Time) (at time.Time, ok bool, err error)
	Fire(ctx context.Context, firings []corebot.Firing) (refused []error, err error)
	Plan(ctx context.Context, tasks []corebot.Task) error
	Page(ctx context.Context, f corebot.TaskFilter, after string, limit int) (tasks []corebot.Task, next string,
		err error)
	Changed() <-chan struct{}
	// Running is how many runs a worker has or could have now, counted up to most.
	Running(ctx context.Context, most int) (int, error)
}

// Gate says whether a task may run, by what is true at this moment: the settings, who may talk, and the roles.
type Gate interface {
	Judge(ctx context.Context, t corebot.Task) (corebot.Verdict, error)
}

// Options of a [Scheduler].
type Options struct {
	Gate Gate // nil: every task may run
	// AtOnce bounds the runs that a worker has or could have at once. The other due tasks stay due until one has ended.
	// So a message of a person waits behind so many runs at most. 0: no bound.
	AtOnce int
	// MaxLate is how late the catch-up of a repeated task can be; 0: any time. A single time is caught up in any case,
	// because nothing comes after it.
	MaxLate time.Duration
	Log     zerolog.Logger        // the zero logger is silent
	Metrics prometheus.Registerer // nil: none
}

// Scheduler publishes the due times of tasks. There must be one at most for a database.
type Scheduler struct {
	store    Store
	opts     Options
	last     time.Time    // the wall clock at the last pass
	planned  bool         // the tasks were planned by this clock
	planAt   time.Time    // when to try again to plan them
	full     bool         // the last pass left due times for want of room
	reached  corebot.Task // where the last pass stopped, because enough runs are under way; the zero task: it did not
	stuckAt  time.Time    // when a pass last met tasks that stay due
	due      *prometheus.CounterVec
	lateness prometheus.Histogram
	steps    watchdog.Steps[string] // the pass that runs, or the sleep until the next one
}

// New makes a scheduler.
func New(store Store, o Options) (*Scheduler, error) {
	s := &Scheduler{
		store: store, opts: o,
		due: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_task_due_total",
			Help: "Due times of tasks, by what became of them: published, missed, skipped, refused, fault.",
		}, []string{"outcome"}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "corebot_task_lateness_seconds", Help: "How long after their due times tasks were published.",
			Buckets: []float64{.01, .1, 1, 10, 60, 600, 3600, 86400},
		}),
	}
	for _, outcome := range []string{
		outcomePublished, corebot.RunMissed, outcomeRefused, outcomeFault, outcomeSkipped,
	} {
		s.due.WithLabelValues(outcome)
	}
	if o.Metrics == nil {
		return s, nil
	}
	for _, c := range []prometheus.Collector{s.due, s.lateness} {
		if err := o.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of the scheduler: %w", err)
		}
	}
	return s, nil
}

const (
	outcomePublished = "published"
	outcomeRefused   = "refused" // there was no room, or its chat cannot be read; it stays due
	outcomeFault     = "fault"
	outcomeSkipped   = "skipped" // a heartbeat had nothing to do, or its chat was busy
)

const (
	look       = 30 * time.Second // the longest sleep while a task waits: the wall clock can be set meanwhile
	retryAfter = 10 * time.Second // after a refusal or an error
	perCommit  = 32               // tasks that become due in one commit
	restShare  = 3                // the rest after a commit, as a multiple of its time, so that chats go on meanwhile
	perPage    = 500              // tasks that are looked at together after the wall clock was set back
	tolerance  = time.Second      // the wall clock is slewed by less
	planAgain  = time.Minute      // after the tasks could not be planned anew
	fullPause  = time.Second      // while enough runs are under way: a run that begins to wait gives no signal
	stuckPause = time.Second      // between passes that meet tasks that stay due
)

// Run publishes due times until ctx ends. It sleeps until the nearest due time, and does not wake where no task waits.
// An error of the store is logged; the tasks stay due.
func (s *Scheduler) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.store.Changed():
			if rest := stuckPause - time.Since(s.stuckAt); rest > 0 {
				s.sleep(timer, rest)
				continue
			}
		case <-timer.C:
		}
		s.steps.Begin(thePass, time.Now())
		fault.Point("scheduler", "pass")
		if wait, waits := s.pass(ctx); waits {
			s.sleep(timer, wait)
		} else {
			s.steps.End(thePass)
			timer.Stop()
		}
	}
}

// thePass names the one step of a scheduler.
const thePass = "of the scheduler"

// sleep sets the timer of the next pass.
func (s *Scheduler) sleep(timer *time.Timer, wait time.Duration) {
	s.steps.Begin(thePass, time.Now().Add(wait))
	timer.Reset(wait)
}

// Overdue names the pass that should have ended or begun by now; empty: there is none.
func (s *Scheduler) Overdue() (mark string) { return s.steps.Overdue("a pass") }

// pass publishes all that is due, and says how long nothing more is to do; waits is false if no task is ever due.
func (s *Scheduler) pass(ctx context.Context) (wait time.Duration, waits bool) {
	s.heed(ctx)
	more, over, err := s.fireDue(ctx)
	if err == nil && (!more || over != nil) {
		s.tellRoom(over)
	}
	var next time.Time
	if err == nil && over == nil && !more {
		next, waits, err = s.store.NextDue(ctx, s.last) // tasks that are still due wait for another process
	}
	switch {
	case ctx.Err() != nil:
		return look, true
	case err != nil:
		s.opts.Log.Error().Err(err).Int64("retry_ms",
			retryAfter.Milliseconds()).Msg("due tasks could not be published; they stay due")
		return retryAfter, true
	case more:
		return fullPause, true
	case over != nil:
		return retryAfter, true
	}
	return min(max(next.Sub(s.store.Now()), 0), look), waits
}

// heed plans the due times anew after the wall clock was set back, and when the process begins. A clock that was far
// ahead has moved the next due times of repeated tasks far into the future. Where that fails, such as by a damaged
// page, the tasks run at the times that they have.
func (s *Scheduler) heed(ctx context.Context) {
	now := s.store.Now()
	s.planned = s.planned && now.After(s.last.Add(-tolerance))
	s.last = now
	if s.planned || time.Now().Before(s.planAt) {
		return
	}
	err := s.plan(ctx, now)
	if s.planned = err == nil; s.planned || ctx.Err() != nil {
		return
	}
	s.planAt = time.Now().Add(planAgain)
	s.due.WithLabelValues(outcomeFault).Inc()
	s.opts.Log.Error().Err(err).Int64("retry_ms", planAgain.Milliseconds()).
		Msg("the tasks could not be read: those that are due can be late (`corebot tasks list`, `corebot db check`)")
}

func (s *Scheduler) plan(ctx context.Context, now time.Time) error {
	after := ""
	for {
		tasks, next, err := s.store.Page(ctx, corebot.TaskFilter{State: corebot.TaskActive}, after, perPage)
		if err != nil {
			return err
		}
		var earlier []corebot.Task
		for _, task := range tasks {
			if due, ok := sooner(task, now); ok {
				task.NextRun = due
				earlier = append(earlier, task)
			}
		}
		if len(earlier) > 0 {
			if err := s.store.Plan(ctx, earlier); err != nil {
				return err
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

// sooner says whether a task is due earlier than planned, and when. A due time that was published already is not
// published again: its message is known.
func sooner(task corebot.Task, now time.Time) (due time.Time, ok bool) {
	if task.Damaged != nil || task.Schedule.Kind == corebot.TaskOnce {
		return due, false
	}
	rule, err := Resume(task.Schedule, task.Anchor)
	if err != nil {
		return due, false
	}
	due, ok = rule.Next(now)
	return due, ok && due.Before(task.NextRun)
}

// fireDue publishes due times. More says that due times are left because enough runs are under way. The error over says
// that some are left for want of room, and why.
func (s *Scheduler) fireDue(ctx context.Context) (more bool, over, err error) {
	after, behind := s.reached, s.reached.ID != 0
	s.reached = corebot.Task{}
	for {
		s.steps.Begin(thePass, time.Now()) // each commit is a sign of life
		slots, err := s.slots(ctx)
		if err != nil {
			return false, over, err
		}
		if slots == 0 {
			s.reached = after
			return true, over, nil
		}
		now := s.store.Now()
		tasks, err := s.store.Due(ctx, now, after, perCommit)
		if err != nil || len(tasks) == 0 {
			return behind, over, err
		}
		began := time.Now()
		firings, seen, err := s.firings(ctx, tasks, now, slots)
		if err != nil {
			return false, over, err
		}
		after = tasks[seen-1]
		refused, err := s.fire(ctx, firings, now)
		if err != nil {
			return false, over, err
		}
		over = cmp.Or(refused, over)
		if over != nil || len(firings) < seen {
			s.stuckAt = began
		}
		if errors.Is(over, corebot.ErrOverloaded) || errors.Is(over, corebot.ErrDiskFull) {
			return false, over, nil // the others would meet the same
		}
		if seen < perCommit && seen == len(tasks) {
			return behind, over, nil
		}
		rest := time.NewTimer(restShare * time.Since(began))
		select {
		case <-ctx.Done():
			return false, over, ctx.Err()
		case <-rest.C:
		}
	}
}

// slots is how many runs can be published now, at most so many as one commit takes.
func (s *Scheduler) slots(ctx context.Context) (int, error) {
	if s.opts.AtOnce <= 0 {
		return perCommit, nil
	}
	n, err := s.store.Running(ctx, s.opts.AtOnce)
	return min(perCommit, s.opts.AtOnce-n), err
}

// fire publishes due times, and gives the gravest refusal.
func (s *Scheduler) fire(ctx context.Context, firings []corebot.Firing, now time.Time) (over, err error) {
	if len(firings) == 0 {
		return nil, nil
	}
	refused, err := s.store.Fire(ctx, firings)
	if err == nil {
		err = s.pauseFaulty(ctx, firings, refused)
	}
	if err != nil {
		return nil, err
	}
	return s.count(firings, refused, now), nil
}

// pauseFaulty pauses the tasks that would be refused at every try, and notes them in firings.
func (s *Scheduler) pauseFaulty(ctx context.Context, firings []corebot.Firing, refused []error) error {
	for i := range firings {
		if refused[i] == nil || !corebot.Unstorable(refused[i]) {
			continue
		}
		firings[i].Fault = fmt.Sprintf("its message cannot be stored: %v", refused[i])
		// a task whose chat cannot be told is paused all the same
		for _, firings[i].Tell = range []corebot.Key{firings[i].Task.Key, {}} {
			again, err := s.store.Fire(ctx, firings[i:i+1])
			if err != nil {
				return err
			}
			if refused[i] = again[0]; refused[i] == nil {
				break
			}
		}
	}
	return nil
}

// tellRoom logs when due tasks begin to be refused, such as for want of room in the queue, and when none is refused any
// more. In between every pass meets the same.
func (s *Scheduler) tellRoom(over error) {
	switch {
	case over != nil && !s.full:
		s.opts.Log.Warn().Err(over).Msg("due tasks could not be published; they stay due")
	case over == nil && s.full:
		s.opts.Log.Info().Msg("due tasks are published again")
	}
	s.full = over != nil
}

// firings says what to do with due tasks, and how many tasks it has seen for at most so many firings. Tasks that this
// process cannot run are left out.
func (s *Scheduler) firings(ctx context.Context, tasks []corebot.Task, now time.Time,
	most int,
) (all []corebot.Firing, seen int, err error) {
	for _, task := range tasks {
		if len(all) == most {
			break
		}
		seen++
		f := s.firing(task, now)
		if s.opts.Gate != nil && f.Fault == "" && !f.Missed {
			verdict, err := s.opts.Gate.Judge(ctx, task)
			if err != nil {
				return nil, seen, fmt.Errorf("whether task %d may run: %w", task.ID, err)
			}
			if verdict.Wait {
				continue
			}
			f.Fault, f.Tell, f.Skip = verdict.Fault, verdict.Tell, verdict.Skip != ""
			f.Task.Prompt = cmp.Or(verdict.Prompt, task.Prompt)
		}
		all = append(all, f)
	}
	return all, seen, nil
}

// firing says what to do with a due task. Where several due times have passed, only the newest counts.
func (s *Scheduler) firing(task corebot.Task, now time.Time) corebot.Firing {
	f := corebot.Firing{Task: task, Due: task.NextRun, Tell: task.Key}
	if task.Damaged != nil {
		f.Fault, f.Tell = task.Damaged.Error(), corebot.Key{}
		return f
	}
	rule, err := Resume(task.Schedule, task.Anchor)
	if err != nil {
		f.Fault = err.Error()
		return f
	}
	f.Due = rule.LastDue(task.NextRun, now)
	f.Next, _ = rule.Next(now)
	f.Missed = task.Schedule.Kind != corebot.TaskOnce && s.opts.MaxLate > 0 && now.Sub(f.Due) > s.opts.MaxLate
	return f
}

// count notes what became of due times, and returns the gravest refusal.
func (s *Scheduler) count(firings []corebot.Firing, refused []error, now time.Time) (over error) {
	for i, f := range firings {
		switch {
		case refused[i] != nil:
			s.due.WithLabelValues(outcomeRefused).Inc()
			if over == nil || errors.Is(refused[i], corebot.ErrOverloaded) ||
				errors.Is(refused[i], corebot.ErrDiskFull) {
				over = refused[i]
			}
		case f.Fault != "":
			s.due.WithLabelValues(outcomeFault).Inc()
			s.opts.Log.Error().Int64("task", f.Task.ID).Str("reason", f.Fault).Msg("a task is paused: it cannot run")
		case f.Skip:
			s.due.WithLabelValues(outcomeSkipped).Inc()
		case f.Missed:
			s.due.WithLabelValues(corebot.RunMissed).Inc()
			s.opts.Log.Warn().Int64("task", f.Task.ID).Time("due", f.Due).Msg("a due time has passed too long ago")
		default:
			s.due.WithLabelValues(outcomePublished).Inc()
			s.lateness.Observe(now.Sub(f.Due).Seconds())
		}
	}
	return over
}
