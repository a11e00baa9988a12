// Package matrixtest is a homeserver of Matrix on a port of the loopback interface, for tests. It is strict: it refuses
// what a homeserver refuses, in its codes, and complains about what a homeserver would overlook.
//
// It follows Dendrite where the specification leaves a choice. A restart forgets transactions. Pages of the history do
// not name transactions, and a page repeats the event at its begin. Faults can be ordered: refusals, floods, answers
// that never come, and connections that break after the request has taken effect.
package matrixtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Token is the access token of the account, Bot its user, and Ann a person.
const (
	Token = "syt_Y29yZWJvdA_test_token_of_the_fake"
	Bot   = "@corebot:test"
	Ann   = "@ann:test"
)

// Call is a request of the account.
type Call struct {
	Method string
	Name   string // such as sync, send, messages, join
	Room   string
	Body   map[string]any
}

// Fault is what becomes of a request. The zero Fault is none.
type Fault struct {
	Status    int // of a refusal
	Code      string
	Error     string
	RetryMS   float64
	Header    http.Header
	Soft      bool
	Page      string // the answer is this, of a server in between
	Drop      bool   // the connection breaks before the request has taken effect
	DropAfter bool   // the connection breaks after it has
}

// Flood is a refusal for the rate of requests.
func Flood(milliseconds float64) Fault {
	return Fault{Status: 429, Code: "M_LIMIT_EXCEEDED", Error: "Too Many Requests", RetryMS: milliseconds}
}

// Server is the homeserver.
type Server struct {
	http *httptest.Server

	mu           sync.Mutex
	token        string
	soft         bool
	name         string
	rooms        map[string]*room
	stream       []*event // all events, in the order in which they came; positions begin at 1
	transactions map[string]string
	files        map[string]string // name and bytes, by address
	news         chan struct{}
	silence      chan struct{} // nil: it answers
	closed       bool
	faults       func(Call) Fault
	calls        []Call
	complaints   []string
	ids          int
}

// New starts a homeserver on which the account is in no room.
func New() *Server {
	s := &Server{
		token: Token, name: "Corebot", rooms: map[string]*room{}, transactions: map[string]string{},
		files: map[string]string{},
		news:  make(chan struct{}),
	}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// URL is where the server listens.
func (s *Server) URL() string { return s.http.URL }

// Close ends the server and its connections.
func (s *Server) Close() {
	s.Silence(false)
	s.mu.Lock()
	s.closed = true
	s.wake()
	s.mu.Unlock()
	s.http.CloseClientConnections()
	s.http.Close()
}

// Cut breaks every connection.
func (s *Server) Cut() { s.http.CloseClientConnections() }

// Restart has the homeserver forget all transactions and break every connection.
func (s *Server) Restart() {
	s.mu.Lock()
	clear(s.transactions)
	s.mu.Unlock()
	s.Cut()
}

// Silence has the server answer nothing, or answer again.
func (s *Server) Silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case silent && s.silence == nil:
		s.silence = make(chan struct{})
	case !silent && s.silence != nil:
		close(s.silence)
		s.silence = nil
	}
}

// Faults orders what becomes of requests from now on; nil: nothing special.
func (s *Server) Faults(of func(Call) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = of
}

// Refuse refuses the next n sends for their rate.
func (s *Server) Refuse(n int, milliseconds float64) {
	s.Faults(func(c Call) Fault {
		if c.Name != "send" || n == 0 {
			return Fault{}
		}
		n--
		return Flood(milliseconds)
	})
}

// Revoke has the server know the token no longer; soft says that the account was logged out softly.
func (s *Server) Revoke(soft bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.soft = "", soft
}

// Calls are the requests of a name so far.
func (s *Server) Calls(name string) (found []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.Name == name {
			found = append(found, c)
		}
	}
	return found
}

// Complaints are about requests that a program must not make, also where a homeserver would let them pass.
func (s *Server) Complaints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.complaints)
}

func (s *Server) complain(format string, args ...any) {
	s.complaints = append(s.complaints, fmt.Sprintf(format, args...))
}

// wake has syncs look again. The mutex is held.
func (s *Server) wake() {
	close(s.news)
	s.news = make(chan struct{})
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	silence := s.silence
	s.mu.Unlock()
	if silence != nil {
		select {
		case <-silence:
		case <-r.Context().Done():
			return
		}
	}
	q, refused := s.read(r)
	if refused != nil {
		refuse(w, *refused)
		return
	}
	s.mu.Lock()
	s.calls = append(s.calls, q.Call)
	var fault Fault
	if s.faults != nil {
		fault = s.faults(q.Call)
	}
	s.mu.Unlock()
	switch {
	case fault.Drop:
		hangUp(w)
		return
	case fault.Page != "":
		w.WriteHeader(cmp.Or(fault.Status, 502))
		_, _ = w.Write([]byte(fault.Page))
		return
	case fault.Status != 0:
		refuse(w, fault)
		return
	}
	result, refused := s.do(r, q)
	switch {
	case fault.DropAfter:
		hangUp(w)
	case refused != nil:
		refuse(w, *refused)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result)
	}
}

func refuse(w http.ResponseWriter, f Fault) {
	body := map[string]any{"errcode": f.Code, "error": f.Error}
	if f.RetryMS > 0 {
		body["retry_after_ms"] = f.RetryMS
	}
	if f.Soft {
		body["soft_logout"] = true
	}
	for name, values := range f.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(body)
}

// hangUp closes the connection of a request without an answer.
func hangUp(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// uploadPath is where files are uploaded.
const uploadPath = "/_matrix/media/v3/upload"

// query is a request as the server reads it.
type query struct {
	Call
	path []string
	args map[string]string
}

// read takes a request apart, and refuses one without the token.
func (s *Server) read(r *http.Request) (q query, refused *Fault) {
	upload := r.URL.EscapedPath() == uploadPath && r.Method == http.MethodPost
	rest, is := strings.CutPrefix(r.URL.EscapedPath(), "/_matrix/client/v3/")
	if !is && !upload {
		return q, &Fault{Status: 404, Code: "M_UNRECOGNIZED", Error: "Unrecognized request"}
	}
	q.Method, q.path, q.args = r.Method, unescape(strings.Split(rest, "/")), map[string]string{}
	for name, values := range r.URL.Query() {
		q.args[name] = values[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.args["access_token"] != "" {
		s.complain("the token stands in an address")
	}
	if r.Header.Get("Authorization") != "Bearer "+s.token || s.token == "" {
		return q, &Fault{Status: 401, Code: "M_UNKNOWN_TOKEN", Error: "Unknown token", Soft: s.soft}
	}
	if upload {
		q.Name, q.path = "upload", nil
		return q, nil
	}
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<20)).Decode(&q.Body); err != nil {
			return q, &Fault{Status: 400, Code: "M_NOT_JSON", Error: err.Error()}
		}
	}
	switch {
	case q.path[0] == "rooms" && len(q.path) > 2:
		q.Name, q.Room = q.path[2], q.path[1]
	case q.path[0] == "join" && len(q.path) == 2:
		q.Name, q.Room = q.path[0], q.path[1]
	default:
		q.Name = q.path[len(q.path)-1]
		if q.path[0] == "profile" {
			q.Name = "profile"
		}
	}
	return q, nil
}

// at is a time as events have it.
func at(t time.Time) int64 {
	if t.IsZero() {
		t = time.Now()
	}
	return t.UnixMilli()
}
