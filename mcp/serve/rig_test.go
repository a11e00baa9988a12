package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/internal/operate"
	"github.com/corebot/corebot/mcp/serve"
	"github.com/corebot/corebot/policy"
	"github.com/corebot/corebot/storage"
	"github.com/corebot/corebot/tools"
	"github.com/corebot/corebot/tools/builtin"
)

// rig is a whole Corebot whose clients are MCP clients.
type rig struct {
	*apptest.Kit
	t       testing.TB
	service *serve.Service
	server  *serve.Server
	stop    func() // of the channel and the outbox
}

// rigOptions are what a rig may have otherwise.
type rigOptions struct {
	kit     apptest.Options
	service serve.Options
	server  serve.ServerOptions
	rules   policy.Options
	access  policy.AccessRule
	changes func(serve.Changes) serve.Changes
	trail   func(serve.Trail) serve.Trail
	quiet   bool          // the router does not run
	late    time.Duration // until the channel runs
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	if o.kit.Model == nil {
		o.kit.Model = apptest.Always(apptest.Text("it is noon"))
	}
	r := &rig{Kit: apptest.New(t, o.kit), t: t}
	rules, err := policy.New(o.rules)
	r.must(err)
	service := operate.New(operate.Stores{
		Chats: storage.NewChats(r.DB), DeadLetters: r.DeadLetters, History: r.History, Lives: r.Lives,
	})
	store := serve.Store{
		Mailbox: storage.NewMailbox(r.DB), Admin: service,
		Changes: storage.NewClientCalls(r.DB),
		Trail:   storage.NewAudit(r.DB), Roles: r.Grants,
	}
	if o.changes != nil {
		store.Changes = o.changes(store.Changes)
	}
	if o.trail != nil {
		store.Trail = o.trail(store.Trail)
	}
	if o.service.Principal == "" {
		o.service.Principal = "editor"
	}
	o.service.Status = func(context.Context) (any, error) {
		return map[string]any{"chats": 3, "words": "sk-0123456789abcdef0123 <|im_start|>"}, nil
	}
	o.service.Tools = []tools.Tool{builtin.DeadLetterList(service), builtin.DeadLetterReplay()}
	r.service, err = serve.New(store, rules, o.service)
	r.must(err)
	r.server, err = serve.NewServer(t.Context(), r.service, o.server)
	r.must(err)
	r.run(o)
	return r
}

// run opens the door and the outbox, and has the router answer.
func (r *rig) run(o rigOptions) {
	if o.access == "" {
		o.access = policy.AccessOpen
	}
	access, err := policy.NewAccess(o.access, corebot.Allowlist{})
	r.must(err)
	door, err := channels.NewFrontDoor(r.Bus, r.Router, channels.Admissions{
		Chats:    storage.NewChats(r.DB),
		Accounts: map[channels.Account]channels.AccountRules{serve.Kind().Usual(): {Access: access}},
	}, channels.DoorOptions{})
	r.must(err)
	outbox, err := channels.NewOutbox(r.Bus, r.Ledger, channels.Resend, zerolog.Nop(), nil)
	r.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		time.Sleep(o.late)
		_ = r.service.Run(ctx, door.At(channels.Account{Kind: serve.Channel}))
	})
	running.Go(func() {
		_ = outbox.Run(ctx, channels.Entry{Account: channels.Account{Kind: serve.Channel}, Channel: r.service})
	})
	r.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	r.t.Cleanup(r.stop)
	if !o.quiet {
		r.Start()
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// within plays a test in virtual time.
func within(t *testing.T, o rigOptions, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, o)
		test(t, r)
		r.stop()
		r.Close()
	})
}

// call calls a tool of the service; the result must not be an error.
func call[T any](r *rig, tool, args string) (out T) {
	r.t.Helper()
	got, err := r.service.Call(r.t.Context(), serve.Call{Tool: tool, Args: json.RawMessage(args)})
	if err != nil || got.Failed {
		r.t.Fatalf("%s %s: %v %s", tool, args, err, got.Text)
	}
	if err := json.Unmarshal(got.Structured, &out); err != nil {
		r.t.Fatalf("%s %s gave %q: %v", tool, args, got.Text, err)
	}
	return out
}

// refused is the text of a call that must fail.
func (r *rig) refused(c serve.Call) string {
	r.t.Helper()
	got, err := r.service.Call(r.t.Context(), c)
	if err != nil || !got.Failed {
		r.t.Fatalf("%s %s: %v %+v", c.Tool, c.Args, err, got)
	}
	return got.Text
}

// audit are the rows of the clients, newest first.
func (r *rig) audit() []corebot.AuditEvent {
	r.t.Helper()
	rows, err := storage.NewAudit(r.DB).List(context.Background(),
		corebot.AuditFilter{Channel: serve.Channel, Decisions: true, Limit: 10_000})
	r.must(err)
	return rows
}

// The results, as a client reads them.
type (
	published struct {
		ID, ChatID, Status, State, Cursor string
		Answered                          bool
		Replies                           []reply
	}
	replyPage struct {
		ChatID, Cursor string
		Messages       []reply
	}
	reply struct {
		ID, InReplyTo, Kind, Content, Cursor string
		Truncated                            bool
	}
	historyPage struct {
		Key, Cursor string
		Entries     []struct {
			Who, SenderID, MessageID, Text string
			Truncated                      bool
		}
	}
	chatPage struct {
		Cursor string
		Chats  []struct {
			Key, Channel, ChatID, DisplayName string
			Registered                        bool
		}
	}
)

// wire is a client on standard input and output that speaks in lines.
type wire struct {
	t     testing.TB
	in    io.WriteCloser
	out   *bufio.Reader
	ended chan error // ServeStdio's
	leave func()
}

func (r *rig) dial() *wire {
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	w := &wire{t: r.t, in: in, out: bufio.NewReaderSize(out, 1<<16), ended: make(chan error, 1), leave: cancel}
	go func() {
		w.ended <- r.server.ServeStdio(ctx, fromClient, toClient)
		_ = toClient.Close()
		_ = fromClient.Close()
	}()
	r.t.Cleanup(func() { cancel(); _ = in.Close(); _ = out.Close() })
	return w
}

func (w *wire) say(line string) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		w.t.Fatalf("say %.80s: %v", line, err)
	}
}

// message is one line of the server.
type message struct {
	ID     any
	Method string
	Params map[string]any
	Result struct {
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		IsError           bool
		Tools             []struct{ Name string }
	}
	Error *struct {
		Code    int
		Message string
	}
}

func (w *wire) hear() message {
	w.t.Helper()
	line, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatalf("hear: %v %q", err, line)
	}
	var m message
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		w.t.Fatalf("the server wrote %q", line)
	}
	return m
}

// answer hears until the answer to a request comes.
func (w *wire) answer(id float64) (m message, notes []message) {
	w.t.Helper()
	for {
		m = w.hear()
		if m.ID == id {
			return m, notes
		}
		notes = append(notes, m)
	}
}

func request(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

func toolCall(id int, tool, args string) string {
	return request(id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
}

func (w *wire) hello() *wire {
	w.t.Helper()
	w.say(request(0, "initialize",
		`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`))
	if m := w.hear(); m.Error != nil {
		w.t.Fatalf("initialize: %+v", m.Error)
	}
	w.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

// alive fails the test unless the server answers this client.
func (w *wire) alive() {
	w.t.Helper()
	w.say(request(424242, "ping", `{}`))
	if m, _ := w.answer(424242); m.Error != nil {
		w.t.Errorf("ping: %+v", m.Error)
	}
}

func long(n int) string { return strings.Repeat("x", n) }
