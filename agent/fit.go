package agent

import (
	"fmt"
	"slices"

	"github.com/corebot/corebot/agent/llm"
)

// view is what a model may be shown, in the order in which it is shown.
type view struct {
	tools   []llm.Tool      // that it is offered
	head    []llm.Message   // the system prompt, and the summary of what is not shown
	past    [][]llm.Message // earlier turns, oldest first
	present []llm.Message   // this turn: what it should know and was asked, then answers with the results of their tools
}

func (v view) messages() []llm.Message {
	return slices.Concat(v.head, slices.Concat(v.past...), v.present)
}

// fit gives the messages of a view that cost no more than room. What is over goes in this order: results of this turn's tools are shortened,
// oldest first, but for those of its last answer; earlier turns are left out, oldest first; so are earlier answers of this turn, each with its
// results; at last the last results are shortened too. The head, the tools and what users said in this turn stay whole: when they alone are over, so is
// what fit gives.
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

// shortenResults shortens results of a round, in order, until nothing is over. full is the round with its results as they were.
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
		return llm.Message{Role: llm.User, Text: fmt.Sprintf("<data kind=\"left out\">%d earlier answers of this turn, with the results of their tools</data>", n)}
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
		if at := i + rounds[0].from; !slices.ContainsFunc(rounds[:gone], func(r round) bool { return r.from <= at && at < r.to }) {
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
