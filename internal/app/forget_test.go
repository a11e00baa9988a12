package app

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/background"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/storage"
)

// A program of a chat that runs in the background writes into the chat's folder until it has ended. The deletion ends
// it first, so the program cannot make the folder anew, and forgets what it printed.
func TestADeletedChatTakesItsProgramsInTheBackgroundAlong(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	set, err := background.New(background.Limits{PerChat: 2, Total: 4, Life: time.Hour, Output: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close() //nolint:errcheck // it has no error
	key := func(chat string) corebot.Key { return corebot.Key{Agent: "main", Channel: "test", Chat: chat} }
	file := func(chat string) string { return filepath.Join(home, "workspace", rootfs.ChatDir(key(chat)), "log") }
	ids := map[string]string{}
	for _, chat := range []string{"gone", "stays"} {
		if ids[chat], err = set.Start(key(chat), corebot.Principal{}, "log", func(ctx context.Context,
			out *background.Output,
		) string {
			_, _ = out.Write([]byte("a " + chat))
			<-ctx.Done()
			if err := os.MkdirAll(filepath.Dir(file(chat)), 0o700); err != nil {
				t.Error(err)
			}
			if err := os.WriteFile(file(chat), []byte("its last line"), 0o600); err != nil {
				t.Error(err)
			}
			return "killed"
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := WithStore(t.Context(), home, func(db *storage.DB) error {
		for _, chat := range []string{"gone", "stays"} {
			if err := storage.NewChats(db).Register(t.Context(), key(chat), true, chat); err != nil {
				return err
			}
		}
		f := forgetter{
			db, home, newFiles(db, config.Defaults(), nil).Store, func() *background.Set { return set }, nil,
		}
		_, err := f.Forget(t.Context(), key("gone"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Dir(file("gone"))); !os.IsNotExist(err) {
		t.Errorf("the folder of the deleted chat is there: %v", err)
	}
	if left := set.List(key("gone")); len(left) > 0 {
		t.Errorf("programs are left: %+v", left)
	}
	if left := set.List(key("stays")); len(left) != 1 || left[0].ID != ids["stays"] || left[0].How != "" {
		t.Errorf("of another chat are left: %+v", left)
	}
}
