package app

// WebhookAddr is where the webhook listens, also when the settings left the port open; empty if it does not.
func (a *App) WebhookAddr() string {
	if a.webhook == nil {
		return ""
	}
	return a.webhook.Addr()
}

// ObservabilityAddr is where /health, /ready, /metrics and /status are; empty if they are not.
func (a *App) ObservabilityAddr() string {
	if a.server == nil {
		return ""
	}
	return a.server.Addr()
}
