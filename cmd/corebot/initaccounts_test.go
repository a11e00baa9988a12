package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/channels/irc/irctest"
	"github.com/corebot/corebot/channels/slack/slacktest"
)

// initWith runs init in a home with the settings of an account, and answers what comes before the network.
func initWith(t *testing.T, network, account, secret string) (*service, *screen) {
	t.Helper()
	s := newHome(t)
	s.env = []string{"COREBOT_LLM_OFFLINE=", "COREBOT_WEBHOOK_ADDR="}
	text := fmt.Sprintf("channels:\n  %s:\n    main:\n      access: open\n      %s\nllm:\n  offline: true\n", network,
		strings.ReplaceAll(account, "\n", "\n      "))
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		t.Fatal(err)
	}
	writeSecret(t, s, "corebot.yaml", text)
	writeSecret(t, s, network+".password", secret)
	c := startScreen(t, s.command(t.Context(), "init"), 250, 40)
	c.answer(0, "Which model answers", "offline")
	c.answer(0, "What may it do", "")
	c.answer(0, "HTTP", "")
	c.answer(0, "Which chat network", network)
	return s, c
}

func writeSecret(t *testing.T, s *service, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.home, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// endsWith answers the last questions, and has the account checked as the home now has it.
func endsWith(t *testing.T, s *service, c *screen, mark int, network, known string, secrets ...string) {
	t.Helper()
	c.await(mark, "known as "+known)
	c.answer(mark, "Which other", "") // of the chat networks
	c.answer(mark, "Write it?", "")
	if code := c.ends(); code != 0 {
		t.Fatalf("it ended with %d:\n%s", code, c.seen())
	}
	for _, secret := range secrets {
		if strings.Contains(c.seen(), secret) || strings.Contains(s.settings(), secret) {
			t.Errorf("%s is shown:\n%s\nthe settings:\n%s", secret, c.seen(), s.settings())
		}
	}
	if got := s.output("channels", "check", network); !strings.Contains(got, "known as "+known) {
		t.Errorf("then a check says %s", got)
	}
}

// Slack wants two tokens, and each is refused by itself.
func TestInitTriesBothTokensOfSlack(t *testing.T) {
	t.Parallel()
	platform := slacktest.New()
	t.Cleanup(platform.Close)
	const foreign, foreignApp = "xoxb-1234567890-of-another", "xapp-1-A1234567890-of-another"
	account := fmt.Sprintf("token: %s\napp_token: %s\napi_url: %q", foreign, foreignApp, platform.URL())
	s, c := initWith(t, "slack", account, "")
	mark := 0
	tokens := func(token, app string) {
		c.answer(mark, "Bot token of the app", token)
		c.await(mark, "App-level token")
		next := c.mark()
		c.press(app + "\r")
		mark = next
	}
	tokens(foreign, slacktest.AppToken)
	c.await(mark, "the token is unknown to Slack")
	c.await(mark, "channels.slack.main.token")
	c.answer(mark, "What now", "")
	tokens(slacktest.Token, foreignApp)
	c.await(mark, "the token is unknown to Slack")
	c.await(mark, "channels.slack.main.app_token")
	c.answer(mark, "What now", "")
	tokens(slacktest.AppToken, slacktest.Token) // one for the other
	c.answer(mark, "What now", "")
	tokens(slacktest.Token, slacktest.AppToken)
	endsWith(t, s, c, mark, "slack", "corebot in", slacktest.Token, slacktest.AppToken)
}

// Init asks for server and nick. The password of the services account stands in the settings, and is tried with them.
func TestInitTriesServerAndPasswordOfIRC(t *testing.T) {
	t.Parallel()
	platform := irctest.New(nil)
	t.Cleanup(platform.Close)
	const wrong = "not-the-password"
	s, c := initWith(t, "irc", "addr: 127.0.0.1:1\ntls: false\npassword: file:irc.password", wrong+"\n")
	c.answer(0, "Server, HOST:PORT [127.0.0.1:1]", "")
	c.await(0, "Nick of Corebot [corebot]")
	mark := c.mark()
	c.press("\r")
	c.await(mark, "connection refused")
	c.answer(mark, "What now", "")
	c.answer(mark, "Server, HOST:PORT", platform.Addr())
	c.await(mark, "Nick of Corebot")
	mark = c.mark()
	c.press("\r")
	c.await(mark, "the server refuses the services account and its password")
	writeSecret(t, s, "irc.password", irctest.Password+"\n")
	c.answer(mark, "What now", "")
	c.answer(mark, "Server, HOST:PORT ["+platform.Addr()+"]", "")
	c.await(mark, "Nick of Corebot")
	mark = c.mark()
	c.press("\r")
	endsWith(t, s, c, mark, "irc", "corebot", wrong, irctest.Password)
	if !strings.Contains(s.settings(), platform.Addr()) || !strings.Contains(s.settings(), "file:irc.password") {
		t.Errorf("the settings:\n%s", s.settings())
	}
}
