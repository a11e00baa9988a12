package tools

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/addresses"
)

const (
	grace        = 5 * time.Second // for a tool to return after its context ended
	finishWithin = 5 * time.Second // for the store to take a result after the turn was cancelled
	unknownLabel = "unknown"       // of every tool that does not exist: a model's inventions must not grow the metrics
)

var (
	errTimeout   = errors.New("the tool took too long")
	errAbandoned = errors.New("the tool did not stop when it was told to, and was left behind")
	errPanic     = errors.New("the tool failed badly; the details are in the log")
)

// job is one call on its way.
type job struct {
	box   *Box
	call  Call
	step  Step
	event corebot.AuditEvent // what is known so far, for every audit row of the call
	label string             // of the metrics
	began time.Time

	privileged bool             // allowed because of who asks
	beyond     bool             // allowed to who is admin beyond the conversation
	raw        corebot.ToolCall // as the model made it
	reads      bool             // text that others than the operator may have written
	notice     string           // what the chat is told of it besides
	ran        bool             // the tool was called
	opens      string           // what an operator can do about a denial
	denies     string           // the rule by which the rest of its answer is denied
	links      bool             // links in the result count
	follows    bool             // it goes to the address of a link after its turn was tainted
}

func (b *Box) newJob(who corebot.Caller, role corebot.Role, call corebot.ToolCall, step Step) *job {
	now := time.Now()
	name := strings.ToValidUTF8(call.Tool[:min(len(call.Tool), maxToolName)], "\uFFFD")
	return &job{
		box: b, call: Call{Caller: who, StepID: step.ID()}, step: step, label: unknownLabel, began: now, raw: call,
		event: corebot.AuditEvent{
			At: now, Tool: name, Key: who.Key, Principal: who.Principal, Role: role, Entry: who.Entry.AuditName(),
			Args: b.opts.Redactor.Args(call.Args, maxAudit), StepID: step.ID(),
		},
	}
}

// intended says whether an earlier attempt was about to run the call, and never said how it ended.
func (j *job) intended() bool { return j.step.State() == corebot.StepIntended }

// lost ends a call whose outcome a crash took away.
func (j *job) lost(ctx context.Context) (corebot.ToolResult, error) {
	return j.finish(ctx, corebot.OutcomeUnknown,
		"unknown: this call was begun before a crash and its result was lost. It may or may not "+
			"have taken effect, and was not run again. Check what is there before you repeat it.")
}

// run takes an allowed call from its intent to its result. A call that is allowed because of who asks has its decision
// on disk before it runs. After a crash the call is decided anew, and the decision is stored anew.
func (j *job) run(ctx context.Context, t Tool, args bound) (corebot.ToolResult, error) {
	if j.privileged || t.hasEffects() && !j.intended() {
		e := j.event
		e.Event = "tool.decision"
		if err := j.step.Intend(ctx, e); err != nil {
			return corebot.ToolResult{}, err
		}
	}
	j.ran, j.reads, j.links = true, j.outside(t, args), t.traits.Has(Links)
	out, err := j.execute(ctx, t, args)
	j.reads = j.reads || j.anythingIn(args.named(j.call).Dir) // it may have read what came meanwhile
	if err == nil && t.traits.Has(Outside) && (out.own || slices.Contains(args.words(j.call), out.text)) {
		j.reads = false
	}
	if err != nil && isOwn(err) {
		j.reads = false
	}
	if ctx.Err() != nil {
		return corebot.ToolResult{}, j.cancelled(ctx, t, out, err)
	}
	switch {
	case err == nil:
		return j.succeed(ctx, out)
	case j.mayHaveHappened(t, err):
		return j.finish(ctx, corebot.OutcomeUnknown, "unknown: "+err.Error()+
			". It may or may not have taken effect: check before you repeat it.")
	}
	return j.finish(ctx, corebot.OutcomeError, failure(err))
}

// mayHaveHappened says whether an error leaves open if the call took effect. A tool that was stopped in the middle, or
// left behind, may have done its work all the same.
func (j *job) mayHaveHappened(t Tool, err error) bool {
	if errors.Is(err, errAbandoned) {
		return t.hasEffects()
	}
	return !t.traits.mayRepeat() && (errors.Is(err, errTimeout) || errors.Is(err, errPanic) ||
		errors.Is(err, ErrUnsettled))
}

// cancelled stores what must not be lost when the turn ends in the middle of a call, and returns why the turn ended. A
// result that is known is stored as it is; a call that may repeat is left to do so.
func (j *job) cancelled(ctx context.Context, t Tool, out output, err error) error {
	cause := context.Cause(ctx)
	if !t.hasEffects() || err != nil && t.traits.mayRepeat() {
		return cause
	}
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), finishWithin)
	defer stop()
	outcome := corebot.OutcomeSuccess
	if err != nil {
		outcome, j.reads = corebot.OutcomeUnknown, false
		out.text = "unknown: the turn was interrupted while this call ran. It may or may not have taken effect: " +
			"check before you repeat it."
	}
	if _, err := j.finish(late, outcome, out.text); err != nil {
		j.box.opts.Log.Warn().Err(err).Str("tool", j.label).Str("step",
			j.call.StepID).Msg("the result of an interrupted tool call was not stored")
	}
	return cause
}

