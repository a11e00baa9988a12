package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
)

var watched = corebot.Key{Agent: "main", Channel: corebot.APIChannel, Chat: "main"}

// socketServer serves sockets until the test ends.
func socketServer(t *testing.T, hub *live.Hub) *Server {
	t.Helper()
	s, err := NewServer(Options{
		Addr: "127.0.0.1:0", Tokens: known{}, Agents: []string{"main"}, Live: hub, Log: zerolog.Nop(),
		Redact: func(text string) string { return text },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// follower is a client that has subscribed the chat.
func follower(t *testing.T, s *Server, readBuffer int) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{NetDial: func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		if tcp, is := c.(*net.TCPConn); is && readBuffer > 0 {
			err = tcp.SetReadBuffer(readBuffer)
		}
		return c, err
	}}
	conn, resp, err := d.DialContext(t.Context(), "ws://"+s.Addr()+"/ws",
		http.Header{"Authorization": {"Bearer x"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // a socket has none
	t.Cleanup(func() { _ = conn.Close() })
	for _, q := range []socketRequest{{Type: "subscribe", AgentID: "main"}, {Type: "nonsense"}} {
		if err := conn.WriteJSON(q); err != nil {
			t.Fatal(err)
		}
	}
	next(t, conn, "error") // the subscription is there
	return conn
}

// next reads up to an event of a type.
func next(t *testing.T, conn *websocket.Conn, kind string) (all []socketEvent) {
	t.Helper()
	for {
		var e socketEvent
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if err := conn.ReadJSON(&e); err != nil {
			t.Fatalf("after %d events: %v", len(all), err)
		}
		if all = append(all, e); e.Type == kind {
			return all
		}
	}
}

// stuck says whether a socket waits for its client to take what it was told.
func (s *Server) stuck() bool {
	s.teller.mu.Lock()
	defer s.teller.mu.Unlock()
	for _, f := range s.teller.feeds {
		for k := range f.sockets {
			if k.out.waits() {
				return true
			}
		}
	}
	return false
}

// A client that takes nothing costs the others nothing. When it reads again, it learns that it has missed something,
// and goes on with what is new.
func TestAReaderThatTakesNothingHoldsUpNobody(t *testing.T) {
	var hub live.Hub
	s := socketServer(t, &hub)
	slow, quick := follower(t, s, 64<<10), follower(t, s, 0)
	said := 0
	say := func(events int, text string) { // a socket is told what is new at most every 20 ms
		for range events {
			said++
			hub.Publish(live.Event{
				Kind: live.ToolStarted, Key: watched, MessageID: fmt.Sprint(said), Tool: fmt.Sprint(said, text),
			})
		}
		for n := said - events + 1; n <= said; n++ {
			if told := next(t, quick, "tool_start"); told[len(told)-1].ToolName != fmt.Sprint(n, text) {
				t.Fatalf("instead of event %d the quick one is told %.20q", n, told[len(told)-1].ToolName)
			}
		}
	}
	large := strings.Repeat("x", 32<<10)
	for !s.stuck() {
		if said > 2000 {
			t.Fatal("the kernel takes everything")
		}
		say(8, large)
	}
	for range 15 { // more than the chat keeps, and each reaches the quick one at once
		say(20, " after")
	}
	go func() {
		time.Sleep(50 * time.Millisecond)
		hub.Publish(live.Event{Kind: live.ToolEnded, Key: watched, Tool: "last"})
	}()
	told := next(t, slow, "tool_end")
	missed := false
	for i, e := range told {
		missed = missed || e.Type == "history_updated"
		if i > 0 && e.Seq < told[i-1].Seq {
			t.Errorf("event %d has the number %d behind %d", i, e.Seq, told[i-1].Seq)
		}
	}
	if !missed || len(told) > said {
		t.Errorf("it is told %d of %d events, and that it missed some: %v", len(told), said, missed)
	}
}

// A turn must not wait for a client, whatever the client does.
func TestAnOutletNeverWaitsAndCutsAClientThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		o := newOutlet(server)
		for _, text := range []string{"a", "b", "c"} {
			if n, err := o.Write([]byte(text)); n != 1 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			synctest.Wait() // the first is under way
		}
		got := make([]byte, 3)
		for i := range got { // slowly, but in time
			if i < 2 {
				time.Sleep(socketWrite - time.Second)
			}
			if _, err := client.Read(got[i : i+1]); err != nil {
				t.Fatalf("after %q: %v", got, err)
			}
		}
		synctest.Wait()
		if string(got) != "abc" || o.waits() {
			t.Errorf("it took %q, and the outlet waits: %v", got, o.waits())
		}
		o.gather(nil)
		_, _ = o.Write([]byte("de"))
		_, _ = o.Write([]byte("f"))
		if o.waits() {
			t.Error("what is gathered is written")
		}
		o.pour()
		if n, err := client.Read(got); n != 3 || err != nil || string(got) != "def" {
			t.Errorf("it took %q, %v", got, err)
		}
		synctest.Wait()
		began := time.Now()
		_, _ = o.Write([]byte("x"))
		time.Sleep(socketWrite + time.Second)
		if _, err := o.Write([]byte("y")); err == nil || time.Since(began) != socketWrite+time.Second {
			t.Errorf("a client that takes nothing is kept: %v", err)
		}
		if _, err := client.Read(got); err == nil {
			t.Error("it is told more")
		}
	})
}

func TestAClientCanLeaveSoMuchUntakenAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		defer client.Close() //nolint:errcheck // of a test
		o := newOutlet(server)
		text, written := make([]byte, maxRest/4), 0
		for ; written < 10; written++ {
			if _, err := o.Write(text); err != nil {
				break
			}
			synctest.Wait() // the first is under way
		}
		if written < 5 || written > 7 {
			t.Errorf("%d quarters are kept", written)
		}
	})
}

