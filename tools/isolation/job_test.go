//go:build linux && (amd64 || arm64)

package isolation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corebot/corebot/internal/long"
)

// doJob is what the test binary does in a worker: words, of which the first says what.
func doJob(ctx context.Context, input []byte, connect Dialer) []byte {
	words := strings.Fields(string(input))
	text, err := jobs()[words[0]](ctx, words[1:], connect)
	if err != nil {
		return []byte("error: " + err.Error())
	}
	return []byte(text)
}

type jobFunc func(ctx context.Context, words []string, connect Dialer) (string, error)

func jobs() map[string]jobFunc {
	return map[string]jobFunc{
		"say": func(_ context.Context, words []string, _ Dialer) (string, error) {
			return strings.Join(words, " "), nil
		},
		"quiet": func(context.Context, []string, Dialer) (string, error) { return "", nil },
		"read": func(_ context.Context, words []string, _ Dialer) (string, error) {
			text, err := os.ReadFile(words[0])
			return string(text), err
		},
		"write": func(_ context.Context, words []string, _ Dialer) (string, error) {
			return "written", os.WriteFile(words[0], []byte("by a worker"), 0o600)
		},
		"see": func(_ context.Context, words []string, _ Dialer) (string, error) {
			entries, err := os.ReadDir(words[0])
			return fmt.Sprint(len(entries)), err
		},
		"execute": func(_ context.Context, words []string, _ Dialer) (string, error) {
			out, err := exec.Command(words[0]).CombinedOutput()
			return "it ran " + string(out), err
		},
		"socket": func(context.Context, []string, Dialer) (string, error) {
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
			return fmt.Sprint("a socket ", fd), err
		},
		"privileges": func(context.Context, []string, Dialer) (string, error) {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var has [2]unix.CapUserData
			err := unix.Capget(&header, &has[0])
			return fmt.Sprint(os.Geteuid(), has[0].Effective|has[0].Permitted|has[0].Inheritable,
				has[1].Effective|has[1].Permitted|has[1].Inheritable), err
		},
		"environment": func(context.Context, []string, Dialer) (string, error) {
			return strings.Join(os.Environ(), " "), nil
		},
		"fetch": func(ctx context.Context, words []string, connect Dialer) (string, error) {
			conn, err := connect(ctx, "tcp", words[0])
			if refused := (*Refused)(nil); errors.As(err, &refused) {
				return "refused: " + refused.Reason, nil
			}
			if err != nil {
				return "", err
			}
			text, err := io.ReadAll(conn)
			return string(text), err
		},
		"dials": func(ctx context.Context, _ []string, connect Dialer) (string, error) {
			for range maxDials + 1 {
				_, _ = connect(ctx, "tcp", "nowhere:1")
			}
			return "", nil
		},
		"crash": func(context.Context, []string, Dialer) (string, error) { os.Exit(3); return "", nil },
		"panic": func(context.Context, []string, Dialer) (string, error) { panic("on purpose") },
		"loop": func(ctx context.Context, _ []string, _ Dialer) (string, error) {
			for ctx.Err() == nil { // for ever
			}
			return "", nil
		},
		"eat": func(context.Context, []string, Dialer) (string, error) {
			var eaten [][]byte
			for len(eaten) < 2*maxOwnData>>26 {
				eaten = append(eaten, make([]byte, 64<<20))
			}
			return fmt.Sprint("ate ", len(eaten)), nil
		},
		"garbage": func(_ context.Context, words []string, _ Dialer) (string, error) {
			for fd := range 32 {
				if _, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE); err == nil {
					_, _ = syscall.Write(fd, []byte(words[0]))
				}
			}
			time.Sleep(time.Minute)
			return "", nil
		},
		"shout": func(context.Context, []string, Dialer) (string, error) {
			return strings.Repeat("a", maxFrame+1),
				nil
		},
		"leave": func(_ context.Context, words []string, _ Dialer) (string, error) {
			return "started", exec.Command("/proc/self/exe", "attempt", "sleep", words[0]).Start()
		},
	}
}

