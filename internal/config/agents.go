package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/lazy"
)

// AgentEntry is one entry of agents.
type AgentEntry struct {
	ID          string       `mapstructure:"id"`
	Name        string       `mapstructure:"name"`
	Model       string       `mapstructure:"model"`
	Think       string       `mapstructure:"think" oneof:",off,minimal,low,medium,high"`
	Temperature Number       `mapstructure:"temperature"`
	Providers   List[string] `mapstructure:"providers"`
	Tools       AgentTools   `mapstructure:"tools"`
	MCP         List[string] `mapstructure:"mcp"`
	Skills      List[string] `mapstructure:"skills"`
	Budget      AgentBudget  `mapstructure:"budget"`
	Heartbeat   Heartbeat    `mapstructure:"heartbeat"`
	QueueMode   string       `mapstructure:"queue_mode" oneof:",queue,steer,interrupt,collect"`
}

// AgentTools are the tools that an agent has. Policy decides beside it who may use them.
type AgentTools struct {
	Allow List[string] `mapstructure:"allow"`
	Deny  List[string] `mapstructure:"deny"`
}

// AgentBudget caps what an agent may use in a day, beside the caps of budget.
type AgentBudget struct {
	DailyTokens int64  `mapstructure:"daily_tokens" min:"0"`
	DailyCost   string `mapstructure:"daily_cost"`
}

// Heartbeat is when an agent looks after what its page HEARTBEAT.md lists, and whom it tells.
type Heartbeat struct {
	Every    time.Duration `mapstructure:"every" min:"0s"`
	Chat     string        `mapstructure:"chat"`
	From     string        `mapstructure:"from"`
	To       string        `mapstructure:"to"`
	TimeZone string        `mapstructure:"time_zone"`
}

// Spec is the heartbeat as the schedule of a task writes it.
func (h Heartbeat) Spec() string {
	every := h.Every.String()
	for _, unit := range []string{"m0s", "h0m"} { // 30m and 1h, not 1h0m0s
		if strings.HasSuffix(every, unit) {
			every = every[:len(every)-2]
		}
	}
	return fmt.Sprintf("%s %s-%s", every, h.From, h.To)
}

// Key is the chat that the heartbeat of an agent tells.
func (h Heartbeat) Key(agent string) (corebot.Key, error) {
	k, err := corebot.ParseKey(h.Chat)
	if err == nil && k.Agent != agent {
		err = fmt.Errorf("%q is a chat of the agent %q", h.Chat, k.Agent)
	}
	return k, err
}

// standard implements [entry].
func (AgentEntry) standard() AgentEntry {
	return AgentEntry{
		Providers: NewList("*"), Tools: AgentTools{Allow: NewList("*")}, MCP: NewList("*"), Skills: NewList("*"),
		Heartbeat: Heartbeat{From: "08:00", To: "22:00"},
	}
}

// HasProvider says whether the agent can ask a provider. Its requests never reach another one, nor carry its key.
func (a AgentEntry) HasProvider(name string) bool {
	return slices.ContainsFunc(a.Providers.Values(), func(pattern string) bool {
		return corebot.MatchesName(pattern, name)
	})
}

// agentID is what an agent can be called: part of a directory's name, of keys and of labels, and settings fold capital
// letters.
var agentID = lazy.Regexp(`^[a-z0-9][a-z0-9-]{0,31}$`)

// validate implements [entry].
func (a AgentEntry) validate(where string) error {
	if !agentID().MatchString(a.ID) {
		return corebot.WithHint(fmt.Errorf("%s.id is %q", where, a.ID),
			"write lower-case letters, digits and -, at most 32, such as id: helper")
	}
	if a.Heartbeat.Every > 0 {
		if _, err := a.Heartbeat.Key(a.ID); err != nil {
			return corebot.WithHint(fmt.Errorf("%s.heartbeat.chat: %w", where, err),
				"write the key of a chat of the agent; `corebot chats list` shows the keys")
		}
	}
	if _, err := a.Budget.cap(); err != nil {
		return fmt.Errorf("%s.budget.daily_cost: %w", where, err)
	}
	return nil
}

// cap is the budget as amounts.
func (b AgentBudget) cap() (c corebot.Cap, err error) {
	c.Tokens = b.DailyTokens
	if b.DailyCost != "" {
		if c.Cost, err = corebot.ParseMoney(b.DailyCost); err != nil {
			err = corebot.WithHint(err, "write an amount such as 2.50, or nothing for no cap")
		}
	}
	return c, err
}

// Route is one entry of routes. A field that is empty matches everything.
type Route struct {
	Channel string `mapstructure:"channel"`
	Account string `mapstructure:"account"`
	Chat    string `mapstructure:"chat"`
	Agent   string `mapstructure:"agent"`
}

// standard implements [entry].
func (Route) standard() Route { return Route{} }

// validate implements [entry].
func (r Route) validate(where string) error {
	if r.Agent == "" {
		return corebot.WithHint(fmt.Errorf("%s names no agent", where), "name one of agents, such as agent: main")
	}
	return nil
}

// Matches says whether the route is for a chat.
func (r Route) Matches(channel, account, chat string) bool {
	return (r.Channel == "" || r.Channel == channel) && (r.Account == "" || r.Account == account) &&
		(r.Chat == "" || r.Chat == chat)
}

// Chats says which chats keep what was said in them, and for how long.
type Chats struct {
	Store string            `mapstructure:"store" oneof:"full,registered,none"`
	Rules Entries[ChatRule] `mapstructure:"rules"`
}

// ChatRule is one entry of chats.rules.
type ChatRule struct {
	Channel string        `mapstructure:"channel"`
	Account string        `mapstructure:"account"`
	Chat    string        `mapstructure:"chat"`
	Store   string        `mapstructure:"store" oneof:",full,none"`
	History time.Duration `mapstructure:"history" min:"0s"`
}

