package sdnotify_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/sdnotify"
)

func TestSystemdIsToldOverItsSocketAndTheSocketIsHiddenFromOtherPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close() //nolint:errcheck // of a test
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "3000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	n := sdnotify.New()
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if value, there := os.LookupEnv(name); there {
			t.Errorf("%s is still %q", name, value)
		}
	}
	if n.Every() != 1500*time.Millisecond {
		t.Errorf("a sign of life every %v", n.Every())
	}
	for _, err := range []error{n.Ready(), n.Alive(), n.Status("a\nb"), n.Stopping()} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{"READY=1", "WATCHDOG=1", "STATUS=a; b", "STOPPING=1"} {
		b := make([]byte, 100)
		size, err := systemd.Read(b)
		if err != nil || string(b[:size]) != want {
			t.Errorf("systemd reads %q (%v), want %q", b[:size], err, want)
		}
	}
}

func TestWithoutSystemdNobodyIsTold(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	n := sdnotify.New()
	if n != nil || n.Every() != 0 || n.Ready() != nil || n.Alive() != nil {
		t.Errorf("without a socket there is %+v", n)
	}
}

func TestAWatchdogOfAnotherProcessWantsNoSignOfLife(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "@corebot-test-of-nobody")
	t.Setenv("WATCHDOG_USEC", "3000000")
	t.Setenv("WATCHDOG_PID", "1")
	n := sdnotify.New()
	if n == nil || n.Every() != 0 {
		t.Errorf("it is told every %v", n.Every())
	}
	if n.Ready() == nil {
		t.Error("a socket of nobody takes everything")
	}
}
