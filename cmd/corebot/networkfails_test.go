package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/long"
)

// failing are accounts that cannot work, each for a reason of its own, and a word of what mends it.
func failing(t *testing.T) (settings string, hints map[string]string, mend func()) {
	t.Helper()
	discord, slack := openDiscord(t, 1).(*discordPlatform), openSlack(t, 1).(*slackPlatform)
	matrix, post := openMatrix(t, 1).(*matrixPlatform), openMail(t, 1).(*mailPlatform)
	discord.Revoke()
	slack.Revoke()
	matrix.Revoke(false)
	post.Revoke(true)
	server := openIRC(t, 1).(*ircPlatform)
	unknown := strings.Replace(telegramtest.Token, "test", "gone", 1)
	bot := openTelegram(t, 1).(*telegramPlatform)
	settings = fmt.Sprintf("    wrong: {token: %q, api_url: %q, access: open}\n", unknown, bot.URL()) +
		fmt.Sprintf("    away: {token: %q, api_url: %q, access: open}\n", unknown, "http://127.0.0.1:1") +
		"  discord:\n    main: " + discord.settings() + "\n  slack:\n    main: " + slack.settings() +
		"\n  matrix:\n    main: " + matrix.settings() + "\n  mail:\n    main: " + post.settings() +
		"\n  irc:\n    main: " + ircSettings("127.0.0.1:1") + "\n    login: " +
		strings.Replace(ircSettings(server.Addr()), "{", "{user: corebot, password: wrong, ", 1) + "\n"
	return settings, map[string]string{
		"telegram:wrong": "@BotFather", "telegram:away": "network", "discord:main": "token", "slack:main": "token",
		"matrix:main": "token", "mail:main": "password", "irc:main": "addr", "irc:login": "password",
	}, discord.Restore
}

// TestFailingAccountsSayWhatMendsThemAndHoldUpNoOther has one account of many that works.
func TestFailingAccountsSayWhatMendsThemAndHoldUpNoOther(t *testing.T) {
	long.Only(t, "TestStories")
	t.Parallel()
	b := besiegeWith(t, networks[0], func(llmtest.Request) llmtest.Answer { return llmtest.Text("here I am") })
	settings, hints, mend := failing(t)
	f, err := os.OpenFile(filepath.Join(b.home, "corebot.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(settings)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	b.checked(hints)
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	// Accounts that fail make a ready program a degraded one, sooner or later than the first look.
	b.await("it is ready", func() bool { return strings.HasPrefix(b.ask("/ready"), "ready\n") })
	b.platform.say(0, "are you there?")
	b.await("the account that works answers", func() bool { return slices.Contains(b.platform.shown(0), "here I am") })
	b.await("the others have failed", func() bool { return len(b.accounts("failed")) == len(hints) })
	for name := range hints {
		if out := b.output("channels", "restart", name); !strings.Contains(out, name) {
			t.Errorf("the restart of %s says %q", name, out)
		}
	}
	mend()
	b.await("the account that was mended works", func() bool {
		return slices.Contains(b.accounts("running"), "discord:main")
	})
	b.platform.say(0, "and now?")
	b.await("it is answered", func() bool { return len(b.platform.shown(0)) == 2 })
	delete(hints, "discord:main")
	b.checked(hints)
	b.terminate()
}

// checked has every account checked: those with a hint fail with it, and all others do not fail.
func (b *besieged) checked(hints map[string]string) {
	b.t.Helper()
	out, err := b.command(b.t.Context(), "channels", "check", "--json").Output()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		b.t.Fatalf("the check ended with %v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		var c app.Checked
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			b.t.Fatal(err)
		}
		hint, fails := hints[c.Account.String()]
		if c.OK == fails || !strings.Contains(c.Advice, hint) || fails && c.Advice == "" {
			b.t.Errorf("the check says %+v", c)
		}
	}
}

// accounts are those in a state, as `corebot channels list` has them.
func (b *besieged) accounts(state string) (names []string) {
	b.t.Helper()
	for line := range strings.Lines(b.output("channels", "list", "--json")) {
		var c struct{ Kind, Account, State, LastError string }
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			b.t.Fatal(err)
		}
		if c.State != state {
			continue
		}
		if state == "failed" && c.LastError == "" {
			b.t.Errorf("nobody says why %s:%s has failed", c.Kind, c.Account)
		}
		names = append(names, c.Kind+":"+c.Account)
	}
	return names
}
