package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/app"
	"github.com/corebot/corebot/internal/operate"
)

// newSender makes a token that sends as a principal into chats, and a caller that holds it.
func newSender(t testing.TB, a *app.App, name string, chats ...string) api {
	t.Helper()
	made, err := operate.AddToken.Call(t.Context(), a.Caller(), operate.NewToken{
		Name: name, Scopes: []corebot.Scope{corebot.ScopeSend}, Sender: name, Chats: chats,
	})
	if err != nil {
		t.Fatal(err)
	}
	return api{t, "http://" + a.ConsoleAddr(), made.Secret}
}

// answered is what a caller reads of a sent message.
type answered struct {
	ID, SessionKey, SessionID, Status, State string
	Answered                                 bool
	Messages                                 []struct{ ID, InReplyTo, Content, Cursor string }
}

const messages = "/api/agents/main/messages"

func (a api) say(body string) (status int, out answered) {
	a.t.Helper()
	status, answer := a.ask("POST", messages, body)
	if err := json.Unmarshal(answer, &out); err != nil {
		a.t.Fatalf("%s: %v", answer, err)
	}
	return status, out
}

func TestAProgramSendsAMessageOnceAndGetsItsAnswer(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app := newSender(t, a, "app", "family", "main")
	body := `{"id": "m1", "sessionKey": "family", "content": "hello there", "wait": 30}`
	status, got := app.say(body)
	if status != http.StatusOK || !got.Answered || len(got.Messages) != 1 || got.Messages[0].InReplyTo != "m1" ||
		got.Messages[0].Content == "" || got.Status != "accepted" || got.SessionID != "main:api::family" {
		t.Fatalf("the answer is %d, %+v", status, got)
	}
	status, again := app.say(body)
	if status != http.StatusOK || again.Status != "duplicate" || len(again.Messages) != 1 ||
		again.Messages[0].ID != got.Messages[0].ID {
		t.Errorf("the same again is %d, %+v", status, again)
	}
	if status, answer := app.ask("POST", messages, strings.Replace(body, "hello", "bye", 1)); status !=
		http.StatusConflict {
		t.Errorf("another text under the id: %d, %s", status, answer)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", app.base+messages,
		strings.NewReader(`{"sessionKey": "family", "content": "hello there"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Authorization": {"Bearer " + app.token}, "Content-Type": {"application/json"}, "Idempotency-Key": {"m1"},
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	var keyed answered
	err = json.NewDecoder(resp.Body).Decode(&keyed)
	_ = resp.Body.Close() // it was read
	if err != nil || keyed.ID != "m1" || keyed.Status != "duplicate" {
		t.Errorf("the key of a message is %+v: %v", keyed, err)
	}
	if status, got := app.say(`{"content": "and here"}`); status != http.StatusAccepted || got.ID == "" ||
		got.SessionKey != "main" {
		t.Errorf("without id and chat: %d, %+v", status, got)
	}
	if status, got := app.say(`{"content": "/status", "wait": 30}`); status != http.StatusOK ||
		len(got.Messages) != 1 {
		t.Errorf("a command: %d, %+v", status, got)
	}
	for body, want := range map[string]int{
		`{"content": "x", "sessionKey": "others"}`:                    http.StatusForbidden,
		`{"content": "x", "sessionKey": "*"}`:                         http.StatusUnprocessableEntity,
		`{"content": "x", "sessionKey": "family%00"}`:                 http.StatusForbidden,
		`{"content": "x", "sessionKey": "fam\u0001"}`:                 http.StatusUnprocessableEntity,
		`{"content": ""}`:                                             http.StatusUnprocessableEntity,
		`{"content": "x", "wait": 61}`:                                http.StatusUnprocessableEntity,
		`{"content": "x", "wait": -1}`:                                http.StatusUnprocessableEntity,
		`{"content": "x", "senderId": "admin"}`:                       http.StatusBadRequest,
		`{"content": "x", "id": "` + strings.Repeat("x", 2000) + `"}`: http.StatusUnprocessableEntity,
	} {
		if status, answer := app.ask("POST", messages, body); status != want {
			t.Errorf("%.60s is %d, want %d: %s", body, status, want, answer)
		}
	}
	if status, answer := app.ask("POST", "/api/agents/nobody/messages", `{"content": "x"}`); status !=
		http.StatusNotFound {
		t.Errorf("another agent: %d, %s", status, answer)
	}
	silent := newSender(t, a, "silent")
	if status, answer := silent.ask("POST", messages, `{"content": "x"}`); status != http.StatusForbidden {
		t.Errorf("a token without chats: %d, %s", status, answer)
	}
}

func TestHistoryIsReadWhereATokenMayTalkOrByReaders(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	one, other := newSender(t, a, "one", "a:b", "main"), newSender(t, a, "other", "a%3Ab")
	status, got := one.say(`{"sessionKey": "a:b", "content": "/tool fs.list {\"path\":\".\"}", "wait": 30}`)
	if status != http.StatusOK {
		t.Fatalf("%d, %+v", status, got)
	}
	reader := newAPI(t, a, "reader", corebot.ScopeRead)
	var simple, full struct {
		SessionID, Next string
		Messages        []struct {
			Role, ToolName, ToolCallID string
			Content                    json.RawMessage
			IsError                    *bool
			Timestamp                  int64
			Meta                       *struct {
				Model string
				Usage struct{ Input, Output, TotalTokens int64 }
			}
		}
	}
	history := "/api/agents/main/history?sessionKey=a%3Ab"
	one.get(history, &simple)
	one.get(history+"&view=full", &full)
	reader.get("/api/agents/main/history?view=full&sessionId="+url.QueryEscape(full.SessionID), &full)
	if len(simple.Messages) != 2 || simple.Messages[0].Role != "user" || simple.Messages[1].Role != "assistant" ||
		simple.Messages[0].Timestamp < time.Now().Add(-time.Minute).UnixMilli() {
		t.Errorf("the simple view is %+v", simple)
	}
	kinds := ""
	for _, m := range full.Messages {
		var blocks []struct{ Type, Text, Name string }
		if err := json.Unmarshal(m.Content, &blocks); err != nil {
			t.Fatal(err)
		}
		kinds += m.Role + ":"
		for _, b := range blocks {
			kinds += b.Type + b.Name + " "
		}
		if m.Role == "assistant" && (m.Meta == nil || m.Meta.Model == "") {
			t.Errorf("of an answer no model is told: %+v", m)
		}
		if m.Role == "toolResult" && (m.ToolName != "fs.list" || m.IsError == nil || *m.IsError || m.ToolCallID == "") {
			t.Errorf("the result is %+v", m)
		}
	}
	if want := "user:text assistant:toolCallfs.list toolResult:text assistant:text "; kinds != want {
		t.Errorf("the full view has %q, want %q", kinds, want)
	}
	for path, want := range map[string]int{
		history: http.StatusForbidden, "/api/agents/main/history": http.StatusForbidden,
		"/api/agents/main/history?sessionId=main:api::a%253Ab":   http.StatusForbidden, // decodes to the chat a:b
		"/api/agents/main/history?sessionKey=a%253Ab":            http.StatusOK,
		"/api/agents/main/history?sessionId=main:webhook::a":     http.StatusForbidden,
		"/api/agents/other/history?sessionKey=a%253Ab":           http.StatusNotFound,
		"/api/agents/main/history?sessionKey=a%253Ab&view=thick": http.StatusBadRequest,
	} {
		if status, answer := other.ask("GET", path, ""); status != want {
			t.Errorf("%s is %d, want %d: %s", path, status, want, answer)
		}
	}
	seen, after := 0, ""
	for pages := 0; pages == 0 || after != ""; pages++ {
		var page struct {
			Messages []struct{}
			Next     string
		}
		one.get(fmt.Sprintf("%s&view=full&limit=1&after=%s", history, after), &page)
		seen, after = seen+len(page.Messages), page.Next
	}
	if seen != len(full.Messages) {
		t.Errorf("the pages have %d entries, want %d", seen, len(full.Messages))
	}
}

func TestATokenThatIsRevokedWhileItWaitsIsToldSo(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	a := daemon(t, home)
	app := newSender(t, a, "app", "main")
	if status, got := app.say(`{"id": "first", "content": "/tool wait.until {\"duration\":\"1h\"}"}`); status !=
		http.StatusAccepted {
		t.Fatalf("%d, %+v", status, got)
	}
	type end struct {
		status int
		answer []byte
	}
	ended := make(chan end, 1)
	go func() {
		status, answer := app.ask("POST", messages, `{"id": "second", "content": "hello", "wait": 50}`)
		ended <- end{status, answer}
	}()
	for len(ended) == 0 {
		told, err := operate.Why.Call(t.Context(), a.Caller(), operate.ByMessage{MessageID: "second"})
		if err == nil && len(told.Lives) > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := operate.RevokeToken.Call(t.Context(), a.Caller(), operate.TokenName{Name: "app"}); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-ended:
		if e.status != http.StatusUnauthorized {
			t.Errorf("it ends with %d, %s", e.status, e.answer)
		}
	case <-time.After(3 * time.Second):
		t.Error("it goes on waiting")
	}
}

// Ids of messages are those of a chat. A program that counts in each chat has the same ones in many.
func TestAProgramHasItsAnswerHoweverManyChatsHaveUsedTheID(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	app := newSender(t, a, "app", "*")
	for i := range 23 {
		status, got := app.say(fmt.Sprintf(`{"id": "m1", "sessionKey": "c%d", "content": "hello", "wait": 30}`, i))
		if status != http.StatusOK || !got.Answered || len(got.Messages) != 1 {
			t.Errorf("in chat %d it is %d, %+v", i, status, got)
		}
	}
}
