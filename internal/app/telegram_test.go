package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
)

var (
	telegramAnn = telegramtest.Ann
	telegramEve = telegramtest.User{ID: 66, FirstName: "Ann"} // who has taken Ann's name
)

// telegramHome is a home whose one network is a bot on a platform of the test.
func telegramHome(t *testing.T, more string) (*telegramtest.Server, config.Config) {
	t.Helper()
	s := telegramtest.New()
	t.Cleanup(func() {
		s.Close()
		for _, c := range s.Complaints() {
			t.Errorf("the platform complains: %s", c)
		}
	})
	home := t.TempDir()
	text := `
llm: {offline: true}
observability: {enabled: false}
channels:
  telegram:
    main: {token: file:telegram.token, api_url: "` + s.URL() + `", access: open}
` + more
	for name, content := range map[string]string{"corebot.yaml": text, "telegram.token": telegramtest.Token + "\n"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := app.LoadConfig(home)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// seen waits until a chat shows a message with these words.
func seen(t *testing.T, s *telegramtest.Server, chat int64, words string) telegramtest.Shown {
	t.Helper()
	var found telegramtest.Shown
	until(t, fmt.Sprintf("%d shows %q", chat, words), func() bool {
		all := s.Shown(chat)
		i := slices.IndexFunc(all, func(m telegramtest.Shown) bool { return strings.Contains(m.Text, words) })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

func TestARequestIsApprovedByTheButtonOfWhoMayApprove(t *testing.T) {
	s, c := telegramHome(t, "approvals: {always: [fs.write]}\n")
	err := app.Change(t.Context(), c.Home, func(c control.Caller) error {
		_, err := operate.GrantRole.Call(t.Context(), c, corebot.Grant{
			Principal: corebot.Principal{Channel: "telegram", Account: "main", ID: fmt.Sprint(telegramAnn.ID)},
			Role:      corebot.RoleAdmin,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	serveLines(t, c)
	group := telegramtest.Chat{ID: -1001, Type: "supergroup", Title: "All", IsForum: true}
	s.Say(telegramtest.Said{
		Chat: group, Thread: 7, From: telegramEve,
		Text: `@corebot_bot /tool fs.write {"path":"notes/a.md","content":"one"}`,
		More: map[string]any{"entities": []map[string]any{{"type": "mention", "offset": 0, "length": 12}}},
	})
	request := seen(t, s, group.ID, "fs.write of any file below notes")
	if request.Thread != 7 || len(request.Buttons) < 3 || request.Buttons[0].Data != "/approve 1" {
		t.Fatalf("the request is %+v", request)
	}
	written := filepath.Join(c.Home, "workspace", "notes", "a.md")
	s.Press(telegramEve, group.ID, request.ID, request.Buttons[0].Data)
	seen(t, s, group.ID, "Only an admin can say that")
	if _, err := os.Stat(written); err == nil {
		t.Fatal("a press of somebody who may not approve has approved")
	}
	s.Press(telegramAnn, group.ID, request.ID, request.Buttons[0].Data)
	seen(t, s, group.ID, "Approved: fs.write runs now")
	until(t, "the file is there", func() bool { _, err := os.Stat(written); return err == nil })
	for _, m := range s.Shown(group.ID) {
		if m.Thread != 7 {
			t.Errorf("%q left its topic", m.Text)
		}
	}
	until(t, "both presses are answered", func() bool { return len(s.Answers()) == 2 })
}

func TestABotThatWasAwayAnswersWhatIsNewAndKeepsTheRestAsContext(t *testing.T) {
	s, c := telegramHome(t, "")
	s.Say(telegramtest.Said{Text: "an old question", At: time.Now().Add(-30 * time.Hour)})
	s.Say(telegramtest.Said{Text: "/stop", At: time.Now().Add(-29 * time.Hour)})
	s.Say(telegramtest.Said{Text: "a new question", At: time.Now().Add(-time.Hour)})
	serveLines(t, c)
	chat := telegramAnn.ID
	seen(t, s, chat, "(offline model)")
	seen(t, s, chat, "was sent more than 24h")
	s.Replay() // the platform gives all of it again
	s.Say(telegramtest.Said{Text: "hello"})
	seen(t, s, chat, "Hello! I am Corebot's built-in offline model")
	if got := s.Texts(chat); len(got) != 3 {
		t.Errorf("the chat shows %q", got)
	}
}

func TestAnAccountSaysWhyItIsNotServedAndGoesOnWhenItIs(t *testing.T) {
	s, c := telegramHome(t, "")
	s.Hook("https://example.org/hook")
	serveLines(t, c)
	s.Say(telegramtest.Said{Text: "hello"})
	var status operate.ChannelAccount
	until(t, "the account has failed", func() bool {
		err := app.Change(t.Context(), c.Home, func(c control.Caller) error {
			page, err := operate.ListChannels.Call(t.Context(), c, operate.Part{})
			for _, row := range page.Rows {
				if row.Kind == "telegram" {
					status = row
				}
			}
			return err
		})
		return err == nil && status.State == "failed"
	})
	if !strings.Contains(status.LastError, "another program receives for this bot") {
		t.Errorf("the account is %+v", status)
	}
	for _, checked := range app.CheckAccounts(t.Context(), c, nil) {
		if checked.Kind == "telegram" && (checked.OK || !strings.Contains(checked.Advice, "deleteWebhook")) {
			t.Errorf("checked: %+v", checked)
		}
	}
	s.Hook("")
	seen(t, s, telegramAnn.ID, "Hello!")
}

// TestTheAgentsOfAHomeWithANetworkAreKnownWhileNothingRuns: commands read the settings by themselves then.
func TestTheAgentsOfAHomeWithANetworkAreKnownWhileNothingRuns(t *testing.T) {
	_, c := telegramHome(t, "")
	err := app.Change(t.Context(), c.Home, func(c control.Caller) error {
		page, err := operate.ListAgents.Call(t.Context(), c, operate.Part{})
		if err == nil && len(page.Rows) != 1 {
			t.Errorf("there are %d agents", len(page.Rows))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTheHintOfACheckNamesItsAccount(t *testing.T) {
	s, c := telegramHome(t, "")
	s.Revoke()
	for _, checked := range app.CheckAccounts(t.Context(), c, nil) {
		if checked.Kind == "telegram" && !strings.Contains(checked.Advice, "channels.telegram.main.token") {
			t.Errorf("checked: %+v", checked)
		}
	}
}

// TestAccountsAreCheckedAtOnce has a platform answer nobody before three have asked.
func TestAccountsAreCheckedAtOnce(t *testing.T) {
	asked, all := make(chan struct{}, 3), make(chan struct{})
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked <- struct{}{}; len(asked) == cap(asked) {
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"ok":false,"error_code":401,"description":"Unauthorized"}`))
	}))
	defer platform.Close()
	home := t.TempDir()
	text := "llm: {offline: true}\nchannels:\n  telegram:\n"
	for _, name := range []string{"a", "b", "c"} {
		text += fmt.Sprintf("    %s: {token: %q, api_url: %q}\n", name, telegramtest.Token, platform.URL)
	}
	if err := os.WriteFile(filepath.Join(home, "corebot.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := app.LoadConfig(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, checked := range app.CheckAccounts(t.Context(), c, nil) {
		if checked.Kind == "telegram" && !strings.Contains(checked.Error, "Unauthorized") {
			t.Errorf("checked: %+v", checked)
		}
	}
}
