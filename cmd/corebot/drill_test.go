package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/load"
	"github.com/corebot/corebot/internal/long"
)

var (
	drillTime = long.Duration("drill.time", 700*time.Millisecond, 2*time.Second,
		"how long messages are posted before and after the backup")
	drillRate   = flag.Int("drill.rate", 150, "messages a second")
	drillReport = flag.String("drill.report", "", "a file that the figures are appended to")
)

const drillChats = 50

// TestABackupUnderLoadIsRestoredElsewhereAndAnswersNothingTwice backs a home up while callers post, and kills its
// Corebot. Then it restores the backup in another home. The callers post everything again, as callers do that got no
// answer.
func TestABackupUnderLoadIsRestoredElsewhereAndAnswersNothingTwice(t *testing.T) {
	long.Only(t, "TestKilledDuringABackupEveryBackupThatHasItsNameIsWhole")
	t.Parallel()
	lost := drillHome(t, "lost")
	if err := lost.start(); err != nil {
		t.Fatal(err)
	}
	lost.findWebhook()
	d := &drill{t: t, acked: map[string]time.Time{}}
	ctx, crash := context.WithCancel(t.Context())
	posted := d.post(ctx, lost.client())
	time.Sleep(drillTime())
	backup := filepath.Join(t.TempDir(), "backup")
	began := time.Now()
	made := lost.output("db", "backup", "--to", backup)
	took := time.Since(began)
	time.Sleep(drillTime())
	lost.kill()
	crash()
	<-posted

	found := drillHome(t, "found")
	found.addr = lost.addr
	restored := found.output("db", "restore", backup)
	if err := found.start(); err != nil {
		t.Fatal(err)
	}
	d.postAgain(found.client(), began)
	d.checkReplies(found.client())
	found.checkQueueIsEmpty()
	found.terminate()
	found.output("db", "check")
	found.output("audit", "verify")
	d.report(made+restored, began, took)
}

// drillHome is a home with a webhook, whose token is that of all.
func drillHome(t *testing.T, name string) *service {
	t.Helper()
	s := &service{t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), name), addr: "127.0.0.1:0"}
	s.output("init", "--webhook")
	path := filepath.Join(s.home, "webhook.token")
	if err := os.WriteFile(path, []byte(strings.Repeat("drill", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// drill is what the callers know.
type drill struct {
	t     *testing.T
	mu    sync.Mutex
	sent  []string             // all ids, in the order of their chats
	acked map[string]time.Time // when each was acknowledged
	waits []wait
}

// wait is how long an acknowledgement took.
type wait struct {
	from time.Time
	took time.Duration
}

func drillMessage(chat, n int) load.Message {
	return load.Message{
		ID: fmt.Sprintf("%d-%d", chat, n), ChatID: fmt.Sprint(chat), Sender: fmt.Sprint("sender-", chat),
		Content: "hello",
	}
}

// post has every chat post one message after the other, until the context ends.
func (d *drill) post(ctx context.Context, client *load.Client) (ended chan struct{}) {
	var all sync.WaitGroup
	for chat := range drillChats {
		all.Go(func() {
			pace := time.NewTicker(drillChats * time.Second / time.Duration(*drillRate))
			defer pace.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				m, began := drillMessage(chat, n), time.Now()
				d.note(m.ID, began, false)
				if _, err := client.Post(ctx, m); err == nil {
					d.note(m.ID, began, true)
				}
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
		})
	}
	ended = make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	return ended
}

func (d *drill) note(id string, began time.Time, acked bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !acked {
		d.sent = append(d.sent, id)
		return
	}
	d.acked[id] = time.Now()
	d.waits = append(d.waits, wait{began, time.Since(began)})
}

// postAgain posts every message once more. Those that were acknowledged before the copy was made are known.
func (d *drill) postAgain(client *load.Client, copied time.Time) {
	d.t.Helper()
	ctx, cancel := d.patient()
	defer cancel()
	chats := map[string][]string{}
	for _, id := range d.sent {
		chat, _, _ := strings.Cut(id, "-")
		chats[chat] = append(chats[chat], id)
	}
	var all sync.WaitGroup
	for chat, ids := range chats {
		all.Go(func() {
			for _, id := range ids {
				m := load.Message{ID: id, ChatID: chat, Sender: "sender-" + chat, Content: "hello"}
				r, err := client.Post(ctx, m)
				if err != nil {
					d.t.Error(err)
					return
				}
				if at, acked := d.acked[id]; acked && at.Before(copied) && !r.Duplicate && r.Tries == 1 {
					d.t.Errorf("the message %s was accepted before the copy was made, and is lost", id)
				}
			}
		})
	}
	all.Wait()
}

// patient is a context for as long as a slow machine takes to answer everything.
func (d *drill) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(d.t.Context(), time.Minute+time.Duration(len(d.sent))*20*time.Millisecond)
}

// checkReplies wants one reply to each message, in the order of the messages of its chat.
func (d *drill) checkReplies(client *load.Client) {
	d.t.Helper()
	want := map[string][]string{}
	for _, id := range d.sent {
		chat, _, _ := strings.Cut(id, "-")
		want[chat] = append(want[chat], id)
	}
	ctx, cancel := d.patient()
	defer cancel()
	for chat, ids := range want {
		var got []string
		for after := ""; len(got) < len(ids); {
			replies, next, err := client.Replies(ctx, chat, after, 5*time.Second)
			if err != nil {
				d.t.Fatalf("%v: %d of %d replies", err, len(got), len(ids))
			}
			for _, r := range replies {
				got = append(got, r.InReplyTo)
			}
			after = next
		}
		if !slices.Equal(got, ids) {
			d.t.Errorf("the replies of the chat %s answer\n%v, want\n%v", chat, got, ids)
		}
	}
}

// checkQueueIsEmpty waits until nothing is left to be answered: a second reply would have come by then.
func (s *service) checkQueueIsEmpty() {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		status := s.output("status", "--json")
		if strings.Contains(status, `"queue":{},"deadLetters":{"inbound":0,"outbound":0}`) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the status is %s", status)
		}
	}
}

// report prints what the drill has shown, and how long acknowledgements took beside the backup.
func (d *drill) report(said string, began time.Time, took time.Duration) {
	beside, alone := []time.Duration{0}, []time.Duration{0}
	for _, w := range d.waits {
		if w.from.After(began) && w.from.Before(began.Add(took)) {
			beside = append(beside, w.took)
		} else {
			alone = append(alone, w.took)
		}
	}
	before := 0
	for _, at := range d.acked {
		if at.Before(began) {
			before++
		}
	}
	text := fmt.Sprintf("%s\n%d messages were posted at %d a second; %d were acknowledged before the backup, "+
		"which took %v\n"+
		"acknowledgements beside the backup: p50 %v, p99 %v, longest %v; else p50 %v, p99 %v, longest %v\n"+
		"all that was acknowledged before is there, and everything has one reply, in order\n",
		said, len(d.sent), *drillRate, before, took.Round(time.Millisecond),
		quantile(beside, 0.5).Round(time.Microsecond), quantile(beside, 0.99).Round(time.Microsecond),
		quantile(beside, 1).Round(time.Microsecond), quantile(alone, 0.5).Round(time.Microsecond),
		quantile(alone, 0.99).Round(time.Microsecond), quantile(alone, 1).Round(time.Microsecond))
	d.t.Log(text)
	if *drillReport == "" || d.t.Failed() {
		return
	}
	if err := os.WriteFile(*drillReport, []byte(text), 0o600); err != nil {
		d.t.Error(err)
	}
}
