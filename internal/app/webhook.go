package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot/channels/webhook"
	"github.com/corebot/corebot/storage"
)

// openWebhook listens for programs that talk over HTTP.
func (a *App) openWebhook(r prometheus.Registerer) (_ *webhook.Webhook, err error) {
	c := a.config.Webhook
	a.webhook, err = webhook.New(storage.NewMailbox(a.Store), webhook.Options{
		Addr: c.Addr, Token: c.Token.Reveal(), Secret: c.Secret.Reveal(),
		MaxBodyBytes: int64(c.MaxBodyBytes), MaxConnections: c.MaxConnections, MaxWaiting: c.MaxStreams,
		Callback: c.CallbackURL, CallbackSecret: c.CallbackSecret.Reveal(),
		Live: a.Live, Log: a.log, Metrics: r,
	})
	if err != nil {
		return nil, err
	}
	a.opened("webhook", a.webhook)
	return a.webhook, nil
}

const (
	sweepEvery = time.Hour
	sweepChunk = 500 // rows a commit: the writer is never held for long
)

// sweepMailbox drops replies that nobody fetched within the retention time, every hour, in small batches.
func (a *App) sweepMailbox(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	box := storage.NewMailbox(a.Store)
	for {
		for ctx.Err() == nil {
			n, err := box.Sweep(ctx, time.Now().Add(-a.config.Webhook.Retention), sweepChunk)
			if err != nil && ctx.Err() == nil {
				a.log.Warn().Err(err).Msg("sweep the mailbox")
			}
			if err != nil || n < sweepChunk {
				break
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
