package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/config"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/storage"
)

// shownRequests are the requests of the page Approvals.
type shownRequests struct {
	Waiting []struct {
		ID    int64
		Chat  string
		Calls []struct{ Args struct{ Path string } }
	}
}

// One decision is about all calls of a request. A request that is longer than a page of the list is shown whole, and a
// decision about it is about no other.
func TestADecisionIsAboutAllCallsThatThePageShows(t *testing.T) {
	t.Parallel()
	const calls = 25 // a page of the list has 20
	a := daemon(t, t.TempDir(), func(c *config.Config) { c.Approvals.Always = config.NewList("fs.list") })
	b := loggedIn(t, a)
	for chat := range 3 {
		var lines strings.Builder
		for i := range calls {
			fmt.Fprintf(&lines, "/tool fs.list {\"path\":\"c%d-%02d\"}\n", chat, i)
		}
		path := fmt.Sprintf("/chats/main:console:local:c%d", chat)
		if status, text := b.post(path+"/send", url.Values{"text": {lines.String()}}); status != 200 {
			t.Fatalf("chat %d: %d, %s", chat, status, text)
		}
		b.eventually(path, "May it call")
	}
	var shown shownRequests
	_, text := b.get("/approvals", "Accept", "application/json")
	if err := json.Unmarshal([]byte(text), &shown); err != nil || len(shown.Waiting) != 3 {
		t.Fatalf("the page has %s: %v", text, err)
	}
	_, html := b.get("/approvals")
	for chat, r := range shown.Waiting {
		if len(r.Calls) != calls {
			t.Errorf("request %d is shown with %d calls, want %d", r.ID, len(r.Calls), calls)
		}
		path := fmt.Sprintf("/chats/main:console:local:c%d", chat)
		_, ofChat := b.get(path)
		var there struct {
			Waiting []struct{ Approvals []struct{} }
		}
		_, text := b.get(path, "Accept", "application/json")
		if err := json.Unmarshal([]byte(text), &there); err != nil || len(there.Waiting) != 1 ||
			len(there.Waiting[0].Approvals) != calls {
			t.Errorf("the chat of request %d shows %s: %v", r.ID, text, err)
		}
		for i := range calls {
			call := fmt.Sprintf("c%d-%02d", chat, i)
			if _, waiting, _ := strings.Cut(ofChat, "May it call"); !strings.Contains(waiting, call) ||
				!strings.Contains(html, call) {
				t.Errorf("the call %s is not shown with its request", call)
			}
		}
	}
	decided := shown.Waiting[1]
	if status, text := b.post(fmt.Sprintf("/approvals/%d", decided.ID), url.Values{"answer": {"deny"}}); status != 200 {
		t.Fatalf("the denial is %d, %s", status, text)
	}
	for _, r := range shown.Waiting {
		want := corebot.ApprovalAwaited
		if r.ID == decided.ID {
			want = corebot.ApprovalDenied
		}
		found, err := storage.NewApprovals(a.Store).Request(t.Context(), r.ID)
		if err != nil || len(found) != calls {
			t.Fatalf("request %d has %d calls: %v", r.ID, len(found), err)
		}
		for _, call := range found {
			if call.State != want {
				t.Errorf("%s is %s, want %s", call.Bound.Args, call.State, want)
			}
		}
	}
}

// Corebot notes a chat of the terminal when its first turn ends. The page of the chat shows the first message, and the
// call that waits, before that. The list of approvals links to it.
func TestAChatIsShownWhileItsFirstMessageWaits(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir(), func(c *config.Config) { c.Approvals.Always = config.NewList("fs.list") })
	b := loggedIn(t, a)
	const key, path = "main:cli:local:fresh", "/chats/main:cli:local:fresh"
	if status, text := b.get(path); status != 404 {
		t.Fatalf("the page of a chat in which nobody has written is %d, %s", status, text)
	}
	if _, err := a.Accept(t.Context(), channels.Incoming{
		ID: "m1", Agent: corebot.DefaultAgent, Account: corebot.TerminalAccount, Chat: "fresh",
		SenderID: strconv.Itoa(os.Getuid()), Parts: corebot.TextPart(`/tool fs.list {"path": "."}`),
	}); err != nil {
		t.Fatal(err)
	}
	b.eventually("/approvals", path)
	k, err := corebot.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := operate.ShowChat.Call(t.Context(), a.Caller(), operate.ChatQuery{Key: k}); !errors.Is(err,
		corebot.ErrNotFound) {
		t.Fatalf("the chat is noted before its first turn has ended, and the test shows nothing: %+v, %v", c, err)
	}
	if status, text := b.get(path); status != 200 || !strings.Contains(text, "May it call") {
		t.Errorf("the page of the chat is %d, %s", status, text)
	}
}

