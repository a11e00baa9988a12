package httpapi

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

// lateTalk finds no answer in time.
type lateTalk struct{ Talk }

func (lateTalk) Answers(ctx context.Context, _ corebot.Key, _ string, _ int64, _ int) ([]corebot.Posted, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The socket of another chat is told in time, and that of the chat is told to read the history.
func TestAnAnswerThatIsNotReadInTimeHoldsUpNoSocket(t *testing.T) {
	t.Parallel()
	var hub live.Hub
	s := socketServer(t, &hub)
	s.opts.Talk = lateTalk{}
	a := follower(t, s, 0)
	var d websocket.Dialer
	b, answer, err := d.DialContext(t.Context(), "ws://"+s.Addr()+"/ws", http.Header{"Authorization": {"Bearer x"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	defer b.Close() //nolint:errcheck // of a test
	for _, q := range []socketRequest{{Type: "subscribe", AgentID: "main", SessionKey: "other"}, {Type: "nonsense"}} {
		if err := b.WriteJSON(q); err != nil {
			t.Fatal(err)
		}
	}
	next(t, b, "error") // behind the subscription
	other := watched
	other.Chat = "other"
	hub.Publish(live.Event{Kind: live.TurnEnded, Key: watched, MessageID: "m", Text: "answered"})
	hub.Publish(live.Event{Kind: live.ToolStarted, Key: other, MessageID: "n", Tool: "x"})
	from := time.Now()
	next(t, b, "tool_start")
	if took := time.Since(from); took > 5*time.Second {
		t.Errorf("another chat is told after %v", took)
	}
	next(t, a, "done")
	next(t, a, "history_updated")
}
