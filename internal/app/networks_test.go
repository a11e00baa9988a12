package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/bus"
	"github.com/corebot/corebot/channels/channeltest/line"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
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

// lineHome writes the settings of a home whose networks are lines, and reads them.
func lineHome(t *testing.T, home, text string) config.Config {
	t.Helper()
	for name, content := range map[string]string{"corebot.yaml": text, "line.token": "secret"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := app.LoadConfig(home, line.Network())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serveLines runs a Corebot with these settings until the test ends.
func serveLines(t *testing.T, c config.Config) *app.App {
	t.Helper()
	o := app.Options{Serve: true, Log: zerolog.Nop()}
	o.Networks = append(o.Networks, line.Network())
	a, err := app.New(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
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
	c := lineHome(t, home, text)
	for _, checked := range app.CheckAccounts(t.Context(), c, nil, line.Network()) {
		if !checked.OK || checked.Kind == "line" && checked.Says != "known as bot" {
			t.Errorf("checked: %+v", checked)
		}
	}
	if _, err := app.LoadConfig(home); err == nil || !strings.Contains(err.Error(), `"channels.line"`) {
		t.Errorf("without the network: %v", err)
	}
	a := serveLines(t, c)
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

func TestAStrangerOnANetworkTalksAfterTheOperatorHasLetHimIn(t *testing.T) {
	home, server := t.TempDir(), lineServer(t)
	c := lineHome(t, home, `
llm: {offline: true}
observability: {enabled: false}
channels:
  line:
    main: {addr: "`+server.Addr()+`", token: file:line.token, access: pairing}
`)
	serveLines(t, c)
	shown := func(n int) string {
		t.Helper()
		until(t, "what the chat shows", func() bool { return len(server.Shown("ann")) >= n })
		return server.Shown("ann")[n-1]
	}
	said := line.Message{ID: "1", Chat: "ann", Sender: "ann", Name: "Ann", Text: "hello", At: time.Now()}
	server.Say(said)
	told := shown(1)
	said.ID, said.Sender, said.Chat = "2", "bob", "bob" // another stranger, in a chat of his own
	server.Say(said)
	until(t, "the other's code", func() bool { return len(server.Shown("bob")) == 1 })
	err := app.Change(t.Context(), home, func(c control.Caller) error {
		open, err := operate.ListPairings.Call(t.Context(), c, operate.PairingQuery{})
		if err != nil || len(open.Rows) != 2 || open.Rows[0].Principal != "line:main:ann" ||
			!strings.Contains(told, open.Rows[0].Code) {
			t.Errorf("ann is told %q; asked have %+v, %v", told, open.Rows, err)
		}
		_, err = operate.DecidePairing.Call(t.Context(), c, operate.PairingDecision{
			Code: open.Rows[0].Code, State: corebot.PairingPaired,
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if told := shown(2); told != "You can talk here now." {
		t.Errorf("then ann is told %q", told)
	}
	for i, sender := range []string{"bob", "ann"} {
		said.ID, said.Sender, said.Chat = fmt.Sprint("again", i), sender, sender
		server.Say(said)
	}
	shown(3)
	if got := server.Shown("bob"); len(got) != 1 {
		t.Errorf("bob, who was not let in, is shown %q", got)
	}
}

// TestAnAccountThatHasLeftIsNamedWhileMessagesForItWait has a reply for an account that is not in the settings.
func TestAnAccountThatHasLeftIsNamedWhileMessagesForItWait(t *testing.T) {
	c := lineHome(t, t.TempDir(), "llm: {offline: true}\nobservability: {enabled: false}\n")
	a := serveLines(t, c)
	q, err := bus.New(storage.NewQueue(a.Store), bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = q.Publish(t.Context(), corebot.Message{
		ID: "r1", Direction: corebot.Outbound, Kind: corebot.KindReply, Parts: corebot.TextPart("who sends it?"),
		Key: corebot.Key{Agent: "main", Channel: "telegram", Account: "main", Chat: "1001"},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = app.Change(t.Context(), c.Home, func(c control.Caller) error {
		page, err := operate.ListChannels.Call(t.Context(), c, operate.Part{})
		here := func(r operate.ChannelAccount) bool { return r.State != operate.AccountLeft }
		left := slices.DeleteFunc(page.Rows, here)
		if len(left) != 1 || left[0].Name() != "telegram:main" || left[0].Backlog != 1 || !left[0].Since.IsZero() {
			t.Errorf("of the accounts these have left: %+v", left)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	warned := slices.ContainsFunc(app.CheckConnections(t.Context(), c.Home), func(f app.Finding) bool {
		return f.Level == "warn" && strings.Contains(f.What, "telegram:main is not in the settings any more, and 1 ")
	})
	if !warned {
		t.Error("the doctor does not warn")
	}
}
