package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

const postHead = "POST /webhook HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + testToken +
	"\r\nContent-Type: application/json\r\n"

func withLength(body string) string {
	return postHead + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

func TestHeadersHaveFiveSeconds(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for _, sent := range []string{"POST /webhook HTTP/1.1\r\nHost: h\r\n", "POST /webhook HTTP/1.1\r\nX-More: x"} {
			began := time.Now()
			p := f.dial()
			go func() { // a slow loris: a header line each second, for as long as it may
				_, err := p.Write([]byte(sent))
				for ; err == nil; time.Sleep(time.Second) {
					_, err = p.Write([]byte("X-More: x\r\n"))
				}
			}()
			_, _ = io.ReadAll(p.r)
			wantTook(t, began, headerTime)
			time.Sleep(2 * time.Second) // its writer sees that it is closed
		}
	})
}

func TestABodyHasThirtySeconds(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for _, framing := range []string{
			"Content-Length: 100\r\n\r\n{",
			"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"",
		} {
			began := time.Now()
			p := f.dial()
			p.say(postHead + framing)
			wantProblem(t, p.hear(), 408, "30s")
			wantTook(t, began, bodyTime)
			p.wantClosed()
		}
		if f.door.count() != 0 {
			t.Error("something came in")
		}
	})
}

func TestAnIdleConnectionIsClosedAfterAMinute(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		p := f.dial()
		p.say(withLength(goodBody))
		if got := p.hear(); got.status != 202 {
			t.Fatalf("status %d", got.status)
		}
		began := time.Now()
		p.wantClosed()
		wantTook(t, began, idleTime)
	})
}

func TestAHalfSentRequestChangesNothing(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		whole := withLength(goodBody)
		for _, n := range []int{1, 20, len(postHead), len(whole) - len(goodBody), len(whole) - 1} {
			p := f.dial()
			if _, err := p.Write([]byte(whole[:n])); err != nil {
				t.Fatal(err)
			}
			_ = p.Close()
		}
		p := f.dial()
		p.say(postHead + "Transfer-Encoding: chunked\r\n\r\nzz\r\n")
		wantProblem(t, p.hear(), 400, "body")
		p.wantClosed()
		synctest.Wait()
		if f.door.count() != 0 {
			t.Error("something came in")
		}
		if got := f.post(goodBody); got.status != 202 {
			t.Errorf("the next caller gets %d", got.status)
		}
	})
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		p := f.dial()
		var all strings.Builder
		for i := range 10 {
			all.WriteString(withLength(fmt.Sprintf(`{"id":"m%d","chatId":"c","content":"x"}`, i)))
			all.WriteString(withLength(`{}`))
		}
		p.say(all.String())
		for i := range 10 {
			if got := p.hear(); got.body != fmt.Sprintf(`{"id":"m%d","status":"accepted"}`, i) {
				t.Errorf("answer %d is %s", i, got.body)
			}
			wantProblem(t, p.hear(), 422, "")
		}
	})
}

func TestHugeHeadersAreRefused(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		p := f.dial()
		p.say(postHead + "X-Huge: " + strings.Repeat("x", 64<<10) + "\r\n\r\n")
		if got := p.hear(); got.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d", got.status)
		}
		if f.door.count() != 0 {
			t.Error("something came in")
		}
	})
}

func TestConnectionsAreSoManyAndNoMore(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{MaxConnections: 2})
		first, second := f.dial(), f.dial()
		synctest.Wait()
		began := time.Now()
		silent := f.dial() // over the cap, and it never reads
		got := f.dial().hear()
		if got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("a connection over the cap is answered %d", got.status)
		}
		wantTook(t, began, time.Second/10) // for the silent one
		silent.wantClosed()
		first.say(withLength(goodBody))
		if got := first.hear(); got.status != 202 {
			t.Errorf("a connection under the cap is answered %d", got.status)
		}
		_ = second.Close()
		synctest.Wait()
		if got := f.post(goodBody); got.status != 202 {
			t.Errorf("after one has left, the next is answered %d", got.status)
		}
	})
}

func TestARequestThatIsUnderWayIsAnsweredWhenCorebotStops(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		entered, goOn := make(chan struct{}), make(chan struct{})
		f.door.accept = func(in channels.Incoming) error {
			close(entered)
			<-goOn
			return nil
		}
		got := make(chan response, 1)
		go func() { got <- f.post(goodBody) }()
		<-entered
		stopped := make(chan struct{})
		go func() { defer close(stopped); f.stop() }()
		time.Sleep(time.Second)
		close(goOn)
		if r := <-got; r.status != 202 {
			t.Errorf("status %d", r.status)
		}
		<-stopped
	})
}

