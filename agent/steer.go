package agent

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/outside"
)

// A turn merges the messages that people send while it runs, and the messages that were collected for it before it
// began. It looks for them between its steps: before each tool call, and before each model call but the last. One
// commit journals a steer at the position where it was found, and ends its message as merged. So a resumed turn merges
// the same steers at the same places. A message that comes after the last look stays in the lane, as a prompt.

// skipped is the result of the calls that people spoke ahead of.
const skipped = "not run: the user said something in the meantime, which follows"

// stoppedText stands in the history where the answer of a stopped turn would.
const stoppedText = "[stopped by the user]"

// interjected says whether somebody spoke. The steer is held back until every call of the last answer has its result.
func (t *turn) interjected(ctx context.Context) (bool, error) {
	before := len(t.heldBack)
	for t.nextMerged() {
	}
	if len(t.heldBack) == before && t.position >= len(t.delivery.Journal) && ctx.Err() == nil {
		steps, err := t.journal.Merge(ctx, t.delivery, t.position)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return false, cause
		} else if err != nil {
			return false, fmt.Errorf("merge steers: %w", err)
		}
		t.position += len(steps)
		for _, s := range steps {
			t.heldBack = append(t.heldBack, *s.Merged)
		}
		t.metrics.merged.Add(float64(len(steps)))
	}
	return len(t.heldBack) > before, nil
}

// nextMerged takes a message from the journal of an earlier attempt.
func (t *turn) nextMerged() bool {
	s, ok := t.nextRecorded(corebot.StepMerge)
	if ok {
		t.heldBack = append(t.heldBack, *s.Merged)
	}
	return ok
}

// mergeSteers shows the model the steers of the turn. Before its first call a turn looks for steers only if some waited
// when it was claimed.
func (t *turn) mergeSteers(ctx context.Context, look bool) error {
	if look || len(t.delivery.Journal) > 0 {
		if _, err := t.interjected(ctx); err != nil {
			return err
		}
	}
	return t.showSteers(ctx)
}

// replaySteers shows the model the steers that an earlier attempt merged after the point that this attempt has reached.
// Their senders know that this turn answers them.
func (t *turn) replaySteers(ctx context.Context) error {
	for t.position < len(t.delivery.Journal) {
		if !t.nextMerged() {
			t.position++
		}
	}
	return t.showSteers(ctx)
}

// showSteers adds the held-back steers to the context and the history. The first steer of another person lowers the
// turn to the lowest role of all who spoke. From then on the audit names a steer as the entry of the turn's calls.
func (t *turn) showSteers(ctx context.Context) error {
	for _, m := range t.heldBack {
		t.messages = append(t.messages, llm.Message{
			Role: llm.User, About: about(m.Sender, m.Name, m.Metadata),
			Text: outside.Text(m.Text()), Parts: t.filed(context.WithoutCancel(ctx), m.Parts),
		})
		t.say(corebot.HistoryEntry{
			Speaker: corebot.SpeakerUser, Sender: m.Sender, Name: m.Name, Parts: m.Parts, Metadata: m.Metadata.Kept(),
			Outside: m.Envelope.Forwarded,
		})
		t.mergedIDs = append(t.mergedIDs, m.ID)
		switch {
		case m.Sender != t.who.Principal || m.Sender.ID == "":
			t.taint("what somebody else said")
			t.who.Overheard = true
		case m.Envelope.Forwarded:
			t.taint(forwarded)
		default:
			t.addresses.Say(m.Text())
		}
		if !t.who.AddSpeaker(m.Sender) {
			continue
		}
		offered, err := t.tools.Offer(context.WithoutCancel(ctx), t.who)
		if err != nil {
			return fmt.Errorf("offer tools: %w", err)
		}
		t.offered = offered
	}
	t.heldBack = nil
	return nil
}

// skip gives the calls that are not run any more their results.
func (t *turn) skip(calls []corebot.ToolCall) {
	for _, call := range calls {
		t.answered(call, corebot.ToolResult{Outcome: corebot.OutcomeError, Content: skipped})
	}
}

// stop ends the history of a stopped turn. Every open call gets a result. A note stands for the answer, or for the rest
// of an answer whose beginning the chat has seen.
func (t *turn) stop() {
	t.settleOpenCalls()
	text := stoppedText
	if begun := t.streamed.String(); !blank(begun) {
		text = begun + "\n\n" + stoppedText
	}
	t.say(corebot.HistoryEntry{Speaker: corebot.SpeakerAssistant, Parts: corebot.TextPart(text)})
}
