package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// crowdVariable has this test binary be the clients of the benchmark: a process of their own, so that their processor
// time is not that of Corebot.
const crowdVariable = "COREBOT_TEST_CROWD"

// TestCrowdOfSockets is the process of the clients. It opens the sockets that a benchmark asks for, says so in a line,
// and throws away what they are told until its input ends.
func TestCrowdOfSockets(t *testing.T) {
	words := strings.Fields(os.Getenv(crowdVariable))
	if len(words) != 4 {
		t.Skip("the clients of a benchmark")
	}
	sockets, err := strconv.Atoi(words[2])
	if err != nil {
		t.Fatal(err)
	}
	// On a server the clients have processors of their own.
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19); err != nil {
		t.Fatal(err)
	}
	a := api{t, words[0], words[1]}
	for i := range sockets {
		chat := "main"
		if words[3] == "own" {
			chat = fmt.Sprintf("chat%d", i)
		}
		conn := a.dial()
		tell(t, conn, map[string]any{"type": "subscribe", "agentId": "main", "sessionKey": chat})
		tell(t, conn, map[string]any{"type": "nonsense"}) // its answer says that the subscription is there
		readTo(t, conn, "error")
		go drain(conn)
	}
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func drain(conn *websocket.Conn) {
	room := make([]byte, 2048)
	for {
		if _, err := conn.NetConn().Read(room); err != nil {
			return
		}
	}
}

// crowd opens sockets from another process until the benchmark ends.
func crowd(b *testing.B, a api, sockets int, chats string) {
	if sockets == 0 {
		return
	}
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestCrowdOfSockets$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %s", crowdVariable, a.base, a.token, sockets, chats))
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open\n" {
		b.Fatalf("the clients say %q: %v", line, err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // its context may have ended it
	})
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTurnsThatSocketsFollow is the time of a turn, one at a time, while sockets follow its chat, or chats of
// their own. p50-ms is the median of the time until the answer. cpu-ms is the processor time of Corebot for a turn.
// heap-MiB is the memory of Corebot with all sockets open. Turns come one behind another, or every tenth of a second.
func BenchmarkTurnsThatSocketsFollow(b *testing.B) {
	for _, c := range []struct {
		name    string
		sockets int
		chats   string
	}{{"nobody", 0, ""}, {"one", 1, "same"}, {"500-of-one-chat", 500, "same"}, {"500-of-500-chats", 500, "own"}} {
		for pace, every := range map[string]time.Duration{"one-behind-another": 0, "ten-a-second": time.Second / 10} {
			b.Run(c.name+"/"+pace, func(b *testing.B) {
				app := newSender(b, daemon(b, b.TempDir()), "app", "*")
				before := heap()
				crowd(b, app, c.sockets, c.chats)
				opened := heap() - before
				var all []time.Duration
				spent := processorTime()
				for b.Loop() {
					time.Sleep(every)
					all = append(all, oneTurn(b, app))
				}
				b.ReportMetric(float64(opened)/(1<<20), "heap-MiB")
				b.ReportMetric(float64((processorTime()-spent).Microseconds())/1000/float64(b.N), "cpu-ms")
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(all[len(all)*9/10].Microseconds())/1000, "p90-ms")
			})
		}
	}
}

func oneTurn(b *testing.B, app api) time.Duration {
	b.Helper()
	began := time.Now()
	body := fmt.Sprintf(`{"id": "m%d", "content": "help", "wait": 30}`, began.UnixNano())
	if status, got := app.say(body); status != http.StatusOK || !got.Answered {
		b.Fatalf("%d, %+v", status, got)
	}
	return time.Since(began)
}
