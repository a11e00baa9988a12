package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/hinshun/vt10x"
	"golang.org/x/sys/unix"

	"github.com/corebot/corebot/internal/needs"
)

// screen is the program in a terminal of its own, a real one as far as the program can tell, with somebody at its keys.
type screen struct {
	t    *testing.T
	cmd  *exec.Cmd
	keys *os.File // the terminal's other end

	mu    sync.Mutex
	text  strings.Builder
	glass vt10x.Terminal // shows what a person would see
	// marked is what the glass showed at a mark: text that was there already is not awaited text.
	marked map[int]string
	done   chan struct{} // closed when the program has closed the terminal
}

// openTerminal makes a terminal of a size in characters.
func openTerminal(t *testing.T, columns, rows uint16) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		needs.Missing(t, "terminals", err)
	}
	fd := int(keys.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err == nil {
		err = unix.SetNonblock(fd, true) // Fd has made it blocking, and a blocked read cannot be closed
	}
	if err != nil {
		t.Fatal(err)
	}
	keys = os.NewFile(uintptr(dup(t, fd)), "ptmx")
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return keys, tty
}

// dup gives a descriptor that Go's poller takes on, as one that it has not seen.
func dup(t *testing.T, fd int) int {
	t.Helper()
	other, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// startScreen runs a command in a terminal until the test ends.
func startScreen(t *testing.T, cmd *exec.Cmd, columns, rows uint16) *screen {
	t.Helper()
	keys, tty := openTerminal(t, columns, rows)
	defer tty.Close() //nolint:errcheck // the program has its own
	s := &screen{t: t, cmd: cmd, keys: keys, marked: map[int]string{}, done: make(chan struct{})}
	s.glass = vt10x.New(vt10x.WithSize(max(int(columns), 80), max(int(rows), 24)))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "NO_COLOR=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go s.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = keys.Close()
		<-s.done
		if t.Failed() {
			t.Logf("a screen was:\n%s", spinner.ReplaceAllString(s.seen(), ""))
		}
	})
	return s
}

// spinner matches the rows of what turns round while something is awaited.
var spinner = regexp.MustCompile(`[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏][\s\x08]*`)

func (s *screen) read() {
	defer close(s.done)
	buf := make([]byte, 4096)
	for {
		n, err := s.keys.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		_, _ = s.glass.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// seen is everything that was drawn so far, without what drives the terminal. Text that was drawn twice is in it twice.
func (s *screen) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ansi.Strip(s.text.String())
}

// mark is a place in what was drawn, to look at what comes after it.
func (s *screen) mark() int {
	mark, shows := len(s.seen()), s.shows()
	s.marked[mark] = shows
	return mark
}

// shows is what a person sees now, a line for each row.
func (s *screen) shows() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.glass.String()
}

// await waits until text was drawn behind a mark: in one go, or in pieces that stand together on the glass. A program
// that is slow draws what is typed in pieces, with other rows in between.
func (s *screen) await(mark int, text string) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		seen := s.seen()
		if strings.Contains(seen[min(mark, len(seen)):], text) ||
			strings.Count(s.shows(), text) > strings.Count(s.marked[mark], text) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%q was not drawn; the screen shows:\n%s", text, s.shows())
		}
	}
}

// press types keys.
func (s *screen) press(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// say types a line and sends it, and waits for what must come of it.
func (s *screen) say(line, answer string) {
	s.t.Helper()
	mark := s.mark()
	s.press(line + "\r")
	s.await(mark, answer)
}

// ends waits until the program has ended, and gives its exit code.
func (s *screen) ends() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Fatal("the program has not ended")
	}
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// Keys that are not letters.
const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	keyUp = "\x1b[A"
)

// chat opens the terminal of a chat on the service's home.
func (s *service) chat(args ...string) *screen {
	s.t.Helper()
	sc := startScreen(s.t, s.command(context.WithoutCancel(s.t.Context()), append([]string{"chat"}, args...)...), 100,
		30)
	sc.await(0, "say something") // before that a terminal takes Enter for a line of its own
	return sc
}

// newHome is a home where nothing runs yet.
func newHome(t *testing.T) *service {
	t.Helper()
	s := &service{t: t, binary: realProgram(t), home: filepath.Join(t.TempDir(), "home"), addr: "127.0.0.1:0"}
	t.Cleanup(s.kill)
	return s
}

// lockFile locks a file as Corebot locks a home.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// TestTextThatIsDrawnInPiecesIsSeen: a program on a busy machine draws what is typed in pieces.
func TestTextThatIsDrawnInPiecesIsSeen(t *testing.T) {
	t.Parallel()
	sc := startScreen(t, exec.Command("printf", `a though\033[5;1Hanother row\033[1;9Ht`), 80, 24)
	sc.await(0, "a thought")
	if seen := sc.seen(); strings.Contains(seen, "a thought") {
		t.Errorf("it was drawn in one go: %q", seen)
	}
	sc.ends()
}
