package witness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
)

// Chain is the audit trail, read in parts.
type Chain interface {
	// VerifyPart goes on with a walk for at most so many events, and says whether it has reached the head. A trail that
	// does not fit together is a [*corebot.BrokenChain].
	VerifyPart(ctx context.Context, walk *corebot.AuditWalk, most int) (done bool, err error)
	// Tell sends a notice to a chat. The same notice is sent once, whoever sends it again.
	Tell(ctx context.Context, notice corebot.Message) error
}

// CheckOptions of a [Checker].
type CheckOptions struct {
	Every   time.Duration // between two checks of the whole trail; 0: none
	Chat    corebot.Key   // is told of a trail that is broken; zero: no chat is
	Log     zerolog.Logger
	Metrics prometheus.Registerer
}

// Checker follows the whole trail from time to time, as `corebot audit verify` does. A check reads in small parts and
// rests nine times as long as each of them took. So it takes a tenth of one processor, and no read is open for long.
type Checker struct {
	chain Chain
	opts  CheckOptions

	mu      sync.Mutex
	every   time.Duration
	changed chan struct{} // holds one signal that every has changed
	told    string        // what the log has of the break that is there; only the loop writes it
	by      prometheus.Gauge
	broken  prometheus.Gauge
}

const (
	checkPart  = 2000        // events that are read at once: about 30 ms
	checkRest  = 9           // times as long as a part took
	firstCheck = time.Minute // after the start
	checkAgain = 10 * time.Minute
)

// NewChecker makes a checker of a trail; it starts nothing.
func NewChecker(chain Chain, o CheckOptions) (*Checker, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	c := &Checker{
		chain: chain, opts: o, every: o.Every, changed: make(chan struct{}, 1),
		by: gauge("corebot_audit_verify_by_timestamp_seconds", "By when a verification of the whole audit trail must "+
			"have passed, three intervals after the last one, as unix time; 0: never."),
		broken: gauge("corebot_audit_broken",
			"Whether the last verification has found the audit trail broken: 1 or 0."),
	}
	c.expect()
	if o.Metrics == nil {
		return c, nil
	}
	for _, m := range []prometheus.Collector{c.by, c.broken} {
		if err := o.Metrics.Register(m); err != nil {
			return nil, fmt.Errorf("register the metrics of the audit's verification: %w", err)
		}
	}
	return c, nil
}

// Set changes how often the trail is checked.
func (c *Checker) Set(every time.Duration) {
	c.mu.Lock()
	c.every = every
	c.mu.Unlock()
	c.expect()
	select {
	case c.changed <- struct{}{}:
	default: // it will look
	}
}

func (c *Checker) period() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.every
}

// expect says by when a check must pass.
func (c *Checker) expect() {
	if every := c.period(); every > 0 {
		c.by.Set(float64(time.Now().Add(firstCheck + 3*every).Unix()))
	} else {
		c.by.Set(0)
	}
}

// Run checks the trail a minute after the start and then from time to time, until ctx ends.
func (c *Checker) Run(ctx context.Context) error {
	var last time.Time // when a check began
	wait := firstCheck
	for {
		var next <-chan time.Time
		if every := c.period(); every > 0 {
			if !last.IsZero() {
				wait = min(wait, time.Until(last.Add(every)))
			}
			next = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
			continue
		case <-next:
		}
		last, wait = time.Now(), c.period()
		if err := c.check(ctx); err != nil && ctx.Err() == nil {
			wait = min(wait, checkAgain) // it could not be read, or told
		}
	}
}

// check follows the whole trail once and tells what it finds.
func (c *Checker) check(ctx context.Context) error {
	walk, err := c.walk(ctx)
	var broken *corebot.BrokenChain
	switch {
	case errors.As(err, &broken):
		c.broken.Set(1)
		return c.tell(ctx, broken)
	case err != nil:
		if ctx.Err() == nil && c.told != err.Error() {
			c.opts.Log.Warn().Err(err).Msg("the audit trail could not be verified")
			c.told = err.Error()
		}
		return err
	}
	c.told = ""
	c.broken.Set(0)
	c.expect()
	c.opts.Log.Debug().Int64("events", walk.Chain.Events).Msg("the audit trail is unbroken")
	return nil
}

func (c *Checker) walk(ctx context.Context) (walk corebot.AuditWalk, err error) {
	for {
		began := time.Now()
		done, err := c.chain.VerifyPart(ctx, &walk, checkPart)
		if done || err != nil {
			return walk, err
		}
		select {
		case <-ctx.Done():
			return walk, ctx.Err()
		case <-time.After(checkRest * time.Since(began)):
		}
	}
}

// tell tells of a break: the log and the chat once.
func (c *Checker) tell(ctx context.Context, broken *corebot.BrokenChain) error {
	if c.told != broken.Error() {
		c.opts.Log.Error().Err(broken).Str("hint", "docs/runbook.md#corebotauditbroken has what to do").
			Msg("the audit trail is broken")
		c.told = broken.Error()
	}
	if c.opts.Chat == (corebot.Key{}) {
		return nil
	}
	id := corebot.OwnID("audit-broken", broken.Event, broken.Why)
	notice := corebot.TextNotice(c.opts.Chat, id, "", fmt.Sprintf("Somebody or something has changed what I wrote "+
		"down about tool calls: %s. Keep a copy of the home as it is. docs/runbook.md has the next steps, under "+
		"CorebotAuditBroken.", broken), corebot.Notice{Kind: corebot.NoticeAudit})
	if err := c.chain.Tell(ctx, notice); err != nil {
		if ctx.Err() == nil {
			c.opts.Log.Warn().Err(err).Msg("the chat of admins could not be told that the audit trail is broken")
		}
		return err
	}
	return nil
}
