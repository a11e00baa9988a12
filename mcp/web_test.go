package mcp_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/trace"
	ours "github.com/corebot/corebot/mcp"
)

// hostileWebs are the same over HTTP.
func hostileWebs() []hostile {
	return []hostile{
		{"web-500", ours.Failed, "500", ""},
		{"web-404", ours.Failed, "", ""},
		{"web-html", ours.Failed, "content type", ""},
		{"web-redirects", ours.Failed, "another origin", ""},
		{"web-circles", ours.Failed, "redirects more than", ""},
		{"web-garbage", ours.Failed, "", ""},
		{"web-endless", ours.Failed, "", ""},
		{"web-bomb", ours.Failed, "", ""},
		{"web-floods", ours.Failed, "", ""},
		{"web-line", ours.Failed, "", ""},
		{"web-hangs", ours.Failed, "not ready within", ""},
		{"web-drips", ours.Failed, "not ready within", ""},
		{"web-duplicates", ours.Connected, "", corebot.OutcomeSuccess},
		{"web-no-answer", ours.Connected, "", corebot.OutcomeUnknown},
	}
}

// hostileWeb answers each path as its name says.
func hostileWeb() http.Handler {
	mux := http.NewServeMux()
	stream := func(w http.ResponseWriter, chunk string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}
	for name, serve := range map[string]http.HandlerFunc{
		"web-500": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "fallen over", http.StatusInternalServerError)
		},
		"web-404": http.NotFound,
		"web-html": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		},
		"web-redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		},
		"web-circles": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		},
		"web-garbage": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{{{")
		},
		"web-endless": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for {
				if _, err := io.WriteString(w, strings.Repeat(" ", 64<<10)); err != nil {
					return
				}
			}
		},
		"web-bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 1_000 {
				if _, err := z.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
		"web-floods": func(w http.ResponseWriter, _ *http.Request) {
			stream(w, strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", 1_000))
		},
		"web-line": func(w http.ResponseWriter, _ *http.Request) { stream(w, strings.Repeat("data: x", 10_000)) },
		// who has read all hears of the end
		"web-hangs": func(_ http.ResponseWriter, r *http.Request) {
			_,
				_ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"web-drips": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, ":")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		},
		"web-duplicates": jsonRPC(func(w http.ResponseWriter, answer string) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, strings.Repeat("data: "+answer+"\n\n", 50))
		}),
		"web-no-answer": jsonRPC(func(w http.ResponseWriter, answer string) {
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(answer, `"content"`) {
				answer = `{"jsonrpc":"2.0","method":"x"}`
			}
			fmt.Fprint(w, answer)
		}),
	} {
		mux.Handle("/"+name, serve)
	}
	return mux
}

// jsonRPC answers posts as a decent server would, in the form that write gives it.
func jsonRPC(write func(w http.ResponseWriter, answer string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, _ := io.ReadAll(r.Body)
		var m said
		if json.Unmarshal(body, &m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		var out strings.Builder
		p := &peer{out: bufio.NewWriter(&out)}
		p.usual(m, doTool)
		write(w, strings.TrimSpace(out.String()))
	}
}

// echoServer is a server of the library that Corebot does not use for its own side of the connection.
func echoServer() *server.MCPServer {
	s := server.NewMCPServer("test", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("Echo."), mcp.WithString("text", mcp.Required())),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("echo " + r.GetString("text", "")), nil
		})
	return s
}

func TestAServerCanBeReachedOverStreamableHTTPAndOverEvents(t *testing.T) {
	streamable := httptest.NewServer(server.NewStreamableHTTPServer(echoServer()))
	t.Cleanup(streamable.Close)
	events := httptest.NewServer(server.NewSSEServer(echoServer()))
	t.Cleanup(events.Close)
	r := newRig(t, everything(ours.Options{}), servers{
		"new": {"url": streamable.URL + "/mcp"}, "typed": {"type": "http", "url": streamable.URL},
		"old": {"type": "sse", "url": events.URL + "/sse"},
	})
	r.awaitConnected("new", "typed", "old")
	for _, name := range []string{"new", "typed", "old"} {
		r.requireCall("mcp__"+name+"__echo", `{"text":"hi"}`, corebot.OutcomeSuccess, "echo hi")
		r.requireCall("mcp__"+name+"__echo", `{}`, corebot.OutcomeInvalidArgs, "text")
	}
}

func TestAServerOverHTTPMayChangeItsTools(t *testing.T) {
	t.Parallel()
	s := echoServer()
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close)
	r := newRig(t, everything(ours.Options{}), servers{"one": {"url": web.URL}})
	r.awaitConnected("one")
	r.await("one", func(now ours.Status) bool {
		// again and again: the stream of notifications is opened behind the first answer, and of a change before it
		// nobody is told
		s.AddTool(mcp.NewTool("another"), nil)
		return len(now.Tools) == 2
	})
}

