package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/listen"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/operate"
)

const (
	maxConnections = 1024
	maxBodyBytes   = 1 << 20
	maxBodyLevels  = 100
	requestTime    = 30 * time.Second
)

// Options of a [Server].
type Options struct {
	Addr         string   // port 0 picks one
	AllowedHosts []string // names of the listener beside its address and localhost: see [listen.NewPages]
	Tokens       Tokens
	// Rest serves all paths but those of the API, behind the checks of Host and Origin. It authenticates its callers
	// itself, and sets the deadlines of a connection that it needs for longer than a minute. nil: there is no more.
	Rest   http.Handler
	Talk   Talk     // the channel of programs
	Agents []string // the ids of the agents that there are
	Live   *live.Hub
	Files  Files
	// Service is the admin service for changes that a token makes: the audit trail names it.
	Service func(by corebot.AuditEvent) *operate.Service
	Redact  func(string) string // leaves secrets out of an answer
	Version string
	Log     zerolog.Logger
}

// Files gives the files of chats.
type Files interface {
	// Open gives the bytes of a file that a chat has. A file that it does not have is [corebot.ErrNotFound].
	Open(ctx context.Context, k corebot.Key, hash string) (*os.File, corebot.AttachedFile, error)
}

// Tokens knows the tokens that callers hold.
type Tokens interface {
	// ByDigest gives the token whose secret has this SHA-256. An unknown one is [corebot.ErrNotFound].
	ByDigest(ctx context.Context, digest [sha256.Size]byte) (corebot.Token, error)
	// ByID gives a token by its number.
	ByID(ctx context.Context, id int64) (corebot.Token, error)
	// Used notes when a token was used.
	Used(ctx context.Context, id int64, at time.Time) error
	// Made gives the answer of the change that a key stands for. A key that stands for none is [corebot.ErrNotFound].
	Made(ctx context.Context, k corebot.KeyedChange) (corebot.KeptAnswer, error)
	// Keyed has the first change with the context store the key in its commit.
	Keyed(ctx context.Context, k corebot.KeyedChange) context.Context
	// Keep stores the answer of a change under its key.
	Keep(ctx context.Context, k corebot.KeyedChange, a corebot.KeptAnswer) error
}

// Server serves the API.
type Server struct {
	opts     Options
	listener net.Listener
	http     *http.Server
	document func() ([]byte, error) // of OpenAPI; made when somebody asks for it
	holds    holds
	keys     keysInUse
	frames   frames
	teller   *teller
}

// NewServer listens at once, so that a busy port is known before anything else is started. It serves in Run.
func NewServer(o Options) (*Server, error) {
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, corebot.WithHint(fmt.Errorf("listen for the console: %w", err),
			"choose another console.addr, or port 0 for any")
	}
	s := &Server{opts: o, listener: l, teller: newTeller(o.Live)}
	s.document = sync.OnceValues(func() ([]byte, error) { return document(o.Version) })
	pages, err := listen.NewPages(l, o.AllowedHosts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("console: %w", err), l.Close())
	}
	s.http = &http.Server{
		Handler: s.handler(pages), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: requestTime,
		WriteTimeout: 2 * requestTime, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(o.Log, "", 0),
	}
	return s, nil
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

// Run serves until ctx ends, and returns when the requests that were under way are answered or three seconds have
// passed.
func (s *Server) Run(ctx context.Context) error {
	s.opts.Log.Info().Str("addr", s.Addr()).Msg("HTTP API")
	telling, quiet := context.WithCancel(context.WithoutCancel(ctx)) // sockets are told until they have ended
	var teller sync.WaitGroup
	defer teller.Wait()
	defer quiet()
	teller.Go(func() { s.teller.run(telling) })
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		s.endHeld(errStopping, func(*held) bool { return true })
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if s.http.Shutdown(grace) != nil { // the time is up
			_ = s.http.Close() // of connections that are cut off there is nothing to learn
		}
	})
	err := s.http.Serve(listen.NewCapped(s.listener, maxConnections, nil))
	if !stop() {
		<-drained
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the API: %w", err)
	}
	return nil
}

