package app_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/rootfs"
	"github.com/corebot/corebot/storage"
)

// heldSearch is a search engine that holds its first answer back until it is told to give it, or until its caller goes.
type heldSearch struct {
	asked, give, gone chan struct{}
	requests          atomic.Int64
}

func (h *heldSearch) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found := "nothing"
	if h.requests.Add(1) == 1 {
		close(h.asked)
		select {
		case <-h.give:
		case <-r.Context().Done():
			close(h.gone)
			return
		}
		found = strings.Repeat("a wombat lives here ", 40)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"results": []map[string]string{{
		"url": "https://example.org/", "title": "burrows", "content": found,
	}}})
}

// A turn that has lost its lease still runs until it notices. Its chat is at rest meanwhile, because another worker has
// answered the message. A deletion of the chat ends that turn first: its tool would keep its long result in the chat's
// folder, after the folder has been deleted.
func TestADeletionEndsATurnThatHasLostItsLease(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	search := &heldSearch{asked: make(chan struct{}), give: make(chan struct{}), gone: make(chan struct{})}
	server := httptest.NewServer(search)
	k := corebot.Key{Agent: "main", Channel: "api", Chat: "family"}
	t.Cleanup(func() { // after the daemon has ended, and with it each turn
		server.Close()
		if _, err := os.Lstat(filepath.Join(home, "workspace", rootfs.ChatDir(k))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the deleted chat has a folder again: %v", err)
		}
	})
	a := daemon(t, home, func(c *config.Config) {
		c.Tools.Web.SearXNGURL, c.Tools.MaxOutputBytes, c.Approvals.Mode = server.URL, 300, "never"
	})
	sender := newSender(t, a, "app", "family", "main")
	say := func(id, chat, text string, wait int) (int, answered) {
		return sender.say(fmt.Sprintf(`{"id": %q, "sessionKey": %q, "content": %q, "wait": %d}`, id, chat, text, wait))
	}
	const question = `/tool web.search {"query":"wombat"}`
	if status, _ := say("m1", "family", question, 0); status >= 300 {
		t.Fatal(status)
	}
	<-search.asked
	loseLeases(t, home)
	for _, m := range [][3]string{{"m2", "main", "hello"}, {"m1", "family", question}} { // m2 has the workers look
		if status, got := say(m[0], m[1], m[2], 30); status != http.StatusOK || !got.Answered {
			t.Fatalf("%s: %d %+v", m[0], status, got)
		}
	}
	deleted := make(chan error, 1)
	go func() {
		_, err := operate.DeleteChat.Call(context.Background(), a.Caller(), operate.ChatLoss{Key: k})
		deleted <- err
	}()
	var err error
	select {
	case err = <-deleted: // and the turn still waits
		close(search.give)
	case <-search.gone:
		err = <-deleted
	}
	if err != nil || search.requests.Load() != 2 {
		t.Errorf("%d searches were made: %v", search.requests.Load(), err)
	}
}

// loseLeases has all leases expire, as they do while the machine sleeps.
func loseLeases(t *testing.T, home string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(app.DataDir(home), storage.FileName)+"?_pragma=busy_timeout(5000)")
	if err == nil {
		_, err = db.Exec(`UPDATE lanes SET wake_at = 1 WHERE leased = 1`)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
