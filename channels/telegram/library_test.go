package telegram_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/telegram"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

// TestCorebotTalksToThePlatformOfAnotherTestLibrary runs the channel against telegram-test-api, which knows a few
// methods and holds no poll. NETWORK_CLIENTS names a directory that has it: scripts/network-clients makes one.
func TestCorebotTalksToThePlatformOfAnotherTestLibrary(t *testing.T) {
	dir := os.Getenv("NETWORK_CLIENTS")
	if dir == "" {
		t.Skip("scripts/network-clients runs this")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "node", "-e", fmt.Sprintf( //nolint:gosec // a test
		`new (require('telegram-test-api'))({port: %d, host: '127.0.0.1', storeTimeout: 600}).start()`, addr.Port))
	command.Dir = dir
	command.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	base := "http://" + addr.String()
	ask := func(path string, body any) (answer []byte) {
		text, _ := json.Marshal(body)
		r, err := http.Post(base+path, "application/json", bytes.NewReader(text)) //nolint:noctx // a test
		if err != nil {
			return nil
		}
		defer r.Body.Close() //nolint:errcheck // it was only read
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		return b.Bytes()
	}
	until(t, "it listens", func() bool { return ask("/getUpdatesHistory", map[string]any{}) != nil })
	s := telegram.Network().Standard.(telegram.Settings)
	s.Token, s.APIURL = telegramtest.Token, base
	c, err := telegram.New(s, channels.Site{Account: account, Log: zerolog.New(zerolog.NewTestWriter(t))})
	if err != nil {
		t.Fatal(err)
	}
	d := &channeltest.Door{}
	ended, _ := run(t, c, d)
	ask("/sendMessage", map[string]any{
		"botToken": telegramtest.Token, "date": 1_700_000_000, "text": "hello",
		"from": telegramtest.Ann, "chat": telegramtest.Chat{ID: telegramtest.Ann.ID, Type: "private"},
	})
	until(t, "the message is stored", func() bool {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
		return slices.Equal(d.Texts(), []string{"hello"})
	})
	_, err = c.Send(t.Context(), channels.Outbound{
		ID: "1", Kind: corebot.KindReply, Parts: corebot.TextPart("**hello** you"),
		Key: corebot.Key{Channel: "telegram", Account: "main", Chat: fmt.Sprint(telegramtest.Ann.ID)},
	})
	if err != nil {
		t.Fatal(err)
	}
	shown := ask("/getUpdates", map[string]any{"token": telegramtest.Token, "chatId": telegramtest.Ann.ID})
	if !strings.Contains(string(shown), "<b>hello</b> you") {
		t.Errorf("the platform shows %s", shown)
	}
}
