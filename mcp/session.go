package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/rs/zerolog"

	"github.com/corebot/corebot/internal/redact"
	"github.com/corebot/corebot/tools"
)

const (
	discoverTime = 3 * time.Second // for a server to say whether it knows the newest version of the protocol
	maxPages     = 100             // of a list of tools
	maxListing   = 16 << 20        // bytes of all these pages
)

// dialing is what a connection is made with.
type dialing struct {
	spec       Spec
	version    string
	passEnv    []string
	env        func(string) (string, bool)
	maxMessage int
	grace      time.Duration
	log        zerolog.Logger
	redactor   *redact.Redactor
	changed    func() // the list of tools has changed; it must not block
}

// session is one connection to a server, from its start to its end.
type session struct {
	client  *client.Client
	http    *http.Client
	process *process
	grace   time.Duration // for the process to go
	modern  bool

	end  context.CancelCauseFunc
	life context.Context // ends with the connection; its cause says why

	progress sync.Map // of func(), by token: a call goes on
	tokens   atomic.Int64
	closing  sync.Once
}

// connect starts a server or reaches it, and agrees with it on a protocol, within the time of ctx. It cleans up after a
// failure. The session outlives ctx.
func connect(ctx context.Context, d dialing) (*session, error) {
	s := &session{grace: d.grace}
	s.life, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	defer stop()
	err := s.open(ctx, d)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		if ctx.Err() != nil { // these say more than what the library makes of them
			err = context.Cause(ctx)
		} else if why := context.Cause(s.life); why != nil {
			err = why
		}
		s.close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return s, nil
}

func (s *session) open(ctx context.Context, d dialing) error {
	connection, err := s.transport(d)
	if err != nil {
		return err
	}
	s.client = client.NewClient(connection, client.WithDiscoverTimeout(discoverTime), client.WithMaxInputRoundTrips(1))
	s.client.OnConnectionLost(func(err error) { s.end(fmt.Errorf("the connection is lost: %w", err)) })
	s.client.OnNotification(func(n mcp.JSONRPCNotification) { s.notified(n, d.changed) })
	if err := s.client.Start(s.life); err != nil {
		return err
	}
	hello := mcp.InitializeRequest{}
	hello.Params.ClientInfo = mcp.Implementation{Name: "corebot", Version: d.version}
	if _, err := s.client.Initialize(ctx, hello); err != nil {
		return err
	}
	s.modern = mcp.IsModernProtocol(s.client.ProtocolVersion())
	if s.modern { // older servers tell without being asked
		_, err = s.client.ListenAsync(s.life, mcp.SubscriptionFilter{ToolsListChanged: true}, nil)
	}
	return err
}

// transport makes the connection of the entry's kind; a program is started for it.
func (s *session) transport(d dialing) (_ transport.Interface, err error) {
	if d.spec.Transport != Stdio {
		if s.http, err = newHTTPClient(d.spec, d.maxMessage); err != nil {
			return nil, err
		}
		return newHTTPTransport(d.spec, s.http)
	}
	mark := d.spec.Name + "." + rand.Text()
	env := environment(d.spec, d.passEnv, d.env, mark)
	path, err := program(d.spec, env)
	if err != nil {
		return nil, err
	}
	if s.process, err = startProcess(path, d.spec, env, mark); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	go s.process.log(d.log, d.redactor)
	go func(p *process) {
		<-p.ended
		s.end(p.how())
	}(s.process)
	return newPipe(s.process.in, s.process.out, d.maxMessage, func(err error) { s.lose(err) }), nil
}

// lose ends the session for a reason. The exit of the program is a better reason than its silence, so the program has a
// moment to exit.
func (s *session) lose(err error) {
	if p := s.process; p != nil && waits(p.ended, 500*time.Millisecond) {
		err = p.how()
	}
	s.end(err)
}

// notified takes a notification. It does not block: the connection waits for it.
func (s *session) notified(n mcp.JSONRPCNotification, changed func()) {
	switch n.Method {
	case mcp.MethodNotificationToolsListChanged:
		changed()
	case "notifications/progress":
		token, _ := n.Params.AdditionalFields["progressToken"].(string)
		if goesOn, ok := s.progress.Load(token); ok {
			goesOn.(func())()
		}
	}
}

// list asks for all tools, as the server spells them, and stops once there are more than at most.
func (s *session) list(ctx context.Context, most int) (defs []definition, more bool, err error) {
	var r mcp.ListToolsRequest
	seen, size := map[mcp.Cursor]bool{}, 0
	for range maxPages {
		var a answer
		if _, err := s.client.ListToolsByPage(withTap(ctx, &a), r); a.result == nil {
			return nil, false, s.explain(fmt.Errorf("list the tools: %w", err))
		}
		if size += len(a.result); size > maxListing {
			return nil, false, fmt.Errorf("list the tools: the list has more than %d bytes", maxListing)
		}
		var page struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(a.result, &page); err != nil {
			return nil, false, fmt.Errorf("list the tools: %w", err)
		}
		for _, raw := range page.Tools {
			if len(defs) == most {
				return defs, true, nil
			}
			defs = append(defs, define(raw))
		}
		next := mcp.Cursor(page.NextCursor)
		if next == "" || seen[next] {
			return defs, false, nil
		}
		seen[next], r.Params.Cursor = true, next
	}
	return defs, true, nil
}

