package webhook

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/live"
)

// following reads a stream as browsers do.
type following struct {
	t    *testing.T
	body io.ReadCloser
	r    *bufio.Reader
	id   string // the last event id
}

// follow opens a stream. resume is a Last-Event-ID, or nothing.
func (f *fixture) follow(chat, resume string) *following {
	f.t.Helper()
	r := f.request("GET", pathStream+"?chatId="+chat, nil)
	if resume != "" {
		r.Header.Set("Last-Event-ID", resume)
	}
	return f.open(r)
}

func (f *fixture) open(r *http.Request) *following {
	f.t.Helper()
	got, err := f.client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	if !got.Close { // what was cut off in the middle must not be followed by another answer
		f.t.Error("the connection is kept after the stream")
	}
	if got.StatusCode != 200 || got.Header.Get("Content-Type") != "text/event-stream" {
		f.t.Fatalf("the stream begins with %d %s", got.StatusCode, got.Header.Get("Content-Type"))
	}
	f.t.Cleanup(func() { _ = got.Body.Close() })
	return &following{t: f.t, body: got.Body, r: bufio.NewReader(got.Body)}
}

func (s *following) Close() { _ = s.body.Close() }

// block reads up to the next empty line.
func (s *following) block() (lines []string, err error) {
	for {
		line, err := s.r.ReadString('\n')
		if err != nil || line == "\n" {
			return lines, err
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
}

// next is the next event as "name data", comments passed over.
func (s *following) next() (name string, data map[string]string) {
	s.t.Helper()
	for {
		lines, err := s.block()
		if err != nil {
			s.t.Fatalf("the stream ended: %v", err)
		}
		for _, line := range lines {
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "id":
				s.id = value
			case "event":
				name = value
			case "data":
				if err := json.Unmarshal([]byte(value), &data); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		if data != nil {
			return name, data
		}
	}
}

// wantReplies checks that the next events are these replies and nothing else.
func (s *following) wantReplies(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		if name, data := s.next(); name != "message" || data["id"] != id || data["cursor"] != s.id ||
			data["content"] != "text of "+id {
			s.t.Errorf("got %s %v, want the reply %s", name, data, id)
		}
	}
}

// wantEnd checks that the stream ends with no further event.
func (s *following) wantEnd() {
	s.t.Helper()
	if b, _ := io.ReadAll(s.r); strings.Contains(string(b), "event:") {
		s.t.Errorf("more came: %s", b)
	}
}

func (f *fixture) sendAll(ids ...string) {
	f.t.Helper()
	for _, id := range ids {
		f.send("c", id, "text of "+id)
	}
}

func TestAStreamHasTheRepliesFromNowOnOrFromACursor(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		f.sendAll("1", "2")
		second := f.outboundPage("").Messages[1].Cursor
		first := f.outboundPage("").Messages[0].Cursor
		now := f.follow("c", "")
		resumed := f.follow("c", first)
		after := f.open(f.request("GET", pathStream+"?chatId=c&after="+second, nil))
		reconnected := f.request("GET", pathStream+"?chatId=c&after=0", nil)
		reconnected.Header.Set("Last-Event-ID", second)
		both := f.open(reconnected)
		all := f.open(f.request("GET", pathStream+"?chatId=c&after=0", nil))
		f.send("other", "x", "x")
		f.sendAll("3")
		f.sendAll("3", "4") // sent again it is no second reply
		for s, ids := range map[*following][]string{
			now: {"3", "4"}, resumed: {"2", "3", "4"}, after: {"3", "4"}, both: {"3", "4"}, all: {"1", "2", "3", "4"},
		} {
			s.wantReplies(ids...)
		}
		f.stop()
		now.wantEnd()
	})
}

func TestAQuietStreamCanBeResumedTooAndStaysOpen(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		f.sendAll("1")
		s := f.follow("c", "")
		lines, err := s.block()
		want := []string{"retry: 1000", "id: " + f.outboundPage("").Cursor}
		if err != nil || !reflect.DeepEqual(lines, want) {
			t.Errorf("the stream begins with %q, %v", lines, err)
		}
		for range 20 { // five minutes: longer than any time that requests have
			began := time.Now()
			lines, err := s.block()
			if err != nil || !reflect.DeepEqual(lines, []string{": keep-alive"}) {
				t.Fatalf("got %q, %v", lines, err)
			}
			wantTook(t, began, 15*time.Second)
		}
		f.sendAll("2")
		s.wantReplies("2")
	})
}

func TestAStreamShowsTheTurnBeforeItsReply(t *testing.T) {
	within(t, func(t *testing.T) {
		hub := new(live.Hub)
		f := start(t, Options{Live: hub})
		s := f.follow("c", "")
		event := live.Event{Key: f.key("c"), MessageID: "q", Tool: "fs.read"}
		for _, e := range []struct {
			kind live.EventKind
			text string
		}{
			{live.TurnStarted, ""},
			{live.Text, "let me\nsee <b>"},
			{live.TextReset, ""},
			{live.ToolStarted, `{"path":"secret"}`},
			{live.ToolEnded, "success"},
			{live.Text, "it is"},
			{live.TurnEnded, "answered"},
		} {
			event.Kind, event.Text = e.kind, e.text
			hub.Publish(event)
		}
		event.Key = f.key("other")
		hub.Publish(event)
		f.sendAll("1")
		for _, want := range []struct {
			name string
			data map[string]string
		}{
			{"delta", map[string]string{"inReplyTo": "q", "text": "let me\nsee <b>"}},
			{"reset", map[string]string{"inReplyTo": "q"}},
			{"tool", map[string]string{"inReplyTo": "q", "tool": "fs.read", "state": "started"}},
			{"tool", map[string]string{"inReplyTo": "q", "tool": "fs.read", "state": "ended", "outcome": "success"}},
			{"delta", map[string]string{"inReplyTo": "q", "text": "it is"}},
		} {
			if name, data := s.next(); name != want.name || !reflect.DeepEqual(data, want.data) {
				t.Errorf("got %s %v, want %+v", name, data, want)
			}
		}
		s.wantReplies("1")
	})
}

