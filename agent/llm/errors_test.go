package llm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

func TestAFaultHasAWordAndIsOfTheRequestOrNot(t *testing.T) {
	of := func(class corebot.Class, about error) error {
		return fmt.Errorf("turn: %w", &corebot.Failure{
			Class: class,
			Err:   corebot.WithHint(fmt.Errorf("ask: %w", about), "hint"),
		})
	}
	other := errors.New("other")
	for word, c := range map[string]struct {
		err       error
		ofRequest bool
	}{
		"ok":               {nil, false},
		"context_too_long": {of(corebot.Permanent, llm.ErrContextTooLong), true},
		"refused":          {of(corebot.Permanent, llm.ErrRefused), true},
		"bad_request":      {of(corebot.Permanent, llm.ErrBadRequest), true},
		"unauthorized":     {of(corebot.RateLimited, llm.ErrUnauthorized), false},
		"no_model":         {of(corebot.Permanent, llm.ErrNoModel), false},
		"unreachable":      {of(corebot.Transient, llm.ErrUnreachable), false},
		"transient":        {of(corebot.Transient, other), false},
		"rate_limited":     {of(corebot.RateLimited, other), false},
		"permanent":        {of(corebot.Permanent, other), false},
		"cancelled":        {context.Canceled, false},
	} {
		if got := llm.FaultOf(c.err); got != word || llm.IsOfRequest(c.err) != c.ofRequest {
			t.Errorf("%v is %q, of the request: %v", c.err, got, llm.IsOfRequest(c.err))
		}
	}
}
