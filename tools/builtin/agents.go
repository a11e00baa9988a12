package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/tools"
)

var (
	//go:embed agent_list.md
	agentListDoc string
	//go:embed agent_send.md
	agentSendDoc string
)

// Peer is an agent that others can ask.
type Peer struct{ ID, Name string }

type agentListArgs struct{}

// AgentList names the agents beside the one that asks.
func AgentList(all []Peer) tools.Tool {
	all = slices.Clone(all)
	return tools.New("agent.list", agentListDoc, tools.ReadOnly,
		func(_ context.Context, c tools.Call, _ agentListArgs) (string, error) {
			var b strings.Builder
			for _, p := range all {
				if p.ID != c.Key.Agent {
					fmt.Fprintf(&b, "%s: %s\n", p.ID, cmp.Or(p.Name, p.ID))
				}
			}
			return cmp.Or(strings.TrimSuffix(b.String(), "\n"), "[there is no other agent]"), nil
		})
}

type agentSendArgs struct {
	Agent   string `json:"agent" jsonschema:"the id of the agent, as agent.list gives it"`
	Content string `json:"content" jsonschema:"the question or task, with all that the agent needs to know"`
	Wait    bool   `json:"wait,omitempty" jsonschema:"the call waits, and its result is the answer"`
}

// AgentSend asks another agent, with a message of at most maxBytes, in the commit of the call's own outcome. A call
// that waits is a job.
func AgentSend(all []Peer, maxBytes int, o JobOptions) tools.Tool {
	all = slices.Clone(all)
	return tools.NewWaiting("agent.send", agentSendDoc, 0, func(_ context.Context, c tools.Call,
		a agentSendArgs,
	) (w tools.Wait, err error) {
		if !slices.ContainsFunc(all, func(p Peer) bool { return p.ID == a.Agent }) {
			var ids []string
			for _, p := range all {
				ids = append(ids, p.ID)
			}
			err := fmt.Errorf("the agent %q: %w", a.Agent, corebot.ErrNotFound)
			return w, corebot.WithHint(err, "the agents are: "+strings.Join(ids, ", "))
		}
		m := corebot.Message{ID: c.StepID, Key: c.Key, Parts: corebot.TextPart(a.Content)}
		if err := m.Validate(maxBytes); err != nil {
			return w, fmt.Errorf("ask the agent %s: %w", a.Agent, err)
		}
		if a.Wait {
			return o.job(corebot.NewJob{Kind: corebot.JobAsk, Agent: a.Agent, Prompt: a.Content, Asks: c.Caller})
		}
		w.Effect = corebot.AskAgent{Agent: a.Agent, Text: a.Content, Asks: c.Caller}
		w.Text = fmt.Sprintf("the agent %s has your message; its answer comes into this chat as a message of its own",
			a.Agent)
		return w, nil
	})
}

//go:embed agent_run.md
var agentRunDoc string

// JobOptions bound the jobs that calls begin.
type JobOptions struct {
	Longest time.Duration // that a call waits
	Limits  corebot.WaitLimits
}

type (
	agentRunArgs struct {
		Prompt     string     `json:"prompt" jsonschema:"what is to be done, with all that the turn needs to know"`
		Tools      []string   `json:"tools,omitempty" jsonschema:"the tools that it gets; without it all of yours"`
		Budget     *jobBudget `json:"budget,omitempty" jsonschema:"what it can use; without it a quarter of your own"`
		Background bool       `json:"background,omitempty" jsonschema:"the call returns at once"`
	}
	jobBudget struct {
		Tokens *int64 `json:"tokens,omitempty" jsonschema:"of input and output, with those of its own child turns"`
		Calls  *int   `json:"calls,omitempty" jsonschema:"of the model with tools, likewise"`
	}
)

// AgentRun gives work to a child turn. The child turn has no tool that its parent is not offered.
func AgentRun(o JobOptions) tools.Tool {
	return tools.NewWaiting("agent.run", agentRunDoc, 0, func(_ context.Context, c tools.Call,
		a agentRunArgs,
	) (tools.Wait, error) {
		j := corebot.NewJob{Kind: corebot.JobRun, Background: a.Background, Prompt: a.Prompt, Asks: c.Caller}
		var err error
		if j.Tools, err = among(c.Offered, a.Tools); err != nil {
			return tools.Wait{}, err
		}
		if j.Budget, err = a.Budget.outOf(c.Left); err != nil {
			return tools.Wait{}, err
		}
		return o.job(j)
	})
}

// job is a call that waits for a job.
func (o JobOptions) job(j corebot.NewJob) (tools.Wait, error) {
	if j.Kind == corebot.JobRun && j.Asks.Depth >= corebot.MaxJobDepth {
		return tools.Wait{}, corebot.WithHint(corebot.ErrTooDeep, "do this part yourself")
	}
	return tools.Wait{Pending: corebot.Pending{
		Kind: corebot.WaitJob, State: corebot.WaitAwaited, Until: time.Now().Add(o.Longest), Limits: o.Limits, Job: &j,
	}}, j.Validate()
}

// shownTools is how many names a refusal lists.
const shownTools = 30

// among lists the tools of a turn that patterns name; nil patterns mean all of them. A pattern that names none is an
// error.
func among(has, patterns []string) ([]string, error) {
	if patterns == nil {
		return slices.Clone(has), nil
	}
	got := []string{}
	for _, pattern := range patterns {
		matches := func(name string) bool {
			return corebot.IsNamePattern(pattern) && corebot.MatchesName(pattern, name)
		}
		if !slices.ContainsFunc(has, matches) {
			err := fmt.Errorf("%w: you have no tool \"%s\" to give", corebot.ErrInvalid, corebot.Plainly(pattern))
			return nil, corebot.WithHint(err, "you have: "+listed(has))
		}
		for _, name := range has {
			if matches(name) && !slices.Contains(got, name) {
				got = append(got, name)
			}
		}
	}
	return got, nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	if more := len(names) - shownTools; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:shownTools], ", "), more)
	}
	return strings.Join(names, ", ")
}

// outOf is the budget of a child turn out of what its parent has left. A figure that is not named is a quarter of it.
func (b *jobBudget) outOf(left corebot.JobBudget) (corebot.JobBudget, error) {
	share := corebot.JobBudget{Tokens: (left.Tokens + 3) / 4, Calls: (left.Calls + 3) / 4}
	if b != nil && b.Tokens != nil {
		share.Tokens = *b.Tokens
	}
	if b != nil && b.Calls != nil {
		share.Calls = *b.Calls
	}
	switch {
	case left.Tokens <= 0 || left.Calls <= 0:
		return share, corebot.WithHint(fmt.Errorf("%w: nothing is left", corebot.ErrOverBudget),
			"answer with what you have")
	case share.Tokens < 1 || share.Calls < 1:
		return share, corebot.WithHint(fmt.Errorf("%w: a budget of %d tokens and %d calls: want 1 of each at least",
			corebot.ErrInvalid, share.Tokens, share.Calls), "leave it out for the usual share")
	case share.Tokens > left.Tokens || share.Calls > left.Calls:
		return share, corebot.WithHint(fmt.Errorf("%w: you ask for %d tokens and %d calls", corebot.ErrOverBudget,
			share.Tokens, share.Calls), fmt.Sprintf("you have %d tokens and %d calls left", left.Tokens, left.Calls))
	}
	return share, nil
}
