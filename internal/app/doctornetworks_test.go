package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/storage"
)

// CheckConnections is what the doctor says of the accounts of a running Corebot.
var CheckConnections = checkConnections

func TestTheDoctorWarnsOfANetworkOnWhichNobodyMayTalk(t *testing.T) {
	for access, want := range map[string]string{"allowlist": "warn", "pairing": "ok"} {
		home := t.TempDir()
		text := "channels: {telegram: {main: {token: \"" + telegramtest.Token + "\", access: " + access + "}}}\n"
		if err := os.WriteFile(filepath.Join(home, "corebot.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(home, networkSettings(Networks())...)
		if err != nil {
			t.Fatal(err)
		}
		got := checkNetworks(c)
		if len(got) != 1 || got[0].Level != want || !strings.Contains(got[0].What, "telegram:main") {
			t.Errorf("access %s: %+v", access, got)
		}
	}
}

// Nobody else knows of them: the account is in no list any more.
func TestTheDoctorWarnsOfHalfAnswersOfAnAccountThatHasLeft(t *testing.T) {
	k := apptest.New(t, apptest.Options{Dir: t.TempDir()})
	for _, account := range []string{"main", "gone"} {
		d := corebot.Draft{Answers: "m1", Shown: "7", Began: time.Now(), Key: corebot.Key{
			Agent: "main", Channel: "telegram", Account: account, Chat: "6",
		}}
		if err := storage.NewDrafts(k.DB).Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	home := t.TempDir()
	if err := os.Symlink(k.Dir, DataDir(home)); err != nil {
		t.Fatal(err)
	}
	text := "channels: {telegram: {main: {token: \"" + telegramtest.Token + "\"}}}\n"
	if err := os.WriteFile(filepath.Join(home, "corebot.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(home, networkSettings(Networks())...)
	if err != nil {
		t.Fatal(err)
	}
	got := checkDrafts(t.Context(), home, c)
	if len(got) != 1 || got[0].Level != "warn" || !strings.Contains(got[0].What, "telegram:gone has left") {
		t.Errorf("%+v", got)
	}
}
