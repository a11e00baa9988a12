package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/load"
)

// box is a webhook in memory that keeps its promises but for one, which break names.
type box struct {
	t        *testing.T
	breaks   string
	giveUp   func() // ends the run
	mu       sync.Mutex
	requests int
	seen     map[string]bool
	reads    map[string]int
	replies  map[string][]load.Reply
	waiting  map[string]bool // the chats whose callers have all the replies that there are
}

func (b *box) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests++; r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	switch {
	case b.breaks == "connections" && b.requests%3 == 0:
		panic(http.ErrAbortHandler)
	case b.breaks == "overload" && b.requests%3 == 0:
		http.Error(w, "later", http.StatusServiceUnavailable)
	case r.Method == http.MethodPost:
		b.post(w, r)
	default:
		b.page(w, r)
	}
}

func (b *box) post(w http.ResponseWriter, r *http.Request) {
	var m load.Message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		b.t.Error(err)
	}
	status := "duplicate"
	if !b.seen[m.ID] || b.breaks == "dedupe" {
		status = "accepted"
	}
	if !b.seen[m.ID] {
		b.seen[m.ID] = true
		b.answer(m)
	}
	if b.breaks == "first" {
		status = "duplicate"
	}
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(map[string]string{"id": m.ID, "status": status})
	if b.breaks == "acknowledgement" && b.requests%3 == 0 { // accepted, and the caller never learns of it
		panic(http.ErrAbortHandler)
	}
}

func (b *box) answer(m load.Message) {
	list := b.replies[m.ChatID]
	reply := load.Reply{ID: "to " + m.ID, InReplyTo: m.ID, Content: "hello"}
	third, last := strings.HasSuffix(m.ID, "-2"), strings.HasSuffix(m.ID, "-3")
	switch {
	case b.breaks == "reply" && (third || last):
	case b.breaks == "once" && third:
		list = append(list, reply, reply)
	case b.breaks == "order" && last:
		list = slices.Insert(list, len(list)-1, reply)
	case b.breaks == "content" && last:
		reply.Content = ""
		list = append(list, reply)
	default:
		list = append(list, reply)
	}
	b.replies[m.ChatID] = list
}

// page gives two replies at a time. The cursor is how many were given.
func (b *box) page(w http.ResponseWriter, r *http.Request) {
	chat, from := r.FormValue("chatId"), 0
	_, _ = fmt.Sscan(r.FormValue("after"), &from)
	all := b.replies[chat]
	if from == 0 {
		b.reads[chat]++
	}
	if b.breaks == "repeatable" && b.reads[chat] > 1 {
		all = all[:1]
	}
	if b.breaks == "repeatable, one more" && b.reads[chat] > 1 {
		all = append(slices.Clone(all), all[0])
	}
	b.waiting[chat] = from == len(all)
	if b.breaks == "reply" && b.waiting["x-chat-0"] && b.waiting["x-chat-1"] && b.waiting["x-chat-2"] {
		b.giveUp()
	}
	to := max(min(from+2, len(all)), from)
	_ = json.NewEncoder(w).Encode(map[string]any{"messages": all[min(from, to):to], "cursor": fmt.Sprint(to)})
}

// play runs eleven messages in three chats against a webhook that breaks one promise.
func play(t *testing.T, breaks, token string) (load.Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	b := &box{
		t: t, breaks: breaks, giveUp: cancel,
		seen: map[string]bool{}, reads: map[string]int{}, replies: map[string][]load.Reply{},
		waiting: map[string]bool{},
	}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	c := load.NewClient(server.URL, token)
	t.Cleanup(c.Close)
	return load.Run(ctx, c, load.Options{Messages: 11, Chats: 3, Copies: 3, Prefix: "x-"})
}

func TestAWebhookThatKeepsItsPromisesPasses(t *testing.T) {
	got, err := play(t, "", "secret")
	if err != nil {
		t.Fatal(err)
	}
	got.Seconds, got.PerSecond = 0, 0
	if want := (load.Report{Messages: 11, Chats: 3, Posts: 33, Duplicates: 22, Replies: 11}); got != want {
		t.Errorf("the report is %+v, want %+v", got, want)
	}
}

func TestWhatPassesIsTriedAgainUnderTheSameID(t *testing.T) {
	for _, breaks := range []string{"connections", "overload", "acknowledgement"} {
		if got, err := play(t, breaks, "secret"); err != nil || got.Retries == 0 || got.Replies != 11 {
			t.Errorf("%s: %+v, %v", breaks, got, err)
		}
	}
}

// A service that refuses for a second is asked once more, a second later.
func TestACallerWaitsAsLongAsItIsTold(t *testing.T) {
	t.Parallel()
	var asked []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked = append(asked, time.Now()); len(asked) == 1 {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too soon", http.StatusTooManyRequests)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"id": "1", "status": "accepted"}`))
	}))
	defer server.Close()
	c := load.NewClient(server.URL, "secret")
	defer c.Close()
	got, err := c.Post(t.Context(), load.Message{ID: "1"})
	if err != nil || got.Tries != 2 || asked[1].Sub(asked[0]) < time.Second {
		t.Errorf("%+v, %v, asked at %v", got, err, asked)
	}
}

func TestABrokenPromiseIsFound(t *testing.T) {
	for breaks, want := range map[string]string{
		"dedupe":               "3 of 3 copies were acknowledged as new",
		"first":                "0 of 3 copies were acknowledged as new",
		"once":                 "all messages are answered, and then comes",
		"order":                "the next reply should be to x-chat-0-message-2",
		"content":              "the next reply should be to x-chat-0-message-3",
		"repeatable":           "read again, the 4 replies are 1 others",
		"repeatable, one more": "read again, the 4 replies are 5 others",
	} {
		if _, err := play(t, breaks, "secret"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v", breaks, err)
		}
	}
}

func TestAReplyThatNeverComesIsFoundWhenTheRunIsGivenUp(t *testing.T) {
	got, err := play(t, "reply", "secret")
	if err == nil || !strings.Contains(err.Error(), "2 of 4 messages are answered") || got.Replies != 6 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestARefusalIsNotTriedAgain(t *testing.T) {
	if _, err := play(t, "", "wrong"); err == nil || !strings.Contains(err.Error(), "answered 401: who are you?") {
		t.Errorf("the error is %v", err)
	}
}

func TestARunWithoutMessagesIsRefused(t *testing.T) {
	for _, o := range []load.Options{
		{Chats: 1, Copies: 1},
		{Messages: 1, Copies: 1},
		{Messages: 1, Chats: 1},
		{Messages: 1, Chats: 2, Copies: 1},
	} {
		if _, err := load.Run(t.Context(), nil, o); err == nil {
			t.Errorf("%+v can be run", o)
		}
	}
}
