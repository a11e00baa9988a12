package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/storage"
)

// openWebhook listens for programs that talk over HTTP.
func (a *App) openWebhook(ctx context.Context, r prometheus.Registerer) (_ *webhook.Webhook, err error) {
	c := a.config.Webhook
	o := webhook.Options{
		Routing: a.routing(), Addr: c.Addr, Token: c.Token.Reveal(), Secret: c.Secret.Reveal(),
		AllowedHosts: c.AllowedHosts.Values(), MaxBodyBytes: int64(c.MaxBodyBytes), MaxConnections: c.MaxConnections, MaxWaiting: c.MaxStreams,
		Interactive: a.config.WebhookInteractive(),
		Callback:    c.CallbackURL, CallbackSecret: c.CallbackSecret.Reveal(),
		Live: a.Live, Log: a.log, Metrics: r,
	}
	if a.config.MCP.Serve.HTTP {
		if o.Guest, err = a.webClients(ctx, r); err != nil {
			return nil, err
		}
	}
	if a.webhook, err = webhook.New(storage.NewMailbox(a.Store), o); err != nil {
		return nil, err
	}
	a.opened("webhook", a.webhook)
	return a.webhook, nil
}
