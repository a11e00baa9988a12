package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/needs"
)

var (
	gameDaysWanted = flag.String("gamedays", "", "which game days are held: all, quick, or names with commas between")
	gameDaysReport = flag.String("gamedays.report", "", "a file that the table is written to")
)

// shortened is by how much the times of the shipped alert rules are divided: a minute is a second.
const shortened = 60

// gameDay is a fault that operators train for.
type gameDay struct {
	name   string
	alerts []string // of docs/alerts/corebot.rules.yml that must fire and end
	repair []step   // what the runbook says to do
	quick  bool     // seconds: part of the short form
	root   bool     // needs a file system of its own
	clock  bool     // needs a program whose clock can be stepped
	traces bool     // needs strace and root: the kernel answers a call of the program with an error
	factor int      // by which the times of the rules are divided, if not by shortened
	play   func(*day)
}

// step is a command or a sentence of the runbook's section of an alert.
type step struct{ alert, text string }

// gameDays are all of them: the sixteen that an operator should have seen, and those beside that fire the other alerts.
func gameDays() []gameDay {
	return slices.Concat(modelDays(), queueDays(), storeDays(), homeDays(), networkDays(), toolDays(), trailDays(),
		judgedDays())
}

// runbook gives the text of each section of docs/runbook.md, without the breaks of its lines.
func runbook(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, page, _ := strings.Cut(section, "\n")
		pages[title] = strings.Join(strings.Fields(page), " ")
	}
	return pages
}

// TestTheRepairOfEachGameDayStandsInTheRunbook holds the game days and the runbook together.
func TestTheRepairOfEachGameDayStandsInTheRunbook(t *testing.T) {
	pages := runbook(t)
	for _, g := range gameDays() {
		if len(g.alerts) == 0 || len(g.repair) == 0 {
			t.Errorf("%s has %d alerts and %d steps of a repair", g.name, len(g.alerts), len(g.repair))
		}
		for _, s := range g.repair {
			if !strings.Contains(pages[s.alert], s.text) {
				t.Errorf("%s: the section %s of the runbook does not have: %s", g.name, s.alert, s.text)
			}
		}
	}
}

// TestEachAlertIsFiredByAGameDay: no alert is shipped that no real Prometheus has fired and ended.
func TestEachAlertIsFiredByAGameDay(t *testing.T) {
	rules, err := os.ReadFile("../../docs/alerts/corebot.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	fired := map[string]bool{}
	for _, g := range gameDays() {
		for _, a := range g.alerts {
			fired[a] = true
		}
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !fired[m[1]] {
			t.Errorf("no game day fires %s", m[1])
		}
	}
}

// TestGameDays breaks the released program in one way each time. A real Prometheus with the shipped rules must show it,
// the steps of the runbook must repair it, and the alerts must end.
func TestGameDays(t *testing.T) {
	if *gameDaysWanted == "" {
		t.Skip("scripts/gamedays holds the game days")
	}
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Fatal("prometheus is not installed: apt-get install prometheus")
	}
	results := &results{}
	t.Cleanup(func() { results.report(t) })
	wanted := strings.Split(*gameDaysWanted, ",")
	held := 0
	for _, g := range gameDays() {
		if !slices.Contains(wanted, "all") && !slices.Contains(wanted, g.name) &&
			(!slices.Contains(wanted, "quick") || !g.quick) {
			continue
		}
		held++
		t.Run(g.name, func(t *testing.T) {
			if g.root && os.Geteuid() != 0 {
				results.add("%-20s SKIPPED: needs root, for a file system of its own", g.name)
				needs.Root(t)
			}
			if _, err := exec.LookPath("strace"); g.traces && (err != nil || os.Geteuid() != 0) {
				results.add("%-20s SKIPPED: needs strace and root, for a disk that fails", g.name)
				t.Skip("needs strace and root")
			}
			t.Parallel()
			d := newDay(t, g)
			t.Cleanup(func() { results.add("%s", d.line()) })
			g.play(d)
			d.wellAgain()
		})
	}
	if held == 0 {
		t.Errorf("no game day is called %s", *gameDaysWanted)
	}
}

// results are the lines of the table.
type results struct {
	mu    sync.Mutex
	lines []string
}

func (r *results) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *results) report(t *testing.T) {
	slices.Sort(r.lines)
	text := fmt.Sprintf("%-20s %-28s %10s %10s  %s\n", "game day", "signal", "seen, s", "clear, s", "repair") +
		strings.Join(r.lines, "\n") + "\n"
	t.Log("\n" + text)
	if *gameDaysReport == "" {
		return
	}
	if err := os.WriteFile(*gameDaysReport, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
}

// steppedProgram is the program of a Go whose wall clock goes ahead by the seconds in the file of GAMEDAY_CLOCK.
// The monotonic clock goes on, as it does when somebody sets the clock of a machine. All of the program is compiled
// once more for it, so only a game day builds it.
var steppedProgram = sync.OnceValues(func() (string, error) {
	dir, err := sharedDir("corebot-clock")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	source := strings.TrimSpace(string(root)) + "/src/time/"
	text, err := os.ReadFile(source + "time.go")
	if err != nil {
		return "", err
	}
	const reads = "sec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	if strings.Count(string(text), reads) != 1 {
		return "", fmt.Errorf("time.Now of %s does not read the clock as expected", source)
	}
	const adds = "sec, nsec, mono := runtimeNow()\n\tsec += stepped.Load()\n\tif mono == 0 {"
	changed := strings.Replace(string(text), reads, adds, 1)
	files := map[string]string{
		"time.go": changed, "stepped.go": steppedClock,
		"overlay.json": fmt.Sprintf(`{"Replace": {%q: %q, %q: %q}}`, source+"time.go", dir+"/time.go",
			source+"stepped.go", dir+"/stepped.go"),
	}
	for name, text := range files {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-overlay", dir+"/overlay.json",
		"-ldflags", "-s -w", "-o", dir+"/corebot", ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program with another clock: %w\n%s", err, out)
	}
	return dir + "/corebot", nil
})

const steppedClock = `package time

import (
	"sync/atomic"
	"syscall"
)

var stepped atomic.Int64 // seconds

func init() {
	path, found := syscall.Getenv("GAMEDAY_CLOCK")
	if !found {
		return
	}
	readSteps(path)
	go func() {
		for {
			Sleep(100 * Millisecond)
			readSteps(path)
		}
	}()
}

func readSteps(path string) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	var text [32]byte
	n, _ := syscall.Read(fd, text[:])
	_ = syscall.Close(fd)
	seconds := int64(0)
	for _, c := range text[:max(n, 0)] {
		if c < '0' || c > '9' {
			break
		}
		seconds = seconds*10 + int64(c-'0')
	}
	stepped.Store(seconds)
}
`
