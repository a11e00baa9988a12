package app_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/long"
)

func TestFiveHundredSocketsAreLight(t *testing.T) {
	long.Only(t, "TestFiveHundredSocketsFollowOneChat")
	a := daemon(t, t.TempDir())
	app, reader := newSender(t, a, "app", "*"), newAPI(t, a, "reader", corebot.ScopeRead)
	app.say(`{"content": "warm up", "wait": 30}`)
	took := func() time.Duration {
		began := time.Now()
		for range 20 {
			app.say(`{"content": "hello", "wait": 30}`)
		}
		return time.Since(began) / 20
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	alone, before := took(), heap()
	conns := make([]*websocket.Conn, 500)
	for i := range conns {
		conns[i] = reader.dial()
		tell(t, conns[i], map[string]any{"type": "subscribe", "agentId": "main", "sessionKey": fmt.Sprint(i)})
		tell(t, conns[i], map[string]any{"type": "nonsense"}) // its answer says that the subscription is there
		readTo(t, conns[i], "error")
	}
	mib := float64(heap()-before) / (1 << 20)
	crowded := took()
	t.Logf("500 sockets hold %.1f MiB with their clients; a turn takes %v, before %v", mib, crowded, alone)
	if mib > 50 {
		t.Errorf("500 sockets hold %.1f MiB", mib)
	}
	app.say(`{"sessionKey": "0", "content": "hello", "wait": 30}`)
	if _, all := readTo(t, conns[0], "history_updated"); len(all) < 2 {
		t.Errorf("one of them is told %+v", all)
	}
	for _, c := range conns {
		_ = c.Close() // at once, and not one after the other at the end
	}
}
