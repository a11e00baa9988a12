package tools

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// A call that waits was decided when it began to wait. So it is not decided anew when it wakes, and its tool need not
// be there any more: what came is the result. After a crash the call finds its wait in the store. A call that has only
// opened a wait, and a call of a replay, find none to go on with, and begin anew.

// waits ends a call of which an earlier attempt has begun to wait. done is false if there is nothing to go on with.
func (j *job) waits(ctx context.Context) (r corebot.ToolResult, done bool, err error) {
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
	r, err = j.waited(ctx, stands)
	return r, true, err
}

// wait begins to wait.
func (j *job) wait(ctx context.Context, w Wait) (corebot.ToolResult, error) {
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
	return j.waited(ctx, stands)
}

// waited ends a call whose wait has ended. The error is [*corebot.Waiting] while it waits.
func (j *job) waited(ctx context.Context, w corebot.Pending) (corebot.ToolResult, error) {
	j.ran, j.readOutside = true, w.Word.Outside
	if w.Kind == corebot.WaitJob {
		return j.jobEnded(ctx, w)
	}
	switch w.State {
	case corebot.WaitAwaited:
		return corebot.ToolResult{}, &corebot.Waiting{Call: w}
	case corebot.WaitExpired:
		return j.finish(ctx, corebot.OutcomeError, "error: no word came before "+moment(w.Until))
	case corebot.WaitEnded:
		return j.finish(ctx, corebot.OutcomeError, fmt.Sprintf("error: wait %d was given up: %s", w.ID, w.Reason))
	}
	return j.finish(ctx, corebot.OutcomeSuccess, cameInWords(w))
}

// jobEnded ends a call that has waited for a job, or that has begun one in the background.
func (j *job) jobEnded(ctx context.Context, w corebot.Pending) (corebot.ToolResult, error) {
	j.cost = &w.Cost
	switch w.State {
	case corebot.WaitAwaited:
		return corebot.ToolResult{}, &corebot.Waiting{Call: w}
	case corebot.WaitExpired:
		return j.finish(ctx, corebot.OutcomeError, fmt.Sprintf("error: job %d took too long, and is stopped", w.ID))
	case corebot.WaitEnded:
		return j.finish(ctx, corebot.OutcomeError, fmt.Sprintf("error: job %d has no result: %s", w.ID, w.Reason))
	}
	return j.finish(ctx, corebot.OutcomeSuccess, w.Word.Text)
}

// cameInWords is what a model reads of what it has waited for.
func cameInWords(w corebot.Pending) string {
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