func TestStoppingWaitsForNobodyLongerThanThreeSeconds(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		f.dial().say("POST /webhook HTTP/1.1\r\n")
		p := f.dial()
		p.say(postHead + "Content-Length: 100\r\n\r\n{")
		synctest.Wait()
		began := time.Now()
		f.stop()
		if took := time.Since(began); took > drainTime+time.Second/10 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestACallerThatHangsUpAfterItsMessageHasItStored(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		left := make(chan struct{})
		f.door.accept = func(channels.Incoming) error { <-left; return nil }
		p := f.dial()
		if _, err := p.Write([]byte(withLength(goodBody))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_ = p.Close()
		synctest.Wait()
		close(left)
		synctest.Wait()
		if f.door.count() != 1 {
			t.Error("the message is lost")
		}
	})
}

// listening makes a webhook on a real port.
func listening(t *testing.T, o Options) *Webhook {
	t.Helper()
	o.Addr, o.Token, o.Log = "127.0.0.1:0", testToken, zerolog.Nop()
	w, err := New(openMailbox(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// serve runs a webhook until the test ends or stop is called.
func serve(t *testing.T, w *Webhook, d *door) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, d) }()
	t.Cleanup(cancel)
	return func() error { cancel(); return <-ended }
}

func TestABusyPortIsAnErrorThatNamesItsKey(t *testing.T) {
	w := listening(t, Options{})
	_, err := New(nil, Options{Addr: w.Addr(), Token: testToken})
	if err == nil || !strings.Contains(corebot.HintOf(err), "webhook.addr") ||
		!strings.Contains(err.Error(), w.Addr()) {
		t.Errorf("got %v (%s)", err, corebot.HintOf(err))
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	again, err := New(nil, Options{Addr: w.Addr(), Token: testToken})
	if err != nil {
		t.Fatalf("a port that was closed is not free: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnusableOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"max_body_bytes":           {MaxBodyBytes: -1},
		"max_connections":          {MaxConnections: -1},
		"max_waiting":              {MaxWaiting: -1},
		"webhook.callback ":        {CallbackSecret: testSecret},
		"webhook.callback_secret ": {Callback: "http://127.0.0.1/"},
		"webhook.callback  ":       {Callback: "ftp://127.0.0.1/", CallbackSecret: testSecret},
	} {
		o.Token = testToken
		_, err := New(nil, o)
		if !errors.Is(err, corebot.ErrInvalid) || corebot.HintOf(err) == "" ||
			!strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v (%s)", name, err, corebot.HintOf(err))
		}
	}
}

func TestAWebhookWhoseListenerFailedListensAtTheSameAddressAgain(t *testing.T) {
	w, d := listening(t, Options{}), new(door)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context(), d) }()
	if got := postTo(t, w, goodBody); got != 202 {
		t.Fatalf("status %d", got)
	}
	_ = w.Close() // as if the listener had died
	if err := <-ended; err == nil {
		t.Error("Run says nothing of it")
	}
	stop := serve(t, w, d)
	deadline := time.Now().Add(5 * time.Second)
	for {
		c, err := net.Dial("tcp", w.Addr())
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if got := postTo(t, w, goodBody); got != 202 {
		t.Errorf("run again: status %d", got)
	}
	if err := errors.Join(stop(), w.Close()); err != nil {
		t.Error(err)
	}
}

func postTo(t *testing.T, w *Webhook, body string) int {
	t.Helper()
	r, err := http.NewRequest("POST", "http://"+w.Addr()+pathPost, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	r.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	return got.StatusCode
}

// The answer must not be lost in the reset of a connection on which the caller still sends: on a real network only.
func TestACallerThatSendsTooMuchCanReadWhy(t *testing.T) {
	w := listening(t, Options{MaxBodyBytes: 1000, AllowedHosts: []string{"h"}})
	serve(t, w, new(door))
	c, err := net.Dial("tcp", w.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(postHead + "Transfer-Encoding: chunked\r\n\r\n100000\r\n")); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = c.Write(bytes.Repeat([]byte("x"), 1<<20)) }()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	b, err := io.ReadAll(c)
	if !strings.HasPrefix(string(b), "HTTP/1.1 413") || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
}
