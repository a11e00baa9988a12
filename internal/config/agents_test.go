package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

// everyAgent has a value in each field.
func everyAgent() AgentEntry {
	return AgentEntry{
		ID: "helper", Name: "Helper", Think: "low", Temperature: "0.7",
		Providers: NewList("main"),
		Tools:     AgentTools{Allow: NewList("fs.*"), Deny: NewList("fs.write")},
		MCP:       NewList("files"), Skills: NewList("pdf"), Budget: AgentBudget{DailyTokens: 5, DailyCost: "2.50"},
		Heartbeat: Heartbeat{
			Every: 30 * time.Minute, Chat: "helper:cli:local:main", From: "07:00", To: "23:30", TimeZone: "UTC",
		},
		QueueMode: "steer",
	}
}

func TestAgentsAreTheSameInEveryFormatAndInAVariable(t *testing.T) {
	want := []AgentEntry{AgentEntry{}.standard(), everyAgent()}
	want[0].ID = "main"
	want[1].Budget.DailyCost, want[1].Providers = "", NewList("default")
	want[1].Heartbeat.TimeZone = ""
	for name, content := range map[string]string{
		"corebot.yaml": "agents:\n- id: main\n- {id: helper, Name: Helper, think: low, temperature: 0.7, " +
			"providers: [default], tools: {allow: ['fs.*'], deny: [fs.write]}, mcp: [files], skills: [pdf], " +
			"budget: {daily_tokens: 5}, queue_mode: steer, " +
			"heartbeat: {every: 30m, chat: 'helper:cli:local:main', from: '07:00', to: '23:30'}}\n",
		"corebot.toml": "[[agents]]\nid = 'main'\n[[agents]]\nid = 'helper'\nname = 'Helper'\nthink = " +
			"'low'\ntemperature = 0.7\nproviders = ['default']\nmcp = ['files']\nskills = ['pdf']\nqueue_mode = " +
			"'steer'\n[agents.heartbeat]\nevery = '30m'\nchat = 'helper:cli:local:main'\nfrom = '07:00'\n" +
			"to = '23:30'\n[agents.tools]\nallow = ['fs.*']\ndeny = ['fs.write']\n[agents.budget]\ndaily_tokens = 5\n",
		"corebot.json": `{"agents":[{"id":"main"},{"id":"helper","name":"Helper","think":"low","temperature":0.7,` +
			`"providers":["default"],"tools":{"allow":["fs.*"],"deny":["fs.write"]},"mcp":["files"],"skills":["pdf"],` +
			`"budget":{"daily_tokens":5},"queue_mode":"steer","heartbeat":{"every":"30m",` +
			`"chat":"helper:cli:local:main","from":"07:00","to":"23:30"}}]}`,
	} {
		clean(t)
		if got := load(t, homeWith(t, name, content)).Agents.List(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	clean(t)
	t.Setenv("COREBOT_AGENTS",
		`[{"id":"main"},{"id":"helper","name":"Helper","think":"low","temperature":"0.7",`+
			`"providers":["default"],"tools":{"allow":["fs.*"],`+
			`"deny":["fs.write"]},"mcp":["files"],"skills":["pdf"],"budget":{"daily_tokens":5},"queue_mode":"steer",`+
			`"heartbeat":{"every":"30m","chat":"helper:cli:local:main","from":"07:00","to":"23:30"}}]`)
	if got := load(t, t.TempDir()).Agents.List(); !reflect.DeepEqual(got, want) {
		t.Errorf("by a variable: got %+v", got)
	}
}

func TestMistakesInAgentsAndRoutesAreRefusedWithTheirPlaceAndWhatToDo(t *testing.T) {
	for content, says := range map[string]string{
		"agents: text":                                       "agents is not a list",
		"agents: [text]":                                     "agents[0] is not an entry",
		"agents: [{}]":                                       `agents[0].id is ""`,
		"agents: [{id: Helper}]":                             `agents[0].id is "Helper"`,
		"agents: [{id: ../x}]":                               `agents[0].id is "../x"`,
		"agents: [{id: a, modle: b}]":                        `agents[0]: unknown key "modle"`,
		"agents: [{id: a, tools: {alow: []}}]":               `agents[0]: unknown key "tools.alow"`,
		"agents: [{id: a, tools: [x]}]":                      `agents[0]: unknown key "tools"`,
		"agents: [{id: a, think: hard}]":                     `agents[0].think is "hard"`,
		"agents: [{id: a, temperature: warm}]":               "agents[0].temperature is not a number",
		"agents: [{id: a, temperature: 2.5}]":                "agents[0].temperature is 2.5",
		"agents: [{id: a, temperature: true}]":               "agents[0].temperature is not a number",
		"agents: [{id: a, temperature: .inf}]":               "agents[0].temperature is not a number",
		"agents: [{id: a, budget: {daily_tokens: -1}}]":      "agents[0].budget.daily_tokens is -1",
		"agents: [{id: a, budget: {daily_cost: much}}]":      "agents[0].budget.daily_cost",
		"agents: [{id: a, budget: {daily_cost: '1'}}]":       "agents[0].budget.daily_cost caps a cost",
		"agents: [{id: a}, {id: a}]":                         `agents[1].id is "a", and so is another's`,
		"agents: [{id: a, queue_mode: fast}]":                `agents[0].queue_mode is "fast"`,
		"agents: [{id: a, providers: []}]":                   "agents[0].providers is empty",
		"agents: [{id: a, providers: [far]}]":                `agents[0].providers names "far"`,
		"agents: [{id: a, model: gpt-5}]":                    `agents[0].model is "gpt-5"`,
		"routes: [{agent: helper}]":                          `routes[0].agent is "helper"`,
		"routes: [{channel: webhook}]":                       "routes[0] names no agent",
		"routes: [{agent: main, chanel: webhook}]":           `routes[0]: unknown key "chanel"`,
		"agents: [{id: a}]\nroutes: [{agent: main}]":         `routes[0].agent is "main"`,
		"agents: [{id: a, Tools: {allow: [x]}, tools: {}}]x": "read ",
	} {
		clean(t)
		_, err := Load(homeWith(t, "corebot.yaml", content))
		if err == nil || !strings.Contains(err.Error(), says) || corebot.HintOf(err) == "" {
			t.Errorf("%s: got %v, hint %q; want %q", content, err, corebot.HintOf(err), says)
		}
	}
}

func TestTheFirstRouteThatMatchesNamesTheAgent(t *testing.T) {
	clean(t)
	c := load(t, homeWith(t, "corebot.yaml", `
agents: [{id: main}, {id: work}, {id: helper}]
routes:
- {channel: webhook, chat: c1, agent: helper}
- {channel: webhook, account: a, agent: work}
- {chat: everywhere, agent: work}
`))
	for _, chat := range []struct{ channel, account, chat, want string }{
		{"webhook", "", "c1", "helper"},
		{"webhook", "a", "c1", "helper"},
		{"webhook", "a", "c2", "work"},
		{"webhook", "", "c2", "main"},
		{"cli", "local", "everywhere", "work"},
		{"cli", "local", "c1", "main"},
	} {
		if got := c.AgentFor(chat.channel, chat.account, chat.chat); got != chat.want {
			t.Errorf("%+v: got %s", chat, got)
		}
	}
}

func TestAMessageFindsItsAgentWithoutReadingTheSettingsAgain(t *testing.T) {
	c := Defaults()
	c.Agents = NewEntries(AgentEntry{ID: "a"}, AgentEntry{ID: "b"})
	c.Routes = NewEntries(Route{Channel: "irc", Agent: "b"})
	route := c.Routing()
	if got := route("irc", "", "x") + route("cli", "", "x"); got != "ba" {
		t.Errorf("the agents are %q", got)
	}
	if n := testing.AllocsPerRun(100, func() { route("cli", "", "x") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWithoutAgentsThereIsOne(t *testing.T) {
	clean(t)
	c := load(t, t.TempDir())
	if list := c.AgentList(); len(list) != 1 || list[0].ID != corebot.DefaultAgent ||
		c.AgentFor("cli", "", "x") != corebot.DefaultAgent {
		t.Errorf("got %+v", list)
	}
	clean(t)
	c = load(t, homeWith(t, "corebot.yaml", "agents: [{id: b}, {id: a}]"))
	if got := c.AgentFor("cli", "", "x"); got != "b" {
		t.Errorf("without main, chats without a route go to %s", got)
	}
}
