package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/mcp/serve"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// openDoor makes the front door: on a channel that is not named here nobody may talk.
func (a *App) openDoor(r prometheus.Registerer) error {
	access := map[string]policy.Access{}
	for channel, set := range map[string]config.Access{"cli": a.config.Channels.CLI, webhook.Channel: a.config.Channels.Webhook, serve.Channel: a.config.Channels.MCP} {
		list, err := set.List(channel)
		if err != nil {
			return err
		}
		if access[channel], err = policy.NewAccess(policy.AccessRule(set.Rule), list); err != nil {
			return fmt.Errorf("channels.%s.access: %w", channel, err)
		}
	}
	var err error
	a.door, err = channels.NewFrontDoor(a.Bus, a.router, storage.NewChats(a.Store), channels.DoorOptions{
		Routing: a.routing(), Agents: a.agentIDs(), Access: access, Trail: storage.NewAudit(a.Store), Log: a.log, Metrics: r,
	})
	return err
}

// accounts are those under which the channels of this version have their senders.
var accounts = map[string]string{corebot.TerminalChannel: corebot.TerminalAccount, webhook.Channel: "", serve.Channel: ""}

// SenderLike gives the sender that a principal with this id is in its channel. known says whether this version has the channel.
func SenderLike(p corebot.Principal) (sender corebot.Principal, known bool) {
	account, known := accounts[p.Channel]
	return corebot.Principal{Channel: p.Channel, Account: account, ID: p.ID}, known
}

// CanSpeak says whether a principal can be the sender of a message: the last admin is one who can.
func CanSpeak(p corebot.Principal) bool {
	sender, known := SenderLike(p)
	return known && sender == p
}

// Rules makes the policy of a configuration. A grant that opens nothing is an error that names tools.grants, a pattern that means nothing one that names
// approvals.
func Rules(c config.Config) (*policy.Policy, error) {
	o, err := policyOptions(c)
	if err != nil {
		return nil, err
	}
	p, err := policy.New(o)
	if err != nil {
		return nil, fmt.Errorf("tools.grants: %w", err)
	}
	return p, nil
}

func policyOptions(c config.Config) (policy.Options, error) {
	approvals := policy.Approvals{Mode: policy.ApprovalMode(c.Approvals.Mode), Always: c.Approvals.Always.Values(), Tainted: c.Approvals.Tainted.Values()}
	if err := approvals.Validate(); err != nil {
		return policy.Options{}, fmt.Errorf("approvals: %w", err)
	}
	return policy.Options{ShellEnabled: c.Tools.Shell.Enabled, Grants: c.Tools.Grants.List(), Approvals: approvals}, nil
}

// bootstrap is how the first admin is made.
func bootstrap(c config.Admin) (policy.Bootstrap, error) {
	b, err := policy.NewBootstrap(c.BootstrapKey.Reveal(), c.BootstrapMaxAttempts, c.BootstrapLockout)
	if err != nil {
		return b, fmt.Errorf("admin.bootstrap_key: %w", err)
	}
	return b, nil
}
