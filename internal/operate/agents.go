package operate

import (
	"cmp"
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

// Agents is what is known of the agents of a home. A running Corebot tells how they are now. Without one, the settings
// and the files of the home tell what there is. An empty agent is the one that is meant where none is named; an unknown
// agent is [corebot.ErrNotFound].
type Agents interface {
	// Agents lists the agents of the settings, in their order.
	Agents(ctx context.Context) ([]Agent, error)
	// Models are the names of the models that a chat of an agent can ask for; none: that is not known.
	Models(ctx context.Context, agent string) ([]string, error)
	// Skills lists the skills of an agent, by name: those of all its chats, or with a key only those of that scope.
	Skills(ctx context.Context, agent string, of corebot.Key) (found []Skill, more int, err error)
	Skill(ctx context.Context, agent string, of corebot.Key, name string) (SkillPage, error)
	// Servers tells how the MCP servers of an agent are doing, by name. The rows are whole, without a cursor.
	Servers(ctx context.Context, agent string) (MCPServers, error)
	// ApproveTools takes tools of a server as an operator read them, and counts them.
	ApproveTools(ctx context.Context, agent, server string, fingerprints map[string]string,
		readOnly []string) (int, error)
	// Renew has the next turns of an agent look at its pages and skills: a command has changed them. An agent that does
	// not run has nothing to look at.
	Renew(agent string)
}

// The operations on agents and their skills.
var (
	ListAgents = ofFiles("agents.list", (*Service).ListAgents)
	ShowAgent  = ofFiles("agents.show", (*Service).ShowAgent)
	ListSkills = ofFiles("skills.list", (*Service).ListSkills)
	ShowSkill  = ofFiles("skills.show", (*Service).ShowSkill)
)

// The states of a skill. The values are part of what scripts read.
const (
	SkillUsable  = "usable"
	SkillMissing = "missing" // something that it requires is
	SkillBroken  = "broken"
)

type (
	// ByAgent names an agent; empty is the agent that is meant where none is named.
	ByAgent struct {
		Agent string `json:"agent,omitempty"`
	}
	// Agent is what the settings say of an agent.
	Agent struct {
		ID          string   `json:"id"`
		Name        string   `json:"name"`
		Workspace   string   `json:"workspace"`
		MCPFile     string   `json:"mcpFile"`
		Model       string   `json:"model,omitempty"` // empty: the first of the providers that answers
		Providers   []string `json:"providers"`       // that it asks, in their order; "default" is the one endpoint
		Think       string   `json:"think,omitempty"`
		Temperature string   `json:"temperature,omitempty"`
		Tools       []string `json:"tools"`
		Denied      []string `json:"denied"`
		MCP         []string `json:"mcp"`
		Skills      []string `json:"skills"`
		DailyTokens int64    `json:"dailyTokens,omitempty"`
		DailyCost   string   `json:"dailyCost,omitempty"`
		QueueMode   string   `json:"queueMode"`
		Routes      []string `json:"routes"` // in words, in the order in which they are looked at
	}
	// SkillsQuery asks for a part of the skills of an agent.
	SkillsQuery struct {
		ByAgent
		Key corebot.Key `json:"key,omitzero"` // of a chat, or of [corebot.Key.InChannel]: those that only it has
		Part
	}
	// Skill is one skill of an agent as an operator sees it.
	Skill struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Always      bool     `json:"always"`
		State       string   `json:"state"`
		Needs       []string `json:"needs"`   // what it requires and is not there: "env NAME", "tool NAME"
		Assumes     []string `json:"assumes"` // what it requires and only a running Corebot could tell: "tool NAME"
		Tools       []string `json:"tools"`   // that its page speaks of
		Error       string   `json:"error"`
		Hint        string   `json:"hint"`
	}
	// Skills is a page of skills.
	Skills struct {
		Page[Skill]
		More int `json:"more"` // directories that are not looked at, since there are so many
	}
	// SkillName names a skill of an agent.
	SkillName struct {
		ByAgent
		Key  corebot.Key `json:"key,omitzero"` // as in SkillsQuery
		Name string      `json:"name"`
	}
	// SkillPage is a skill as Corebot understands it.
	SkillPage struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Always      bool     `json:"always"`
		Requires    []string `json:"requires"` // "env NAME", "tool NAME"
		Tools       []string `json:"tools"`
		Page        string   `json:"page"`
		Front       string   `json:"front,omitempty"` // the front matter as a person reads it
	}
)

// ListAgents lists the agents of the settings, in their order.
func (s *Service) ListAgents(ctx context.Context, p Part) (Page[Agent], error) {
	all, err := s.stores.Agents.Agents(ctx)
	if err != nil {
		return Page[Agent]{}, err
	}
	return partOf(all, p, func(a Agent) string { return a.ID })
}

// ShowAgent gives one agent of the settings.
func (s *Service) ShowAgent(ctx context.Context, by ByAgent) (Agent, error) {
	all, err := s.stores.Agents.Agents(ctx)
	if err != nil {
		return Agent{}, err
	}
	for _, a := range all {
		if a.ID == by.Agent {
			return a, nil
		}
	}
	return Agent{}, corebot.WithHint(fmt.Errorf("the agent %q: %w", by.Agent, corebot.ErrNotFound),
		"`corebot agents list` shows which there are")
}

// ListSkills lists the skills of an agent, by name.
func (s *Service) ListSkills(ctx context.Context, q SkillsQuery) (Skills, error) {
	all, more, err := s.stores.Agents.Skills(ctx, agentOf(q.ByAgent, q.Key), q.Key)
	if err != nil {
		return Skills{}, err
	}
	page, err := partOf(all, q.Part, func(s Skill) string { return s.Name })
	return Skills{page, more}, err
}

// agentOf is the agent whose skills are meant.
func agentOf(by ByAgent, k corebot.Key) string { return cmp.Or(k.Agent, by.Agent) }

// ShowSkill gives the front matter and the page of a skill.
func (s *Service) ShowSkill(ctx context.Context, n SkillName) (SkillPage, error) {
	return s.stores.Agents.Skill(ctx, agentOf(n.ByAgent, n.Key), n.Key, n.Name)
}

// NoteSkill has the audit trail keep that a skill was installed or removed. A command changes the files itself.
var NoteSkill = changes("skills.note", (*Service).NoteSkill)

// SkillChange is a change of an agent's skills.
type SkillChange struct {
	ByAgent
	Change string `json:"change"` // install or remove
	Name   string `json:"name"`
	Hash   string `json:"hash,omitempty"`
	Source string `json:"source,omitempty"`
	Scope  string `json:"scope,omitempty"` // the key of the chat, or of the account, that has it; empty: all chats
}

// NoteSkill has the next turn see the change, and writes it into the audit trail.
func (s *Service) NoteSkill(ctx context.Context, c SkillChange) (Done, error) {
	s.stores.Agents.Renew(agentOf(c.ByAgent, corebot.Key{}))
	if c.Change != "install" && c.Change != "remove" {
		return Done{}, fmt.Errorf("%w: %q is no change of a skill", corebot.ErrInvalid, clip(c.Change))
	}
	note := map[string]any{"agent": c.Agent, "skill": clip(c.Name)}
	if c.Change == "install" {
		note["hash"], note["source"] = clip(c.Hash), clip(c.Source)
	}
	if c.Scope != "" {
		note["scope"] = clip(c.Scope)
	}
	return Done{Changed: 1}, s.stores.Audit.NoteSkill(ctx, "skill."+c.Change, note)
}