func do(t *testing.T, r *Runner, a Access, input string) string {
	t.Helper()
	answer, err := r.Do(t.Context(), Job{Tool: "test", Input: []byte(input), Access: a, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	return string(answer)
}

func TestAJobIsDoneInTheWorkspaceAndAnswered(t *testing.T) {
	inEachMode(t, Options{}, func(t *testing.T, r *Runner) {
		must(t, os.WriteFile(filepath.Join(r.path, "note"), []byte("from Corebot"), 0o600))
		for input, want := range map[string]string{
			"say a b": "a b", "quiet": "", "read note": "from Corebot",
			"write made": "written", "read made2": "error: open made2: no such file or directory",
		} {
			if got := do(t, r, WriteFiles, input); got != want {
				t.Errorf("%s: %q", input, got)
			}
		}
		info, err := os.Stat(filepath.Join(r.path, "made"))
		must(t, err)
		if info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) || info.Mode().Perm() != 0o600 {
			t.Errorf("what a tool writes belongs to %v with the mode %v", info.Sys().(*syscall.Stat_t).Uid, info.Mode())
		}
	})
}

func TestAJobReadsWhatProgramsHaveWritten(t *testing.T) {
	r := newRunner(t, Bare, Options{Allow: []string{"touch"}})
	run(t, r, 5*time.Second, "touch", "mine")
	if info, err := os.Stat(filepath.Join(r.path, filepath.FromSlash(Directory(chat)), "mine")); err != nil ||
		info.Mode().Perm() != 0o600 {
		t.Errorf("what a program makes: %v, %v", info, err)
	}
	if got := do(t, r, ReadFiles, "read "+Directory(chat)+"/mine"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestNoJobReachesMoreThanItsAccess(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("SECRET"), 0o644))
	must(t, os.Chmod(filepath.Dir(secret), 0o755))
	t.Setenv("UNLISTED", "SECRET")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	inEachMode(t, Options{}, func(t *testing.T, r *Runner) {
		note := filepath.Join(r.path, "note")
		must(t, os.WriteFile(note, []byte("SECRET"), 0o644))
		must(t, os.Symlink(secret, filepath.Join(r.path, "link")))
		for _, c := range []struct {
			access Access
			inputs []string
		}{
			{WriteFiles, []string{
				"read " + secret, "read link", "read ../" + filepath.Base(r.path) + "/../secret",
				"write " + secret, "write " + secret + "2", "read /etc/passwd", "see /etc", "see /home", "see /proc",
				"execute /bin/true", "socket", "fetch " + listener.Addr().String(),
			}},
			{ReadFiles, []string{"write note", "write new", "read " + secret}},
			{Nothing, []string{"read " + note, "write " + note, "see " + r.path, "socket"}},
		} {
			for _, input := range c.inputs {
				if got := do(t, r, c.access, input); !strings.HasPrefix(got, "error: ") &&
					!strings.HasPrefix(got, "refused: ") || strings.Contains(got, "SECRET") {
					t.Errorf("with access %v, %s: %q", c.access, input, got)
				}
			}
		}
		if got := do(t, r, Nothing, "environment"); strings.Contains(got, "SECRET") || strings.Contains(got, "HOME=") {
			t.Errorf("it sees %s", got)
		}
		if text, err := os.ReadFile(note); err != nil || string(text) != "SECRET" {
			t.Errorf("the note is %q, %v", text, err)
		}
	})
}

func TestAJobIsCorebotsUserOnlyWhereItMayReachFilesAndHasNoMoreOfRootThanThat(t *testing.T) {
	inEachMode(t, Options{}, func(t *testing.T, r *Runner) {
		files, nothing := fmt.Sprint(os.Geteuid(), 0, 0), fmt.Sprint(os.Geteuid(), 0, 0)
		if os.Geteuid() == 0 {
			files, nothing = fmt.Sprint(0, 1<<unix.CAP_DAC_OVERRIDE, 0), fmt.Sprint(r.uid, 0, 0)
		}
		for access, want := range map[Access]string{WriteFiles: files, ReadFiles: files, Nothing: nothing} {
			if got := do(t, r, access, "privileges"); got != want {
				t.Errorf("with access %v it is %q, want %q", access, got, want)
			}
		}
	})
}

func TestAWorkerThatDoesNotAnswerEndsItsJobAndNothingElse(t *testing.T) {
	inEachMode(t, Options{}, func(t *testing.T, r *Runner) {
		for _, input := range long.Every(2, []string{
			"crash", "panic", "loop", "eat", "shout", "dials", "garbage garbage", "garbage \x00\x00\x00\x02{}",
			"garbage \xff\xff\xff\xff", "garbage \x00\x00\x00\x05null1",
		}) {
			limit := 20 * time.Second
			if input == "loop" {
				limit = time.Second
			}
			// each has a breaker of its own
			answer, err := r.Do(t.Context(), Job{Tool: input, Input: []byte(input), Access: WriteFiles, Timeout: limit})
			if !errors.Is(err, ErrNoAnswer) || answer != nil || errors.Is(err, errDeadline) != (input == "loop") {
				t.Errorf("%q: %q, %v", input, answer, err)
			}
		}
		if got := do(t, r, Nothing, "say still there"); got != "still there" {
			t.Errorf("afterwards: %q", got)
		}
	})
}

func TestNothingOfAJobIsLeftWhenItHasAnswered(t *testing.T) {
	tmp := t.TempDir()
	must(t, os.Chmod(filepath.Dir(tmp), 0o755))
	t.Setenv("TMPDIR", tmp)
	inEachMode(t, Options{}, func(t *testing.T, r *Runner) {
		mark := newMark(t)
		if got := do(t, r, Nothing, "leave "+mark); got != "started" && !strings.Contains(got, "error: ") {
			t.Errorf("got %q", got)
		}
		if left := marked(mark); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
		if left, _ := filepath.Glob(filepath.Join(tmp, tempPrefix+"*")); len(left) > 0 {
			t.Errorf("directories are left: %v", left)
		}
	})
}

func TestAJobThatIsGivenUpEndsAtOnce(t *testing.T) {
	inEachMode(t, Options{}, func(t *testing.T, r *Runner) {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		time.AfterFunc(200*time.Millisecond, func() { cancel(enough) })
		if _, err := r.Do(ctx, Job{Tool: "test", Input: []byte("loop"), Timeout: time.Minute}); !errors.Is(err,
			enough) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAJobHasTheConnectionsThatAreMadeForIt(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello worker")
			_ = conn.Close()
		}
	}()
	connect := func(ctx context.Context, network, address string) (net.Conn, error) {
		switch address {
		case "good:80":
			return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
		case "bad:80":
			return nil, &Refused{"it is bad"}
		}
		return nil, errors.New("it does not exist")
	}
	inEachMode(t, Options{}, func(t *testing.T, r *Runner) {
		for input, want := range map[string]string{
			"fetch good:80": "hello worker",
			"fetch bad:80":  "refused: it is bad", "fetch none:80": "error: it does not exist",
		} {
			answer, err := r.Do(t.Context(), Job{
				Tool: "test", Input: []byte(input), Timeout: 20 * time.Second,
				Dial: connect,
			})
			if err != nil || string(answer) != want {
				t.Errorf("%s: %q, %v", input, answer, err)
			}
		}
	})
}

func TestABreakerStopsOneToolAndNoOther(t *testing.T) {
	r := newRunner(t, Room, Options{})
	for range breakAfter {
		if _, err := r.Do(t.Context(), Job{
			Tool: "broken", Input: []byte("crash"),
			Timeout: 20 * time.Second,
		}); !errors.Is(err, ErrNoAnswer) {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := r.Do(t.Context(), Job{
		Tool: "broken", Input: []byte("say hi"),
		Timeout: 20 * time.Second,
	}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if got := do(t, r, Nothing, "say hi"); got != "hi" {
		t.Errorf("another tool: %q", got)
	}
}

func TestAJobThatCannotBeIsRefused(t *testing.T) {
	r := newRunner(t, Room, Options{})
	for name, j := range map[string]Job{"no time": {Tool: "a"}, "a large input": {
		Tool: "a", Timeout: time.Second,
		Input: make([]byte, maxFrame+1),
	}} {
		if _, err := r.Do(t.Context(), j); err == nil || errors.Is(err, ErrNoAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzNothingThatAWorkerSaysHarmsCorebot hands bytes to Corebot's end of a link, as a worker that was taken over would.
func FuzzNothingThatAWorkerSaysHarmsCorebot(f *testing.F) {
	text, err := json.Marshal(frame{Answer: []byte("hi"), Final: true})
	must(f, err)
	for _, seed := range []string{
		"", "\x00\x00\x00\x02{}", "\xff\xff\xff\xff",
		"\x00\x00\x00" + string(rune(len(text))) + string(text), "\x00\x00\x00\x0e{\"began\":true}",
		"\x00\x00\x00\x1e{\"dial\":{\"network\":\"\",\"x\":1}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs, err := newPair()
		must(t, err)
		l, err := newLink(ours)
		must(t, err)
		defer l.close()
		go func() {
			_, _ = theirs.Write(said)
			_ = syscall.Shutdown(int(theirs.Fd()), syscall.SHUT_WR)
			_, _ = io.Copy(io.Discard, theirs)
			_ = theirs.Close()
		}()
		answer, err := l.host(t.Context(), Job{Input: []byte("x")})
		if (err == nil) == (answer == nil) && len(answer) > maxFrame*2 {
			t.Errorf("%q gives %q, %v", said, answer, err)
		}
	})
}
