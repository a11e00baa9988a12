package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/listen"
	"github.com/corebot/corebot/internal/owned"
)

// SocketName is the socket's name in the data directory.
const SocketName = "control.sock"

// maxBody bounds one request and one answer.
const maxBody = 64 << 20

// maxConnections is how many commands may wait for something at once.
const maxConnections = 256

// Server carries out operations for other processes on this machine.
type Server struct {
	path     string
	listener net.Listener
	http     *http.Server
	stopping chan struct{} // closed when the server begins to stop
}

// stopping is the key of that channel among the values of an operation's context.
type stopping struct{}

// ErrStopping is why an operation that only waits ends with the server.
var ErrStopping = fmt.Errorf("the running Corebot stops: %w", corebot.ErrClosed)

// UntilStop is the context of an operation that only waits for an event. It ends when the server begins to stop, so
// that the server need not wait for the operation.
func UntilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	stop, served := ctx.Value(stopping{}).(chan struct{})
	if !served {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-stop:
			cancel(ErrStopping)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Listen makes the socket in a data directory whose lock the caller holds: one that is there was left by a process that
// is gone.
func Listen(dir string, ops Operations) (*Server, error) {
	if _, err := owned.Resolve(dir); err != nil { // whoever can exchange the socket reads what operators send
		return nil, fmt.Errorf("listen on the control socket: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, SocketName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old control socket: %w", err)
	}
	path, release, err := shortPath(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on the control socket: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the short path means nothing by then: Close removes the socket
	if err := os.Chmod(filepath.Join(dir, SocketName), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("close the control socket to others: %w", err), l.Close())
	}
	stop := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{operation}", func(w http.ResponseWriter, r *http.Request) {
		serve(ops, w, r.WithContext(context.WithValue(r.Context(), stopping{}, stop)))
	})
	return &Server{path: filepath.Join(dir, SocketName), listener: l, stopping: stop, http: &http.Server{
		Handler: mux, ConnContext: withPeer, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 16 << 10,
	}}, nil
}

// shortPath names the socket through the descriptor of its directory. So the name fits into a socket address, whose
// limit is about a hundred bytes, however long the directory's own path is.
func shortPath(dir string) (path string, release func(), err error) {
	path = filepath.Join(dir, SocketName)
	if len(path) < 100 {
		return path, func() {}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("open the data directory: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), SocketName), func() { _ = d.Close() }, nil // only looked through
}

func serve(ops Operations, w http.ResponseWriter, r *http.Request) {
	args, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var result json.RawMessage
	if err == nil {
		result, err = ops.Call(r.Context(), r.PathValue("operation"), args)
	}
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		result, _ = json.Marshal(encodeError(err)) // strings: cannot fail
	}
	_, _ = w.Write(result)
}

// Run serves until ctx ends and operations under way have been answered.
func (s *Server) Run(ctx context.Context) error {
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		close(s.stopping)
		s.drain(context.WithoutCancel(ctx))
	})
	err := s.http.Serve(listen.NewCapped(s.listener, maxConnections, nil))
	if !stop() { // Serve returns as soon as the shutdown begins
		<-drained
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// drainTime is how long operations may go on after the server was told to stop; a terminal that waits for something to
// show is cut off.
const drainTime = 2 * time.Second

func (s *Server) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if s.http.Shutdown(ctx) != nil { // the time is up
		_ = s.http.Close() // of connections that are cut off there is nothing to learn
	}
}

// Close ends listening, also of a server that was never run, and removes the socket. The caller still holds the lock of
// the data directory: nobody else has made a socket there meanwhile.
func (s *Server) Close() error {
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if e := os.Remove(s.path); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("remove the control socket: %w", e))
	}
	return err
}

// isOurs says whether a data directory has a socket, and refuses one that others can exchange: somebody else could be
// listening. A missing socket is not dialled at all, because in /tmp everybody could make one meanwhile.
func isOurs(dir string) (there bool, err error) {
	for _, path := range []string{dir, filepath.Join(dir, SocketName)} {
		switch _, err := owned.Resolve(path); {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case errors.Is(err, owned.ErrNotOurs):
			return false, fmt.Errorf("reach the running Corebot: %w", err)
		}
	}
	return true, nil
}

// Client asks the daemon of a data directory.
type Client struct{ http *http.Client }

// Dial finds the daemon of a data directory; ok is false when none listens there.
func Dial(ctx context.Context, dir string) (_ *Client, ok bool, err error) {
	if there, err := isOurs(dir); err != nil || !there {
		return nil, false, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		path, release, err := shortPath(dir)
		if err != nil {
			return nil, err
		}
		defer release()
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	c, err := dial(ctx, "", "")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, false, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, false, corebot.WithHint(fmt.Errorf("reach the running Corebot: %w", err),
			"run the command as the user who runs Corebot")
	case err != nil:
		return nil, false, fmt.Errorf("reach the running Corebot: %w", err)
	}
	_ = c.Close() // nothing was said on it
	return &Client{&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}, true, nil
}

// Lost says that no answer came: the daemon was not there, or went away. Whether it has carried the operation out is
// not known.
type Lost struct{ Err error }

func (e *Lost) Error() string { return e.Err.Error() }
func (e *Lost) Unwrap() error { return e.Err }

// Call implements [Caller].
func (c *Client) Call(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://corebot/"+url.PathEscape(name),
		bytes.NewReader(args))
	if err != nil {
		return nil, fmt.Errorf("operation %q: %w", name, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, corebot.WithHint(&Lost{fmt.Errorf("ask the running Corebot: %w", err)},
			"it may have stopped just now; run the command again")
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, &Lost{fmt.Errorf("read the answer of the running Corebot: %w", err)}
	}
	if resp.StatusCode == http.StatusOK {
		return body, nil
	}
	var p problem
	if err := json.Unmarshal(body, &p); err != nil || p.Message == "" {
		return nil, corebot.WithHint(fmt.Errorf("the running Corebot answered %s: %s", resp.Status,
			strings.TrimSpace(string(body))), "it may be of another version; restart it")
	}
	return nil, p.err()
}
