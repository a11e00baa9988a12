package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels/channeltest/line"
	"github.com/corebot/corebot/internal/app"
)

// lineServer is a platform whose bot has the token "secret".
func lineServer(t *testing.T) *line.Server {
	t.Helper()
	s, err := line.NewServer("secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestTwoAccountsOfANetworkAnswerEachOnItsOwnPlatform(t *testing.T) {
	home, work, private := t.TempDir(), lineServer(t), lineServer(t)
	text := `
llm: {offline: true}
observability: {addr: "127.0.0.1:0"}
channels:
  line:
    work: {addr: "` + work.Addr() + `", token: file:line.token, access: open}
    private: {addr: "` + private.Addr() + `", token: file:line.token, allowlist: ["line:private:ann"]}
`
	for name, content := range map[string]string{"corebot.yaml": text, "line.token": "secret"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := app.LoadConfig(home, line.Network())
	if err != nil {
		t.Fatal(err)
	}
	for _, checked := range app.CheckAccounts(t.Context(), c, nil, line.Network()) {
		if !checked.OK || checked.Kind == "line" && checked.Says != "known as bot" {
			t.Errorf("checked: %+v", checked)
		}
	}
	if _, err := app.LoadConfig(home); err == nil || !strings.Contains(err.Error(), `"channels.line"`) {
		t.Errorf("without the network: %v", err)
	}
	o := app.Options{Serve: true, Log: zerolog.Nop()}
	o.Networks = append(o.Networks, line.Network())
	a, err := app.New(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	said := line.Message{ID: "1", Chat: "room", Sender: "bob", Name: "Bob", Text: "hello", At: time.Now(), Group: true}
	work.Say(said) // is only heard
	private.Say(said)
	said.ID, said.Mentioned = "2", true
	work.Say(said)
	private.Say(said) // of a stranger
	said.ID, said.Sender = "3", "ann"
	private.Say(said)
	until(t, "both answers", func() bool { return len(work.Shown("room")) > 0 && len(private.Shown("room")) > 0 })
	if shown := append(work.Shown("room"), private.Shown("room")...); len(shown) != 2 {
		t.Errorf("the rooms show %q", shown)
	}
	_, status := fetch(t, "GET", "http://"+a.ObservabilityAddr()+"/status", "")
	packed := strings.Join(strings.Fields(status), "")
	for _, account := range []string{"work", "private"} {
		if !strings.Contains(packed, `{"kind":"line","account":"`+account+`","state":"running"`) {
			t.Errorf("/status does not tell of %s: %s", account, status)
		}
	}
}
