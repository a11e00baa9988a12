package app

import (
	"cmp"
	"context"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/mcp"
	"github.com/corebot/corebot/storage"
)

// home is what settings and files tell of the agents of a home on which no Corebot of this process runs.
type home struct {
	dir string
	db  *storage.DB // nil: only settings and files are read
}

// entry is what the settings say of an agent.
func (h home) entry(agent string) (c config.Config, entry config.AgentEntry, err error) {
	if c, err = config.Load(h.dir); err == nil {
		entry, err = entryOf(c, agent)
	}
	return c, entry, err
}

// Agents implements [operate.Agents].
func (h home) Agents(context.Context) ([]operate.Agent, error) {
	c, err := config.Load(h.dir)
	if err != nil {
		return nil, err
	}
	return agentsOf(c), nil
}

// Models implements [operate.Agents].
func (h home) Models(_ context.Context, agent string) ([]string, error) {
	c, entry, err := h.entry(agent)
	return c.LLM.Of(entry).KnownModels(), err
}

// Skills implements [operate.Agents].
func (h home) Skills(_ context.Context, agent string) ([]operate.Skill, int, error) {
	c, entry, err := h.entry(agent)
	if err != nil {
		return nil, 0, err
	}
	return skillsAtRest(c, entry)
}

// Skill implements [operate.Agents].
func (h home) Skill(_ context.Context, agent, name string) (operate.SkillPage, error) {
	c, entry, err := h.entry(agent)
	if err != nil {
		return operate.SkillPage{}, err
	}
	return skillPage(c, entry, name)
}

// Servers implements [operate.Agents].
func (h home) Servers(_ context.Context, agent string) (operate.MCPServers, error) {
	c, entry, err := h.entry(agent)
	if err != nil {
		return operate.MCPServers{}, err
	}
	return serversAtRest(c, entry)
}

// ApproveTools implements [operate.Agents].
func (h home) ApproveTools(ctx context.Context, agent, server string, fingerprints map[string]string,
	readOnly []string,
) (int, error) {
	_, entry, err := h.entry(agent)
	if err != nil {
		return 0, err
	}
	return storage.NewMCPTools(h.db, entry.ID).Approve(ctx, server, fingerprints, readOnly...)
}

// running is the Corebot of this process in the hands of the admin service.
type running struct{ *App }

// Agents implements [operate.Agents].
func (r running) Agents(context.Context) ([]operate.Agent, error) { return agentsOf(r.settings()), nil }

// Models implements [operate.Agents].
func (r running) Models(_ context.Context, agent string) ([]string, error) {
	return r.modelNames(agent), nil
}

// Skills implements [operate.Agents]: as the prompts of turns have them, with this environment and these tools.
func (r running) Skills(_ context.Context, agent string) ([]operate.Skill, int, error) {
	u, err := r.agents.named(agent)
	if err != nil {
		return nil, 0, err
	}
	found, err := u.notes.skills.All()
	return described(found, true), found.More, err
}

// Skill implements [operate.Agents].
func (r running) Skill(_ context.Context, agent, name string) (operate.SkillPage, error) {
	u, err := r.agents.named(agent)
	if err != nil {
		return operate.SkillPage{}, err
	}
	return skillPage(r.config, u.entry, name)
}

// Servers implements [operate.Agents].
func (r running) Servers(_ context.Context, agent string) (operate.MCPServers, error) {
	u, err := r.agents.named(agent)
	if err != nil {
		return operate.MCPServers{}, err
	}
	return serversOf(u.servers.Overview()), nil
}

// ApproveTools implements [operate.Agents]. The turns that begin after it have what was approved.
func (r running) ApproveTools(ctx context.Context, agent, server string, fingerprints map[string]string,
	readOnly []string,
) (int, error) {
	u, err := r.agents.named(agent)
	if err != nil {
		return 0, err
	}
	n, err := storage.NewMCPTools(r.Store, u.entry.ID).Approve(ctx, server, fingerprints, readOnly...)
	if err == nil {
		err = u.servers.Reconsider(ctx, server)
	}
	return n, err
}

// Hello implements [operate.Corebot].
func (r running) Hello(context.Context) (operate.Hello, error) { return r.hello(), nil }

// ReloadSettings implements [operate.Corebot].
func (r running) ReloadSettings(context.Context) (operate.Reloaded, error) { return r.Reload() }

// Context implements [operate.Contexts]: as the owner of the home would be answered.
func (r running) Context(ctx context.Context, k corebot.Key) (operate.Context, error) {
	use, err := r.agents.Context(ctx, k, ownerOf(r.config.Home))
	if err != nil {
		return operate.Context{}, err
	}
	return operate.Context{ContextUse: use, Text: use.Describe(r.accounting)}, nil
}

// Channels implements [operate.Corebot].
func (r running) Channels(ctx context.Context) ([]operate.ChannelAccount, error) {
	waiting, err := storage.NewQueue(r.Store).Backlog(ctx)
	if err != nil {
		return nil, err
	}
	var all []operate.ChannelAccount
	for _, s := range r.channels.Status() {
		all = append(all, operate.ChannelAccount{
			Kind: s.Kind, Account: s.Name, State: string(s.State), Since: s.Since, LastEvent: s.LastEvent,
			LastError: s.LastError, Backlog: waiting[[2]string{s.Kind, s.Name}],
		})
	}
	return all, nil
}

// RestartChannel implements [operate.Corebot].
func (r running) RestartChannel(_ context.Context, a operate.AccountName) error {
	return r.channels.Restart(channels.Account{Kind: a.Kind, Name: a.Account})
}

// ServerTools implements [operate.Corebot].
func (r running) ServerTools(_ context.Context, agent, server string) ([]operate.MCPTool, string, error) {
	u, err := r.agents.named(agent)
	if err != nil {
		return nil, "", err
	}
	found, err := u.servers.Describe(server)
	if err != nil {
		return nil, "", err
	}
	all := make([]operate.MCPTool, len(found))
	for i, d := range found {
		all[i] = operate.MCPTool(d)
	}
	_, whole := mcp.Fingerprints(found)
	return all, whole, nil
}

// ReloadServers implements [operate.Corebot].
func (r running) ReloadServers(ctx context.Context, agent string) (operate.MCPServers, error) {
	u, err := r.agents.named(agent)
	if err != nil {
		return operate.MCPServers{}, err
	}
	now, err := u.servers.Reload(ctx)
	return serversOf(now), err
}

// entryOf is what the settings say of an agent; empty is the agent that is meant where none is named.
func entryOf(c config.Config, agent string) (config.AgentEntry, error) {
	agent = cmp.Or(agent, c.DefaultAgent())
	for _, entry := range c.AgentList() {
		if entry.ID == agent {
			return entry, nil
		}
	}
	return config.AgentEntry{}, corebot.WithHint(unknownAgent(agent), "`corebot agents list` shows which there are")
}
