package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/listen"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/operate"
)

// Options of a [Console]. All are required.
type Options struct {
	Service  func(by corebot.AuditEvent) *operate.Service // for changes by whoever is logged in
	Owner    corebot.Principal                            // in the console; an empty id: nobody can log in
	Sessions Sessions
	Channel  *Channel
	Control  Control
	Notices  Notices
	Live     *live.Hub
	Facts    Facts
	Files    Files
	Redact   func(string) string // takes secrets of the settings out
	Secure   bool                // browsers come through TLS, so that the cookie goes over nothing else
	Version  string
	Log      zerolog.Logger
}

// Sessions keeps who is logged in. An unknown one is [corebot.ErrNotFound].
type Sessions interface {
	// Login uses up the login address of a code, and stores the session of a secret, each by its SHA-256.
	Login(ctx context.Context, code, secret [sha256.Size]byte, browser string) (corebot.ConsoleSession, error)
	ByDigest(ctx context.Context, digest [sha256.Size]byte) (corebot.ConsoleSession, error)
	Used(ctx context.Context, id int64, at time.Time) error
	Revoke(ctx context.Context, id int64) error
}

// Control carries out a chat command that acts at once, in any conversation.
type Control interface {
	Control(ctx context.Context, m corebot.Message) (corebot.Receipt, error)
}

// Notices gives what Corebot itself has told a conversation.
type Notices interface {
	// Notices gives the newest, newest first, at most limit.
	Notices(ctx context.Context, k corebot.Key, limit int) ([]corebot.Posted, error)
	After(ctx context.Context, k corebot.Key, cursor int64, limit int) ([]corebot.Posted, error)
	Last(ctx context.Context, k corebot.Key) (int64, error)
}

// Files gives the files of chats.
type Files interface {
	// Open gives the bytes of a file that a chat has. A file that it does not have is [corebot.ErrNotFound].
	Open(ctx context.Context, k corebot.Key, hash string) (*os.File, corebot.AttachedFile, error)
}

// Facts is what only the program around the console knows.
type Facts interface {
	Settings() ([]Setting, error)
	Samples(ctx context.Context, after time.Time) ([]corebot.Sample, error)
	// CheckAccount tries the settings of an account, and says what came of it in a sentence.
	CheckAccount(ctx context.Context, name operate.AccountName) (string, error)
	KnownAgents() []string // the usual one first
}

// Setting is one value of the settings, with its secrets hidden.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // where the value comes from
}

// Console serves the pages.
type Console struct {
	opts    Options
	pages   templates
	flashes flashes
}

// New makes a console. It reads no template before a page is asked for.
func New(o Options) *Console { return &Console{opts: o} }

// maxForm bounds the body of a form: a message of 1 MiB, and what is around it. A form spells a byte with three.
const maxForm = 3<<20 + 64<<10

// Handler serves the pages. Its caller has checked that no page of another site asks, except by a link that a person
// follows: see [listen.Link].
func (c *Console) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range c.patterns() {
		mux.Handle(pattern, handler)
	}
	inner := http.NewCrossOriginProtection().Handler(c.known(mux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for name, value := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
				"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control": "no-store", "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
		} {
			h.Set(name, value)
		}
		if fromElsewhere(r) {
			goOn(w, r)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		inner.ServeHTTP(w, r)
	})
}

// patterns are what the console serves, each a method and a path.
func (c *Console) patterns() map[string]http.Handler {
	all := map[string]http.Handler{
		"GET /static/{hash}/{name...}": http.HandlerFunc(c.asset),
		"GET /login":                   http.HandlerFunc(c.loginPage),
		"POST /login":                  http.HandlerFunc(c.login),
		"GET /favicon.ico": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, assetPath("icon.svg"), http.StatusFound)
		}),
	}
	for pattern, serve := range c.routes() {
		all[pattern] = c.admitted(serve)
	}
	return all
}

