package line

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// maxLine bounds a line of the protocol, which is JSON.
const maxLine = 1 << 20

// Request is what a client sends.
type Request struct {
	Op      string        `json:"op"` // who, fetch or say
	Token   string        `json:"token"`
	After   string        `json:"after,omitempty"`
	Wait    time.Duration `json:"wait,omitempty"`
	Chat    string        `json:"chat,omitempty"`
	Text    string        `json:"text,omitempty"`
	Key     string        `json:"key,omitempty"`
	ReplyTo string        `json:"replyTo,omitempty"`
}

// Answer is what the server says to a request.
type Answer struct {
	Name       string        `json:"name"` // of the bot
	Messages   []Message     `json:"messages,omitempty"`
	Next       string        `json:"next,omitempty"`
	ID         string        `json:"id,omitempty"`
	Error      string        `json:"error,omitempty"`
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
}

// Message is what somebody said. An edit and a deletion are messages too: they name the one that they change.
type Message struct {
	ID, Chat, Sender, Name, Text, ReplyTo string
	EditOf, DeleteOf                      string
	Bot, Group, Mentioned                 bool
	At                                    time.Time
}

// Server is a whole platform on a port of the loopback interface. It keeps everything in memory.
type Server struct {
	listener net.Listener
	token    string
	serving  sync.WaitGroup
	closed   chan struct{}

	mu     sync.Mutex
	said   []Message
	shown  []Request
	keys   map[string]string // of what was shown, to its id
	news   chan struct{}     // closed when somebody has said something
	conns  map[net.Conn]struct{}
	silent bool // requests are read and not answered
	limits int  // so many sends are refused for their rate
}

// NewServer starts a server that knows one bot by its token.
func NewServer(token string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{
		listener: l, token: token, closed: make(chan struct{}), keys: map[string]string{}, news: make(chan struct{}),
		conns: map[net.Conn]struct{}{},
	}
	s.serving.Go(s.serve)
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server and its connections.
func (s *Server) Close() error {
	close(s.closed)
	err := s.listener.Close()
	s.Cut()
	s.serving.Wait()
	return err
}

// Say has somebody say something.
func (s *Server) Say(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, m)
	close(s.news)
	s.news = make(chan struct{})
}

// Shown are the texts that a chat shows, in order.
func (s *Server) Shown(chat string) (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.shown {
		if r.Chat == chat {
			texts = append(texts, r.Text)
		}
	}
	return texts
}

// Cut breaks every connection.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

// Silence has the server answer nothing more, or answer again what comes from then on.
func (s *Server) Silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// Limit refuses the next n sends for their rate.
func (s *Server) Limit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = n
}

func (s *Server) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = struct{}{}
		s.mu.Unlock()
		s.serving.Go(func() {
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.conns, conn)
				_ = conn.Close()
			}()
			s.converse(conn)
		})
	}
}

func (s *Server) converse(conn net.Conn) {
	in := bufio.NewScanner(conn)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		var r Request
		a := Answer{Error: "this is no request"}
		if json.Unmarshal(in.Bytes(), &r) == nil {
			a = s.answer(r)
		}
		s.mu.Lock()
		silent := s.silent
		s.mu.Unlock()
		if silent {
			continue
		}
		if json.NewEncoder(conn).Encode(a) != nil {
			return
		}
	}
}

func (s *Server) answer(r Request) Answer {
	if r.Token != s.token {
		return Answer{Error: "there is no bot with this token"}
	}
	switch r.Op {
	case "who":
		return Answer{Name: "bot"}
	case "fetch":
		return s.fetch(r)
	case "say":
		return s.show(r)
	}
	return Answer{Error: "there is no such request"}
}

// fetch gives what was said behind a place, and waits for it.
func (s *Server) fetch(r Request) Answer {
	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	after, _ := strconv.Atoi(r.After) // the beginning is empty
	for {
		s.mu.Lock()
		found, news := slices.Clone(s.said[min(after, len(s.said)):]), s.news
		s.mu.Unlock()
		if len(found) > 0 {
			return Answer{Name: "bot", Messages: found, Next: strconv.Itoa(after + len(found))}
		}
		select {
		case <-news:
		case <-s.closed:
			return Answer{Name: "bot", Next: r.After}
		case <-timer.C:
			return Answer{Name: "bot", Next: r.After}
		}
	}
}

// show shows a text once for its key.
func (s *Server) show(r Request) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limits > 0 {
		s.limits--
		return Answer{Error: "too fast", RetryAfter: time.Millisecond}
	}
	if s.silent {
		return Answer{}
	}
	if s.keys[r.Key] == "" {
		s.shown = append(s.shown, r)
		s.keys[r.Key] = fmt.Sprint("s", len(s.shown))
	}
	return Answer{ID: s.keys[r.Key]}
}
