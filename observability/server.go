package observability

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/listen"
)

// maxConnections is how many there are at once; one more is answered 503. It leaves room for slow ones, each of which
// has five seconds for its headers.
const maxConnections = 512

// statusTime is how long it may take to find out the status.
const statusTime = 5 * time.Second

// Options of a [Server].
type Options struct {
	Addr         string   // port 0 picks one
	AllowedHosts []string // names of the listener beside its address and localhost: see [listen.NewPages]
	Token        string   // what /metrics and /status want as a bearer token; empty: nothing
	Gather       prometheus.Gatherer
	Exemplars    bool // metrics have exemplars: scrapers that understand OpenMetrics get it
	// Ready gives the reasons why Corebot cannot accept or answer now; none means that it can.
	Ready func(ctx context.Context) []string
	// Degraded has what is wrong although Corebot accepts and answers; nil: nothing. /ready names the reasons and stays
	// what it is.
	Degraded *Degraded
	// Status gives what /status shows, as JSON.
	Status func(ctx context.Context) (any, error)
	Log    zerolog.Logger
}

// Server answers operators and their scrapers.
type Server struct {
	opts     Options
	listener net.Listener
	http     *http.Server
	token    atomic.Pointer[[sha256.Size]byte] // see digest
}

// NewServer listens at once, so that a busy port is known before anything else is started, and serves in Run. A
// listener that other machines can reach, and that asks for no token, is refused ([corebot.ErrInvalid]).
func NewServer(o Options) (*Server, error) {
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("listen for observability: %w", err),
			"choose another observability.addr, or port 0 for any")
	}
	s := &Server{opts: o, listener: l}
	if err := s.SetToken(o.Token); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	pages, err := listen.NewPages(l, o.AllowedHosts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("observability: %w", err), l.Close())
	}
	mux := http.NewServeMux() // it refuses other methods itself
	for pattern, handler := range s.patterns() {
		mux.Handle(pattern, handler)
	}
	s.http = &http.Server{
		Handler: programsOnly(pages, mux), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second,
		IdleTimeout:  time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(o.Log, "", 0),
	}
	return s, nil
}

// patterns are what the server answers, each a method and a path.
func (s *Server) patterns() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /health": http.HandlerFunc(s.health),
		"GET /ready":  http.HandlerFunc(s.ready),
		"GET /metrics": s.guarded(promhttp.HandlerFor(s.opts.Gather, promhttp.HandlerOpts{
			ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: s.opts.Exemplars,
		})),
		"GET /status": s.guarded(http.HandlerFunc(s.status)),
	}
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close frees the port, also of a server that was never run.
func (s *Server) Close() error {
	if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Run serves until ctx ends, and returns when the requests that were under way are answered or a second has passed.
func (s *Server) Run(ctx context.Context) error {
	s.opts.Log.Info().Str("addr", s.Addr()).Msg("observability")
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		s.drain(context.WithoutCancel(ctx))
	})
	err := s.http.Serve(listen.NewCapped(s.listener, maxConnections, nil))
	if !stop() {
		<-drained
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve observability: %w", err)
	}
	return nil
}

func (s *Server) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil { // the time is up
		_ = s.http.Close() // of connections that are cut off there is nothing to learn
	}
}

// A write that fails, here and below, was for a caller who has left. Nobody else misses it.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("ok\n"))
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	lines := s.opts.Ready(r.Context())
	status := http.StatusServiceUnavailable
	if len(lines) == 0 {
		status, lines = http.StatusOK, []string{"ready"}
	}
	for _, d := range s.opts.Degraded.Now(r.Context()) {
		lines = append(lines, fmt.Sprintf("degraded: %s: %s", d.Reason, d.Says))
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(strings.Join(lines, "\n") + "\n"))
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	// A caller who closes his side after the request still reads, and net/http takes him for gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), statusTime)
	defer cancel()
	v, err := s.opts.Status(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // a busy machine is no fault of Corebot
		s.opts.Log.Warn().Err(err).Msg("status")
		http.Error(w, fmt.Sprintf("the status was not read in %v, because the machine is busy: ask again", statusTime),
			http.StatusServiceUnavailable)
		return
	}
	if err != nil {
		s.opts.Log.Error().Err(err).Msg("status")
		http.Error(w, "the status cannot be read; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v)
}

// SetToken replaces the token; the old one is refused from now on. A listener that can be reached from other machines
// keeps having one.
func (s *Server) SetToken(token string) error {
	if token == "" && !s.loopback() {
		err := fmt.Errorf("%w: observability at %s can be reached from other machines and asks for no token",
			corebot.ErrInvalid, s.Addr())
		return corebot.WithHint(err, "set observability.token, or listen on 127.0.0.1")
	}
	s.token.Store(digest(token))
	return nil
}

// loopback judges by the address that was bound, not by what was asked for.
func (s *Server) loopback() bool {
	at, ok := s.listener.Addr().(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// digest is the hash of what a request has to carry; nil if it has to carry nothing.
func digest(token string) *[sha256.Size]byte {
	if token == "" {
		return nil
	}
	sum := sha256.Sum256([]byte("Bearer " + token))
	return &sum
}

// programsOnly keeps web pages out.
func programsOnly(pages listen.Pages, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if status, why := pages.Refuse(r); status != 0 {
			http.Error(w, why, status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guarded asks for the token, if there is one. Hashes are compared, so that the time tells nothing of it, its length
// included.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want, got := s.token.Load(), sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if want != nil && subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is required: observability.token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
