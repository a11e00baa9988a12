package app

import (
	"cmp"
	"strings"

	"github.com/corebot/corebot/internal/config"
)

// AgentInfo is what the settings say of an agent.
type AgentInfo struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Workspace   string   `json:"workspace"`
	MCPFile     string   `json:"mcpFile"`
	Model       string   `json:"model,omitempty"` // empty: the first of the providers that answers
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

// Agents are the agents of the settings, in their order.
func Agents(c config.Config) (all []AgentInfo) {
	for _, a := range c.AgentList() {
		p := place{c.Home, a.ID}
		all = append(all, AgentInfo{
			ID: a.ID, Name: cmp.Or(a.Name, a.ID), Workspace: p.workspace(), MCPFile: p.mcpFile(),
			Model: a.Model, Think: a.Think, Temperature: string(a.Temperature), Tools: a.Tools.Allow.Values(), Denied: a.Tools.Deny.Values(),
			MCP: a.MCP.Values(), Skills: a.Skills.Values(), DailyTokens: a.Budget.DailyTokens, DailyCost: a.Budget.DailyCost,
			QueueMode: cmp.Or(a.QueueMode, c.Bus.QueueMode), Routes: routesOf(c, a.ID),
		})
	}
	return all
}

func routesOf(c config.Config, agent string) []string {
	routes := []string{}
	for _, r := range c.Routes.List() {
		if r.Agent != agent {
			continue
		}
		var parts []string
		for _, p := range []struct{ name, value string }{{"channel", r.Channel}, {"account", r.Account}, {"chat", r.Chat}} {
			if p.value != "" {
				parts = append(parts, p.name+" "+p.value)
			}
		}
		routes = append(routes, cmp.Or(strings.Join(parts, ", "), "everything"))
	}
	if agent == c.DefaultAgent() {
		routes = append(routes, "what no route matches")
	}
	return routes
}
