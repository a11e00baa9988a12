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
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot/channels/channeltest/platform"
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
	platform.Platform[Call, Fault]

	mu           sync.Mutex
	token        string
	soft         bool
	name         string
	rooms        map[string]*room
	stream       []*event // all events, in the order in which they came; positions begin at 1
	transactions map[string]string
	files        map[string]string // name and bytes, by address
	news         chan struct{}
	closed       bool
	ids          int
}

// New starts a homeserver on which the account is in no room.
func New() *Server {
	s := &Server{
		token: Token, name: "Corebot", rooms: map[string]*room{}, transactions: map[string]string{},
		files: map[string]string{},
		news:  make(chan struct{}),
	}
	s.Listen(s.serve)
	return s
}

// URL is where the server listens.
func (s *Server) URL() string { return s.HTTP.URL }

// Close ends the server and its connections.
func (s *Server) Close() {
	s.Silence(false)
	s.mu.Lock()
	s.closed = true
	s.wake()
	s.mu.Unlock()
	s.HTTP.CloseClientConnections()
	s.HTTP.Close()
}

// Restart has the homeserver forget all transactions and break every connection.
func (s *Server) Restart() {
	s.Forget()
	s.Cut()
}

// Forget has the homeserver forget all transactions.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.transactions)
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

// Restore has the server know the token again.
func (s *Server) Restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = Token
}

// Revoke has the server know the token no longer; soft says that the account was logged out softly.
func (s *Server) Revoke(soft bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token, s.soft = "", soft
}

// Calls are the requests of a name so far.
func (s *Server) Calls(name string) []Call {
	return s.Taken(func(c Call) bool { return c.Name == name })
}

// wake has syncs look again. The mutex is held.
func (s *Server) wake() {
	close(s.news)
	s.news = make(chan struct{})
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.Wait(r.Context()) {
		return
	}
	if strings.HasPrefix(r.URL.Path, "/_matrix/client/v1/media/download/") &&
		r.Header.Get("Authorization") == "Bearer "+Token && s.Files.Give(w, r) {
		return
	}
	q, refused := s.read(r)
	if refused != nil {
		refuse(w, *refused)
		return
	}
	fault := s.Take(q.Call)
	switch {
	case fault.Drop:
		platform.HangUp(w)
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
		platform.HangUp(w)
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
		s.Complain("the token stands in an address")
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
