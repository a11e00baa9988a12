package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/corebot/corebot/internal/load"
	"github.com/corebot/corebot/internal/long"
)

const (
	rightKey = "correct-horse-battery"
	wrongKey = "wrong-horse-battery"
)

// startBootstrap starts a daemon whose first admin can be made by the key, with three attempts.
func startBootstrap(t *testing.T) *service {
	t.Helper()
	return startService(t, "COREBOT_ADMIN_BOOTSTRAP_KEY="+rightKey, "COREBOT_ADMIN_BOOTSTRAP_MAX_ATTEMPTS=3")
}

// sendKey has somebody try a key in a chat of his own and gives what the chat is told of it. The daemon may die
// meanwhile.
func sendKey(ctx context.Context, c *load.Client, who, key string) (string, error) {
	content := fmt.Sprintf(`/tool chat.register {"chatId":%q,"role":"admin","bootstrapKey":%q}`, who, key)
	if _, err := c.Post(ctx, load.Message{ID: who, ChatID: who, Sender: who, Content: content}); err != nil {
		return "", err
	}
	for cursor := ""; ; {
		replies, next, err := c.Replies(ctx, who, cursor, patience)
		if err != nil {
			return "", err
		}
		for _, r := range replies {
			if r.InReplyTo == who {
				return r.Content, nil
			}
		}
		cursor = next
	}
}

// admins are the grants, without the owner of the home, who has none.
func (s *service) admins() []string {
	s.t.Helper()
	rows := strings.Split(strings.TrimSpace(s.output("admin", "list", "--json")), "\n")
	if !strings.Contains(rows[0], `"by":"home-owner"`) {
		s.t.Errorf("the owner of the home is not listed: %q", rows)
	}
	return rows[1:]
}

// denials count the rows of the audit by the rule that denied.
func (s *service) denials(rule string) int {
	s.t.Helper()
	return strings.Count(s.output("audit", "--json", "--outcome", "denied", "--limit", "10000"), `"rule":"`+rule+`"`)
}

func TestWrongKeysAreCountedAcrossKillsAndLockTheRightOneOut(t *testing.T) {
	t.Parallel()
	s := startBootstrap(t)
	ctx, stop := context.WithTimeout(t.Context(), 4*patience)
	defer stop()
	c := s.client()
	for i := range 3 {
		if told, err := sendKey(ctx, c, fmt.Sprint("guesser", i), wrongKey); err != nil ||
			!strings.Contains(told, "not the bootstrap key") {
			t.Fatalf("attempt %d: %q, %v", i, told, err)
		}
		s.restart() // by SIGKILL
	}
	if told, err := sendKey(ctx, c, "ann", rightKey); err != nil || !strings.Contains(told, "none is taken until") {
		t.Errorf("the right key: %q, %v", told, err)
	}
	if got := s.admins(); len(got) != 0 || s.denials("bootstrap-key") != 3 ||
		s.denials("bootstrap-locked") != 1 {
		t.Errorf("admins %q", got)
	}
}

func TestManyWrongKeysAtOnceMakeNoAdminThoughTheDaemonIsKilledMeanwhile(t *testing.T) {
	long.Only(t, "TestWrongKeysAreCountedAcrossKillsAndLockTheRightOneOut")
	t.Parallel()
	guessers := long.Or(100, 1000)
	s := startBootstrap(t)
	ctx, stop := context.WithTimeout(t.Context(), 10*patience)
	defer stop()
	c := s.client()
	var wg sync.WaitGroup
	turns := make(chan struct{}, 64)
	for i := range guessers {
		turns <- struct{}{}
		if i == guessers/2 {
			s.restart()
		}
		wg.Go(func() {
			defer func() { <-turns }()
			if _, err := sendKey(ctx, c, fmt.Sprint("guesser", i), wrongKey); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := s.admins(); len(got) != 0 {
		t.Errorf("admins %q", got)
	}
	if counted, locked := s.denials("bootstrap-key"), s.denials("bootstrap-locked"); counted != 3 ||
		counted+locked != guessers {
		t.Errorf("%d counted, %d locked out", counted, locked)
	}
}

func TestOfTwoRightKeysAtOnceOneMakesAnAdminOfTheRealProgram(t *testing.T) {
	long.Only(t, "TestWrongKeysAreCountedAcrossKillsAndLockTheRightOneOut")
	t.Parallel()
	s := startBootstrap(t)
	ctx, stop := context.WithTimeout(t.Context(), 4*patience)
	defer stop()
	c := s.client()
	var wg sync.WaitGroup
	for _, who := range []string{"ann", "bob"} {
		wg.Go(func() {
			if _, err := sendKey(ctx, c, who, rightKey); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := s.admins(); len(got) != 1 || !strings.Contains(got[0], `"role":"admin","chat":""`) ||
		s.denials("bootstrap-closed") != 1 {
		t.Errorf("admins %q", got)
	}
}
