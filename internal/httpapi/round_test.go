package httpapi

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

// quietTalk has no answers beside those that were streamed.
type quietTalk struct{ Talk }

func (quietTalk) Answers(context.Context, corebot.Key, string, int64, int) ([]corebot.Posted, error) {
	return nil, nil
}

// A burst of turns is more events than the frames that are kept. All sockets are told the same, so it is made once.
func TestARoundIsMadeOnceForAllSocketsOfAChat(t *testing.T) {
	t.Parallel()
	var hub live.Hub
	s := socketServer(t, &hub)
	s.opts.Talk = quietTalk{}
	var made atomic.Int64
	s.opts.Redact = func(text string) string {
		made.Add(1)
		return text
	}
	all := make([]*websocket.Conn, 20)
	for i := range all {
		all[i] = follower(t, s, 0)
	}
	const turns = 84 // 252 events, which are all kept
	for round := range 3 {
		before := made.Load()
		for i := range turns {
			id := fmt.Sprintf("m%d.%d", round, i)
			hub.Publish(live.Event{Kind: live.TurnStarted, Key: watched, MessageID: id})
			hub.Publish(live.Event{Kind: live.ToolStarted, Key: watched, MessageID: id, Tool: "x"})
			hub.Publish(live.Event{Kind: live.TurnEnded, Key: watched, MessageID: id, Text: "answered"})
		}
		for n, conn := range all {
			for i := range turns {
				told := next(t, conn, "done")
				if last := told[len(told)-1]; last.MessageID != fmt.Sprintf("m%d.%d", round, i) {
					t.Fatalf("socket %d is told the end of %s as number %d", n, last.MessageID, i)
				}
			}
			next(t, conn, "history_updated")
		}
		if n := made.Load() - before; n > 4*turns { // a call, an end and the history; the burst can be two rounds
			t.Errorf("round %d: %d events are made for %d turns", round, n, turns)
		}
	}
}