// Both are ready at once here; which of them select takes is chance, so it is done often enough to see both.
func TestAReplyNeverOvertakesItsDeltas(t *testing.T) {
	w, err := prepare(&sparse{cursors: []int64{1}}, Options{Token: testToken})
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		page := &sheet{header: http.Header{}}
		events, wake := make(chan live.Event, 1), make(chan struct{}, 1)
		f := &follower{
			handler: &handler{Webhook: w}, query: query{after: 1}, out: newStream(ctx, page), events: events,
			wake: wake,
		}
		w.replies = channels.NewReplies(&late{
			posted:  sparse{cursors: []int64{2}},
			deliver: func() { events <- live.Event{Kind: live.Text}; wake <- struct{}{} }, done: cancel,
		})
		f.follow(ctx)
		f.out.close()
		if got := page.body.String(); !strings.Contains(got, "event: delta") ||
			strings.Index(got, "event: message") < strings.Index(got, "event: delta") {
			t.Fatalf("the stream is %q", got)
		}
	}
}

// late is a mailbox that is empty when it is first asked; right after that a reply comes.
type late struct {
	posted        sparse
	deliver, done func()
}

func (l *late) Post(context.Context, corebot.Message) error      { return nil }
func (l *late) Last(context.Context, corebot.Key) (int64, error) { return 0, nil }
func (l *late) After(ctx context.Context, k corebot.Key, cursor int64, limit int) ([]corebot.Posted, error) {
	if l.posted.asked++; l.posted.asked == 1 {
		l.deliver()
		return nil, nil
	}
	page, err := l.posted.After(ctx, k, cursor, limit)
	if len(page) == 0 {
		l.done()
	}
	return page, err
}

func TestASlowReaderIsCutOffAndNobodyElseWaits(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		quick := f.follow("c", "")
		slow := f.dial()
		slow.say("GET /webhook/stream?chatId=c HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + testToken + "\r\n\r\n")
		if line, err := slow.r.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("the stream begins with %q, %v", line, err)
		}
		synctest.Wait()
		began := time.Now()
		for i := range 20 {
			f.send("c", fmt.Sprint(i), strings.Repeat("x", 100_000))
			f.opts.Live.Publish(live.Event{Kind: live.Text, Key: f.key("c"), Text: "delta"})
		}
		for replies := 0; replies < 20; {
			if name, _ := quick.next(); name == "message" {
				replies++
			}
		}
		wantTook(t, began, 0)
		go func() { _, _ = io.Copy(io.Discard, quick.r) }()
		time.Sleep(writeTime + time.Second)
		synctest.Wait()
		f.waits.mu.Lock()
		open := len(f.waits.open)
		f.waits.mu.Unlock()
		if open != 1 {
			t.Errorf("%d streams are open, want the quick one", open)
		}
		quick.Close()
	})
}

func TestStreamsEndWhenTheirCredentialIsReplacedOrCorebotStops(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"the credential is replaced": func(f *fixture) {
			if err := f.SetCredentials(nextToken, testSecret); err != nil {
				f.t.Fatal(err)
			}
		},
		"corebot stops": func(f *fixture) { f.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T) {
				f := start(t, Options{Token: testToken, Secret: testSecret})
				reads := f.follow("c", "")
				stuck := f.dial() // it does not read what is sent to it
				stuck.say("GET /webhook/stream?chatId=c HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + testToken +
					"\r\n\r\n")
				synctest.Wait()
				began := time.Now()
				ended := make(chan error, 1)
				go func() {
					_, err := io.Copy(io.Discard, reads.r)
					wantTook(t, began, 0)
					ended <- err
				}()
				end(f)
				if err := <-ended; err != nil {
					t.Errorf("the stream of who reads did not end well: %v", err)
				}
				time.Sleep(3*time.Second - time.Since(began))
				synctest.Wait()
				if n, err := stuck.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("the other one still gets something after 3 s: %d, %v", n, err)
				}
			})
		})
	}
}

func TestAStreamThatWasOpenedDuringAReplacementEnds(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		h := &handler{Webhook: f.Webhook, stopping: t.Context()}
		old := *f.credentials.Load().token
		if err := f.SetCredentials(nextToken, ""); err != nil {
			t.Fatal(err)
		}
		_, _, p := h.wait(f.request("GET", pathStream, nil), old, kindStream)
		if p == nil || p.status != http.StatusUnauthorized {
			t.Errorf("a proof from before the replacement opens a stream: %+v", p)
		}
	})
}
