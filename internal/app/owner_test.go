package app

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/control"
	"github.com/corebot/corebot/storage"
)

// A message through the control socket has the sender that the kernel names, whatever it says of itself.
func TestNobodyClaimsToBeAnotherAtTheControlSocket(t *testing.T) {
	home := t.TempDir()
	t.Setenv("COREBOT_LLM_OFFLINE", "true")
	c, err := LoadConfig(home)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), c, Options{Log: zerolog.Nop(), Attended: true})
	if err != nil {
		t.Fatal(err)
	}
	err = a.While(t.Context(), func(ctx context.Context) error {
		client, running, err := control.Dial(ctx, DataDir(home))
		if err != nil || !running {
			t.Fatalf("the control socket: %v, %v", running, err)
		}
		for i, claimed := range []string{"", "0", "12345", "root"} {
			id := "m" + strconv.Itoa(i)
			if _, err := Send(ctx, client, channels.Incoming{
				ID: id, Channel: "webhook", Account: "other", Chat: "a", SenderID: claimed,
				Parts: corebot.TextPart("/help"),
			}); err != nil {
				return err
			}
			life, err := storage.NewLives(a.Store).InChat(ctx, a.terminalKey("", "a"), id, corebot.Principal{})
			if want := corebot.AtTerminal(os.Geteuid()); err != nil || life.Sender != want {
				t.Errorf("a message that claims to be of %q is of %s, %v; want %s", claimed, life.Sender, err, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAPeerWhomNobodyKnowsHasNoID(t *testing.T) {
	if id := senderOf(control.Peer{UID: os.Geteuid()}); id != "" {
		t.Errorf("he is %q", id)
	}
}
