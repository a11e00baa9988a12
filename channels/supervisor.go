package channels

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/backoff"
)

// Supervisor keeps the channels of all accounts running.
type Supervisor struct {
	door    *FrontDoor
	outbox  *Outbox
	entries []*watched
	pulled  map[Account]pulled
	log     zerolog.Logger
}

// pulled is an account whose callers fetch their messages.
type pulled struct {
	*watched
	channel Pulled
}

// NewSupervisor makes a supervisor of channels of different accounts; it starts nothing.
func NewSupervisor(d *FrontDoor, o *Outbox, log zerolog.Logger, entries ...Entry) (*Supervisor, error) {
	s := &Supervisor{door: d, outbox: o, log: log, pulled: map[Account]pulled{}}
	accounts := map[Account]bool{}
	for _, e := range entries {
		if accounts[e.Account] {
			return nil, fmt.Errorf("two channels serve the account %s", e.Account)
		}
		accounts[e.Account] = true
		w := watch(e)
		s.entries = append(s.entries, w)
		if c, ok := e.Channel.(Pulled); ok && c.Pulled() {
			s.pulled[e.Account] = pulled{w, c}
		}
	}
	return s, nil
}

// Pulled says whether the callers of a conversation fetch what is sent to them: see [Pulled].
func (s *Supervisor) Pulled(k corebot.Key) bool {
	_, is := s.pulled[AccountOf(k)]
	return is
}

// PulledAccounts are the accounts whose callers fetch what is sent to them.
func (s *Supervisor) PulledAccounts() []Account { return slices.Collect(maps.Keys(s.pulled)) }

// Posted counts a message that the store has put into the mailbox as sent, and tells its channel.
func (s *Supervisor) Posted(k corebot.Key) {
	p := s.pulled[AccountOf(k)]
	p.noted(nil)
	s.outbox.sent.WithLabelValues(p.Kind, p.Name, "sent").Inc()
	p.channel.Posted(k)
}

// healthyAfter is how long a channel must have run for its failures to be forgotten.
const healthyAfter = time.Minute