func TestManySocketsWaitLongerForMoreThanOneDoes(t *testing.T) {
	teller := newTeller(new(live.Hub))
	one, many := &feed{crowd: 1}, &feed{crowd: 500}
	began := time.Now()
	teller.mark(many)
	teller.mark(one)
	if teller.mark(many); len(teller.marks) != 2 {
		t.Errorf("%d are marked", len(teller.marks))
	}
	ended := time.Now()
	if due, wait := teller.take(began); len(due) != 0 || wait.Before(began.Add(quickestPace)) {
		t.Errorf("%d are due at once, and the next in %v", len(due), wait.Sub(began))
	}
	due, wait := teller.take(ended.Add(quickestPace))
	if len(due) != 1 || due[0] != one || wait.Before(began.Add(slowestPace)) || wait.After(ended.Add(slowestPace)) {
		t.Errorf("%d are due, and the next in %v", len(due), wait.Sub(began))
	}
	teller.mark(one) // what happens after the telling has begun
	if due, wait = teller.take(ended.Add(slowestPace)); len(due) != 2 || due[0] != one || !wait.IsZero() {
		t.Errorf("%d are due, the first for %d sockets", len(due), due[0].crowd)
	}
}

// A chat with many sockets waits for its next round, whether its turns go on in the round or behind it. A chat with a
// few is told within milliseconds.
func TestAChatWithManySocketsRestsBetweenRoundsAndNoOtherDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		teller := newTeller(new(live.Hub))
		one, many := &feed{crowd: few - 1}, &feed{crowd: 500}
		for _, f := range []*feed{one, many} {
			teller.rest(f, time.Now(), 5*time.Millisecond)
			teller.mark(f)
		}
		const rest = crowdRest * 5 * time.Millisecond
		if one.due != time.Now().Add(quickestPace) || many.due != time.Now().Add(rest) {
			t.Errorf("they wait for %v and %v", time.Until(one.due), time.Until(many.due))
		}
		time.Sleep(rest)
		if due, _ := teller.take(time.Now()); len(due) != 2 {
			t.Fatalf("%d are due", len(due))
		}
		teller.mark(many) // while it is told, which takes long
		teller.rest(many, time.Now(), time.Minute)
		if many.due != time.Now().Add(longestCrowdRest) {
			t.Errorf("after a long round it waits for %v", time.Until(many.due))
		}
	})
}

// A turn wakes the teller only if it would look too late by itself.
func TestTheTellerIsWokenOnlyIfItWouldLookTooLate(t *testing.T) {
	teller := newTeller(new(live.Hub))
	woken := func() bool {
		select {
		case <-teller.wake:
			return true
		default:
			return false
		}
	}
	slow, later, soon := &feed{crowd: 500}, &feed{crowd: 500}, &feed{crowd: 1}
	if teller.mark(slow); !woken() {
		t.Error("it sleeps, and nothing wakes it")
	}
	teller.take(time.Now()) // from now on it looks when the first is due
	if teller.mark(later); woken() {
		t.Error("it is woken for what it looks at in time")
	}
	if teller.mark(soon); !woken() {
		t.Error("it is not woken for what is due earlier")
	}
	teller.take(time.Now().Add(time.Minute))
	if teller.mark(slow); !woken() {
		t.Error("nothing was left, and nothing wakes it")
	}
	teller.sleep() // it rests, and looks at all of them then
	if teller.mark(soon); woken() {
		t.Error("it is woken from its rest")
	}
}

// A client of the library reads messages of each length as they were.
func TestAMessageOfEachLengthIsOneFrame(t *testing.T) {
	lengths := []int{0, 1, 125, 126, 127, 65535, 65536, 1 << 20}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // the client is told
		}
		defer conn.Close() //nolint:errcheck // the client closes it, too
		var all []byte
		for _, n := range lengths {
			all = appendMessage(all, []byte(strings.Repeat("x", n)))
		}
		_, _ = conn.NetConn().Write(all) // the client misses what is not written
	}))
	defer s.Close()
	conn, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // a socket has none
	defer conn.Close()    //nolint:errcheck // nothing is written
	for _, n := range lengths {
		kind, text, err := conn.ReadMessage()
		if err != nil || kind != websocket.TextMessage || len(text) != n {
			t.Fatalf("a message of %d bytes comes as one of the kind %d with %d: %v", n, kind, len(text), err)
		}
	}
}
