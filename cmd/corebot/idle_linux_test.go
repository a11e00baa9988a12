package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/corebot/corebot/channels/telegram/telegramtest"
	"github.com/corebot/corebot/internal/long"
	"github.com/corebot/corebot/storage/seedtest"
)

var (
	idleTime   = flag.Duration("idle.time", 0, "how long an idle Corebot is watched; 0: the short form")
	idleBots   = flag.Int("idle.bots", 20, "bots of a chat network that are connected meanwhile")
	idleReport = flag.String("idle.report", "", "a file that the figures are appended to")
)

// settling is how long a new program is left alone before it is watched.
const settling = 5 * time.Second

// shortTime is how long the short form watches, again and again until the program sleeps: on a busy machine the start
// takes long. Its limits are wider by slack, because the start still goes on.
const (
	shortTime = 2 * time.Second
	slack     = 5
)

// Limits of an idle program, for each second.
const (
	idleCPU     = 2 * time.Millisecond
	idleWakes   = 25    // of its threads; each timer that fires costs about seven
	idleWritten = 1_024 // bytes; a commit that changes nothing writes none
)

// spent is what a process has used so far.
type spent struct {
	cpu            time.Duration
	wakes, written float64 // wake-ups of its threads; bytes that went to the disk
	commits, polls float64
}

// TestAnIdleProgramSleeps watches the released program with many bots that nobody talks to.
func TestAnIdleProgramSleeps(t *testing.T) {
	long.Only(t, "TestACorebotThatDoesNotAnswerInTimeIsNotHealthy")
	watched, wider := *idleTime, 1
	if watched == 0 {
		t.Parallel()
		watched, wider = shortTime, slack
	}
	s := &service{
		t: t, binary: realProgram(t), home: filepath.Join(seedtest.OnDisk(t), "home"), addr: "127.0.0.1:0",
		env: []string{"COREBOT_OBSERVABILITY_ADDR=" + freeAddr(t)},
	}
	s.output("init", "--webhook")
	bots := connectBots(t, s.home)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	s.findWebhook()
	for deadline := time.Now().Add(patience); polling(bots) < len(bots); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d bots are connected", polling(bots), len(bots))
		}
	}
	time.Sleep(settling)
	text, sleeps := s.watch(bots, watched, wider)
	for deadline := time.Now().Add(patience); !sleeps && *idleTime == 0 && time.Now().Before(deadline); {
		text, sleeps = s.watch(bots, watched, wider)
	}
	s.terminate()
	t.Log("\n" + text)
	if *idleReport != "" {
		if err := os.WriteFile(*idleReport, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	if !sleeps {
		t.Errorf("an idle second may take %v, %d wake-ups and %d bytes of the disk, %d times that while it settles",
			idleCPU, idleWakes, idleWritten, wider)
	}
}

// watch says in a table what an idle program spends, and whether that is within the limits.
func (s *service) watch(bots []*telegramtest.Server, watched time.Duration, wider int) (text string, sleeps bool) {
	s.t.Helper()
	commits := s.commits() // to answer costs the program something, so it is asked outside
	before := s.spent(bots)
	time.Sleep(watched)
	after := s.spent(bots)
	before.commits, after.commits = commits, s.commits()
	return compared(before, after, watched, wider)
}

// connectBots makes servers of a chat network, and has the settings of a home name a bot of each.
func connectBots(t *testing.T, home string) (bots []*telegramtest.Server) {
	t.Helper()
	lines := "\nchannels:\n  telegram:\n"
	for n := range *idleBots {
		bot := telegramtest.New()
		t.Cleanup(bot.Close)
		bots = append(bots, bot)
		lines += fmt.Sprintf("    bot%d: {token: %q, api_url: %q, access: open}\n", n, telegramtest.Token, bot.URL())
	}
	path := filepath.Join(home, "corebot.yaml")
	settings, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(settings, lines...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bots
}

func polling(bots []*telegramtest.Server) (n int) {
	for _, b := range bots {
		if b.Polls() > 0 {
			n++
		}
	}
	return n
}

func (s *service) spent(bots []*telegramtest.Server) (x spent) {
	s.t.Helper()
	for _, b := range bots {
		x.polls += float64(b.Polls())
	}
	proc := fmt.Sprintf("/proc/%d/", s.daemon.Process.Pid)
	threads, err := filepath.Glob(proc + "task/*")
	if err != nil || len(threads) == 0 {
		s.t.Fatalf("the threads of the program in %s: %v, %v", proc, threads, err)
	}
	for _, thread := range threads {
		ran, err := os.ReadFile(filepath.Join(thread, "schedstat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // the thread has ended meanwhile
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		ns, _, _ := strings.Cut(string(ran), " ")
		n, err := strconv.ParseInt(ns, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		x.cpu += time.Duration(n)
		if wakes, is := s.numberIn(filepath.Join(thread, "status"), "voluntary_ctxt_switches"); is {
			x.wakes += float64(wakes)
		}
	}
	written, is := s.numberIn(proc+"io", "write_bytes")
	if !is {
		s.t.Fatal("the program has ended")
	}
	x.written = float64(written)
	return x
}

// numberIn is a number of a file of lines such as "name: 7". The file can go with its thread.
func (s *service) numberIn(path, name string) (n int64, is bool) {
	s.t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, false
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64) // a unit can follow
			if err != nil {
				s.t.Fatal(err)
			}
			return n, true
		}
	}
	s.t.Fatalf("%s has no %s", path, name)
	return 0, false
}

// commits are those of the store so far.
func (s *service) commits() float64 {
	s.t.Helper()
	addr := strings.TrimPrefix(s.env[0], "COREBOT_OBSERVABILITY_ADDR=")
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil || found["corebot_store_commits_total"] == nil {
		s.t.Fatalf("the metrics: %v", err)
	}
	for _, m := range found["corebot_store_commits_total"].GetMetric() {
		return m.GetCounter().GetValue()
	}
	return 0
}

// compared is the table of what was spent between two looks.
func compared(before, after spent, watched time.Duration, wider int) (text string, sleeps bool) {
	seconds, limit := watched.Seconds(), float64(wider)
	took := spent{
		cpu: after.cpu - before.cpu, wakes: after.wakes - before.wakes, written: after.written - before.written,
		commits: after.commits - before.commits, polls: after.polls - before.polls,
	}
	text = fmt.Sprintf("%-32s%12s%14s\n", fmt.Sprintf("%d bots, watched for %v", *idleBots, watched), "a second",
		"a day")
	for _, line := range []struct {
		what string
		took float64
	}{
		{"processor time, ms", float64(took.cpu) / 1e6},
		{"wake-ups of threads", took.wakes},
		{"polls of the bots", took.polls},
		{"bytes written to the disk", took.written},
		{"commits", took.commits},
	} {
		text += fmt.Sprintf("%-32s%12.3f%14.0f\n", line.what, line.took/seconds, line.took/seconds*86_400)
	}
	return text, took.cpu.Seconds()/seconds <= limit*idleCPU.Seconds() && took.wakes/seconds <= limit*idleWakes &&
		took.written/seconds <= limit*idleWritten
}
