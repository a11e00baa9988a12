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
	// errAttachesNone is what a model reads of a file for which the reply has no room.
	errAttachesNone = fmt.Errorf("the answer of this turn takes no file: it has %d already, or goes to no chat",
		corebot.MaxAttached)
	errPanic = errors.New("the tool failed badly; the details are in the log")
)

// job is one call on its way.
type job struct {
	box   *Box
	call  Call
	step  Step
	event corebot.AuditEvent // what is known so far, for every audit row of the call
	label string             // of the metrics
	began time.Time

	privileged  bool               // allowed because of the sender's role
	beyond      bool               // allowed because the sender is admin of more than this conversation
	raw         corebot.ToolCall   // as the model made it
	readOutside bool               // the result can have text in it that others than the operator wrote
	notice      string             // what the chat is told of the call, next to the answer
	ran         bool               // the tool was called
	howToAllow  string             // what an operator can do so that a denied call is allowed
	deniesRest  string             // the rule that denies the remaining calls of the same model answer
	links       bool               // the links of the result are recorded for the turn
	cost        *corebot.JobBudget // what its job takes out of the budget of the turn
	later       int64              // the detached request of the call
	follows     bool               // it goes to the address of a link, after its turn has read untrusted text
	attach      *corebot.Part      // what it adds to the reply
}

func (b *Box) newJob(who corebot.Caller, role corebot.Role, raw corebot.ToolCall, step Step) *job {
	now := time.Now()
	name := strings.ToValidUTF8(raw.Tool[:min(len(raw.Tool), maxToolName)], "\uFFFD")
	call := Call{Caller: who, StepID: step.ID()}
	if b.opts.Versions != nil {
		call.versions = b.opts.Versions.store
	}
	return &job{
		box: b, call: call, step: step, label: unknownLabel, began: now, raw: raw,
		event: corebot.AuditEvent{
			At: now, Tool: name, Key: who.Key, Principal: who.Principal, Role: role, Entry: who.Entry.AuditName(),
			Args: b.opts.Redactor.Args(raw.Args, maxAudit), StepID: step.ID(),
		},
	}
}

// intended says whether an earlier attempt was about to run the call, and never said how it ended.
func (j *job) intended() bool { return j.step.State() == corebot.StepIntended }

// finishLost ends a call whose result a crash took away.
func (j *job) finishLost(ctx context.Context) (corebot.ToolResult, error) {
	return j.finish(ctx, corebot.OutcomeUnknown,
		"unknown: this call was begun before a crash and its result was lost. It may or may not "+
			"have taken effect, and was not run again. Check what is there before you repeat it.")
}

