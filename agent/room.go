package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
)

// recall reads the session, and ends it if the message comes after too long a pause. The pause is from what was said
// last to the message's acceptance: it is the same in every attempt, and a queue makes it no longer. It gives the
// replies that did not reach the chat; the run of an isolated task gets none of them.
func (t *turn) recall(ctx context.Context) (undelivered []corebot.Life, err error) {
	found, entries, err := t.history.Recall(ctx, t.delivery, maxUndelivered)
	if err != nil {
		return nil, fmt.Errorf("recall what was said: %w", err)
	}
	most := t.opts.ContextTokens
	if !t.opts.Compaction.Off {
		most *= 2 // what is not shown is summarised
	}
	if t.past, err = readPast(found.Summary, entries, most); err != nil {
		return nil, err
	}
	t.asksFor, t.thinks, t.skills = found.Model, found.Think, found.Skills
	if e := t.delivery.Message.Errand; e != nil && e.Isolated {
		t.past, t.who.Apart = past{newest: t.past.newest}, true
		return nil, nil
	}
	if t.beginsSession = t.delivery.Opens() || t.idle(); t.beginsSession {
		t.past, t.asksFor, t.thinks = past{newest: t.past.newest}, "", ""
		t.who.Opens = true
	}
	return found.Undelivered, nil
}

// idle says whether the pause before the message ends the session.
func (t *turn) idle() bool {
	idle := t.opts.SessionIdle
	if t.delivery.Message.Detached != nil { // it goes on with what an earlier turn has begun
		return false
	}
	return idle > 0 && !t.past.newest.IsZero() && t.delivery.PublishedAt.Sub(t.past.newest) > idle
}

// view is what there is to show, with nothing of the past left out.
func (t *turn) view(offered []llm.Tool) view {
	v := view{tools: offered, head: []llm.Message{t.system}, past: t.shown, present: t.messages}
	if t.past.summary.Through > 0 {
		v.head = append(v.head, llm.Message{Role: llm.User, Text: summaryBlock(t.past.summary.Text)})
	}
	return v
}

// makeRoom decides what is shown of the past: before the first call of the model in an attempt, and again when half of
// the context is gone. In between it stays, so that each request begins like the one before it.
func (t *turn) makeRoom(ctx context.Context, offered []llm.Tool) error {
	if t.settled {
		return nil
	}
	t.settled = true
	t.shown = pastWhole(t.past.turns)
	if t.fits(t.view(offered), t.room-t.opts.Compaction.ReserveTokens) {
		return nil
	}
	if err := t.compact(ctx, t.left(offered)); err != nil {
		return err
	}
	t.shown = t.pastWithin(t.past.turns, t.left(offered))
	t.noteCramped(t.left(offered))
	return nil
}

// left is how many tokens are left for the past.
func (t *turn) left(offered []llm.Tool) int {
	v := t.view(offered)
	v.past = nil
	return t.room - t.costOf(v)
}

// request is the next call of the model, within the room that there is.
func (t *turn) request(offered []llm.Tool) llm.Request {
	return llm.Request{
		Messages: t.fit(t.view(offered), t.room), Tools: offered, MaxOutputTokens: t.opts.OutputTokens,
		Model: cmp.Or(t.asksFor, t.opts.Model), Voice: t.voice(),
	}
}

// modelFor names the model that the next request is meant for.
func (t *turn) modelFor() string { return cmp.Or(t.asksFor, t.modelName()) }

// voice is how the model is to answer.
func (t *turn) voice() llm.Voice {
	v := t.opts.Voice
	v.Think = cmp.Or(t.thinks, v.Think)
	return v
}

// halve makes a request that is half as long as one that the provider found too long. It does so once in an attempt,
// and only if the request becomes shorter by it: asking for the same again would be answered the same.
func (t *turn) halve(ctx context.Context, r llm.Request, err error) (llm.Request, error) {
	if t.halved {
		return r, tooLong(err)
	}
	t.metrics.tooLong.Inc()
	sent := t.costOf(view{tools: r.Tools, present: r.Messages})
	t.halved, t.settled, t.room = true, false, sent/2
	offered := t.sized(r.Tools)
	if err := t.makeRoom(ctx, offered); err != nil {
		return r, err
	}
	shorter := t.request(offered)
	if t.costOf(view{tools: offered, present: shorter.Messages}) >= sent {
		return r, tooLong(err)
	}
	return shorter, nil
}

