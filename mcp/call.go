package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/breaker"
	"github.com/corebot/corebot/tools"
)

// callSlack is the time of a call beside the server's: to wait for its turn, to keep what it returned.
const callSlack = 15 * time.Second

// patience is how long a call may go on without a report of progress; longest is how long with them.
func (s *server) patience() time.Duration { return cmp.Or(s.spec.Timeout, s.opts.Timeout) }

func (s *server) longest() time.Duration {
	return max(cmp.Or(s.spec.MaxTime, s.opts.MaxTime), s.patience())
}

// connectTime is how long the server may take to be ready, and to give its tools.
func (s *server) connectTime() time.Duration {
	return cmp.Or(s.spec.ConnectTimeout, s.opts.ConnectTimeout)
}

// run is one call of a tool.
func (s *server) run(ctx context.Context, tool string, call tools.Call, args json.RawMessage) (string, error) {
	text, outcome, err := s.ask(ctx, tool, call, args)
	s.metrics.called(s.spec.Name, outcome)
	if said := (*toolError)(nil); err != nil && !errors.As(err, &said) { // what the tool itself says needs no frame
		err = fmt.Errorf("MCP server %s: %w", s.spec.Name, err)
	}
	return text, err
}

// ask makes the call once it is its turn and the server may be asked. outcome is for the metrics.
func (s *server) ask(ctx context.Context, tool string, call tools.Call, args json.RawMessage) (text, outcome string, err error) {
	if err := s.wait(ctx); err != nil {
		return "", "busy", err
	}
	defer func() { <-s.slots }()
	pass, ok, wait, cause := s.breaker.Enter(time.Now())
	if !ok {
		return "", "resting", fmt.Errorf("its last calls had no answer, and the next one is made in %v: %v", wait.Round(time.Second), cause) // the cause is of those: this call was not made
	}
	session, err := s.connected(ctx)
	if err != nil {
		s.breaker.Release(pass)
		return "", "down", err
	}
	began := time.Now()
	a, err := session.call(ctx, tool, args, s.patience(), s.longest())
	outcome = s.judge(ctx, pass, err)
	s.metrics.asked(s.spec.Name, time.Since(began), s.breaker)
	if err != nil {
		return "", outcome, err
	}
	if a.err != nil {
		return "", "refused", fmt.Errorf("it refused the call: %s (%d)", clip(a.err.Message, 2_000), a.err.Code)
	}
	r := reader{artifacts: s.opts.Artifacts, key: call.Key, ctx: ctx, log: s.opts.Log.With().Str("server", s.spec.Name).Str("tool", tool).Logger()}
	text, err = r.read(a.result)
	if err != nil {
		outcome = "tool_error"
	}
	return text, outcome, err
}

// wait waits for a free place among the calls of the server, no longer than a call may take.
func (s *server) wait(ctx context.Context) error {
	late := time.NewTimer(s.patience())
	defer late.Stop()
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return fmt.Errorf("%d other calls of it run, and none has ended within %v", cap(s.slots), s.patience())
	}
}

// judge tells the breaker how a call went: an answer is one, whatever it says; a caller who gave up tells nothing.
func (s *server) judge(ctx context.Context, pass breaker.Pass, err error) (outcome string) {
	switch {
	case err == nil:
		s.breaker.Succeeded(pass)
		return "ok"
	case ctx.Err() != nil:
		s.breaker.Release(pass)
		return "cancelled"
	}
	before := s.breaker.State(time.Now())
	s.breaker.Failed(pass, time.Now(), err)
	if after := s.breaker.State(time.Now()); after == breaker.Open && before != after {
		s.opts.Log.Warn().Err(err).Str("server", s.spec.Name).Msg("calls of an MCP server fail: it rests for a while")
		s.note("mcp.breaker", corebot.OutcomeError, map[string]any{"state": after.String(), "error": clip(err.Error(), 300)})
	}
	return "unsettled"
}
