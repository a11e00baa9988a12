package app

import (
	"context"
	"os"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
)

// Reload reads the settings again and applies what can be applied. Settings that cannot be read, or that are refused,
// change nothing.
func (a *App) Reload() (r operate.Reloaded, err error) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	fresh, err := config.Load(a.config.Home, networkSettings(a.networks)...)
	if err != nil {
		return r, err
	}
	if err := Check(fresh); err != nil { // what holds from the next start on must not keep that from happening
		return r, err
	}
	if w := &fresh.Webhook; a.webhook != nil && !w.Enabled && w.Token.Reveal() == "" && w.Secret.Reveal() == "" {
		// it listens until the restart, and not to everybody
		w.Token, w.Secret = a.inForce.Webhook.Token, a.inForce.Webhook.Secret
	}
	r.Applied, r.Restart = config.Diff(a.inForce, fresh)
	// Loading has checked all values by themselves; only this one depends on what is bound, so it goes first.
	if a.server != nil {
		if err := a.server.SetToken(fresh.Observability.Token.Reveal()); err != nil {
			return operate.Reloaded{}, err
		}
	}
	if a.webhook != nil {
		if err := a.webhook.SetCredentials(fresh.Webhook.Token.Reveal(), fresh.Webhook.Secret.Reveal()); err != nil {
			return operate.Reloaded{}, err
		}
	}
	if err := a.level.Set(fresh.Log.Level); err != nil {
		return operate.Reloaded{}, err
	}
	if err := a.redactor.Learn(fresh.Secrets()); err != nil {
		return operate.Reloaded{}, err
	}
	a.adopt(fresh)
	a.log.Info().Strs("applied", r.Applied).Strs("restart", r.Restart).Msg("settings reloaded")
	return r, nil
}

// adopt notes the settings that are in force now: the ones that were applied, and the old ones of what needs a restart.
func (a *App) adopt(fresh config.Config) {
	a.inForce.Log.Level = fresh.Log.Level
	a.inForce.Webhook.Token, a.inForce.Webhook.Secret = fresh.Webhook.Token, fresh.Webhook.Secret
	a.inForce.Observability.Token = fresh.Observability.Token
}

// ReloadOn reloads the settings and the MCP servers whenever something comes from signals, until ctx ends.
func (a *App) ReloadOn(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		if _, err := a.Reload(); err != nil {
			a.log.Error().Err(err).Str("hint",
				corebot.HintOf(err)).Msg("the settings were not reloaded; nothing has changed")
		}
		a.agents.reloadServers(ctx)
	}
}