// known serves what a mux has. It refuses other methods, and bodies that are no form. Those who are logged in are told
// which pages there are; others see the page to log in.
func (c *Console) known(mux *http.ServeMux) http.Handler {
	noPage := c.admitted(func(*visit) error { return errNoPage })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{console: c, w: w, r: r}
		if _, pattern := mux.Handler(r); pattern != "" {
			if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.ContentLength != 0 &&
				(err != nil || kind != "application/x-www-form-urlencoded") {
				c.fail(v, http.StatusUnsupportedMediaType, errNoForm)
				return
			}
			mux.ServeHTTP(w, r)
			return
		}
		if methods := listen.Methods(mux, r); methods != "" {
			w.Header().Set("Allow", methods)
			c.fail(v, http.StatusMethodNotAllowed, corebot.WithHint(errMethod, "its methods are "+methods))
			return
		}
		noPage.ServeHTTP(w, r)
	})
}

// routes are the pages and the actions for those who are logged in.
func (c *Console) routes() map[string]func(*visit) error {
	return map[string]func(*visit) error{
		"GET /{$}":                           c.now,
		"GET /now/stream":                    c.nowStream,
		"GET /session":                       c.loggedInStill,
		"POST /logout":                       c.logout,
		"GET /chats":                         c.chats,
		"POST /chats":                        c.openChat,
		"GET /chats/{chat}":                  c.chat,
		"GET /chats/{chat}/stream":           c.stream,
		"GET /chats/{chat}/entries/{place}":  c.entry,
		"GET /chats/{chat}/files/{hash}":     c.file,
		"POST /chats/{chat}/send":            c.send,
		"POST /chats/{chat}/command":         c.command,
		"POST /chats/{chat}/change":          c.changeChat,
		"GET /approvals":                     c.approvals,
		"POST /approvals/{id}":               c.decide,
		"POST /rules/{id}/revoke":            c.revokeRule,
		"GET /deadletters":                   c.deadLetters,
		"POST /deadletters/bulk":             c.deadBulk,
		"GET /deadletters/{id}":              c.deadLetter,
		"POST /deadletters/{id}/{action}":    c.deadChange,
		"GET /why":                           c.why,
		"GET /audit":                         c.audit,
		"GET /audit/export":                  c.auditExport,
		"POST /audit/verify":                 c.auditVerify,
		"GET /tasks":                         c.tasks,
		"POST /tasks":                        c.addTask,
		"GET /tasks/{id}":                    c.task,
		"POST /tasks/{id}/{action}":          c.changeTask,
		"GET /jobs":                          c.jobs,
		"POST /jobs/{id}/stop":               c.stopJob,
		"GET /channels":                      c.channels,
		"POST /channels/{action}":            c.changeChannel,
		"POST /pairings/{code}":              c.decidePairing,
		"GET /mcp":                           c.servers,
		"GET /mcp/{agent}/{server}":          c.server,
		"POST /mcp/{agent}/{server}/approve": c.approveTools,
		"POST /mcp/{agent}/reload":           c.reloadServers,
		"GET /skills":                        c.skills,
		"GET /skills/{agent}/{name}":         c.skill,
		"GET /memory":                        c.memory,
		"POST /memory/{action}":              c.changeMemory,
		"POST /memory/facts/forget":          c.forgetFacts,
		"GET /cost":                          c.cost,
		"GET /health":                        c.health,
		"GET /settings":                      c.settings,
		"POST /settings/reload":              c.reloadSettings,
		"POST /sessions/{id}/revoke":         c.revokeSession,
	}
}

var (
	errMethod = errors.New("the address does not have this method")
	errNoForm = corebot.WithHint(errors.New("the body is not said to be a form"),
		"send Content-Type: application/x-www-form-urlencoded")
)

var errNoPage = corebot.WithHint(errors.Join(corebot.ErrNotFound, fs.ErrNotExist),
	"the menu names all pages")