// standard implements [entry].
func (ChatRule) standard() ChatRule { return ChatRule{} }

// validate implements [entry].
func (r ChatRule) validate(where string) error {
	for key, pattern := range map[string]string{"channel": r.Channel, "account": r.Account, "chat": r.Chat} {
		if pattern != "" && !corebot.IsNamePattern(pattern) {
			return corebot.WithHint(fmt.Errorf("%s.%s is %q", where, key, pattern),
				`write a name, or a beginning with a "*" behind it; leave the key out for all`)
		}
	}
	if r.Store == "" && r.History == 0 {
		return corebot.WithHint(fmt.Errorf("%s says nothing", where),
			"write store: none, or a time such as history: 720h")
	}
	if r.Store == string(corebot.StoreNone) && r.History > 0 {
		return corebot.WithHint(fmt.Errorf("%s keeps nothing, and says for how long", where),
			"leave out store or history")
	}
	return nil
}

// Keeper is what chats keep, by the settings.
func (c Chats) Keeper() *corebot.Keeper {
	keeper := &corebot.Keeper{Store: corebot.StoredChats(c.Store)}
	for _, r := range c.Rules.List() {
		keeper.Rules = append(keeper.Rules, corebot.KeepRule{
			Channel: r.Channel, Account: r.Account, Chat: r.Chat, Unsaid: r.Store == "",
			Keeping: corebot.Keeping{Nothing: r.Store == string(corebot.StoreNone), For: r.History},
		})
	}
	return keeper
}

// AgentList gives the agents: those of the settings, or the one that there is without any.
func (c Config) AgentList() []AgentEntry {
	list := c.Agents.List()
	if len(list) == 0 {
		only := AgentEntry{}.standard()
		only.ID = corebot.DefaultAgent
		list = []AgentEntry{only}
	}
	return list
}

// AgentFor is the id of the agent that answers in a chat: the agent of the first route that matches, else
// [Config.DefaultAgent].
func (c Config) AgentFor(channel, account, chat string) string {
	return c.Routing()(channel, account, chat)
}

// Routing is [Config.AgentFor] for many chats: it reads the lists of the settings once.
func (c Config) Routing() func(channel, account, chat string) (agent string) {
	routes, others := c.Routes.List(), c.DefaultAgent()
	return func(channel, account, chat string) string {
		for _, r := range routes {
			if r.Matches(channel, account, chat) {
				return r.Agent
			}
		}
		return others
	}
}

// DefaultAgent is the agent of chats that no route matches: main, or the first of agents where none is called so.
func (c Config) DefaultAgent() string {
	list := c.AgentList()
	if slices.ContainsFunc(list, func(a AgentEntry) bool { return a.ID == corebot.DefaultAgent }) {
		return corebot.DefaultAgent
	}
	return list[0].ID
}

// EntryOf is the entry of an agent, or false.
func (c Config) EntryOf(id string) (AgentEntry, bool) {
	list := c.AgentList()
	at := slices.IndexFunc(list, func(a AgentEntry) bool { return a.ID == id })
	if at < 0 {
		return AgentEntry{}, false
	}
	return list[at], true
}

// DailyCap is what the agent may use in a day. [Load] has checked that it can be read.
func (a AgentEntry) DailyCap() (corebot.Cap, error) { return a.Budget.cap() }

// validateAgents refuses agents of one id, routes to agents that there are not, and models that nobody has.
func (c Config) validateAgents() error {
	seen := map[string]bool{}
	for i, a := range c.AgentList() {
		if seen[a.ID] {
			return corebot.WithHint(fmt.Errorf("agents[%d].id is %q, and so is another's", i, a.ID),
				"give each an id of its own")
		}
		seen[a.ID] = true
		if cap, _ := a.Budget.cap(); cap.Cost > 0 && c.LLM.Prices == "" {
			return corebot.WithHint(fmt.Errorf("agents[%d].budget.daily_cost caps a cost, and llm.prices is empty: "+
				"nothing would ever cost anything", i),
				"set the prices of the models, or cap tokens")
		}
		if err := c.validateProviders(i, a); err != nil {
			return err
		}
		if known := c.LLM.Of(a).KnownModels(); a.Model != "" && !slices.Contains(known, a.Model) {
			return corebot.WithHint(fmt.Errorf("agents[%d].model is %q, which is none of its llm.providers", i,
				a.Model),
				hintOfModel(a.Model, known))
		}
	}
	for i, r := range c.Routes.List() {
		if !seen[r.Agent] {
			return corebot.WithHint(fmt.Errorf("routes[%d].agent is %q, and there is no such agent", i, r.Agent),
				"name one of agents")
		}
	}
	return nil
}

// validateProviders refuses an agent without a provider, and a provider that there is not.
func (c Config) validateProviders(i int, a AgentEntry) error {
	names := c.LLM.providerNames()
	hint := fmt.Sprintf("name some of %v, or leave the key out", names)
	if len(a.Providers.Values()) == 0 {
		return corebot.WithHint(fmt.Errorf("agents[%d].providers is empty", i), hint)
	}
	for _, pattern := range a.Providers.Values() {
		if !slices.ContainsFunc(names, func(name string) bool { return corebot.MatchesName(pattern, name) }) {
			return corebot.WithHint(fmt.Errorf("agents[%d].providers names %q, which is none of llm.providers", i,
				pattern), hint)
		}
	}
	return nil
}

func hintOfModel(name string, known []string) string {
	if len(known) == 0 {
		return "list the models in llm.providers, or set llm.model"
	}
	if near := nearestOf(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("name one of: %v", known)
}
