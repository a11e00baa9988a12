package app

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/memory"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/internal/runes"
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
	if c, err = LoadConfig(h.dir); err == nil {
		entry, err = entryOf(c, agent)
	}
	return c, entry, err
}

// Agents implements [operate.Agents].
func (h home) Agents(context.Context) ([]operate.Agent, error) {
	c, err := LoadConfig(h.dir)
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
func (h home) Skills(_ context.Context, agent string, of corebot.Key) ([]operate.Skill, int, error) {
	c, entry, err := h.entry(agent)
	if err != nil {
		return nil, 0, err
	}
	return skillsAtRest(c, entry, of)
}

// Skill implements [operate.Agents].
func (h home) Skill(_ context.Context, agent string, of corebot.Key, name string) (operate.SkillPage, error) {
	c, entry, err := h.entry(agent)
	if err != nil {
		return operate.SkillPage{}, err
	}
	return skillPage(c, entry, of, name)
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

// Renew implements [operate.Agents].
func (home) Renew(string) {}

// GlobalMemory implements [operate.Memories].
func (h home) GlobalMemory(_ context.Context, agent string) (text, path string, err error) {
	_, entry, err := h.entry(agent)
	if err != nil {
		return "", "", err
	}
	err = h.remembering(entry.ID, func(s *memory.Store) error {
		text, err = s.Read(memory.Global)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return text, place{h.dir, entry.ID}.globalMemory(), err
}

// Memory implements [operate.Memories].
func (h home) Memory(ctx context.Context, k corebot.Key) (page operate.MemoryPage, err error) {
	page = operate.MemoryPage{Chat: k.String(), Pieces: []operate.MemoryPiece{}}
	err = h.remembering(k.Agent, func(s *memory.Store) error {
		page, err = pageOfMemory(ctx, s, k)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return page, err
}

// Remembering implements [operate.Memories].
func (h home) Remembering(_ context.Context, agent string) (can func(corebot.Key) bool, err error) {
	can = func(corebot.Key) bool { return false }
	err = h.remembering(agent, func(s *memory.Store) error {
		can, err = s.Written()
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return can, err
}

// TrustMemory implements [operate.Memories].
func (h home) TrustMemory(ctx context.Context, k corebot.Key, fingerprint string, by corebot.Principal) error {
	return h.remembering(k.Agent, func(s *memory.Store) error { return trustMemory(ctx, s, k, fingerprint, by) })
}

// ForgetMemory implements [operate.Memories].
func (h home) ForgetMemory(ctx context.Context, f operate.MemoryLoss) (n int, err error) {
	err = h.remembering(f.Key.Agent, func(s *memory.Store) error {
		n, err = forgetMemory(ctx, s, f)
		return err
	})
	return n, err
}

// remembering hands over the memory of an agent. Without a workspace it is [fs.ErrNotExist].
func (h home) remembering(agent string, fn func(*memory.Store) error) error {
	root, err := rootfs.New(place{h.dir, agent}.workspace())
	if err != nil {
		return err
	}
	store, err := memory.New(root, memory.Options{Sources: storage.NewChats(h.db)})
	if err == nil {
		err = fn(store)
	}
	return errors.Join(err, root.Close())
}

func pageOfMemory(ctx context.Context, s *memory.Store, k corebot.Key) (operate.MemoryPage, error) {
	pieces, whole, err := s.Pieces(ctx, k)
	page := operate.MemoryPage{
		Chat: k.String(), Fingerprint: memory.Sum(pieces), Cut: !whole,
		Pieces: make([]operate.MemoryPiece, len(pieces)),
	}
	line := 1
	for i, p := range pieces {
		sender := ""
		if p.Sender.ID != "" {
			sender = p.Sender.String()
		}
		page.Pieces[i] = operate.MemoryPiece{
			Line: line, Text: strings.ToValidUTF8(p.Text, "\uFFFD"), Sender: sender, MessageID: p.MessageID, At: p.At,
			Taint: p.Taint, Trusted: p.Trusted, Clean: p.Clean(),
		}
		line += memory.Lines(pieces[i : i+1])
	}
	return page, err
}

func trustMemory(ctx context.Context, s *memory.Store, k corebot.Key, fingerprint string, by corebot.Principal) error {
	return s.Trust(ctx, k, fingerprint, corebot.MemoryNote{Sender: by, At: time.Now()})
}

func forgetMemory(ctx context.Context, s *memory.Store, f operate.MemoryLoss) (int, error) {
	return s.Forget(ctx, f.Key, f.Fingerprint, func(p memory.Piece, line int) bool {
		if len(f.Lines) > 0 {
			return slices.Contains(f.Lines, line)
		}
		return f.All || !p.Clean()
	})
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
func (r running) Skills(_ context.Context, agent string, of corebot.Key) ([]operate.Skill, int, error) {
	u, err := r.agents.named(agent)
	if err != nil {
		return nil, 0, err
	}
	found, err := u.notes.skills.In(of).All()
	return described(found, true), found.More, err
}

// Skill implements [operate.Agents].
func (r running) Skill(_ context.Context, agent string, of corebot.Key, name string) (operate.SkillPage,
	error,
) {
	u, err := r.agents.named(agent)
	if err != nil {
		return operate.SkillPage{}, err
	}
	return skillPage(r.config, u.entry, of, name)
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

// Renew implements [operate.Agents].
func (r running) Renew(agent string) {
	if u, err := r.agents.named(agent); err == nil {
		u.notes.renewAll()
	}
}

// GlobalMemory implements [operate.Memories].
func (r running) GlobalMemory(_ context.Context, agent string) (text, path string, err error) {
	u, err := r.agents.named(agent)
	if err != nil {
		return "", "", err
	}
	text, err = u.notes.memory.Read(memory.Global)
	return text, u.place.globalMemory(), err
}

// Memory implements [operate.Memories].
func (r running) Memory(ctx context.Context, k corebot.Key) (operate.MemoryPage, error) {
	u, err := r.agents.named(k.Agent)
	if err != nil {
		return operate.MemoryPage{}, err
	}
	return pageOfMemory(ctx, u.notes.memory, k)
}

// Remembering implements [operate.Memories].
func (r running) Remembering(_ context.Context, agent string) (func(corebot.Key) bool, error) {
	u, err := r.agents.named(agent)
	if err != nil {
		return nil, err
	}
	return u.notes.memory.Written()
}

// TrustMemory implements [operate.Memories].
func (r running) TrustMemory(ctx context.Context, k corebot.Key, fingerprint string, by corebot.Principal) error {
	u, err := r.agents.named(k.Agent)
	if err != nil {
		return err
	}
	return trustMemory(ctx, u.notes.memory, k, fingerprint, by)
}

// ForgetMemory implements [operate.Memories].
func (r running) ForgetMemory(ctx context.Context, f operate.MemoryLoss) (int, error) {
	u, err := r.agents.named(f.Key.Agent)
	if err != nil {
		return 0, err
	}
	return forgetMemory(ctx, u.notes.memory, f)
}

// Hello implements [operate.Corebot].
func (r running) Hello(context.Context) (operate.Hello, error) { return r.hello(), nil }

// maxDetail bounds what a line of the health says of one reason, in bytes.
const maxDetail = 500

// Health implements [operate.Vitals], without a look at the figures of the store.
func (r running) Health(ctx context.Context) operate.Health {
	h := operate.Health{Stuck: []string{}, NotReady: []string{}, Degraded: []string{}}
	for _, s := range r.watchdog.Stuck() {
		h.Stuck = append(h.Stuck, s.Part)
	}
	h.NotReady = append(h.NotReady, r.notReady(ctx)...)
	for _, d := range r.degraded.Now(ctx) {
		line := string(d.Reason) + ": " + d.Says
		if d.Detail != "" {
			line += ": " + runes.Head(d.Detail, maxDetail)
		}
		h.Degraded = append(h.Degraded, line)
	}
	return h
}

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
			LastError: s.LastError, Note: s.Note, Backlog: waiting[[2]string{s.Kind, s.Name}],
		})
		delete(waiting, [2]string{s.Kind, s.Name})
	}
	for account, n := range waiting {
		all = append(all, operate.ChannelAccount{
			Kind: account[0], Account: account[1], State: operate.AccountLeft, Backlog: n,
			Note: "not in the settings: its messages wait until it is there again, or their chats are deleted",
		})
	}
	slices.SortFunc(all, func(a, b operate.ChannelAccount) int { return cmp.Compare(a.Name(), b.Name()) })
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