// run takes an allowed call from its intent to its result. Two kinds of calls have their decision on disk before they
// run: each call that is allowed because of the sender's role, and each call with effects. After a crash the policy
// decides a call again. The decision on a call of the first kind is then stored again.
func (j *job) run(ctx context.Context, t Tool, args bound) (corebot.ToolResult, error) {
	if j.privileged || (t.hasEffects() && !j.intended()) {
		e := j.event
		e.Event = "tool.decision"
		if err := j.step.Intend(ctx, e); err != nil {
			return corebot.ToolResult{}, err
		}
	}
	j.ran, j.readOutside, j.links = true, j.outside(t, args), t.traits.Has(Links)
	out, err := j.execute(ctx, t, args)
	if err == nil {
		j.attach = out.attach
	}
	j.readOutside = j.readOutside || j.anythingIn(args.named(j.call).Dir) // such text can have come while the tool ran
	// A result that only repeats an argument has nothing in it that the model did not write.
	repeats := slices.Contains(args.words(j.call), out.text)
	if err == nil && t.traits.Has(Outside) && (out.own || repeats) {
		j.readOutside = false
	}
	if err != nil && isOwn(err) {
		j.readOutside = false
	}
	if ctx.Err() != nil {
		return corebot.ToolResult{}, j.storeAfterCancel(ctx, t, out, err)
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

// mayHaveHappened says whether the call can have taken effect although it ended with an error. A tool that was left
// behind can still be at work. So its effect is not known even where the call can be repeated.
func (j *job) mayHaveHappened(t Tool, err error) bool {
	if errors.Is(err, errAbandoned) {
		return t.hasEffects()
	}
	return !t.traits.mayRepeat() && (errors.Is(err, errTimeout) || errors.Is(err, errPanic) ||
		errors.Is(err, ErrUnsettled))
}

// storeAfterCancel stores what must not be lost when the turn ends in the middle of a call, and returns why the turn
// ended. The result of a tool with effects is stored, if it is known. Nothing is stored of a tool without
// effects, and of a failed call that the next attempt can repeat.
func (j *job) storeAfterCancel(ctx context.Context, t Tool, out output, err error) error {
	cause := context.Cause(ctx)
	if !t.hasEffects() || err != nil && t.traits.mayRepeat() {
		return cause
	}
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), finishWithin)
	defer stop()
	outcome := corebot.OutcomeSuccess
	if err != nil {
		outcome, j.readOutside = corebot.OutcomeUnknown, false
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
	ended := j.box.opts.Work.Begin(j.call.Key, nil) // also where it is left behind
	go func() {
		defer ended()
		out, err := j.callRecovering(ctx, args)
		done <- end{out, err}
	}()
	select {
	case e := <-done:
		return e.out, withTimeout(ctx, e.err)
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case e := <-done:
		return e.out, withTimeout(ctx, e.err)
	case <-late.C:
		j.box.opts.Log.Error().Str("tool", j.label).Str("step",
			j.call.StepID).Msg("a tool ignored the end of its context and was left behind")
		return output{}, errAbandoned
	}
}

// withTimeout adds errTimeout to the error of a tool that its time limit has stopped.
func withTimeout(ctx context.Context, err error) error {
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

// Own marks the error of a tool: its text and its hint have nothing in them but Corebot's own words, the arguments of
// the call and the settings. Such an error taints no turn. Any other error of a tool with the trait Outside counts as
// text from outside, since a server or a file can be quoted in it. An error around a marked one is not marked: it may
// quote.
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

// callRecovering calls the tool, and turns a panic into an error. The text of the panic goes to the log alone: the
// model must not read it.
func (j *job) callRecovering(ctx context.Context, args bound) (out output, err error) {
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

// failure is the error as the model reads it.
func failure(err error) string { return "error: " + explained(err) }

// explained is an error with its hint.
func explained(err error) string {
	text := err.Error()
	if hint := corebot.HintOf(err); hint != "" {
		text += " (" + hint + ")"
	}
	return text
}

// succeed ends a call that did not fail. If the tool returned an effect, the store applies the effect in the commit of
// the result. The store can also refuse or deny the effect.
func (j *job) succeed(ctx context.Context, out output) (corebot.ToolResult, error) {
	if out.wait.Kind != "" {
		return j.beginWait(ctx, out.wait)
	}
	if out.effect == nil {
		return j.finish(ctx, corebot.OutcomeSuccess, out.text)
	}
	r, err := j.store(ctx, corebot.OutcomeSuccess, out.text, func(r corebot.ToolResult, e corebot.AuditEvent) error {
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
	return j.store(ctx, outcome, text, func(r corebot.ToolResult, e corebot.AuditEvent) error {
		return j.step.Finish(ctx, r, e)
	})
}

// store builds the result and its audit row, hands them to put, and counts the call.
func (j *job) store(ctx context.Context, outcome corebot.AuditOutcome, text string,
	put func(corebot.ToolResult, corebot.AuditEvent) error,
) (corebot.ToolResult, error) {
	took := time.Since(j.began)
	r := corebot.ToolResult{
		Outcome: outcome, Content: j.present(ctx, text), Outside: j.readOutside, Notice: j.notice,
		Denies: j.deniesRest, Opens: j.howToAllow, Ran: j.ran, Follows: j.ran && j.follows, Job: j.cost,
		Later: j.later, Attach: j.attach,
	}
	if j.links && outcome == corebot.OutcomeSuccess {
		r.Links = strings.Join(addresses.InLinks(r.Content), "\n")
	}
	e := j.event
	e.Event, e.At, e.Outcome, e.Duration, e.Label = "tool.result", j.began.Add(took), outcome, took,
		j.box.metrics.label(j.label)
	if err := put(r, e); err != nil {
		return corebot.ToolResult{}, err
	}
	j.box.metrics.took(j.label, took)
	return r, nil
}