// tooLong is the end of a turn whose prompt cannot be made short enough. It is permanent: another attempt would end the
// same way.
func tooLong(err error) error {
	return &corebot.Failure{Class: corebot.Permanent, Err: corebot.WithHint(
		fmt.Errorf("%w for the model, also with half of what was said before it: %w", corebot.ErrTooLarge, err),
		"begin a new conversation with /new, send a shorter message, or set llm.context_tokens to what "+
			"the model takes")}
}

// errSummaryTime is the cause of a summary that took too long.
var errSummaryTime = errors.New("the summary took too long")

// mayPass says whether a failure of the model may be over in the next attempt.
func mayPass(err error) bool {
	f := (*corebot.Failure)(nil)
	return errors.As(err, &f) && (f.Class == corebot.Transient || f.Class == corebot.RateLimited)
}

// view is what a model may be shown, in the order in which it is shown.
type view struct {
	tools []llm.Tool      // that it is offered
	head  []llm.Message   // the system prompt, and the summary of what is not shown
	past  [][]llm.Message // earlier turns, oldest first
	// this turn: what it should know and was asked, then answers with the results of their tools
	present []llm.Message
}

func (v view) messages() []llm.Message {
	return slices.Concat(v.head, slices.Concat(v.past...), v.present)
}

// fit gives the messages of a view that cost no more than room. It makes room in this order, oldest first in each step:
//
//  1. It shortens results of this turn's tools, except the results of the last answer.
//  2. It leaves earlier turns out.
//  3. It leaves earlier answers of this turn out, each with its results.
//  4. It shortens the results of the last answer.
//
// The head, the tools and the user's messages of this turn stay whole. If they alone are over room, so is the result.
func (m *meter) fit(v view, room int) []llm.Message {
	if m.fits(v, room) {
		return v.messages()
	}
	f := fitting{meter: m, view: v, over: m.costOf(v) - room}
	f.present = slices.Clone(v.present)
	rounds := roundsOf(f.present)
	for _, r := range rounds[:max(0, len(rounds)-1)] {
		f.shortenResults(r, v.present[r.from:r.to], shortResult)
	}
	for f.over > 0 && len(f.past) > 0 {
		f.over -= m.cost(f.past[0]...)
		f.past = f.past[1:]
	}
	if f.over > 0 && len(rounds) > 1 {
		f.leaveOut(rounds[:len(rounds)-1])
		rounds = roundsOf(f.present)
	}
	if f.over > 0 && len(rounds) > 0 {
		last := rounds[len(rounds)-1]
		full := slices.Clone(f.present[last.from:last.to])
		for limit := maxLastResult; f.over > 0 && limit > 0; limit /= 4 {
			f.shortenResults(last, full, limit)
		}
	}
	return f.messages()
}

// maxLastResult is how many bytes each of the last results keeps at first, when they have to be shortened.
const maxLastResult = 256 << 10

// fitting is a view on its way to fit.
type fitting struct {
	*meter
	view
	over int // tokens
}

// shortenResults shortens results of a round, in order, until nothing is over. full is the round with its results as
// they were.
func (f *fitting) shortenResults(r round, full []llm.Message, limit int) {
	for i := r.from + 1; i < r.to && f.over > 0; i++ {
		before := f.cost(f.present[i])
		f.present[i].Text = shortenResult(full[i-r.from].Text, limit)
		f.over -= before - f.cost(f.present[i])
	}
}

// leaveOut takes rounds out of the present until nothing is over, and says so in their place.
func (f *fitting) leaveOut(rounds []round) {
	note := func(n int) llm.Message {
		return llm.Message{Role: llm.User, Text: fmt.Sprintf("<data kind=\"left out\">%d earlier answers of this "+
			"turn, with the results of their tools</data>", n)}
	}
	f.over += f.cost(note(len(rounds)))
	gone := 0
	for f.over > 0 && gone < len(rounds) {
		r := rounds[gone]
		f.over -= f.cost(f.present[r.from:r.to]...)
		gone++
	}
	kept := append(slices.Clone(f.present[:rounds[0].from]), note(gone))
	for i, m := range f.present[rounds[0].from:] {
		if at := i + rounds[0].from; !slices.ContainsFunc(rounds[:gone],
			func(r round) bool { return r.from <= at && at < r.to }) {
			kept = append(kept, m)
		}
	}
	f.present = kept
}

// round is an answer that asked for tools, with their results right behind it: it begins at from and ends before to.
type round struct{ from, to int }

func roundsOf(messages []llm.Message) []round {
	var rounds []round
	for i := 0; i < len(messages); {
		begin := i
		for i++; i < len(messages) && messages[i].Role == llm.ToolRole; i++ {
		}
		if len(messages[begin].Calls) > 0 {
			rounds = append(rounds, round{begin, i})
		}
	}
	return rounds
}
