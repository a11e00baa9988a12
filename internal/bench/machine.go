package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/storage"
)

// fsyncs is how many appends a round of [fsyncP50] times.
const fsyncs = 200

// fsyncP50 is the median time of appending 4 KiB to a file of a directory and syncing it, in milliseconds: what every
// commit pays.
func fsyncP50(ctx context.Context, dir string) (ms float64, err error) {
	path := filepath.Join(dir, "fsync")
	f, err := os.Create(path)
	if err != nil {
		return 0, fmt.Errorf("measure fsync: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	page := bytes.Repeat([]byte("x"), 4096)
	times := make(latencies, 0, fsyncs)
	for range fsyncs {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		started := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, fmt.Errorf("measure fsync: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("measure fsync: %w", err)
		}
		times = append(times, time.Since(started))
	}
	return times.quantile(0.5), nil
}

// measureMachine appends the best figures of this machine: the median of an fsync, and how many pairs of rows the
// engine inserts a second. The rows have bodies of so many bytes.
func measureMachine(ctx context.Context, parent string, pairs, bodyBytes int, fsync, raw *Series) error {
	p50, err := fsyncP50(ctx, parent)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, "raw-")
	if err != nil {
		return fmt.Errorf("measure raw inserts: %w", err)
	}
	perSecond, err := storage.Ceiling(ctx, dir, pairs, bodyBytes)
	*fsync, *raw = append(*fsync, p50), append(*raw, perSecond)
	return errors.Join(err, os.RemoveAll(dir))
}

// freeBytes is what an ordinary user may still write to the file system of a directory.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, corebot.WithHint(fmt.Errorf("look how much space %s has: %w", dir, err),
			"choose a directory that is there with --dir")
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// requireSpace refuses a measurement that would fill the disk.
func requireSpace(dir string, need int64, free func(dir string) (int64, error)) error {
	has, err := free(dir)
	if err != nil || has >= need {
		return err
	}
	return corebot.WithHint(
		fmt.Errorf("%w: the backlog needs about %d MiB in %s, and %d MiB are free", corebot.ErrDiskFull, need>>20, dir,
			has>>20),
		"choose a smaller --backlog, or another directory with --dir")
}

// residentBytes is the process's resident memory after everything free went back to the system. known is false where
// the system does not say.
func residentBytes() (n float64, known bool) {
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(data)
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return float64(pages) * float64(os.Getpagesize()), err == nil
}

// stopwatch measures how long a phase takes, and how much processor time the whole process spends on it. Other programs
// on the machine change the elapsed time; they hardly change the processor time.
type stopwatch struct {
	at  time.Time
	cpu time.Duration
}

func startWatch() (stopwatch, error) {
	cpu, err := cpuTime()
	return stopwatch{time.Now(), cpu}, err
}

// stop gives how many of n things were done per second, and the processor time of each in milliseconds.
func (s stopwatch) stop(n int) (rate, cpu float64, err error) {
	took := time.Since(s.at)
	now, err := cpuTime()
	return perSecond(n, took), milliseconds(now-s.cpu) / float64(n), err
}

// timed runs fn, which handles n messages, and appends what it took to two series: messages per second, processor time
// of each.
func timed(n int, rate, cpu *Series, fn func() error) error {
	watch, err := startWatch()
	if err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	perSecond, each, err := watch.stop(n)
	*rate, *cpu = append(*rate, perSecond), append(*cpu, each)
	return err
}

// cpuTime is what the process has used so far, in user and in system mode.
func cpuTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read the processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// workDir makes the directory that holds everything a measurement writes. remove takes it away.
func workDir(parent string) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(parent, "corebot-bench-")
	if err != nil {
		return "", nil, corebot.WithHint(fmt.Errorf("make a directory for the measurement: %w", err),
			"choose one that can be written with --dir")
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}
