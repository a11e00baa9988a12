package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// aihubEvent is all that a client of the page knows of an event.
type aihubEvent struct {
	Type, Data, ToolName, AgentID, SessionID, MessageID, Message string
	IsError                                                      bool
	Seq                                                          int64
	Meta                                                         *struct{ DurationMs *int64 }
}

// dial opens a socket whose token is in a subprotocol, as browsers send it.
func (a api) dial() *websocket.Conn {
	a.t.Helper()
	d := websocket.Dialer{Subprotocols: []string{"corebot", "bearer." + a.token}}
	conn, resp, err := d.DialContext(a.t.Context(), "ws"+strings.TrimPrefix(a.base, "http")+"/ws", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	_ = resp.Body.Close() // a socket has none
	a.t.Cleanup(func() { _ = conn.Close() })
	if conn.Subprotocol() != "corebot" {
		a.t.Errorf("the subprotocol is %q", conn.Subprotocol())
	}
	return conn
}

func tell(t testing.TB, c *websocket.Conn, message map[string]any) {
	t.Helper()
	if err := c.WriteJSON(message); err != nil {
		t.Fatal(err)
	}
}

// readTo reads events up to one of a type, and joins the text before it.
func readTo(t testing.TB, c *websocket.Conn, last string) (text string, all []aihubEvent) {
	t.Helper()
	for {
		var e aihubEvent
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if err := c.ReadJSON(&e); err != nil {
			t.Fatalf("after %+v: %v", all, err)
		}
		switch all = append(all, e); e.Type {
		case "text":
			text += e.Data
		case "reset":
			text = ""
		}
		if e.Type == last {
			return text, all
		}
	}
}

func TestAClientThatKnowsOnlyThePageSendsAndSubscribes(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app := newSender(t, a, "app", "main", "work")
	watcher, sender := app.dial(), app.dial()
	tell(t, watcher, map[string]any{"type": "subscribe", "agentId": "main", "sessionKey": "work"})
	tell(t, watcher, map[string]any{"type": "nonsense"}) // its answer says that the subscription is there
	readTo(t, watcher, "error")
	tell(t, sender, map[string]any{
		"type": "send", "agentId": "main", "sessionKey": "work", "message": `/tool fs.list {"path":"."}`,
	})
	said, events := readTo(t, sender, "done")
	kinds := map[string]int{}
	for _, e := range events {
		kinds[e.Type]++
		if strings.HasPrefix(e.Type, "tool_") && (e.ToolName != "fs.list" || e.IsError) {
			t.Errorf("a tool is told as %+v", e)
		}
	}
	if said == "" || kinds["tool_start"] != 1 || kinds["tool_end"] != 1 || kinds["done"] != 1 || kinds["error"] != 0 ||
		events[len(events)-1].Meta == nil || events[len(events)-1].Meta.DurationMs == nil {
		t.Errorf("the sender is told %q, %v", said, kinds)
	}
	seen, watched := readTo(t, watcher, "history_updated")
	if seen != said {
		t.Errorf("the watcher sees %q, the sender %q", seen, said)
	}
	var history struct {
		Messages []struct{ Role, Content string }
	}
	app.get("/api/agents/main/history?sessionKey=work", &history)
	if n := len(history.Messages); n == 0 || history.Messages[n-1].Content != said {
		t.Errorf("the history is %+v, told was %q", history, said)
	}
	// A command has no turn, and is answered all the same.
	tell(t, sender, map[string]any{"type": "send", "agentId": "main", "message": "/status"})
	if said, _ := readTo(t, sender, "done"); said == "" {
		t.Error("of a command nothing is told")
	}
	// A client that comes back goes on behind the last event that it has, in the middle of a text, too.
	middle := watched[len(watched)/2].Seq
	back := app.dial()
	tell(t, back, map[string]any{"type": "resume", "agentId": "main", "sessionKey": "work", "after": middle})
	if _, again := readTo(t, back, "history_updated"); again[0].Seq <= middle {
		t.Errorf("it resumes behind %d with %+v", middle, again[0])
	}
	tell(t, back, map[string]any{"type": "resume", "agentId": "main", "sessionKey": "work", "after": 1})
	if _, gap := readTo(t, back, "history_updated"); len(gap) != 1 {
		t.Errorf("what is lost is told as %+v", gap)
	}
	tell(t, watcher, map[string]any{"type": "unsubscribe"})
	for _, q := range []map[string]any{
		{"type": "send", "agentId": "main", "sessionKey": "others", "message": "x"},
		{"type": "subscribe", "agentId": "main", "sessionKey": "others"},
		{"type": "subscribe", "agentId": "main", "sessionId": "main:cli:local:home"},
		{"type": "send", "agentId": "nobody", "message": "x"},
		{"type": "send", "agentId": "main"},
	} {
		tell(t, watcher, q)
		if _, told := readTo(t, watcher, "error"); len(told) != 1 || told[0].Message == "" {
			t.Errorf("%v is %+v", q, told)
		}
	}
	if err := watcher.WriteMessage(websocket.TextMessage, []byte("{")); err != nil {
		t.Fatal(err)
	}
	readTo(t, watcher, "error")
}

func TestASocketNeedsATokenAndEndsWithIt(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app := newSender(t, a, "app", "main")
	address := "ws" + strings.TrimPrefix(app.base, "http") + "/ws"
	for name, c := range map[string]struct {
		header http.Header
		want   int
	}{
		"nobody":    {http.Header{}, http.StatusUnauthorized},
		"a guess":   {http.Header{"Authorization": {"Bearer x"}}, http.StatusUnauthorized},
		"two":       {http.Header{"Authorization": {"Bearer " + app.token, "Bearer x"}}, http.StatusUnauthorized},
		"a page":    {http.Header{"Authorization": {"Bearer " + app.token}, "Origin": {"https://evil.example"}}, 403},
		"a rebound": {http.Header{"Authorization": {"Bearer " + app.token}, "Host": {"evil.example"}}, 421},
	} {
		_, resp, err := websocket.DefaultDialer.DialContext(t.Context(), address, c.header)
		if err == nil || resp == nil || resp.StatusCode != c.want {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
	if _, resp, err := websocket.DefaultDialer.DialContext(t.Context(), address+"?token="+app.token, nil); err == nil ||
		resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a token in the address: %v", err)
	}
	conn := app.dial()
	if _, err := operate.RevokeToken.Call(t.Context(), a.Caller(), operate.TokenName{Name: "app"}); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
	_, _, err := conn.ReadMessage()
	if !websocket.IsCloseError(err, websocket.ClosePolicyViolation) {
		t.Errorf("a revoked token: %v", err)
	}
}

func TestASocketSeesTheRunsOfOtherChannels(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	conn := newAPI(t, a, "reader", "read").dial()
	tell(t, conn, map[string]any{"type": "subscribe", "sessionId": "main:cli:local:home"})
	tell(t, conn, map[string]any{"type": "nonsense"})
	readTo(t, conn, "error")
	in := channels.Incoming{ID: "m1", Chat: "home", SenderID: "7", Parts: corebot.TextPart("hello there")}
	if _, err := a.Accept(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if said, _ := readTo(t, conn, "history_updated"); said == "" {
		t.Error("it sees nothing")
	}
}

// An end of a message is known by the message's id. So a socket has an id under way once, in whichever chat.
func TestASocketHasAnIDUnderWayOnce(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	conn := newSender(t, a, "app", "main", "work").dial()
	send := func(chat, message string) {
		tell(t, conn, map[string]any{
			"type": "send", "agentId": "main", "sessionKey": chat, "id": "x", "message": message,
		})
	}
	send("main", `/tool wait.until {"duration":"1h"}`)
	readTo(t, conn, "tool_end")
	send("work", "hello")
	if _, told := readTo(t, conn, "error"); !strings.Contains(told[len(told)-1].Message, "under way") {
		t.Fatalf("the id of another chat is answered with %+v", told)
	}
	if found, err := storage.NewLives(a.Store).Find(t.Context(), "x"); err != nil || len(found) != 1 ||
		found[0].Key.Chat != "main" {
		t.Errorf("its lives are %+v: %v", found, err)
	}
	tell(t, conn, map[string]any{"type": "send", "agentId": "main", "id": "stop", "message": "/stop"})
	for ends, last := 0, ""; ends < 2; ends++ { // of the command, and of the message that it stops
		_, told := readTo(t, conn, "done")
		if e := told[len(told)-1]; e.MessageID == last || e.SessionID != "main:api::main" {
			t.Errorf("an end is told as %+v", e)
		} else {
			last = e.MessageID
		}
	}
	send("work", "hello")
	if said, told := readTo(t, conn, "done"); said == "" || told[len(told)-1].SessionID != "main:api::work" {
		t.Errorf("after its end the id is answered with %q, %+v", said, told)
	}
}

// Two chats can have messages of one id. A socket tells of both runs, and of each its own text.
func TestASocketTellsRunsOfOneIDInSeveralChatsApart(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app := newSender(t, a, "app", "*")
	conn := app.dial()
	for _, chat := range []string{"one", "two"} {
		tell(t, conn, map[string]any{"type": "subscribe", "agentId": "main", "sessionKey": chat})
	}
	tell(t, conn, map[string]any{
		"type": "send", "agentId": "main", "sessionKey": "one", "id": "m1",
		"message": `/tool wait.until {"duration":"1h"}`,
	})
	readTo(t, conn, "tool_end")
	if status, got := app.say(`{"id": "m1", "sessionKey": "two", "content": "hello", "wait": 30}`); status != 200 {
		t.Fatalf("%d, %+v", status, got)
	}
	said, told := readTo(t, conn, "done")
	if end := told[len(told)-1]; end.SessionID != "main:api::two" || !strings.HasPrefix(said, "Hello!") {
		t.Errorf("the end of the other chat is told as %+v, %q", end, said)
	}
}

// A socket follows the chats that it has subscribed and those in which it waits for an end, and no others.
func TestASocketFollowsNoMoreChatsThanItWaitsFor(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	conn := newSender(t, a, "app", "*").dial()
	tell(t, conn, map[string]any{
		"type": "send", "agentId": "main", "id": "long", "message": `/tool wait.until {"duration":"1h"}`,
	})
	readTo(t, conn, "tool_end")
	for i := range 200 { // of at most 70 at once
		chat := map[string]any{"type": "subscribe", "agentId": "main", "sessionKey": fmt.Sprint("c", i)}
		tell(t, conn, chat)
		chat["type"] = "unsubscribe"
		tell(t, conn, chat)
	}
	tell(t, conn, map[string]any{"type": "nonsense"})
	if _, told := readTo(t, conn, "error"); strings.Contains(told[len(told)-1].Message, "follows") {
		t.Errorf("it is told %+v", told[len(told)-1])
	}
	tell(t, conn, map[string]any{"type": "send", "agentId": "main", "id": "stop", "message": "/stop"})
	for range 2 {
		readTo(t, conn, "done")
	}
}

// A client that was cut off behind the last text of a run comes back: it has the answer, and must not show it twice.
func TestAClientThatResumesBehindTheTextOfARunShowsItsAnswerOnce(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app := newSender(t, a, "app", "main")
	w := app.dial()
	tell(t, w, map[string]any{"type": "subscribe", "agentId": "main", "sessionKey": "main"})
	tell(t, w, map[string]any{"type": "nonsense"})
	readTo(t, w, "error") // behind the subscription
	tell(t, app.dial(), map[string]any{"type": "send", "agentId": "main", "id": "m1", "message": "hello there"})
	said, all := readTo(t, w, "history_updated")
	var last int64
	for _, e := range all {
		if e.Type == "text" {
			last = e.Seq
		}
	}
	again := app.dial()
	tell(t, again, map[string]any{"type": "resume", "agentId": "main", "sessionKey": "main", "after": last})
	_, rest := readTo(t, again, "history_updated")
	shown := said
	for _, e := range rest {
		switch e.Type {
		case "reset":
			shown = ""
		case "text":
			shown += e.Data
		}
	}
	if last == 0 || said == "" || shown != said {
		t.Errorf("it had %q, and shows %q", said, shown)
	}
}
