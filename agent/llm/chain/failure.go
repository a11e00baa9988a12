package chain

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// failure is what became of one model.
type failure struct {
	*corebot.Failure
	err  error
	wait time.Duration // until it can be asked again
}

// resting is the failure of a model that was not asked. Its cause stays in the chain: whoever reads it learns why, and
// a refused key is as permanent as when it was refused.
func resting(r *route, wait time.Duration, cause error) error {
	class := corebot.Transient
	if f := (*corebot.Failure)(nil); errors.As(cause, &f) {
		class = f.Class
	}
	err := &corebot.Failure{Class: class, Err: fmt.Errorf("%s rests for %s after: %w", r.name(),
		wait.Round(time.Second), cause)}
	if class != corebot.Permanent {
		err.RetryAfter = wait
	}
	return err
}

// soonest is the failure of the whole chain: the failure of the model that can be asked again first, if any can. Its
// text has the failures of the other models, too.
func soonest(failures []failure) error {
	best := failures[0]
	for _, f := range failures[1:] {
		switch {
		case best.Class == corebot.Permanent && f.Class != corebot.Permanent:
			best = f
		case f.Class != corebot.Permanent && f.wait < best.wait:
			best = f
		}
	}
	out := &corebot.Failure{Class: best.Class, Err: best.err}
	if best.Class != corebot.Permanent {
		out.RetryAfter = best.wait
	}
	if len(failures) > 1 {
		out.Err = &allFailed{failures, best.err}
	}
	return out
}

// allFailed names what every model met; in its chain is only the one that decides.
type allFailed struct {
	failures []failure
	decides  error
}

func (e *allFailed) Error() string {
	texts := make([]string, len(e.failures))
	for i, f := range e.failures {
		texts[i] = f.err.Error()
	}
	return "no model answers: " + strings.Join(texts, "; ")
}

func (e *allFailed) Unwrap() error { return e.decides }
