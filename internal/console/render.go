package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/operate"
)

// page is what a page shows. Data is also what it answers in JSON.
type page struct {
	Name  string // of its template
	Title string
	Data  any
	Live  bool // it keeps itself fresh by htmx

	// set when it is shown
	Here    string // its place in the navigation
	URL     string // of this request, to come back to
	Flash   string
	Session bool
	Version string
	Waiting int64 // approvals
	Dead    int64
}

func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// json answers a program. Secrets of the settings are left out.
func (v *visit) json(status int, data any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(data); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	v.w.WriteHeader(status)
	_, _ = v.w.Write([]byte(v.console.opts.Redact(b.String())))
	return nil
}

// show answers with a page, or with its data in JSON. Nothing is written before the page is whole.
func (v *visit) show(p page) error {
	if wantsJSON(v.r) {
		return v.json(http.StatusOK, p.Data)
	}
	p.Here, _, _ = strings.Cut(strings.TrimPrefix(v.r.URL.Path, "/"), "/")
	p.URL, p.Version, p.Session = v.r.URL.RequestURI(), v.console.opts.Version, v.session.ID != 0
	if p.Session && v.r.Header.Get("HX-Request") == "" && v.r.Method != http.MethodHead { // nobody sees a HEAD
		p.Flash = v.console.flashes.take(v.session.ID)
	}
	if p.Session {
		if s, err := v.service().Status(v.ctx(), struct{}{}); err == nil { // without the figures the page is as good
			p.Waiting, p.Dead = s.ApprovalsWaiting, s.DeadLetters[corebot.Inbound.String()]+
				s.DeadLetters[corebot.Outbound.String()]
		}
	}
	text, err := v.console.pages.render(p.Name, "layout", p)
	if err != nil {
		return err
	}
	v.html(text)
	return nil
}

// html sends a page or a part of one. Secrets of the settings are left out.
func (v *visit) html(text []byte) {
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = v.w.Write([]byte(v.console.opts.Redact(string(text))))
}

// templates are the pages, each parsed when it is shown first.
type templates struct{ parsed sync.Map }

// render makes a page, or the part of it that has a name.
func (t *templates) render(name, part string, data any) ([]byte, error) {
	found, known := t.parsed.Load(name)
	if !known {
		parsed, err := template.New(name).Funcs(functions).ParseFS(files,
			"templates/layout.html", "templates/parts.html", "templates/"+name+".html")
		if err != nil {
			return nil, err
		}
		found, _ = t.parsed.LoadOrStore(name, parsed)
	}
	var b bytes.Buffer
	err := found.(*template.Template).ExecuteTemplate(&b, part, data)
	return b.Bytes(), err
}

// statuses are what the errors of operations mean to a browser. The first that matches counts.
var statuses = []struct {
	err    error
	status int
}{
	{corebot.ErrNotFound, http.StatusNotFound},
	{corebot.ErrConflict, http.StatusConflict},
	{corebot.ErrTooLarge, http.StatusRequestEntityTooLarge},
	{corebot.ErrLaneFull, http.StatusTooManyRequests},
	{corebot.ErrOverloaded, http.StatusServiceUnavailable},
	{corebot.ErrDiskFull, http.StatusServiceUnavailable},
	{corebot.ErrClosed, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, http.StatusServiceUnavailable},
	{corebot.ErrCommitUnknown, http.StatusServiceUnavailable},
	{corebot.ErrInvalid, http.StatusUnprocessableEntity},
}

func statusOf(err error) int {
	if resolved := (*corebot.Resolved)(nil); errors.As(err, &resolved) {
		return http.StatusConflict
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	return http.StatusInternalServerError
}

// trouble is what a page of an error shows.
type trouble struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// fail answers with what went wrong, in words. The log alone sees errors whose words were not meant for people.
func (c *Console) fail(v *visit, status int, err error) {
	t := trouble{
		Status: status, Title: http.StatusText(status), Detail: c.opts.Redact(err.Error()),
		Hint: c.opts.Redact(corebot.HintOf(err)),
	}
	switch {
	case errors.Is(err, errNoPage):
		t.Detail = "There is no such page."
	case errors.Is(err, corebot.ErrCommitUnknown):
		t.Detail, t.Hint = "It is not known whether the change was stored.", "look whether it was before you try again"
	case status == http.StatusInternalServerError:
		c.opts.Log.Error().Err(err).Str("method", v.r.Method).Str("path", v.r.URL.Path).Msg("the console failed")
		t.Detail, t.Hint = "Corebot could not make this page.", "the log of Corebot says more"
	}
	if wantsJSON(v.r) {
		v.w.Header().Set("Content-Type", "application/problem+json")
		v.w.WriteHeader(status)
		_ = json.NewEncoder(v.w).Encode(t)
		return
	}
	text, broken := c.pages.render("trouble", "layout", page{
		Name: "trouble", Title: t.Title, Data: t, Session: v.session.ID != 0, Version: c.opts.Version, URL: "/",
		Here: "no page",
	})
	if broken != nil {
		text = []byte(template.HTMLEscapeString(t.Detail))
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(text)
}

// key is the chat that the address names.
func (v *visit) key() (corebot.Key, error) { return corebot.ParseKey(v.r.PathValue("chat")) }

// id is the number that the address names.
func (v *visit) id() (int64, error) {
	id, err := strconv.ParseInt(v.r.PathValue("id"), 10, 64)
	if err != nil {
		return 0, corebot.WithHint(errNoPage, "an address of this page has a number")
	}
	return id, nil
}

// pageRows bounds the rows of a page.
const pageRows = 50

// part is which rows of a list the address asks for.
func (v *visit) part() operate.Part {
	return operate.Part{After: v.r.FormValue("after"), Limit: pageRows}
}

// more is the address of the next page of a list; empty: nothing is left.
func (v *visit) more(next string) string {
	if next == "" {
		return ""
	}
	u := *v.r.URL
	q := u.Query()
	q.Set("after", next)
	u.RawQuery = q.Encode()
	return u.RequestURI()
}
