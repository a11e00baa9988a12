package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/listen"
)

// Times of one connection.
const (
	headerTime = 5 * time.Second  // to send the headers of a request
	bodyTime   = 30 * time.Second // to send headers and body
	writeTime  = 10 * time.Second // to take one piece of an answer
	idleTime   = time.Minute      // between two requests
	lingerTime = time.Second      // to stop sending a body that is refused, before the connection is closed under it
	drainTime  = 3 * time.Second  // for the requests that are under way when Run ends
)

// maxHeaderBytes bounds the headers of a request. net/http allows 4 KiB more.
const maxHeaderBytes = 16 << 10

// pieceBytes is how much of an answer is written under one deadline.
const pieceBytes = 16 << 10

// Run serves until ctx ends: long polls and streams then end at once, and other requests have three seconds. After an
// error of the listener it may be called again, and listens at the same address.
func (w *Webhook) Run(ctx context.Context, door channels.Door) error {
	l, err := w.listen()
	if err != nil {
		return err
	}
	w.opts.Log.Info().Str("addr", w.addr).Msg("webhook")
	server := &http.Server{
		Handler: newHandler(w, door, ctx), ReadHeaderTimeout: headerTime, ReadTimeout: bodyTime,
		WriteTimeout: bodyTime + writeTime, // of answers that net/http gives; ours set their own
		IdleTimeout:  idleTime, MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(w.opts.Log, "", 0),
	}
	defer server.Close() //nolint:errcheck // the listener and what is left of the connections
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		_ = server.Shutdown(grace) // what is not done by then is closed
	})
	err = server.Serve(listen.NewCapped(l, w.opts.MaxConnections, w.metrics.refused.Inc))
	if !stop() {
		<-drained
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	return nil
}

// probeTime bounds a probe.
const probeTime = 2 * time.Second

// Probe implements [channels.Prober]. A connection that is closed at once is an answer, too: there are too many.
func (w *Webhook) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+reachable(w.addr)+pathHealth, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := probes.Do(r)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return nil
	case err != nil:
		return err
	}
	return resp.Body.Close()
}

// probes asks each time over a connection of its own, and no proxy.
var probes = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// reachable is where a listener is reached from this machine. One without an address listens on all of them.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return addr
}

// listen gives out the listener that New opened, and after that a new one.
func (w *Webhook) listen() (net.Listener, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.served {
		l, err := net.Listen("tcp", w.addr)
		if err != nil {
			return nil, fmt.Errorf("listen for the webhook again: %w", err)
		}
		w.listener = l
	}
	w.served = true
	return w.listener, nil
}

// writePieces writes b so that every piece has its own deadline: a slow reader may take long for much, but not for
// little. It ends with ctx, the write that is under way aside.
func writePieces(ctx context.Context, w http.ResponseWriter, b []byte) error {
	deadline := http.NewResponseController(w)
	for len(b) > 0 {
		n := min(len(b), pieceBytes)
		if err := deadline.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil { // looked at after setting the deadline: see newStream
			return err
		}
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
