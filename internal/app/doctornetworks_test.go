package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/config"
)

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