// patterns are what the API serves, each a method and a path.
func (s *Server) patterns() map[string]http.Handler {
	all := map[string]http.Handler{
		"GET " + socketPath: http.HandlerFunc(s.serveSocket),
		"GET " + documentPath: s.guarded(route{scope: corebot.ScopeRead, serve: func(c *call) (any, error) {
			described, err := c.server.document()
			return rawJSON(described), err
		}}),
	}
	for _, r := range routes() {
		all[r.method+" "+r.path] = s.guarded(r)
	}
	return all
}

// handler serves every route behind the checks that all have in common.
func (s *Server) handler(pages listen.Pages) http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range s.patterns() {
		mux.Handle(pattern, handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		rest := s.opts.Rest != nil && !isAPI(r.URL.Path)
		status, why := pages.Refuse(r)
		if status != 0 && (status != http.StatusForbidden || !rest || !listen.Link(r)) {
			problem{Status: status, Detail: why}.write(w)
			return
		}
		if rest {
			s.opts.Rest.ServeHTTP(w, r)
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			unknown(w, listen.Methods(mux, r))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isAPI says whether a path is one of the API, or would be if the API had it.
func isAPI(path string) bool {
	return path == "/api" || path == "/ws" || strings.HasPrefix(path, "/api/")
}

// unknown answers a path or a method that the API does not have, as a problem too. The methods are those that the path
// has; empty: the API has no such path.
func unknown(w http.ResponseWriter, methods string) {
	if methods == "" {
		problem{
			Status: http.StatusNotFound, Detail: "the API has no such path",
			Hint: "GET " + documentPath + " describes all paths",
		}.write(w)
		return
	}
	w.Header().Set("Allow", methods)
	problem{
		Status: http.StatusMethodNotAllowed, Detail: "the path does not have this method",
		Hint: "its methods are " + methods,
	}.write(w)
}

// guarded serves a route to those whose token has its scope.
func (s *Server) guarded(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), requestTime)
		defer cancel()
		token, refused := s.admit(ctx, req, r.scope, r.also)
		if refused != nil {
			refused.write(w)
			return
		}
		c := &call{server: s, request: req.WithContext(ctx), token: token, writer: w, gone: req.Context()}
		if r.keyed() {
			s.serveKeyed(c, r)
			return
		}
		result, err := r.serve(c)
		if err != nil {
			s.fail(w, req, err)
			return
		}
		if f, is := result.(download); is {
			f.send(w, req)
			return
		}
		s.answer(w, req, result)
	})
}

// admit finds the token of a request, and refuses one that does not open the scope.
func (s *Server) admit(ctx context.Context, r *http.Request, scope, also corebot.Scope) (corebot.Token, *problem) {
	secret, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer || len(r.Header["Authorization"]) > 1 {
		return corebot.Token{}, &problem{
			Status: http.StatusUnauthorized, Detail: "a bearer token is required",
			Hint: "corebot tokens add NAME makes one; send it as Authorization: Bearer SECRET",
		}
	}
	now := time.Now()
	token, err := s.opts.Tokens.ByDigest(ctx, sha256.Sum256([]byte(secret)))
	switch {
	case errors.Is(err, corebot.ErrNotFound) || err == nil && !token.InForce(now):
		return token, &problem{
			Status: http.StatusUnauthorized, Detail: "the token opens nothing: it is unknown, expired or revoked",
			Hint: "corebot tokens list shows those that are in force",
		}
	case err != nil:
		s.opts.Log.Error().Err(err).Msg("a token could not be looked up")
		return token, new(problemOf(err))
	case !token.Has(scope) && !(also != "" && token.Has(also)):
		return token, &problem{
			Status: http.StatusForbidden, Detail: fmt.Sprintf("the token %s lacks the scope %s", token.Name, scope),
			Hint: fmt.Sprintf("corebot tokens add NAME --scope %s makes one that has it", scope),
		}
	}
	if now.Sub(token.UsedAt) >= time.Minute {
		if err := s.opts.Tokens.Used(ctx, token.ID, now); err != nil { // the answer matters more
			s.opts.Log.Warn().Err(err).Msg("the use of a token could not be noted")
		}
	}
	return token, nil
}

// fail answers with the problem that an error is. The log alone sees errors whose words were not meant for callers.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		s.opts.Log.Error().Err(err).Str("method", r.Method).Str("path", r.URL.Path).Msg("the API failed")
	}
	p.Detail, p.Hint = s.opts.Redact(p.Detail), s.opts.Redact(p.Hint)
	p.write(w)
}
