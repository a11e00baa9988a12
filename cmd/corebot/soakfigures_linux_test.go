package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot/internal/load"
)

// sample is what a program takes at a moment.
type sample struct {
	at                      time.Duration // since the traffic began
	turns                   float64
	memory                  float64 // bytes, resident
	descriptors, goroutines float64
	log, database           float64 // bytes of files
}

// columns are the figures of a sample that may grow.
var columns = []struct {
	name string
	unit float64
	of   func(sample) float64
}{
	{"memory MiB", 1 << 20, func(s sample) float64 { return s.memory }},
	{"descriptors", 1, func(s sample) float64 { return s.descriptors }},
	{"goroutines", 1, func(s sample) float64 { return s.goroutines }},
	{"WAL MiB", 1 << 20, func(s sample) float64 { return s.log }},
	{"database MiB", 1 << 20, func(s sample) float64 { return s.database }},
}

func (k *soak) sample() sample {
	k.t.Helper()
	pid := fmt.Sprintf("/proc/%d/", k.daemon.Process.Pid)
	open, err := os.ReadDir(pid + "fd")
	if err != nil {
		k.t.Fatal(err)
	}
	resident, is := k.numberIn(pid+"status", "VmRSS")
	if !is {
		k.t.Fatal("the program has ended")
	}
	metrics := k.ask("/metrics")
	s := sample{
		turns: metricSum(metrics, "corebot_turns_total"), memory: 1024 * float64(resident),
		goroutines:  metricSum(metrics, "go_goroutines"),
		descriptors: float64(len(open)), log: k.size("corebot.db-wal"), database: k.size("corebot.db"),
	}
	if !k.began.IsZero() {
		s.at = time.Since(k.began)
	}
	return s
}

// metricSum adds up all series of a metric.
func metricSum(metrics, name string) (sum float64) {
	series := regexp.MustCompile(`(?m)^` + name + `(?:\{[^\n]*\})? (\S+)$`)
	for _, m := range series.FindAllStringSubmatch(metrics, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err == nil {
			sum += n
		}
	}
	return sum
}

func (k *soak) size(name string) float64 {
	k.t.Helper()
	info, err := os.Stat(filepath.Join(k.home, "data", name))
	if err != nil {
		k.t.Fatal(err)
	}
	return float64(info.Size())
}

// measure takes a sample, and writes down what there is so far.
func (k *soak) measure() {
	s := k.sample()
	k.mu.Lock()
	k.samples = append(k.samples, s)
	text := table(k.samples)
	k.mu.Unlock()
	k.write(text)
}

func (k *soak) write(text string) {
	if *soakReport == "" {
		return
	}
	if err := os.WriteFile(*soakReport, []byte(text), 0o600); err != nil {
		k.t.Error(err)
	}
}

// table has a line for a tenth of the time, and the slopes of what was measured after the first third.
func table(samples []sample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%10s%10s", "after", "turns")
	for _, c := range columns {
		fmt.Fprintf(&b, "%14s", c.name)
	}
	for i, s := range samples {
		if i%max(len(samples)/12, 1) == 0 || i == len(samples)-1 {
			fmt.Fprintf(&b, "\n%10s%10.0f", s.at.Round(time.Second), s.turns)
			for _, c := range columns {
				fmt.Fprintf(&b, "%14.1f", c.of(s)/c.unit)
			}
		}
	}
	warm := samples[len(samples)/3:]
	fmt.Fprintf(&b, "\n%20s", "slope, an hour")
	for _, c := range columns {
		fmt.Fprintf(&b, "%14.2f", slope(warm, c.of)/c.unit)
	}
	return b.String() + "\n"
}

// slope is the median of the slopes of all pairs, for an hour: single samples in the middle of a collection count for
// little.
func slope(samples []sample, of func(sample) float64) float64 {
	var all []float64
	for i, a := range samples {
		for _, b := range samples[i+1:] {
			if d := (b.at - a.at).Hours(); d > 0 {
				all = append(all, (of(b)-of(a))/d)
			}
		}
	}
	return median(all)
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// leastSamples are enough to tell the first third of the time from its end.
const leastSamples = 6

// judge holds the figures to the limits.
func (k *soak) judge(report load.Report, idle, after sample) {
	k.t.Helper()
	n := len(k.samples)
	first, last := k.samples[n/3:n/3+max(n/6, 1)], k.samples[n-max(n/6, 1):]
	turns := last[0].turns - first[0].turns
	memory := func(all []sample) float64 {
		var values []float64
		for _, s := range all {
			values = append(values, s.memory)
		}
		return median(values)
	}
	grown := memory(last) - memory(first)
	text := table(k.samples) + fmt.Sprintf("%d messages answered in order, %d dead letters asked for, %d reminders\n"+
		"memory: %+.1f MiB over %.0f turns after the first third\n"+
		"idle before and after: descriptors %.0f and %.0f, goroutines %.0f and %.0f\n",
		report.Replies, k.letters.Load(), k.tasks.Load(), grown/(1<<20), turns, idle.descriptors, after.descriptors,
		idle.goroutines, after.goroutines)
	k.t.Log("\n" + text)
	k.write(text)
	judged := soakTime() >= soakJudged
	if allowed := soakNoise + soakMemory*turns/10_000; judged && grown > allowed {
		k.t.Errorf("the memory has grown by %.1f MiB, and may grow by %.1f MiB", grown/(1<<20), allowed/(1<<20))
	}
	for _, s := range k.samples {
		if s.memory > soakMost || s.log > soakLog {
			k.t.Errorf("after %v: %.0f bytes of memory, a log of %.0f bytes", s.at, s.memory, s.log)
			break
		}
	}
	if judged && max(after.descriptors-idle.descriptors, after.goroutines-idle.goroutines) > soakLeftovers {
		k.t.Errorf("idle again it has %.0f descriptors and %.0f goroutines, and had %.0f and %.0f", after.descriptors,
			after.goroutines, idle.descriptors, idle.goroutines)
	}
	if per := (after.database - idle.database) / max(after.turns-idle.turns, 1); per > soakDatabase {
		k.t.Errorf("a turn leaves %.0f bytes in the database", per)
	}
}
