package app

import (
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/policy"
)

// SenderLike gives the sender that a principal with this id is in its channel. known says whether this version has the
// channel.
func SenderLike(p corebot.Principal) (sender corebot.Principal, known bool) {
	for _, k := range kinds() {
		if k.Kind == p.Channel {
			return corebot.Principal{Channel: k.Kind, Account: k.Name, ID: p.ID}, true
		}
	}
	return corebot.Principal{Channel: p.Channel, ID: p.ID}, false
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
