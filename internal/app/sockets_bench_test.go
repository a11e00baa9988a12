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
	"sync"
	"syscall"
	"testing"
	"time"
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
	var all []syscall.RawConn
	for i := range sockets {
		chat := "main"
		if words[3] != "same" {
			chat = fmt.Sprintf("%s%d", words[3], i)
		}
		conn := a.dial()
		tell(t, conn, map[string]any{"type": "subscribe", "agentId": "main", "sessionKey": chat})
		tell(t, conn, map[string]any{"type": "nonsense"}) // its answer says that the subscription is there
		readTo(t, conn, "error")
		raw, err := conn.NetConn().(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw)
	}
	fmt.Println("open")
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(closed)
	}()
	for sweep := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-closed:
			return
		case <-sweep.C:
			discard(all)
		}
	}
}

// discard throws away what has come. It takes little processor time, and wakes nothing.
func discard(all []syscall.RawConn) {
	room := make([]byte, 64<<10)
	for _, raw := range all {
		_ = raw.Read(func(fd uintptr) bool { // of a socket that was closed there is nothing to read
			for {
				if n, err := syscall.Read(int(fd), room); n < len(room) || err != nil {
					return true
				}
			}
		})
	}
}

// crowd opens sockets from another process until closed is called.
func crowd(b *testing.B, a api, sockets int, chats string) (closed func()) {
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
	return sync.OnceFunc(func() {
		_ = in.Close()
		_ = cmd.Wait() // its context may have ended it
	})
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// turnCost is what turns cost, one at a time.
type turnCost struct{ p50, p90, cpu, rate, heap float64 }

// turns measures n turns of a crowd's chats. Times are in milliseconds, and the rate is turns a second.
func turns(b *testing.B, a api, n int, every time.Duration, chat func(int) string) (m turnCost) {
	all := make([]float64, n)
	began, spent := time.Now(), processorTime()
	for i := range all {
		time.Sleep(every)
		all[i] = float64(oneTurn(b, a, chat(i)).Microseconds()) / 1000
	}
	m.rate = float64(n) / time.Since(began).Seconds()
	m.cpu = float64((processorTime() - spent).Microseconds()) / 1000 / float64(n)
	slices.Sort(all)
	m.p50, m.p90 = all[n/2], all[n*9/10]
	return m
}

// BenchmarkTurnsThatSocketsFollow is the time of a turn while 500 sockets follow its chat, or each a chat of its own,
// or each another chat, in which nobody talks.
// Turns come one behind another, or ten a second. Each benchmark measures pairs in one process: turns that nobody
// follows, and turns with the sockets. It reports medians of the pairs, and of their ratios: p50 and p90 of the time
// until the answer, and what a turn costs Corebot. The clients are another process.
func BenchmarkTurnsThatSocketsFollow(b *testing.B) {
	const pairs, sockets = 7, 500
	for _, chats := range []string{"same", "own", "other"} {
		for _, every := range []time.Duration{0, time.Second / 10} {
			b.Run(fmt.Sprintf("chats=%s/every=%v", chats, every), func(b *testing.B) {
				app := newSender(b, daemon(b, b.TempDir()), "app", "*")
				chat := func(i int) string {
					if chats == "same" {
						return "main"
					}
					return fmt.Sprintf("own%d", i%sockets)
				}
				turns(b, app, 2*sockets, 0, chat) // all chats are there
				var alone, followed [pairs]turnCost
				for b.Loop() {
					for i := range pairs {
						n := 600
						if every > 0 {
							n = 100
						}
						alone[i] = turns(b, app, n, every, chat)
						before := heap()
						closed := crowd(b, app, sockets, chats)
						opened := heap() - before
						followed[i] = turns(b, app, n, every, chat)
						followed[i].heap = float64(opened) / (1 << 20)
						closed()
					}
				}
				for _, f := range []struct {
					name string
					of   func(turnCost) float64
				}{
					{"p50-ms", func(m turnCost) float64 { return m.p50 }},
					{"p90-ms", func(m turnCost) float64 { return m.p90 }},
					{"cpu-ms", func(m turnCost) float64 { return m.cpu }},
					{"turns/s", func(m turnCost) float64 { return m.rate }},
					{"heap-MiB", func(m turnCost) float64 { return m.heap }},
				} {
					b.ReportMetric(median(alone[:], f.of), "alone-"+f.name)
					b.ReportMetric(median(followed[:], f.of), "followed-"+f.name)
					if f.name != "heap-MiB" { // without sockets there is none
						b.ReportMetric(medianRatio(followed[:], alone[:], f.of), f.name+"-ratio")
					}
				}
			})
		}
	}
}

// BenchmarkTurnsThatAreTold compares the turns of 500 chats that a socket each follows with those of 500 chats that
// nobody follows, while all sockets are open. Short rounds of both come by turns, so both meet the same machine. They
// differ in the telling alone. [BenchmarkTurnsThatSocketsFollow] has the cost of open sockets for turns of other chats.
func BenchmarkTurnsThatAreTold(b *testing.B) {
	const rounds, n, sockets = 21, 60, 500
	app := newSender(b, daemon(b, b.TempDir()), "app", "*")
	next := 0
	in := func(kind string) func(int) string {
		return func(int) string { next++; return fmt.Sprintf("%s%d", kind, next/2%sockets) }
	}
	for _, kind := range []string{"own", "quiet"} {
		turns(b, app, sockets, 0, func(i int) string { return fmt.Sprintf("%s%d", kind, i) }) // all chats are there
	}
	defer crowd(b, app, sockets, "own")()
	var quiet, told [rounds]turnCost
	for b.Loop() {
		for i := range rounds {
			// Each pair begins with the other kind.
			for _, follow := range [2]bool{i%2 == 0, i%2 == 1} {
				if time.Sleep(50 * time.Millisecond); follow { // what was to be told is told
					told[i] = turns(b, app, n, 0, in("own"))
				} else {
					quiet[i] = turns(b, app, n, 0, in("quiet"))
				}
			}
		}
	}
	for name, of := range map[string]func(turnCost) float64{
		"p50": func(m turnCost) float64 { return m.p50 }, "cpu": func(m turnCost) float64 { return m.cpu },
		"turns/s": func(m turnCost) float64 { return m.rate },
	} {
		b.ReportMetric(medianRatio(told[:], quiet[:], of), name+"-ratio")
	}
}

// medianRatio is the median of the ratios of the pairs: both of a pair met the same machine.
func medianRatio(followed, alone []turnCost, of func(turnCost) float64) float64 {
	var values []float64
	for i := range alone {
		values = append(values, of(followed[i])/of(alone[i]))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func median(all []turnCost, of func(turnCost) float64) float64 {
	var values []float64
	for _, m := range all {
		values = append(values, of(m))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func oneTurn(b *testing.B, app api, chat string) time.Duration {
	b.Helper()
	began := time.Now()
	body := fmt.Sprintf(`{"id": "m%d", "sessionKey": %q, "content": "help", "wait": 30}`, began.UnixNano(), chat)
	if status, got := app.say(body); status != http.StatusOK || !got.Answered {
		b.Fatalf("%d, %+v", status, got)
	}
	return time.Since(began)
}
