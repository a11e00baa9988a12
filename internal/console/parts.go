package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

type channelsData struct {
	operate.Page[operate.ChannelAccount]
	Pairings []operate.Pairing `json:"pairings"`
}

// channels shows how the accounts of channels are doing, and who asks to be let in.
func (c *Console) channels(v *visit) error {
	found, err := v.service().ListChannels(v.ctx(), v.part())
	if err != nil {
		return err
	}
	pairings, err := v.service().ListPairings(v.ctx(), operate.PairingQuery{Part: operate.Part{Limit: pageRows}})
	if err != nil {
		return err
	}
	return v.show(page{Name: "channels", Title: "Channels", Data: channelsData{found, pairings.Rows}, Live: true})
}

// changeChannel tries the settings of an account, or begins its connection anew.
func (c *Console) changeChannel(v *visit) error {
	name := operate.AccountName{Kind: v.r.PostFormValue("kind"), Account: v.r.PostFormValue("account")}
	said, done := "", operate.Done{Changed: 1}
	var err error
	switch v.r.PathValue("action") {
	case "check":
		said, err = c.opts.Facts.CheckAccount(v.ctx(), name)
		done.Changed, done.Why = 0, said
	case "restart":
		done, err = v.service().RestartChannel(v.ctx(), name)
		said = name.String() + " connects anew."
	default:
		err = errNoPage
	}
	if err != nil {
		return err
	}
	return v.back(done, said, "/channels")
}

func (c *Console) decidePairing(v *visit) error {
	decision := operate.PairingDecision{Code: v.r.PathValue("code")}
	switch answer := v.r.PostFormValue("answer"); answer {
	case "pair":
		decision.State = corebot.PairingPaired
	case "deny":
		decision.State = corebot.PairingDenied
	default:
		return fmt.Errorf("%w: a pairing cannot be answered with %q", corebot.ErrInvalid, clip(100, answer))
	}
	p, err := v.service().DecidePairing(v.ctx(), decision)
	if err != nil {
		return err
	}
	return v.back(p, corebot.Plainly(p.Principal)+" is "+string(p.State)+".", "/channels")
}

// agentOf is the agent that the address means.
func (v *visit) agentOf() string {
	return cmp.Or(v.r.PathValue("agent"), v.r.FormValue("agent"), v.console.opts.Facts.KnownAgents()[0])
}

type serversData struct {
	operate.MCPServers
	Agent  string   `json:"agent"`
	Agents []string `json:"-"`
}

func (c *Console) servers(v *visit) error {
	d := serversData{Agent: v.agentOf(), Agents: c.opts.Facts.KnownAgents()}
	var err error
	d.MCPServers, err = v.service().ListServers(v.ctx(), operate.ServersQuery{
		ByAgent: operate.ByAgent{Agent: d.Agent}, Part: v.part(),
	})
	if err != nil {
		return err
	}
	return v.show(page{Name: "mcp", Title: "MCP servers", Data: d})
}

type serverData struct {
	operate.MCPTools
	Agent  string `json:"agent"`
	Server string `json:"server"`
	More   string `json:"more,omitempty"`
	// how the server is doing; nil: its file has been changed meanwhile
	Now *operate.MCPServer `json:"now,omitempty"`
}

// server shows what a server says of its tools, with the fingerprints that an approval takes.
func (c *Console) server(v *visit) error {
	d := serverData{Agent: v.agentOf(), Server: v.r.PathValue("server")}
	var err error
	d.MCPTools, err = v.service().ShowServer(v.ctx(), operate.ToolsQuery{
		ByAgent: operate.ByAgent{Agent: d.Agent}, Server: d.Server, Part: v.part(),
	})
	if err != nil {
		return err
	}
	d.More = v.more(d.Next)
	all, err := v.service().ListServers(v.ctx(), operate.ServersQuery{ByAgent: operate.ByAgent{Agent: d.Agent}})
	if err != nil {
		return err
	}
	for i := range all.Rows {
		if all.Rows[i].Name == d.Server {
			d.Now = &all.Rows[i]
		}
	}
	return v.show(page{Name: "server", Title: corebot.Plainly(d.Server), Data: d})
}

// approveTools takes the tools that are ticked, as they were shown.
func (c *Console) approveTools(v *visit) error {
	if err := v.r.ParseForm(); err != nil {
		return err
	}
	a := operate.ToolApproval{
		ByAgent: operate.ByAgent{Agent: v.agentOf()}, Server: v.r.PathValue("server"),
		Fingerprints: map[string]string{},
	}
	for _, pair := range v.r.PostForm["tool"] {
		fingerprint, tool, ok := strings.Cut(pair, " ")
		if !ok {
			return fmt.Errorf("%w: the form has no fingerprint of a tool", corebot.ErrInvalid)
		}
		a.Fingerprints[tool] = fingerprint
		if slices.Contains(v.r.PostForm["readonly"], tool) {
			a.ReadOnly = append(a.ReadOnly, tool)
		}
	}
	if len(a.Fingerprints) == 0 {
		return corebot.WithHint(fmt.Errorf("%w: no tool is ticked", corebot.ErrInvalid),
			"tick the tools that you have read")
	}
	done, err := v.service().ApproveTools(v.ctx(), a)
	if err != nil {
		return err
	}
	return v.back(done, strconv.Itoa(done.Changed)+" tools are approved.",
		"/mcp/"+url.PathEscape(a.Agent)+"/"+url.PathEscape(a.Server))
}

func (c *Console) reloadServers(v *visit) error {
	done, err := v.service().ReloadServers(v.ctx(), operate.ServersQuery{ByAgent: operate.ByAgent{Agent: v.agentOf()}})
	if err != nil {
		return err
	}
	return v.back(done, "The file of MCP servers was read again.", "/mcp")
}

type skillsData struct {
	operate.Skills
	Agent  string   `json:"agent"`
	Agents []string `json:"-"`
	More   string   `json:"more,omitempty"`
}

func (c *Console) skills(v *visit) error {
	d := skillsData{Agent: v.agentOf(), Agents: c.opts.Facts.KnownAgents()}
	var err error
	d.Skills, err = v.service().ListSkills(v.ctx(), operate.SkillsQuery{
		ByAgent: operate.ByAgent{Agent: d.Agent}, Part: v.part(),
	})
	if err != nil {
		return err
	}
	d.More = v.more(d.Next)
	return v.show(page{Name: "skills", Title: "Skills", Data: d})
}

func (c *Console) skill(v *visit) error {
	d, err := v.service().ShowSkill(v.ctx(), operate.SkillName{
		ByAgent: operate.ByAgent{Agent: v.agentOf()}, Name: v.r.PathValue("name"),
	})
	if err != nil {
		return err
	}
	return v.show(page{Name: "skill", Title: corebot.Plainly(d.Name), Data: d})
}