// Receive runs every channel until ctx ends or the channel ends by itself, and returns the errors of those that did.
func (s *Supervisor) Receive(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.entries))
	for i, e := range s.entries {
		wg.Go(func() { errs[i] = s.keep(ctx, e) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Send runs the outbox of every kind until ctx ends.
func (s *Supervisor) Send(ctx context.Context) error {
	kinds := map[string][]*watched{}
	for _, e := range s.entries {
		kinds[e.Kind] = append(kinds[e.Kind], e)
	}
	var wg sync.WaitGroup
	for kind, accounts := range kinds {
		wg.Go(func() { s.outbox.run(ctx, kind, accounts) })
	}
	wg.Wait()
	return nil
}

// keep runs one channel again and again. A channel that returns nil has ended on purpose; an error that is [Final] ends
// it too.
func (s *Supervisor) keep(ctx context.Context, e *watched) error {
	pause := backoff.Policy{Base: time.Second, Max: time.Minute}
	for failures := 1; ; failures++ {
		started := time.Now()
		e.turns(Running, nil)
		again, err := s.run(ctx, e)
		if again && ctx.Err() == nil {
			failures = 0
			s.log.Info().Str("channel", e.Kind).Str("account", e.Name).Msg("the channel is run anew, as it was told")
			continue
		}
		if err == nil || ctx.Err() != nil {
			e.turns(Ended, nil)
			return nil
		}
		if isFinal(err) {
			e.turns(Ended, err)
			s.log.Error().Err(err).Str("channel", e.Kind).Str("account", e.Name).Msg("the channel has ended for good")
			return fmt.Errorf("%s: %w", e.Account, err)
		}
		if time.Since(started) > healthyAfter {
			failures = 1
		}
		wait := pause.After(failures)
		if asked := askedWait(err); asked > wait {
			wait = asked
			err = fmt.Errorf("%w; the platform asks to wait for %v", err, asked)
		}
		e.turns(Failed, err)
		s.log.Error().Err(err).Str("channel", e.Kind).Str("account", e.Name).Dur("again_in_ms",
			wait).Msg("the channel failed")
		e.sleep(ctx, wait)
	}
}

// maxAsked is the longest wait that a platform gets.
const maxAsked = 24 * time.Hour

// askedWait is how long the platform asks to be left alone. Requests in that time extend a ban on some platforms.
func askedWait(err error) time.Duration {
	if f := (*corebot.Failure)(nil); errors.As(err, &f) && f.RetryAfter != Unsent { // that one is Corebot's own
		return min(f.RetryAfter, maxAsked)
	}
	return 0
}

// sleep waits before the next run: less if the channel is to be run anew.
func (w *watched) sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.again:
	}
}

var (
	errAnew = errors.New("the channel is to be run anew")
	errDeaf = errors.New("nothing was heard of the platform in twice its period: the connection is taken to be dead")
)

// Restart ends the run of an account, if it runs, and has it run again at once. It does not wait for that. An account
// that has ended for good is run again only by another start of Corebot. Without a name, the only account of the kind
// is meant, or main.
func (s *Supervisor) Restart(a Account) error {
	if a.Name == "" {
		a.Name = s.unnamed(a.Kind)
	}
	for _, e := range s.entries {
		if e.Account != a {
			continue
		}
		if e.status().State == Ended {
			return corebot.WithHint(fmt.Errorf("%w: %s has ended for good", corebot.ErrInvalid, a),
				"correct its settings and start Corebot again")
		}
		select {
		case e.again <- struct{}{}:
		default: // it is to be run anew already
		}
		return nil
	}
	return corebot.WithHint(fmt.Errorf("account %s: %w", a, corebot.ErrNotFound), "`corebot channels list` shows all")
}

// unnamed is the account of a kind that is meant where none is named.
func (s *Supervisor) unnamed(kind string) string {
	names := map[string]struct{}{}
	for _, e := range s.entries {
		if e.Kind == kind {
			names[e.Name] = struct{}{}
		}
	}
	for name := range names {
		if len(names) == 1 {
			return name
		}
	}
	return "main"
}

// listen ends a run that is to be made anew, or whose platform has fallen silent.
func (w *watched) listen(ctx context.Context, end context.CancelCauseFunc) {
	var tick <-chan time.Time
	p, periodic := w.Channel.(Periodic)
	if periodic {
		ticker := time.NewTicker(max(p.Period()/2, time.Millisecond))
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.again:
			w.endRun(end, errAnew)
			return
		case <-tick:
			if w.silence() > 2*p.Period() {
				w.endRun(end, errDeaf)
				return
			}
		}
	}
}

// theEnd names the step in which a run ends that was told to.
const theEnd = "that was told to end"

// endRun tells a run to end. A run that does not end keeps its account from every further one.
func (w *watched) endRun(end context.CancelCauseFunc, cause error) {
	w.steps.Begin(theEnd, time.Now())
	end(cause)
}

// Overdue names an account that should have gone on by now; empty: there is none. The run of such an account was told
// to end and does not. An error says that a channel does not answer: see [Prober]. An account that fails and is run
// again goes on.
func (s *Supervisor) Overdue(ctx context.Context) (mark string, err error) {
	for _, e := range s.entries {
		if mark := e.steps.Overdue("the run of " + e.Account.String()); mark != "" {
			return mark, nil
		}
		p, can := e.Channel.(Prober)
		if !can || e.status().State != Running {
			continue
		}
		if err := p.Probe(ctx); err != nil {
			return "", fmt.Errorf("%s does not answer: %w", e.Account, err)
		}
	}
	return "", nil
}

// run runs a channel once. again says that the run was ended to make another.
func (s *Supervisor) run(ctx context.Context, e *watched) (again bool, err error) {
	ctx, end := context.WithCancelCause(ctx)
	var listening sync.WaitGroup
	listening.Go(func() { e.listen(ctx, end) })
	defer func() {
		end(nil)
		listening.Wait()
		e.steps.End(theEnd)
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, errAnew):
			again = true
		case errors.Is(cause, errDeaf):
			err = errDeaf
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return false, e.Channel.Run(ctx, entrance{s.door, e})
}