// TestACallNamesItsTraceToTheServerWhereThatIsAllowed reads what arrives at a real server.
func TestACallNamesItsTraceToTheServerWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	inner := server.NewStreamableHTTPServer(echoServer())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tools/call" {
			got.Store(r.Header.Get("Traceparent"))
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	r := newRig(t, everything(ours.Options{}), servers{"one": {"url": web.URL}})
	r.awaitConnected("one")
	for _, to := range [][]string{{trace.ToMCP}, {trace.ToModels}, nil} {
		tracer := trace.New(trace.Options{
			Sample: func(corebot.Trace, [16]byte) bool { return true }, Take: func(*trace.Span) {}, Propagate: to,
		})
		turn := tracer.Begin(corebot.Trace{}, trace.Consumer, "process", "", time.Now())
		result := callIn(trace.With(t.Context(), turn), t, r.box, "mcp__one__echo", `{"text":"hi"}`)
		sent, _ := corebot.ParseTraceparent(got.Load().(string))
		if allowed := slices.Contains(to, trace.ToMCP); result.Outcome != corebot.OutcomeSuccess ||
			(sent.IDText() == turn.At().IDText()) != allowed || sent.IsZero() == allowed {
			t.Errorf("told %v: %s, and the server was sent the trace %q", to, result.Outcome, got.Load())
		}
	}
}

// A server of the newest protocol keeps its connection while it answers. When it answers no more, the connection is
// lost: nobody needs to call a tool, and no stream has to be cut.
func TestAServerOverHTTPThatDoesNotAnswerIsConnectedAgain(t *testing.T) {
	t.Parallel()
	var dead atomic.Bool
	var asked atomic.Int64
	inner := server.NewStreamableHTTPServer(echoServer())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "server/discover" {
			asked.Add(1)
		}
		if dead.Load() {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	r := newRig(t, everything(ours.Options{PingEvery: 10 * time.Millisecond, PingTime: 500 * time.Millisecond}),
		servers{"one": {"url": web.URL}})
	since := r.await("one", func(s ours.Status) bool { return s.State == ours.Connected && asked.Load() > 3 }).Since
	if now := r.status("one"); now.Since != since || now.LastError != "" {
		t.Errorf("it was asked %d times and is %+v", asked.Load(), now)
	}
	dead.Store(true)
	s := r.await("one", func(s ours.Status) bool { return s.State == ours.Failed })
	if !strings.Contains(s.LastError, "does not answer") || len(s.Tools) != 1 {
		t.Errorf("it is %+v", s)
	}
	dead.Store(false)
	r.awaitConnected("one")
}

func TestAServerThatHasForgottenTheSessionIsConnectedAgain(t *testing.T) {
	var forgotten atomic.Bool
	inner := jsonRPC(func(w http.ResponseWriter, answer string) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "s")
		fmt.Fprint(w, answer)
	})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forgotten.Swap(false) {
			http.NotFound(w, r)
			return
		}
		inner(w, r)
	}))
	t.Cleanup(web.Close)
	r := newRig(t, everything(ours.Options{}), servers{"one": {"url": web.URL}})
	r.awaitConnected("one")
	since := r.status("one").Since
	forgotten.Store(true)
	r.requireCall("mcp__one__do", `{}`, corebot.OutcomeUnknown, "")
	r.await("one", func(s ours.Status) bool { return s.State == ours.Connected && s.Since.After(since) })
	r.requireCall("mcp__one__do", `{}`, corebot.OutcomeSuccess, "do")
}

func TestHeadersReachTheOriginOfTheEntryAndNoOther(t *testing.T) {
	var here, elsewhere, hops atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	inner := server.NewStreamableHTTPServer(echoServer())
	mux := http.NewServeMux()
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		hops.Add(1)
		http.Redirect(w, r, "/mcp", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret-of-the-test" || r.Header.Get("X-Tenant") != "t1" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		here.Add(1)
		inner.ServeHTTP(w, r)
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	t.Setenv("TOKEN", "secret-of-the-test")
	headers := map[string]string{"Authorization": "Bearer ${TOKEN}", "X-Tenant": "t1"}
	var log logLines
	r := newRig(t, everything(ours.Options{Log: log.logger()}), servers{
		"direct": {"url": web.URL + "/mcp", "headers": headers}, "moved": {
			"url":     web.URL + "/moved",
			"headers": headers,
		},
		"away": {"url": web.URL + "/away", "headers": headers}, "without": {"url": web.URL + "/mcp"},
	})
	r.awaitConnected("direct", "moved")
	r.requireCall("mcp__direct__echo", `{"text":"a"}`, corebot.OutcomeSuccess, "echo a")
	r.requireCall("mcp__moved__echo", `{"text":"a"}`, corebot.OutcomeSuccess, "echo a")
	for name, says := range map[string]string{"away": "another origin", "without": "authorization required"} {
		r.await(name, func(s ours.Status) bool { return s.State == ours.Failed && strings.Contains(s.LastError, says) })
	}
	if here.Load() == 0 || hops.Load() == 0 || elsewhere.Load() > 0 {
		t.Errorf("%d requests here, %d redirects, %d requests elsewhere", here.Load(), hops.Load(), elsewhere.Load())
	}
	if strings.Contains(log.String(), "secret-of-the-test") {
		t.Error("the log has the token")
	}
}
