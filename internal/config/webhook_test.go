package config

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/corebot/corebot"
)

func TestAWebhookWithoutAGoodCredentialIsRefusedWithItsKeyAndWhatToDo(t *testing.T) {
	short := "whsec_" + base64.StdEncoding.EncodeToString([]byte("15 bytes hidden"))
	const callback = ", token: 0123456789abcdef, callback_url: 'https://example.com/x'"
	for name, c := range map[string]struct{ settings, says, hint string }{
		"neither": {"", "neither webhook.token nor webhook.secret is set", "openssl rand -hex 24"},
		"an empty token": {
			", token: ''", "neither webhook.token nor webhook.secret is set",
			"openssl rand -hex 24",
		},
		"a short token": {", token: hidden789abcdef", "webhook.token has 15 bytes", "openssl rand -hex 24"},
		"a short one of two": {
			", token: hidden789abcdef, secret: " + signingSecret, "webhook.token has 15 bytes",
			"openssl rand -hex 24",
		},
		"a token with spaces": {
			", token: 'hidden and longer than 16'", "webhook.token has a character",
			"visible ASCII",
		},
		"a secret without prefix": {
			", secret: hidden6789abcdef0123456789abcdef",
			"webhook.secret does not begin with whsec_", "echo whsec_$(openssl",
		},
		"a secret not in base64": {
			", secret: 'whsec_hidden-hidden-hidden-hidden'", "webhook.secret is not base64",
			"echo whsec_$(openssl",
		},
		"a secret with odd bits": {
			", secret: 'whsec_MDEyMzQ1Njc4OWFiY2RlZh=='", "webhook.secret is not base64",
			"echo whsec_$(openssl",
		},
		"a short secret": {
			", secret: " + short, "webhook.secret is base64 of 15 bytes",
			"echo whsec_$(openssl",
		},
		"a bad one of two": {
			", token: 0123456789abcdef, secret: " + short,
			"webhook.secret is base64 of 15 bytes", "echo whsec_$(openssl",
		},
		"an address without port": {", addr: 127.0.0.1, token: 0123456789abcdef", "webhook.addr", "127.0.0.1:8788"},
		"a host with its scheme": {
			", token: 0123456789abcdef, allowed_hosts: ['https://bot.example.com']",
			"webhook: invalid: allowed_hosts has", "without scheme and port",
		},
		"a callback to nowhere": {
			", token: 0123456789abcdef, callback_url: 'u:hidden@example.com'",
			"webhook.callback_url is not an address", "https://",
		},
		"a callback by mail": {
			", token: 0123456789abcdef, callback_url: 'mailto:hidden@example.com'",
			"webhook.callback_url is not an address", "https://",
		},
		"a callback unsigned": {callback, "webhook.callback_secret is not", "echo whsec_$(openssl"},
		"a callback badly signed": {
			callback + ", callback_secret: " + short,
			"webhook.callback_secret is base64 of 15 bytes", "echo whsec_$(openssl",
		},
		"a callback not in base64": {
			callback + ", callback_secret: whsec_hidden!",
			"webhook.callback_secret is not base64", "echo whsec_$(openssl",
		},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			_, err := Load(homeWith(t, "corebot.yaml", "webhook: {enabled: true"+c.settings+"}"))
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(corebot.HintOf(err), c.hint) {
				t.Fatalf("got %v (hint %q), want %q and %q", err, corebot.HintOf(err), c.says, c.hint)
			}
			if text := err.Error() + corebot.HintOf(err); strings.Contains(text, "hidden") ||
				strings.Contains(text, short) {
				t.Errorf("the secret shows: %s", text)
			}
		})
	}
}

func TestAWebhookWithACredentialMayListenAnywhere(t *testing.T) {
	for name, settings := range map[string]string{
		"a token":                "token: 0123456789abcdef",
		"a secret":               "secret: " + signingSecret,
		"both":                   "token: 0123456789abcdef, secret: " + signingSecret,
		"a secret as hints say":  "secret: whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 24)),
		"a reference":            "token: env:HOOK",
		"all interfaces":         "token: 0123456789abcdef, addr: ':8788'",
		"another machine's name": "token: 0123456789abcdef, addr: 'example.com:0'",
		"a callback that is whole": "token: 0123456789abcdef, callback_url: 'http://127.0.0.1:1/x', callback_secret: " +
			signingSecret,
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			t.Setenv("HOOK", "0123456789abcdef")
			load(t, homeWith(t, "corebot.yaml", "webhook: {enabled: true, "+settings+"}"))
		})
	}
}

func TestTheLengthThatCountsIsThatOfTheSecretAndNotOfItsReference(t *testing.T) {
	clean(t)
	t.Setenv("A_VARIABLE_WITH_A_LONG_NAME", "short")
	_, err := Load(homeWith(t, "corebot.yaml", "webhook: {enabled: true, token: env:A_VARIABLE_WITH_A_LONG_NAME}"))
	if err == nil || !strings.Contains(err.Error(), "webhook.token has 5 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestAWebhookThatIsOffNeedsNothing(t *testing.T) {
	clean(t)
	load(t, homeWith(t, "corebot.yaml", "webhook: {token: short, secret: short, callback_url: nowhere}"))
}

func TestTheWebhookIsForPeopleUnlessItIsSaidOrMCPClientsShareItsCredential(t *testing.T) {
	c := Defaults()
	if !c.WebhookInteractive() {
		t.Error("not by default")
	}
	c.MCP.Serve.HTTP = true
	if c.WebhookInteractive() {
		t.Error("beside MCP clients")
	}
	c = Defaults()
	c.Webhook.Interactive = false
	if c.WebhookInteractive() {
		t.Error("though the settings say no")
	}
}
