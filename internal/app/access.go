package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
)

// openDoor makes the front door: on a channel that is not named here nobody may talk.
func (a *App) openDoor(r prometheus.Registerer) error {
	access := map[string]policy.Access{}
	for channel, set := range map[string]config.Access{"cli": a.config.Channels.CLI, webhook.Channel: a.config.Channels.Webhook} {
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
		Agent: corebot.DefaultAgent, Access: access, Trail: storage.NewAudit(a.Store), Log: a.log, Metrics: r,
	})
	return err
}

// bootstrap is how the first admin is made.
func bootstrap(c config.Admin) (policy.Bootstrap, error) {
	b, err := policy.NewBootstrap(c.BootstrapKey.Reveal(), c.BootstrapMaxAttempts, c.BootstrapLockout)
	if err != nil {
		return b, fmt.Errorf("admin.bootstrap_key: %w", err)
	}
	return b, nil
}
