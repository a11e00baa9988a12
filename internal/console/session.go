package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/internal/runes"
)

// visit is one request of somebody who is logged in.
type visit struct {
	console *Console
	w       http.ResponseWriter
	r       *http.Request
	session corebot.ConsoleSession
}

func (v *visit) ctx() context.Context { return v.r.Context() }

// service is the admin service, for changes by the owner in the console.
func (v *visit) service() *operate.Service {
	return v.console.opts.Service(corebot.AuditEvent{
		Entry: corebot.EntryConsole, Principal: v.console.opts.Owner, Role: corebot.RoleAdmin,
	})
}

// fromElsewhere says whether somebody has followed a link on a page of another site. The page to log in needs no
// cookie, and a login address has its code behind the #, where it would be lost on the way.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.URL.Path != "/login"
}

// goOn answers a link on a page of another site with a page that leads to the same address. The browser has left out
// the cookie, since another site asked. It sends the cookie when this page asks. Nothing is looked up before that.
func goOn(w http.ResponseWriter, r *http.Request) {
	to := "/" + strings.TrimLeft(r.URL.EscapedPath(), `/\`) // two of them would begin the name of a host
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	to = html.EscapeString(to)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><meta charset="utf-8"><title>Corebot</title>`+
		`<meta name="color-scheme" content="light dark"><meta http-equiv="refresh" content="0;url=`+to+`">`+
		`<p><a href="`+to+`">Go on to Corebot</a></p>`)
}