// explain prefers why the connection has ended to what its end looks like to a request.
func (s *session) explain(err error) error {
	if why := context.Cause(s.life); why != nil {
		return why
	}
	if errors.Is(err, transport.ErrSessionTerminated) {
		s.end(errors.New("the server has forgotten the session"))
	}
	return err
}

// errPatience is the cause of the end of a call that took too long.
var errPatience = errors.New("the server took too long")

// call runs a tool. An answer of the server, also that it refuses, comes without an error. Without an answer the error
// is one of [tools.ErrUnsettled], unless the request was never sent. The call has patience from its beginning and from
// each report of progress, and at most longest altogether.
func (s *session) call(ctx context.Context, tool string, args json.RawMessage, patience,
	longest time.Duration,
) (answer, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.life, func() { stop(context.Cause(s.life)) })()
	limit := time.Now().Add(longest)
	late := time.AfterFunc(patience, func() { stop(errPatience) })
	defer late.Stop()
	token := strconv.FormatInt(s.tokens.Add(1), 10)
	s.progress.Store(token, func() { late.Reset(min(patience, time.Until(limit))) })
	defer s.progress.Delete(token)

	if ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	var a answer
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments, r.Params.Meta = tool, args, &mcp.Meta{ProgressToken: token}
	_, err := s.client.CallTool(withTap(ctx, &a), r)
	if a.given() {
		return a, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return answer{}, fmt.Errorf("%w: %w", tools.ErrUnsettled, s.explain(err))
}

// ping asks whether the server lives. The newest version of the protocol has no such question, but each server of it
// must say at any time which versions it knows.
func (s *session) ping(ctx context.Context) error {
	if s.modern {
		_, err := s.client.Discover(ctx, mcp.DiscoverRequest{})
		return err
	}
	//lint:ignore SA1019 it is how older servers are asked
	return s.client.Ping(ctx)
}

// close ends the connection, and the program with all that it started. It may be called twice.
func (s *session) close() {
	s.closing.Do(func() {
		s.end(errClosed)
		if s.client != nil {
			_ = s.client.Close() // it is over either way
		}
		if s.http != nil {
			s.http.CloseIdleConnections()
		}
		if s.process != nil {
			s.process.stop(s.grace)
		}
	})
}

// errClosed is why a session has ended that was not wanted any more.
var errClosed = errors.New("the connection was closed")

// events is a stream of server-sent events of a server that must not be trusted. Events are bounded, and a flood is an
// error. A stream that answers one request ends with that answer, whatever the server adds. Requests of the server are
// left out of other streams, since the library would take one for an answer of the same id.
type events struct {
	body    io.ReadCloser
	lines   *lines
	max     int
	one     bool // the stream is the answer to one request
	unasked flood
	ready   []byte // whole events that were not read yet
	event   []byte // the event that is being read
	data    []byte // its data
	err     error  // what the reader gets once ready is empty
}

func newEvents(body io.ReadCloser, maxMessage int, one bool) *events {
	return &events{body: body, lines: newLines(body, maxMessage), max: maxMessage, one: one}
}

// Read implements [io.Reader].
func (e *events) Read(b []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.err = e.line()
	}
	n := copy(b, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// Close implements [io.Closer].
func (e *events) Close() error { return e.body.Close() }

// line takes one more line of the stream.
func (e *events) line() error {
	line, err := e.lines.next()
	if err != nil {
		if errors.Is(err, io.EOF) { // an event without its end is no event
			e.ready = append(e.ready, e.event...)
			e.event = nil
		}
		return err
	}
	if len(e.event)+len(line) > e.max {
		return fmt.Errorf("the server sent an event of more than %d bytes", e.max)
	}
	e.event = append(e.event, line...)
	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		e.data = append(e.data, data...)
	}
	if len(bytes.TrimRight(line, "\r\n")) > 0 {
		return nil
	}
	return e.whole()
}

// whole hands on the event that has just ended.
func (e *events) whole() error {
	size := len(e.event)
	var m message
	isMessage := json.Unmarshal(e.data, &m) == nil
	answer := isMessage && m.Method == "" && m.ID != nil
	if request := isMessage && m.Method != "" && m.ID != nil; !request {
		e.ready = append(e.ready, e.event...)
	}
	e.event, e.data = e.event[:0], e.data[:0]
	switch {
	case answer && e.one:
		return io.EOF
	case answer:
		return nil
	}
	return e.unasked.add(time.Now(), size)
}
