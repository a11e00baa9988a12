package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/load"
	"github.com/corebot/corebot/internal/long"
)

var copiesIDs = long.Int("copies.ids", 150, 500, "messages that are delivered 1 to 20 times each")

const (
	copiesPerChat = 10
	copiesPosters = 64
)

// TestEachOfManyIDsDeliveredUpToTwentyTimesIsOneTurnAndOneReply posts every message 1 to 20 times, all copies of all
// messages shuffled and many at once (guarantee G2).
func TestEachOfManyIDsDeliveredUpToTwentyTimesIsOneTurnAndOneReply(t *testing.T) {
	long.Only(t, "TestTheServiceStories")
	t.Parallel()
	observability := freeAddr(t)
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: freeAddr(t),
		env: []string{"COREBOT_OBSERVABILITY_ADDR=" + observability},
	}
	s.output("init", "--webhook")
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(copiesIDs())*50*time.Millisecond)
	defer cancel()
	c := s.client()
	began := time.Now()
	posts, accepted := postShuffled(ctx, t, c, copiesIDs())
	for id := range copiesIDs() {
		if accepted[id] != 1 {
			t.Errorf("message %d was accepted as new %d times", id, accepted[id])
		}
	}
	replies := 0
	for id := 0; id < copiesIDs(); id += copiesPerChat {
		replies += oneReplyEach(ctx, t, c, id, min(id+copiesPerChat, copiesIDs()))
	}
	took := time.Since(began)
	if got, want := turnsOf(t, "http://"+observability+"/metrics"), fmt.Sprint(copiesIDs()); got != want {
		t.Errorf("%s turns were answered, want %s", got, want)
	}
	s.terminate()
	s.output("db", "check")
	t.Logf("%d ids in %d posts: %d replies, in %v", copiesIDs(), posts, replies, took.Round(10*time.Millisecond))
}

func copyOf(id int) load.Message {
	return load.Message{
		ID: fmt.Sprint("id-", id), ChatID: fmt.Sprint("chat-", id/copiesPerChat), Sender: "somebody",
		Content: fmt.Sprint("hello ", id),
	}
}

// postShuffled gives the number of posts, and how often each id was accepted as new.
func postShuffled(ctx context.Context, t *testing.T, c *load.Client, ids int) (posts int, accepted []int) {
	t.Helper()
	var all []int
	for id := range ids {
		for range 1 + rand.IntN(20) {
			all = append(all, id)
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	accepted = make([]int, ids)
	var mu sync.Mutex
	var posters sync.WaitGroup
	for p := range copiesPosters {
		posters.Go(func() {
			for i := p; i < len(all); i += copiesPosters {
				got, err := c.Post(ctx, copyOf(all[i]))
				if err != nil {
					t.Errorf("post: %v", err)
					return
				}
				if !got.Duplicate {
					mu.Lock()
					accepted[all[i]]++
					mu.Unlock()
				}
			}
		})
	}
	posters.Wait()
	return len(all), accepted
}

// oneReplyEach waits for the replies of one chat, whose messages are those from one id to another, and looks once more
// for what should not be there.
func oneReplyEach(ctx context.Context, t *testing.T, c *load.Client, from, to int) int {
	t.Helper()
	seen, after := map[string]int{}, ""
	for total := 0; ; {
		wait := time.Duration(0)
		if total < to-from {
			wait = 5 * time.Second
		}
		page, next, err := c.Replies(ctx, copyOf(from).ChatID, after, wait)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 && wait == 0 {
			break
		}
		for _, r := range page {
			seen[r.InReplyTo]++
			total++
		}
		after = next
	}
	for id := from; id < to; id++ {
		if n := seen[copyOf(id).ID]; n != 1 {
			t.Errorf("message %d got %d replies", id, n)
		}
	}
	return len(seen)
}

// turnsOf reads from the metrics how many turns ended with an answer.
func turnsOf(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `corebot_turns_total{agent="main",end="answered"} `)
	n, _, _ := strings.Cut(rest, "\n")
	return n
}