// ownPath is a path of the console, with its query, that a request names; empty: it is none, or of another site.
func ownPath(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, `\`) || len(to) > maxPath {
		return ""
	}
	if u, err := url.Parse(to); err != nil || u.Host != "" || u.Scheme != "" {
		return "" // control characters, too, which browsers leave out
	}
	return to
}

// maxPath bounds the path to which a form leads back, in bytes.
const maxPath = 4096

// loginFor is the page to log in that leads on to a page of the console.
func loginFor(to string) string {
	if to = ownPath(to); to == "" || to == "/" {
		return "/login"
	}
	return "/login?to=" + url.QueryEscape(to)
}

// loginData is what the page to log in shows.
type loginData struct {
	Wrong string // why the last code opened nothing
	To    string // the page that was asked for; empty: none
}

// admitted serves those who are logged in. A page that others ask for becomes the page to log in.
func (c *Console) admitted(serve func(*visit) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := c.sessionOf(r)
		switch {
		case errors.Is(err, corebot.ErrNotFound):
			if isRead(r) && !wantsJSON(r) && r.Header.Get("HX-Request") == "" && !wantsEvents(r) {
				http.Redirect(w, r, loginFor(r.URL.RequestURI()), http.StatusSeeOther)
				return
			}
			at := "/"
			if u, err := url.Parse(r.Header.Get("HX-Current-URL")); err == nil {
				at = u.RequestURI()
			}
			w.Header().Set("HX-Redirect", loginFor(at))
			c.fail(&visit{console: c, w: w, r: r}, http.StatusUnauthorized, errLoggedOut)
			return
		case err != nil:
			c.fail(&visit{console: c, w: w, r: r}, statusOf(err), err)
			return
		}
		v := &visit{console: c, w: w, r: r, session: session}
		if err = readForm(r); err == nil {
			err = serve(v)
		}
		if err != nil {
			c.fail(v, statusOf(err), err)
		}
	})
}

// isRead says whether a request only reads.
func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

var errLoggedOut = corebot.WithHint(errors.New("this browser is not logged in, or not any more"),
	"run `corebot console` on the machine: it prints an address to log in")

// secure says whether a browser comes through TLS. A host that is no name of this machine is that of the proxy in
// front, also where the listener itself is on loopback.
func (c *Console) secure(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return c.opts.Secure || host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// cookieName differs by port: a browser sends a cookie to every port of a host, and several Corebots can be there.
func (c *Console) cookieName(r *http.Request) string {
	_, port, _ := strings.Cut(r.Host[strings.LastIndexByte(r.Host, ']')+1:], ":")
	if c.secure(r) {
		return "__Host-corebot-" + port
	}
	return "corebot-" + port
}

// sessionOf is the session of a request. A session that is not in force is [corebot.ErrNotFound].
func (c *Console) sessionOf(r *http.Request) (s corebot.ConsoleSession, err error) {
	cookie, err := r.Cookie(c.cookieName(r))
	if err != nil {
		return s, corebot.ErrNotFound
	}
	s, err = c.opts.Sessions.ByDigest(r.Context(), sha256.Sum256([]byte(cookie.Value)))
	if err != nil {
		return s, err
	}
	now := time.Now()
	if !s.InForce(now) {
		return s, corebot.ErrNotFound
	}
	if now.Sub(s.UsedAt) >= time.Minute {
		if err := c.opts.Sessions.Used(r.Context(), s.ID, now); err != nil { // the page matters more
			c.opts.Log.Warn().Err(err).Msg("the use of a session could not be noted")
		}
	}
	return s, nil
}

// loggedIn says whether the session of a stream still opens anything.
func (v *visit) loggedIn() bool {
	_, err := v.console.sessionOf(v.r)
	return err == nil
}

func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	if _, err := c.sessionOf(r); err == nil {
		// A browser keeps the part behind the # where an address has none, and this one can be a code.
		w.Header().Set("Location", cmp.Or(ownPath(r.URL.Query().Get("to")), "/")+"#")
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	v := &visit{console: c, w: w, r: r}
	data := loginData{To: ownPath(r.URL.Query().Get("to"))}
	if err := v.show(page{Name: "login", Title: "Log in", Data: data}); err != nil {
		c.fail(v, statusOf(err), err)
	}
}

// loggedInStill answers a page that asks whether its session still opens anything.
func (c *Console) loggedInStill(v *visit) error {
	v.w.WriteHeader(http.StatusNoContent)
	return nil
}

// login uses up the code of a login address, and gives the browser its cookie.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	v := &visit{console: c, w: w, r: r}
	if c.opts.Owner.ID == "" {
		c.fail(v, http.StatusForbidden, corebot.WithHint(errors.New("this system does not tell who owns the home, so "+
			"nobody can log in"), "use the commands, or the HTTP API with a token"))
		return
	}
	if err := readForm(r); err != nil {
		c.fail(v, statusOf(err), err)
		return
	}
	to := ownPath(r.PostFormValue("to"))
	code := strings.ToLower(strings.TrimSpace(r.PostFormValue("code")))
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	secret := base64.RawURLEncoding.EncodeToString(random[:])
	session, err := c.opts.Sessions.Login(r.Context(), sha256.Sum256([]byte(code)), sha256.Sum256([]byte(secret)),
		corebot.Plainly(runes.Head(r.UserAgent(), 200)))
	if errors.Is(err, corebot.ErrNotFound) {
		w.WriteHeader(http.StatusForbidden)
		data := loginData{To: to, Wrong: "This code opens nothing: it is wrong, was used before, or is older than " +
			"ten minutes. Run corebot console again for a new one."}
		if err := v.show(page{Name: "login", Title: "Log in", Data: data}); err != nil {
			c.opts.Log.Error().Err(err).Msg("the page to log in")
		}
		return
	}
	if err != nil {
		c.fail(v, statusOf(err), err)
		return
	}
	c.opts.Channel.LoggedOut() // of too many sessions the oldest has ended
	http.SetCookie(w, &http.Cookie{
		Name: c.cookieName(r), Value: secret, Path: "/", HttpOnly: true, Secure: c.secure(r),
		SameSite: http.SameSiteStrictMode, Expires: session.ExpiresAt,
	})
	http.Redirect(w, r, cmp.Or(to, "/"), http.StatusSeeOther)
}

func (c *Console) logout(v *visit) error {
	if err := c.opts.Sessions.Revoke(v.ctx(), v.session.ID); err != nil && !errors.Is(err, corebot.ErrNotFound) {
		return err
	}
	c.opts.Channel.LoggedOut()
	http.SetCookie(v.w, &http.Cookie{
		Name: c.cookieName(v.r), Path: "/", HttpOnly: true, Secure: c.secure(v.r), MaxAge: -1,
		SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(v.w, v.r, "/login", http.StatusSeeOther)
	return nil
}

// flashes are what the next page of a session says first. A session without a next page leaves one line behind.
type flashes struct {
	mu sync.Mutex
	of map[int64]string
}

func (f *flashes) set(session int64, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil || len(f.of) > 2*corebot.MaxConsoleSessions {
		f.of = map[int64]string{}
	}
	f.of[session] = text
}

func (f *flashes) take(session int64) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := f.of[session]
	delete(f.of, session)
	return text
}

// back ends an action: with JSON for a program, or with the page that the form names, which says what was done.
func (v *visit) back(result any, said, to string) error {
	if wantsJSON(v.r) {
		return v.json(http.StatusOK, result)
	}
	to = cmp.Or(ownPath(v.r.PostFormValue("back")), to)
	if said != "" {
		v.console.flashes.set(v.session.ID, said)
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}
