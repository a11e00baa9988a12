// Package llmtest is a scripted model behind a real HTTP interface: the OpenAI-compatible chat completions API
// (streamed and whole), the list of models, and Anthropic's messages API (streamed). Tests drive a real client against
// it, over real HTTP, and decide what it answers, when, and how it breaks. [Faults] are the ways to break that everyone
// who talks to a model must survive.
//
// In most tests two lines are enough. [Start] serves over an in-memory network, so it works inside testing/synctest:
//
//	read := llmtest.Call{Name: "fs_read", Args: `{"path":"a"}`}
//	srv := llmtest.Start(t, llmtest.Queue(llmtest.ToolCalls(read), llmtest.Text("done")))
//	model, err := openai.New(srv.URL, openai.Options{Model: "scripted", Transport: srv.Transport})
//
// Or the same [Server] behind a port, for a program under test: httptest.NewServer(llmtest.New(script)), base URL +
// "/v1".
//
// Scripts are functions from request to answer; [Queue] makes one from a list. Everything here is safe for concurrent
// use; a script that keeps state of its own must see to that itself, since it is called by each request's goroutine.
//
// Limits: only text, thinking and tool calls are spoken, request bodies end at 16 MiB, and the API key is recorded but
// not checked.
package llmtest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
)

// ModelID is the one model that /v1/models lists.
const ModelID = "scripted"

const maxRequestBytes = 16 << 20

// Script decides what a request is answered.
type Script func(Request) Answer

// Queue answers the first request with the first answer, and so on. A request beyond the last answer gets status 500
// and a message that says so. So a test that asks too often fails.
func Queue(answers ...Answer) Script {
	var mu sync.Mutex
	next := 0
	return func(Request) Answer {
		mu.Lock()
		defer mu.Unlock()
		if next == len(answers) {
			return Fail(http.StatusInternalServerError, fmt.Sprintf("llmtest: all %d answers are used up",
				len(answers)))
		}
		next++
		return answers[next-1]
	}
}

// Always gives every request the same answer.
func Always(a Answer) Script {
	return func(Request) Answer { return a }
}

// Server is an http.Handler that plays a model. It answers POST /v1/chat/completions and POST /v1/messages by its
// script and GET /v1/models with [ModelID]; anything else is 404.
type Server struct {
	script Script
	mux    *http.ServeMux

	mu       sync.Mutex
	requests []Request
}

// New makes a server that answers by script.
func New(script Script) *Server {
	s := &Server{script: script, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /v1/chat/completions", s.answer(parseRequest))
	s.mux.HandleFunc("POST /v1/messages", s.answer(parseMessages))
	s.mux.HandleFunc("GET /v1/models", listModels)
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Requests are the requests so far, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Last is the newest request, or a zero one.
func (s *Server) Last() Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		return Request{}
	}
	return s.requests[len(s.requests)-1]
}

func (s *Server) answer(parse func([]byte) (Request, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
		if err != nil {
			writeError(w, http.StatusRequestEntityTooLarge, "llmtest: read the request: "+err.Error())
			return
		}
		req, err := parse(body)
		if err != nil {
			writeError(w, http.StatusBadRequest, "llmtest: "+err.Error())
			return
		}
		req.Header = r.Header.Clone()
		s.script(s.record(req)).write(w, r, req)
	}
}

// record numbers the request before the script sees it.
func (s *Server) record(req Request) Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	req.N = len(s.requests) + 1
	s.requests = append(s.requests, req)
	return req
}

func listModels(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model","owned_by":"llmtest"}]}`, ModelID)
}

// Keyed serves a script as OpenAI's API does: to callers with one key, and under the one name of [ModelID]. It refuses
// all others in the words of OpenAI.
func Keyed(key string, script Script) http.Handler {
	h := New(func(r Request) Answer {
		if r.Model != ModelID {
			return Fail(http.StatusNotFound, fmt.Sprintf("The model %q does not exist or you do not have access to it.",
				r.Model))
		}
		return script(r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			writeError(w, http.StatusUnauthorized, "Incorrect API key provided: find yours in your account.")
			return
		}
		h.ServeHTTP(w, r)
	})
}
