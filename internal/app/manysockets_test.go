package app_test

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
)

// heap is how much memory is in use, after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Five hundred sockets follow one chat. Each is told the whole answer, and together they cost little memory: here with
// their clients, which are in the same process.
func TestFiveHundredSocketsFollowOneChat(t *testing.T) {
	sockets := long.Or(100, 500)
	most := int64(sockets) * (100 << 10)
	a := daemon(t, t.TempDir())
	app := newSender(t, a, "app", "main")
	said := ""
	took := func() time.Duration {
		var all []time.Duration
		for i := range 9 {
			began := time.Now()
			body := fmt.Sprintf(`{"id": "m%d", "content": "help", "wait": 30}`, began.UnixNano()+int64(i))
			if status, got := app.say(body); status != http.StatusOK || !got.Answered {
				t.Fatalf("%d, %+v", status, got)
			} else {
				said = got.Messages[0].Content
			}
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	alone, before := took(), heap()
	answer := said // the same in each turn
	var ends atomic.Int64
	for range sockets {
		conn := app.dial()
		tell(t, conn, map[string]any{"type": "subscribe", "agentId": "main"})
		tell(t, conn, map[string]any{"type": "nonsense"}) // its answer says that the subscription is there
		readTo(t, conn, "error")
		go func() {
			texts := map[string]string{} // of two runs the events can come by turns
			for {
				var e aihubEvent
				if conn.SetReadDeadline(time.Now().Add(time.Minute)) != nil || conn.ReadJSON(&e) != nil {
					return
				}
				switch e.Type {
				case "text":
					texts[e.MessageID] += e.Data
				case "reset":
					delete(texts, e.MessageID)
				case "done":
					if strings.HasSuffix(texts[e.MessageID], answer) {
						ends.Add(1)
					}
					delete(texts, e.MessageID)
				}
			}
		}()
	}
	if cost := heap() - before; cost > most {
		t.Errorf("%d sockets cost %d bytes", sockets, cost)
	} else {
		t.Logf("%d sockets cost %.1f MiB, with their clients", sockets, float64(cost)/(1<<20))
	}
	watched := took()
	t.Logf("a turn takes %v, and %v when %d sockets follow it", alone, watched, sockets)
	deadline := time.Now().Add(20 * time.Second)
	for ends.Load() < int64(9*sockets) {
		time.Sleep(10 * time.Millisecond)
		if time.Now().After(deadline) {
			t.Fatalf("%d ends were told with the whole answer, want %d", ends.Load(), 9*sockets)
		}
	}
}
