package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

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
}

// AgentSend asks another agent, with a message of at most maxBytes, in the commit of the call's own outcome.
func AgentSend(all []Peer, maxBytes int) tools.Tool {
	all = slices.Clone(all)
	return tools.NewOwn("agent.send", agentSendDoc, 0, func(_ context.Context, c tools.Call,
		a agentSendArgs,
	) (corebot.Effect, string, error) {
		if !slices.ContainsFunc(all, func(p Peer) bool { return p.ID == a.Agent }) {
			var ids []string
			for _, p := range all {
				ids = append(ids, p.ID)
			}
			err := fmt.Errorf("the agent %q: %w", a.Agent, corebot.ErrNotFound)
			return nil, "", corebot.WithHint(err, "the agents are: "+strings.Join(ids, ", "))
		}
		m := corebot.Message{ID: c.StepID, Key: c.Key, Parts: corebot.TextPart(a.Content)}
		if err := m.Validate(maxBytes); err != nil {
			return nil, "", fmt.Errorf("ask the agent %s: %w", a.Agent, err)
		}
		return corebot.AskAgent{Agent: a.Agent, Text: a.Content, Asks: c.Caller},
			fmt.Sprintf("the agent %s has your message; its answer comes into this chat as a message of its own",
				a.Agent), nil
	})
}
