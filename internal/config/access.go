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
	Rule      string       `mapstructure:"access" oneof:"open,registered,allowlist" doc:"open is everybody; registered is whoever is in a chat that is registered (corebot chats register); allowlist is who is listed; what corebot chats set --access says of a chat comes before it"`
	Allowlist List[string] `mapstructure:"allowlist" doc:"with access allowlist: senders as webhook::alice, chats as main:webhook::family, or * for everybody; an empty list is nobody"`
}

// List is the allowlist of a kind of channel. [Load] has checked that it can be read.
func (a Access) List(kind string) (corebot.Allowlist, error) {
	return corebot.ParseAllowlist(kind, a.Allowlist.Values())
}

// validate refuses a list that nothing would read: whoever wrote it believes that others are kept out.
func (a Access) validate(kind string, account ...string) error {
	section := strings.Join(append([]string{"channels", kind}, account...), ".")
	if a.Rule != "allowlist" && a.Allowlist != (List[string]{}) {
		return corebot.WithHint(fmt.Errorf("%s.allowlist is set, and %s.access is %s", section, section, a.Rule),
			"set access to allowlist, or take the list away")
	}
	if _, err := a.List(kind); err != nil {
		return fmt.Errorf("%s.allowlist: %w", section, err)
	}
	return nil
}

func (c Channels) validate() error {
	return cmp.Or(c.CLI.validate("cli"), c.Webhook.validate("webhook"), c.MCP.validate("mcp"))
}

// Approvals says which calls of tools run only after an admin has said so.
type Approvals struct {
	Mode    string        `mapstructure:"mode" oneof:"tainted,always,never" doc:"which privileged calls, those that not everyone may make, wait for an admin's approval: those of turns that have read text from outside, all, or none"`
	Always  List[string]  `mapstructure:"always" doc:"tools that wait for an admin's approval in every turn, privileged or not: names, or beginnings and *"`
	Tainted List[string]  `mapstructure:"tainted" doc:"the same in turns that have read text from outside, such as [\"web.fetch\"]"`
	Expiry  time.Duration `mapstructure:"expiry" min:"1s" doc:"how long a call waits for an approval; then it is denied"`
}

func defaultApprovals() Approvals { return Approvals{Mode: "tainted", Expiry: 15 * time.Minute} }
