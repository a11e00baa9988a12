package config

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/corebot/corebot"
)

// Access says who may talk on a channel.
type Access struct {
	Rule      string       `mapstructure:"access" oneof:"open,registered,allowlist"`
	Allowlist List[string] `mapstructure:"allowlist"`
}

// List is the allowlist of a kind of channel. [Load] has checked that it can be read.
func (a Access) List(kind string) (corebot.Allowlist, error) {
	return corebot.ParseAllowlist(kind, a.Allowlist.Values())
}

// validate refuses a list that nothing would read: whoever wrote it believes that others are kept out.
func (a Access) validate(kind string, account ...string) error {
	section := strings.Join(append([]string{"channels", kind}, account...), ".")
	if a.Rule != "allowlist" && a.Rule != "pairing" && a.Allowlist != (List[string]{}) {
		return corebot.WithHint(fmt.Errorf("%s.allowlist is set, and %s.access is %s", section, section, a.Rule),
			"set access to allowlist, or take the list away")
	}
	if _, err := a.List(kind); err != nil {
		return fmt.Errorf("%s.allowlist: %w", section, err)
	}
	return nil
}

func (c Channels) validate() error {
	return cmp.Or(c.CLI.validate("cli"), c.Webhook.validate("webhook"), c.MCP.validate("mcp"), c.API.validate("api"))
}

// Approvals says which calls of tools run only after an admin has said so.
type Approvals struct {
	Mode    string        `mapstructure:"mode" oneof:"tainted,always,never"`
	Always  List[string]  `mapstructure:"always"`
	Tainted List[string]  `mapstructure:"tainted"`
	Expiry  time.Duration `mapstructure:"expiry" min:"1s"`
	// AnswerAfter is how long an answer waits before it comes without the call; 0: as long as Expiry says.
	AnswerAfter time.Duration `mapstructure:"answer_after" min:"0s"`
}

func defaultApprovals() Approvals {
	return Approvals{Mode: "tainted", Expiry: 15 * time.Minute, AnswerAfter: 2 * time.Minute}
}
