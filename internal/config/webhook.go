package config

import (
	"errors"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/listen"
	"github.com/corebot/corebot/internal/signedpost"
)

// minCredential is the least length of a token, and of the key in a signing secret, in bytes: 128 bits cannot be
// guessed.
const minCredential = 16

// How to make credentials, for hints.
const (
	makeToken  = "make one with: openssl rand -hex 24"
	makeSecret = "make one with: echo whsec_$(openssl rand -base64 24)"
)

// validate: nobody talks to the webhook without a credential, wherever it listens, and nothing is posted without a
// signature.
func (w Webhook) validate() error {
	if !w.Enabled {
		return nil
	}
	if err := isListener("webhook.addr", w.Addr, "127.0.0.1:8788"); err != nil {
		return err
	}
	if err := listen.CheckNames(w.AllowedHosts.Values()); err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	token, secret := w.Token.Reveal(), w.Secret.Reveal()
	if token == "" && secret == "" {
		return corebot.WithHint(errors.New(
			"webhook.enabled is true, and neither webhook.token nor webhook.secret is set"),
			"set webhook.token; "+makeToken)
	}
	if token != "" && len(token) < minCredential {
		return corebot.WithHint(fmt.Errorf("webhook.token has %d bytes, and the least is %d", len(token),
			minCredential), makeToken)
	}
	if secret != "" {
		if _, err := signedpost.ParseKey("webhook.secret", secret); err != nil {
			return err
		}
	}
	return w.validateCallback()
}

// WebhookInteractive says whether senders of the webhook may approve calls. MCP clients over HTTP have the credential
// of the webhook: with them any sender may be such a client.
func (c Config) WebhookInteractive() bool { return c.Webhook.Interactive && !c.MCP.Serve.HTTP }

func (w Webhook) validateCallback() error {
	return signedTo("webhook.callback_url", w.CallbackURL, "https://example.com/replies", "webhook.callback_secret",
		w.CallbackSecret)
}