// execute runs the tool under its time limit. It returns when the tool does, or a grace time after its context ended.
func (j *job) execute(ctx context.Context, t Tool, args bound) (output, error) {
	limit := t.timeout
	if limit == 0 {
		limit = j.box.opts.Timeout
	}
	ctx, stop := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer stop()
	type end struct {
		out output
		err error
	}
	done := make(chan end, 1)
	go func() {
		out, err := j.guarded(ctx, args)
		done <- end{out, err}
	}()
	select {
	case e := <-done:
		return e.out, timedOut(ctx, e.err)
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case e := <-done:
		return e.out, timedOut(ctx, e.err)
	case <-late.C:
		j.box.opts.Log.Error().Str("tool", j.label).Str("step",
			j.call.StepID).Msg("a tool ignored the end of its context and was left behind")
		return output{}, errAbandoned
	}
}

// timedOut gives the error of a tool that was stopped by its time limit that name.
func timedOut(ctx context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), errTimeout) || errors.Is(err, errPanic) {
		return err
	}
	late := fmt.Errorf("%w: %w", errTimeout, err)
	if isOwn(err) {
		return Own(late)
	}
	return late
}

// ownError is an error whose whole text is Corebot's own.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

// Own marks the error of a tool: its text and its hint are Corebot's own words, beside what the call's arguments and
// the settings say. Such an error taints nobody. Any other error of a tool with the trait Outside counts as text from
// outside, since a server or a file can be quoted in it. An error around a marked one is not marked: it may quote.
func Own(err error) error {
	if err == nil {
		return nil
	}
	return &ownError{err}
}

// isOwn says whether an error is marked, or one of this package.
func isOwn(err error) bool {
	_, marked := err.(*ownError) //nolint:errorlint // the outermost alone: what is around it may quote others
	return marked || err == errPanic || err == errAbandoned || err == errTimeout
}

// guarded turns a panic of a tool into an error. The model is not shown what may be in it; the log is.
func (j *job) guarded(ctx context.Context, args bound) (out output, err error) {
	defer func() {
		if p := recover(); p != nil {
			text := j.box.opts.Redactor.Text(fmt.Sprint(p))
			j.box.opts.Log.Error().Str("tool", j.label).Str("step", j.call.StepID).Str("panic", text).Bytes("stack",
				debug.Stack()).Msg("a tool panicked")
			err = errPanic
		}
	}()
	return j.changed(ctx, args)
}

// failure is what a model reads of an error.
func failure(err error) string { return "error: " + explained(err) }

// explained is an error with its hint.
func explained(err error) string {
	text := err.Error()
	if hint := corebot.HintOf(err); hint != "" {
		text += " (" + hint + ")"
	}
	return text
}

// succeed ends a call that did not fail. An effect that it still has is made in the commit of its result, or refused or
// denied there.
func (j *job) succeed(ctx context.Context, out output) (corebot.ToolResult, error) {
	if out.effect == nil {
		return j.finish(ctx, corebot.OutcomeSuccess, out.text)
	}
	r, err := j.end(ctx, corebot.OutcomeSuccess, out.text, func(r corebot.ToolResult, e corebot.AuditEvent) error {
		return j.step.Apply(ctx, out.effect, r, e)
	})
	if refused := (*corebot.Refused)(nil); errors.As(err, &refused) {
		return j.finish(ctx, corebot.OutcomeError, failure(err))
	}
	if denied := (*corebot.Denied)(nil); errors.As(err, &denied) {
		j.box.metrics.took(j.label, time.Since(j.began))
		return denied.Result(), nil
	}
	return r, err
}

// finish stores the result and its audit row, and counts the call.
func (j *job) finish(ctx context.Context, outcome corebot.AuditOutcome, text string) (corebot.ToolResult, error) {
	return j.end(ctx, outcome, text, func(r corebot.ToolResult, e corebot.AuditEvent) error {
		return j.step.Finish(ctx,
			r, e)
	})
}

// end words the result and its audit row, has them stored, and counts the call.
func (j *job) end(ctx context.Context, outcome corebot.AuditOutcome, text string,
	store func(corebot.ToolResult, corebot.AuditEvent) error,
) (corebot.ToolResult, error) {
	took := time.Since(j.began)
	r := corebot.ToolResult{
		Outcome: outcome, Content: j.present(ctx, text), Outside: j.reads, Notice: j.notice,
		Denies: j.denies, Opens: j.opens, Ran: j.ran, Follows: j.ran && j.follows,
	}
	if j.links && outcome == corebot.OutcomeSuccess {
		r.Links = strings.Join(addresses.InLinks(r.Content), "\n")
	}
	e := j.event
	e.Event, e.At, e.Outcome, e.Duration, e.Label = "tool.result", j.began.Add(took), outcome, took,
		j.box.metrics.label(j.label)
	if err := store(r, e); err != nil {
		return corebot.ToolResult{}, err
	}
	j.box.metrics.took(j.label, took)
	return r, nil
}
