package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/owned"
)

type sum struct{ A, B int }

// seen is whom an operation took for its caller.
type seen struct {
	Peer   Peer
	Served bool
}

func TestTheKernelNamesTheCallerAtTheSocket(t *testing.T) {
	for name, want := range map[string]seen{
		"here":   {},
		"socket": {Peer{UID: os.Geteuid(), Known: true}, true},
	} {
		if got, err := Call[seen](t.Context(), callers(t)[name], "peer", struct{}{}); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestAConnectionOfAnotherKindHasAnUnknownPeer(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close() //nolint:errcheck // a test's own
	defer b.Close() //nolint:errcheck // a test's own
	if p, served := PeerOf(withPeer(t.Context(), a)); !served || p.Known {
		t.Errorf("%+v, served %v", p, served)
	}
}

// The words of a client of others come to the operation as they are, and are judged there.
func TestJSONOfOthersComesToAnOperationAsItIs(t *testing.T) {
	type carried struct{ Args json.RawMessage }
	op := Typed(func(_ context.Context, c carried) (string, error) { return string(c.Args), nil })
	for _, args := range []string{
		`{"a":1,"a":2}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
	} {
		if got, err := op(t.Context(), json.RawMessage(`{"Args":`+args+`}`)); err != nil || got != args {
			t.Errorf("%.40q came as %.40q, %v", args, got, err)
		}
	}
	for _, args := range []string{`{"Args":{},"B":1}`, `{"args":{}}`, `{"Args":{}} {}`} {
		if got, err := op(t.Context(), json.RawMessage(args)); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%s is read as %v, %v", args, got, err)
		}
	}
}

func operations() Operations {
	return Operations{
		"add": Typed(func(_ context.Context, s sum) (int, error) { return s.A + s.B, nil }),
		"fail": Typed(func(context.Context, struct{}) (int, error) {
			return 0, corebot.WithHint(fmt.Errorf("letter 7: %w", corebot.ErrNotFound), "look at the list")
		}),
		"peer": Typed(func(ctx context.Context, _ struct{}) (seen, error) {
			p, served := PeerOf(ctx)
			return seen{p, served}, nil
		}),
	}
}

// callers are both ways to an operation: in this process, and through the socket of a directory with a long name.
func callers(t *testing.T) map[string]Caller {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := Dial(t.Context(), dir); ok || err != nil {
		t.Fatalf("a daemon was found where there is none: %v %v", ok, err)
	}
	s, err := Listen(dir, operations())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
		if _, ok, err := Dial(context.Background(), dir); ok || err != nil {
			t.Errorf("a stopped daemon is still found: %v %v", ok, err)
		}
	})
	if info, err := os.Stat(filepath.Join(dir, SocketName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v: %v", info.Mode(), err)
	}
	c, ok, err := Dial(t.Context(), dir)
	if !ok || err != nil {
		t.Fatalf("the daemon is not found: %v", err)
	}
	return map[string]Caller{"here": operations(), "socket": c}
}

func TestAnOperationIsTheSameHereAndThroughTheSocket(t *testing.T) {
	for name, c := range callers(t) {
		t.Run(name, func(t *testing.T) {
			if n, err := Call[int](t.Context(), c, "add", sum{2, 3}); n != 5 || err != nil {
				t.Errorf("2 + 3 = %d: %v", n, err)
			}
			_, err := Call[int](t.Context(), c, "fail", struct{}{})
			if !errors.Is(err, corebot.ErrNotFound) || corebot.HintOf(err) != "look at the list" ||
				err.Error() != "letter 7: not found" {
				t.Errorf("the error lost its class, hint or text: %v (%s)", err, corebot.HintOf(err))
			}
			if _, err := Call[int](t.Context(), c, "subtract", sum{}); !errors.Is(err, corebot.ErrNotFound) {
				t.Errorf("an operation that is not there: %v", err)
			}
			if _, err := Call[int](t.Context(), c, "add", map[string]int{"C": 1}); !errors.Is(err, corebot.ErrInvalid) {
				t.Errorf("an argument that is not known: %v", err)
			}
		})
	}
}

func TestARefusalForWantOfRoomKeepsWhatItSaysThroughTheSocket(t *testing.T) {
	want := corebot.Busy{
		Err: corebot.WithHint(corebot.ErrLaneFull, "wait"), RetryAfter: 1500 * time.Millisecond,
		Tell: true,
	}
	raw, err := json.Marshal(encodeError(fmt.Errorf("accept: %w", &want)))
	if err != nil {
		t.Fatal(err)
	}
	var p problem
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	var got *corebot.Busy
	if err := p.err(); !errors.As(err, &got) || !errors.Is(err, corebot.ErrLaneFull) || corebot.HintOf(err) != "wait" ||
		got.RetryAfter != want.RetryAfter || !got.Tell {
		t.Errorf("it came out as %+v", got)
	}
	if err := (problem{Message: "x", Class: "lane_full"}).err(); errors.As(err, &got) {
		t.Error("an error that was none became one")
	}
}

func TestTheServerEndsAfterTheOperationsUnderWay(t *testing.T) {
	dir := t.TempDir()
	begun, release := make(chan struct{}), make(chan struct{})
	s, err := Listen(dir, Operations{"slow": Typed(func(context.Context, struct{}) (int, error) {
		close(begun)
		<-release
		return 7, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c, ok, err := Dial(t.Context(), dir)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	answered := make(chan int, 1)
	go func() {
		n, _ := Call[int](t.Context(), c, "slow", struct{}{})
		answered <- n
	}()
	<-begun
	stop()
	select {
	case <-ended:
		t.Error("it ended with an operation under way")
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if n := <-answered; n != 7 {
		t.Errorf("the operation was answered with %d", n)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestASocketThatOthersCouldHaveMadeIsNeitherUsedNorOpened(t *testing.T) {
	dir := t.TempDir()
	// nothing above it shuts others out
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if s, err := Listen(dir, operations()); !errors.Is(err, owned.ErrNotOurs) {
		t.Errorf("it listens: %v, %v", s, err)
	}
	if _, ok, err := Dial(t.Context(), dir); ok || !errors.Is(err, owned.ErrNotOurs) {
		t.Errorf("what may be somebody else's is asked: %v, %v", ok, err)
	}
	if err := errors.Join(os.Chmod(dir, 0o711), os.WriteFile(filepath.Join(dir, SocketName), nil, 0o600),
		os.Chmod(filepath.Join(dir, SocketName), 0o666)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := Dial(t.Context(), dir); ok || !errors.Is(err, owned.ErrNotOurs) {
		t.Errorf("a socket that everyone can write: %v, %v", ok, err)
	}
}

// TestAMissingSocketIsNotDialled: in a directory with the sticky bit, such as /tmp, everybody could make it meanwhile.
func TestAMissingSocketIsNotDialled(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if there, err := isOurs(filepath.Join(dir, "home")); there || err != nil {
		t.Errorf("a missing home can be asked: %v, %v", there, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	if there, err := isOurs(filepath.Join(dir, "home")); there || err != nil {
		t.Errorf("a home without a socket can be asked: %v, %v", there, err)
	}
}

func TestAnOperationThatOnlyWaitsEndsWithTheServer(t *testing.T) {
	dir := t.TempDir()
	begun := make(chan struct{})
	s, err := Listen(dir, Operations{"wait": Typed(func(ctx context.Context, _ struct{}) (int, error) {
		ctx, cancel := UntilStop(ctx)
		defer cancel()
		close(begun)
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c, ok, err := Dial(t.Context(), dir)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := Call[int](t.Context(), c, "wait", struct{}{})
		answered <- err
	}()
	<-begun
	stopped := time.Now()
	stop()
	if err := <-answered; !errors.Is(err, corebot.ErrClosed) {
		t.Errorf("it was answered with %v", err)
	}
	if err := <-ended; err != nil || time.Since(stopped) >= drainTime {
		t.Errorf("the server ended after %v: %v", time.Since(stopped), err)
	}
}
