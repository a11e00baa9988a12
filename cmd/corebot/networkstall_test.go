package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/long"
)

var stallMessages = long.Int("stall.messages", 3, 20,
	"how many messages a platform has before and in a stall of another; from 100 on their times are compared")

// stalledChats wait for an answer of the stalled platform: more than there are senders. With more than 256 there are
// more than places for sends, too.
var stalledChats = long.Int("stall.chats", 100, 300, "how many chats wait for the platform that stalls")

// TestAStalledPlatformCostsTheOthersNothing measures how long the answers of one platform take, while another platform
// takes every request and answers none.
func TestAStalledPlatformCostsTheOthersNothing(t *testing.T) {
	long.Only(t, "TestStories")
	t.Parallel()
	b := besiegeWith(t, networkNamed(t, "matrix"), func(r llmtest.Request) llmtest.Answer {
		return llmtest.Text("answer to " + lastUser(r))
	})
	b.platform.(*matrixPlatform).Faults(nil)
	stalled := telegramtest.New()
	t.Cleanup(stalled.Close)
	b.addChannel("telegram", (&telegramPlatform{Server: stalled}).settings())
	b.begin()
	b.await("it receives", func() bool {
		n, err := b.rows("FROM channel_cursors WHERE channel = 'matrix'")
		return err == nil && n > 0
	})
	b.ways(5) // the first are slower
	before := b.ways(stallMessages())
	for chat := range stalledChats() {
		stalled.Say(telegramtest.Said{From: telegramPerson(chat), Text: "hello"})
	}
	b.await("it has the messages of the platform that will stall", func() bool {
		n, err := b.rows(`FROM message_life m JOIN lanes l ON l.id = m.lane_id
			WHERE l.direction = ? AND l.channel = 'telegram'`, corebot.Inbound)
		if n > 0 { // from now on, so that their answers are under way
			stalled.Silence(true)
			stalled.Cut()
		}
		return err == nil && n > 0
	})
	for chat := range stalledChats() { // these wait at the platform
		stalled.Say(telegramtest.Said{From: telegramPerson(chat), Text: "are you there?"})
	}
	during := b.ways(stallMessages())
	stalled.Silence(false)
	b.await("the stalled platform is answered, too", func() bool {
		for chat := range stalledChats() {
			if !slices.Contains(stalled.Texts(telegramPerson(chat).ID), "answer to are you there?") {
				return false
			}
		}
		return true
	})
	after := b.ways(stallMessages()) // as many are said and shown by then as at the end of the stall
	b.terminate()
	p99 := func(of []time.Duration) time.Duration { return quantile(of, 0.99) }
	most := 2*max(p99(before), p99(after)) + 5*time.Millisecond
	if stallMessages() >= 100 && p99(during) > most {
		t.Errorf("the p99 of an answer is %v before and %v after, and %v beside a stalled platform",
			p99(before), p99(after), p99(during))
	}
	b.tell(fmt.Sprintf(`stall of telegram beside matrix, %d chats wait for it
answers of matrix       %d before, p50 %v and p99 %v
                        %d meanwhile, p50 %v and p99 %v
                        %d after, p50 %v and p99 %v
`, stalledChats(), len(before), quantile(before, 0.5), p99(before), len(during), quantile(during, 0.5), p99(during),
		len(after), quantile(after, 0.5), p99(after)))
}

// ways has people write n messages, one at a time, and gives how long each answer took to be shown.
func (b *besieged) ways(n int) []time.Duration {
	b.t.Helper()
	var took []time.Duration
	for range n {
		chat := b.count() % len(b.said)
		began := time.Now()
		b.say(1)
		want := len(b.said[chat])
		for len(b.platform.shown(chat)) < want {
			if time.Since(began) > siegePatience {
				b.t.Fatalf("message %d of chat %d has no answer\n%s", want, chat, b.lastLog())
			}
			time.Sleep(500 * time.Microsecond)
		}
		took = append(took, time.Since(began))
	}
	return took
}

// addChannel appends an account to the settings, which end with the accounts.
func (b *besieged) addChannel(kind, settings string) {
	b.t.Helper()
	file, err := os.OpenFile(filepath.Join(b.home, "corebot.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(file, "  %s:\n    main: %s\n", kind, settings)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func networkNamed(t *testing.T, name string) network {
	t.Helper()
	for _, n := range networks {
		if n.name == name {
			return n
		}
	}
	t.Fatalf("there is no network %s", name)
	return network{}
}
