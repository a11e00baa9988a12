package tools

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// Policy decides on a call that waits before the wait begins. When the wait ends, policy is not asked again, and the
// tool need not exist any more: what came is the result. After a crash the call finds its wait in the store. A call
// that only opened a wait for a later call, and a call of a replay, find no wait of their own, and begin anew.

// resumeWait goes on with a call that an earlier attempt let wait. done is false if the call has no such wait.
func (j *job) resumeWait(ctx context.Context) (r corebot.ToolResult, done bool, err error) {
	if j.step.State() != corebot.StepWaiting {
		return r, false, nil
	}
	stands, err := j.step.Wait(ctx, corebot.Pending{}, j.event)
	if err != nil || stands.ID == 0 || stands.State == corebot.WaitOpen {
		return r, false, err
	}
	if t, ok := j.box.registry.find(j.raw.Tool); ok {
		j.label, j.event.Tool = t.name, t.name
	}
	j.event.Rule = stands.Rule
	r, err = j.endWait(ctx, stands)
	return r, true, err
}

// beginWait stores that the call waits.
func (j *job) beginWait(ctx context.Context, w Wait) (corebot.ToolResult, error) {
	stands, err := j.step.Wait(ctx, w.Pending, j.event)
	if refused := (*corebot.Refused)(nil); errors.As(err, &refused) {
		return j.finish(ctx, corebot.OutcomeError, failure(err))
	}
	if err != nil {
		return corebot.ToolResult{}, err
	}
	if stands.State == corebot.WaitOpen {
		return j.finish(ctx, corebot.OutcomeSuccess, w.Opened(stands))
	}
	return j.endWait(ctx, stands)
}

// endWait makes the result of a call from its wait. While the wait goes on, the error is [*corebot.Waiting].
func (j *job) endWait(ctx context.Context, w corebot.Pending) (corebot.ToolResult, error) {
	j.ran, j.readOutside = true, w.Word.Outside
	if w.Kind == corebot.WaitJob {
		return j.endJobWait(ctx, w)
	}
	switch w.State {
	case corebot.WaitAwaited:
		return corebot.ToolResult{}, &corebot.Waiting{Call: w}
	case corebot.WaitExpired:
		return j.finish(ctx, corebot.OutcomeError, "error: no word came before "+moment(w.Until))
	case corebot.WaitGivenUp:
		return j.finish(ctx, corebot.OutcomeError, fmt.Sprintf("error: wait %d was given up: %s", w.ID, w.Reason))
	}
	return j.finish(ctx, corebot.OutcomeSuccess, textOfWait(w))
}

// endJobWait does the same for the wait for a job: a child turn, or a question to another agent.
func (j *job) endJobWait(ctx context.Context, w corebot.Pending) (corebot.ToolResult, error) {
	j.cost = &w.Cost
	switch w.State {
	case corebot.WaitAwaited:
		return corebot.ToolResult{}, &corebot.Waiting{Call: w}
	case corebot.WaitExpired:
		return j.finish(ctx, corebot.OutcomeError, fmt.Sprintf("error: job %d took too long, and is stopped", w.ID))
	case corebot.WaitGivenUp:
		return j.finish(ctx, corebot.OutcomeError, fmt.Sprintf("error: job %d has no result: %s", w.ID, w.Reason))
	}
	return j.finish(ctx, corebot.OutcomeSuccess, w.Word.Text)
}

// textOfWait is the result that a model reads of a wait for a time or a word.
func textOfWait(w corebot.Pending) string {
	switch text := w.Word.Text; {
	case w.Kind == corebot.WaitWord && text == "":
		return "the word has come, without a text"
	case w.Kind == corebot.WaitWord:
		return "the word has come:\n" + text
	case w.By == "":
		return "the time has come: it is " + moment(w.EndedAt)
	case text == "":
		return "woken before the time, at " + moment(w.EndedAt)
	default:
		return fmt.Sprintf("woken before the time, at %s, with the word:\n%s", moment(w.EndedAt), text)
	}
}

func moment(t time.Time) string { return t.UTC().Format("Mon 2006-01-02 15:04:05 MST") }
