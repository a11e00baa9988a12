package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/long"
)

// TestKilledBetweenADeadLetterAndItsDraftNoHalfAnswerStays: nobody writes into the chat afterwards.
func TestKilledBetweenADeadLetterAndItsDraftNoHalfAnswerStays(t *testing.T) {
	long.Only(t, "TestKilledAtAnyStepATurnGivesOneReplyAndRepeatsNoSideEffect")
	t.Parallel()
	i := slices.IndexFunc(networks, func(n network) bool { return n.name == "telegram-stream" })
	b := besiegeWith(t, networks[i], func(llmtest.Request) llmtest.Answer {
		return llmtest.Text("a half, and then the end").Pieces(8).Every(100 * time.Millisecond)
	})
	p := b.platform.(*telegramPlatform)
	p.Faults(func(c telegramtest.Call) telegramtest.Fault {
		if strings.HasSuffix(c.Text, "the end") {
			return telegramtest.Flood(0.1)
		}
		return telegramtest.Fault{}
	})
	b.env = append(b.env, "COREBOT_BUS_LIMIT_PATIENCE=0s", "COREBOT_FAULT=outbox.dead")
	b.begin()
	b.platform.say(0, "go on")
	b.wantKilled()
	if shown := b.platform.shown(0); len(shown) != 1 || !strings.HasPrefix(shown[0], "a half") {
		t.Fatalf("at the kill the chat shows %q", shown)
	}
	b.env = b.env[:len(b.env)-1]
	b.begin()
	b.await("the half answer is taken back", func() bool { return len(b.platform.shown(0)) == 0 })
	b.terminate()
	b.output("db", "check")
}
