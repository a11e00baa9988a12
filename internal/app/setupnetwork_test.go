package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/channels/channeltest/line"
	"github.com/corebot/corebot/internal/app"
)

// TestTheQuestionsOfANetworkAreAboutItsSettings: init needs no code for a network.
func TestTheQuestionsOfANetworkAreAboutItsSettings(t *testing.T) {
	for _, n := range append(app.Networks(), line.Network()) {
		if n.About == "" || len(n.Questions) == 0 {
			t.Errorf("init cannot ask for %s: it has no questions, or says nothing about itself", n.Name)
		}
		secrets := 0
		for _, q := range n.Questions {
			asked, err := app.NewNetworkSetup(n).Ask(t.TempDir(), q)
			if err != nil || q.Text == "" {
				t.Errorf("%+v of %s: %v", q, n.Name, err)
			}
			if asked.Secret {
				secrets++
			}
		}
		if secrets == 0 && n.Name != "irc" { // whose password is of an account that a nick need not have
			t.Errorf("%s asks for no secret", n.Name)
		}
	}
}

func TestAnyNetworkIsSetUpByItsQuestions(t *testing.T) {
	home, server := filepath.Join(t.TempDir(), "home"), lineServer(t)
	joins := func(token string) *app.NetworkSetup {
		s := app.NewNetworkSetup(line.Network())
		s.Answers["addr"], s.Answers["token"] = server.Addr(), token
		return s
	}
	if err := joins("wrong").Try(t.Context(), home); err == nil {
		t.Error("a wrong token is taken")
	}
	n := joins("secret")
	if err := n.Try(t.Context(), home); err != nil || n.Says != "known as bot" {
		t.Errorf("it says %q, %v", n.Says, err)
	}
	setup := app.Setup{Networks: []*app.NetworkSetup{n}}
	edit, err := setup.Plan(home)
	if err != nil {
		t.Fatal(err)
	}
	// the program itself has no line network, so its settings cannot be loaded there
	if _, err := setup.Apply(home, edit); err == nil || !strings.Contains(err.Error(), "channels.line") {
		t.Error(err)
	}
	c, err := app.LoadConfig(home, line.Network())
	if err != nil {
		t.Fatal(err)
	}
	for _, checked := range app.CheckAccounts(t.Context(), c, nil, line.Network()) {
		if checked.Kind == "line" && (!checked.OK || checked.Name != "main") {
			t.Errorf("checked: %+v", checked)
		}
	}
	if !app.Pairs(c, n.Account) {
		t.Error("strangers get no code")
	}
	token, err := os.ReadFile(filepath.Join(home, "line.main.token"))
	if err != nil || string(token) != "secret\n" {
		t.Errorf("the file of the token: %q, %v", token, err)
	}
}