// Of two browsers that decide about one request, the second is told what the first has decided, and changes nothing.
func TestOfTwoDecisionsTheSecondIsToldOfTheFirst(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir(), func(c *config.Config) { c.Approvals.Always = config.NewList("fs.list") })
	b := loggedIn(t, a)
	const chat = "/chats/main:console:local:x"
	b.post(chat+"/send", url.Values{"text": {`/tool fs.list {"path":"."}`}, "id": {"m1"}})
	b.eventually(chat, "May it call")
	answers := make(chan string, 2)
	for answer, by := range map[string]browser{"once": b, "deny": loggedIn(t, a)} {
		go func() {
			_, text := by.post("/approvals/1", url.Values{"answer": {answer}})
			answers <- text
		}()
	}
	late := 0
	for range 2 {
		select {
		case text := <-answers:
			late += strings.Count(text, "Somebody was faster")
		case <-time.After(20 * time.Second):
			t.Fatal("a decision has no answer")
		}
	}
	if late != 1 {
		t.Errorf("%d are told that they are late", late)
	}
	found, err := storage.NewApprovals(a.Store).Request(t.Context(), 1)
	if err != nil || len(found) != 1 || found[0].State == corebot.ApprovalAwaited {
		t.Errorf("the request is %+v: %v", found, err)
	}
}

// A session that ends closes its open pages at once, and no others.
func TestAnOpenPageEndsWithItsSession(t *testing.T) {
	t.Parallel()
	a := daemon(t, t.TempDir())
	open := func(b browser, path string) (ended chan struct{}) {
		t.Helper()
		resp, err := b.client.Do(b.request("GET", path, nil, "Accept", "text/event-stream")) //nolint:bodyclose // below
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %v", path, err)
		}
		ended = make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, resp.Body) // until the server ends it
			_ = resp.Body.Close()
			close(ended)
		}()
		return ended
	}
	pages := []string{"/now/stream", "/chats/main:console:local:x/stream"}
	stays := loggedIn(t, a)
	var staying []chan struct{}
	for _, path := range pages {
		staying = append(staying, open(stays, path))
	}
	for name, end := range map[string]func(b browser, id int64){
		"revoked by a command": func(_ browser, id int64) {
			if _, err := operate.RevokeSessions.Call(t.Context(), a.Caller(),
				operate.ByRules{IDs: []int64{id}}); err != nil {
				t.Fatal(err)
			}
		},
		"revoked in another browser": func(_ browser, id int64) {
			if status, _ := stays.post(fmt.Sprintf("/sessions/%d/revoke", id), nil); status != 200 {
				t.Errorf("the other browser gets %d", status)
			}
		},
		"logged out": func(b browser, _ int64) { b.post("/logout", nil) },
	} {
		b := loggedIn(t, a)
		sessions, err := operate.ListSessions.Call(t.Context(), a.Caller(), operate.SessionQuery{})
		if err != nil || len(sessions.Rows) != 2 {
			t.Fatalf("the sessions are %+v: %v", sessions, err)
		}
		var leaving []chan struct{}
		for _, path := range pages {
			leaving = append(leaving, open(b, path))
		}
		end(b, sessions.Rows[1].ID)
		for i, ended := range leaving {
			select {
			case <-ended:
			case <-time.After(10 * time.Second): // a beat is 25
				t.Fatalf("%s: %s stays open", name, pages[i])
			}
		}
	}
	for i, ended := range staying {
		select {
		case <-ended:
			t.Errorf("%s of another session has ended", pages[i])
		default:
		}
	}
}
