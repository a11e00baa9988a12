package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

// brokenTalk panics where an answer is looked for.
type brokenTalk struct{ Talk }

func (brokenTalk) Answers(context.Context, corebot.Key, string, int64, int) ([]corebot.Posted, error) {
	panic("answers")
}

func (brokenTalk) Last(context.Context, corebot.Key) (int64, error) { panic("last") }

// endOf says with which code a socket ends, and what it is told before.
func endOf(t *testing.T, conn *websocket.Conn) (code int, told []socketEvent) {
	t.Helper()
	for {
		var e socketEvent
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		err := conn.ReadJSON(&e)
		if end, is := errors.AsType[*websocket.CloseError](err); is {
			return end.Code, told
		}
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, e)
	}
}

// One goroutine tells all sockets, and has no caller that would catch a panic: Corebot would end.
func TestAPanicOfTheTellerEndsTheSocketsOfTheChatAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]live.Event{
		"event":  {Kind: live.ToolStarted, Key: watched, Tool: "broken"},
		"text":   {Kind: live.Text, Key: watched, MessageID: "broken", Text: "a"},
		"answer": {Kind: live.TurnEnded, Key: watched, MessageID: "m", Text: "answered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var hub live.Hub
			s := socketServer(t, &hub)
			s.opts.Talk = brokenTalk{}
			s.opts.Redact = func(text string) string {
				if strings.Contains(text, "broken") {
					panic("redact")
				}
				return text
			}
			watching, elsewhere := []*websocket.Conn{follower(t, s, 0)}, dialed(t, s)
			if name != "answer" { // of two, one looks for the answer
				watching = append(watching, follower(t, s, 0))
			}
			for _, q := range []socketRequest{
				{Type: "subscribe", AgentID: "main", SessionKey: "other"}, {Type: "nonsense"},
			} {
				if err := elsewhere.WriteJSON(q); err != nil {
					t.Fatal(err)
				}
			}
			next(t, elsewhere, "error") // behind the subscription
			hub.Publish(broken)
			hub.Publish(live.Event{Kind: live.ToolEnded, Key: watched, Tool: "behind"})
			for i, conn := range watching {
				code, told := endOf(t, conn)
				if code != websocket.CloseInternalServerErr || len(told) > 0 {
					t.Errorf("socket %d ends with %d and was told %+v", i, code, told)
				}
			}
			other := watched
			other.Chat = "other"
			hub.Publish(live.Event{Kind: live.ToolStarted, Key: other, Tool: "x"})
			next(t, elsewhere, "tool_start")
		})
	}
}

// dialed is a client that has said nothing.
func dialed(t *testing.T, s *Server) *websocket.Conn {
	t.Helper()
	var d websocket.Dialer
	conn, answer, err := d.DialContext(t.Context(), "ws://"+s.Addr()+"/ws", http.Header{"Authorization": {"Bearer x"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close() // a socket has none
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestAPanicWhileAMessageWaitsForItsEndIsToldToItsClient(t *testing.T) {
	t.Parallel()
	s := socketServer(t, new(live.Hub))
	s.opts.Talk = brokenTalk{}
	conn := dialed(t, s)
	if err := conn.WriteJSON(socketRequest{Type: "send", AgentID: "main", ID: "m1", Message: "x"}); err != nil {
		t.Fatal(err)
	}
	if told := next(t, conn, "error"); told[0].MessageID != "m1" {
		t.Errorf("it is told %+v", told)
	}
}
