package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/runes"
)

// A turn gives work to child turns with agent.run. Their budget is out of the turn's. The turn of a message has a pool
// for its child turns. A child turn has one budget for itself and its own. The result of a call says how much its job
// took out of the budget, so the journal says it too. A resumed turn has the same left at the same place. A job that
// has not ended takes all that it was given.

// leftForJobs is what the turn can still give to child turns.
func (t *turn) leftForJobs() corebot.JobBudget {
	c := t.delivery.Message.Child
	if c == nil {
		return t.opts.Jobs.Less(t.given)
	}
	return c.Budget.Less(t.given.Plus(t.own))
}

// exhausted says whether a child turn has used up its budget.
func (t *turn) exhausted() bool {
	left := t.leftForJobs()
	return t.delivery.Message.Child != nil && (left.Tokens <= 0 || left.Calls <= 0)
}

// used notes what an answer of the model has used.
func (t *turn) used(a corebot.Answer, calls int) {
	t.own = t.own.Plus(corebot.JobBudget{Tokens: a.Usage.InputTokens + a.Usage.OutputTokens, Calls: calls})
}

// caller is the turn as it calls tools.
func (t *turn) caller() corebot.Caller {
	who := t.who
	who.Taint, who.Left, who.Offered = t.calls.taint, t.leftForJobs(), namesOf(t.offered)
	return who
}

func namesOf(offered []llm.Tool) []string {
	names := make([]string, len(offered))
	for i, tool := range offered {
		names[i] = tool.Name
	}
	return names
}

// beginsJob says whether a call can run beside a call that waits for a job. Jobs of one answer run at once.
func beginsJob(c corebot.ToolCall) bool { return slices.Contains(jobTools(), c.Tool) }

// jobTools are the tools whose calls begin jobs, by their names and by what providers call them.
func jobTools() []string {
	return []string{"agent.run", "agent.send", llm.EncodeName("agent.run"), llm.EncodeName("agent.send")}
}

// says is what the turn of a job says to whoever began the job.
func (t *turn) says(text string) *corebot.Word {
	if t.delivery.Job() == 0 {
		return nil
	}
	if blank(text) {
		text = "(the model answered with no text)"
	}
	if len(text) > corebot.MaxJobResult {
		cut := len(text) - corebot.MaxJobResult
		text = runes.Head(text, corebot.MaxJobResult) + fmt.Sprintf("\n[%d more bytes were cut off]", cut)
	}
	// what others said to the turn above can stand in the prompt, and so in the answer
	return &corebot.Word{Text: text, Outside: t.who.Taint != "" || len(t.who.Others) > 0}
}

// ofChild says what a child turn is for, in one line; of any other message nothing.
func ofChild(c *corebot.Child) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("this message is a part of your own work, which an earlier turn of yours has given you as "+
		"job %d: do it alone and ask nobody. Your answer is its result, and nothing else of this turn is seen. "+
		"You can use %d tokens and %d model calls with tools\n", c.Job, c.Budget.Tokens, c.Budget.Calls)
}

// runDetached makes the calls of a detached request that were approved after their answer had come. The model has asked
// for them in an earlier turn, with the taint of that answer. Each call looks for its approval, and finds it.
func (t *turn) runDetached(ctx context.Context, x *corebot.Detached) error {
	for t.nextMerged() { // what a run that starts over was told before
	}
	if err := t.showSteers(ctx); err != nil {
		return err
	}
	t.addAnswer(corebot.Answer{Calls: x.Calls, Taint: x.Taint})
	of := answerCalls{first: t.position, taint: x.Taint, begin: corebot.StepAwaiting}
	return t.runAll(ctx, x.Calls, of)
}
