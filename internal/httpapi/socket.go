package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/strictjson"
)

// Bounds of a socket.
const (
	socketPath       = "/ws"
	maxFrame         = 1 << 20
	socketWrite      = 10 * time.Second // for a reader to take one message
	socketPing       = 30 * time.Second
	maxSubscriptions = 50
	maxPending       = 20  // messages that were sent on one socket and have not ended
	rememberedEnds   = 520 // of messages of a chat whose end the socket was told; half are more than a round has
	rememberedRuns   = 50  // of a chat that have begun and not ended
)

// socketToken begins the subprotocol that carries a token, for callers that cannot set headers.
const socketToken = "bearer."

var upgrader = websocket.Upgrader{
	ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10, HandshakeTimeout: 5 * time.Second,
	Subprotocols: []string{"corebot"},
	CheckOrigin:  func(*http.Request) bool { return true }, // every request was checked already
}

// socketRequest is what a client says.
type socketRequest struct {
	Type       string `json:"type"` // send, subscribe, resume, unsubscribe
	AgentID    string `json:"agentId"`
	SessionKey string `json:"sessionKey,omitempty" empty:"refused"`
	SessionID  string `json:"sessionId"` // the key of a chat, in the place of sessionKey
	ID         string `json:"id"`        // send: of the message
	Message    string `json:"message"`
	After      int64  `json:"after"` // resume: the seq of the last event that the client has
}

// readFrame reads what a client says. A field that Corebot does not know is skipped: clients of other servers send
// some. Otherwise the rules are those of the bodies of HTTP.
func readFrame(text []byte) (q socketRequest, err error) {
	err = strictjson.Check(text, maxBodyLevels, strictjson.Rules{})
	if err == nil {
		err = strictjson.Plain(json.Unmarshal(text, &q))
	}
	if err != nil {
		return q, malformed("", "the message cannot be read: %v", err)
	}
	if q.Type == "unsubscribe" || q.SessionID != "" { // which has no default
		return q, nil
	}
	return q, filled(text, reflect.TypeFor[socketRequest]())
}

// socketEvent is what a client is told.
type socketEvent struct {
	Type      string    `json:"type"`
	Seq       int64     `json:"seq,omitempty"`
	AgentID   string    `json:"agentId,omitempty"`
	SessionID string    `json:"sessionId,omitempty"`
	MessageID string    `json:"messageId,omitempty"`
	Data      *string   `json:"data,omitempty"`     // text
	ToolName  string    `json:"toolName,omitempty"` // tool_start, tool_end
	IsError   bool      `json:"isError,omitempty"`
	Meta      *doneMeta `json:"meta,omitempty"`    // done
	Message   string    `json:"message,omitempty"` // error
}

type doneMeta struct {
	DurationMS int64 `json:"durationMs"`
}

// chatFeed is a chat that a socket follows.
type chatFeed struct {
	*live.Follower
	key        corebot.Key
	subscribed bool // all runs are told; otherwise those of messages that the socket sent
	told
}

// socketEnd is the end of a message that the socket has sent.
type socketEnd struct {
	id   string
	key  corebot.Key
	text string
	err  error
}

// socket is one connection. One goroutine reads what the client says. The teller and the ends of messages tell the
// client something. Each holds the lock meanwhile, and none of them waits for the client.
type socket struct {
	*call
	conn *websocket.Conn
	out  *outlet
	ctx  context.Context
	end  context.CancelCauseFunc

	mu      sync.Mutex
	pinger  *time.Timer
	ends    []socketEnd // that were not told yet
	feeds   map[corebot.Key]*chatFeed
	pending map[string]underWay // by id: what the socket has sent, and has not ended
}

// underWay is a message that a socket has sent.
type underWay struct {
	key corebot.Key
	at  time.Time
}

// serveSocket turns a request into a socket.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "" {
		for word := range strings.SplitSeq(r.Header.Get("Sec-WebSocket-Protocol"), ",") {
			if secret, is := strings.CutPrefix(strings.TrimSpace(word), socketToken); is {
				r.Header.Set("Authorization", "Bearer "+secret)
			}
		}
	}
	token, refused := s.admit(r.Context(), r, corebot.ScopeRead, corebot.ScopeSend)
	if refused != nil {
		refused.write(w)
		return
	}
	c := &call{server: s, request: r, writer: w, token: token, gone: r.Context()}
	h, err := c.hold(context.WithoutCancel(r.Context()))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer h.close()
	if r.Method == http.MethodHead { // the upgrader knows no HEAD: it is a GET that asks for no upgrade
		s.fail(w, r, malformed("ask with GET, for an upgrade", "this is the address of a websocket"))
		return
	}
	outlet := &hijacker{ResponseWriter: w}
	conn, err := upgrader.Upgrade(outlet, r, nil)
	if err != nil { // it has answered
		return
	}
	k := &socket{
		call: c, conn: conn, out: outlet.out, ctx: h.ctx, end: h.end, feeds: map[corebot.Key]*chatFeed{},
		pending: map[string]underWay{},
	}
	if q := r.URL.Query(); q.Has("agentId") {
		k.locked(func() bool { return k.subscribeFirst(q) })
	}
	k.serve()
}

// subscribeFirst subscribes the chat that the address names, for clients that can only read, such as curl.
func (k *socket) subscribeFirst(address url.Values) bool {
	for _, name := range []string{"agentId", "sessionKey", "sessionId", "after"} {
		switch given := address[name]; {
		case len(given) > 1:
			return k.refuse(socketRequest{}, malformed("", "the parameter %s stands there %d times", name, len(given)))
		case len(given) == 1 && given[0] == "" && name != "after":
			return k.refuse(socketRequest{}, empty("the parameter "+name))
		}
	}
	q := socketRequest{
		Type: "resume", AgentID: address.Get("agentId"), SessionKey: address.Get("sessionKey"),
		SessionID: address.Get("sessionId"),
	}
	var err error
	if q.After, err = strconv.ParseInt(cmp.Or(address.Get("after"), "0"), 10, 64); err != nil {
		return k.refuse(q, malformed("leave it out, or send the seq of an event", "after is no number"))
	}
	return k.handle(q)
}

// freed goes on where the client had not taken what it was told. Its chats are told with the next round, as they are to
// the other sockets: however many clients are slow, the teller keeps its pace.
func (k *socket) freed() bool {
	if len(k.ends) > 0 {
		return k.catchUp()
	}
	for key := range k.feeds {
		k.server.teller.again(key)
	}
	return true
}

// Why a socket ends beside the reasons of its token.
var (
	errGone   = errors.New("the client has gone, or takes nothing")
	errFailed = errors.New("internal error: the log of Corebot has more")
)

// serve serves the socket until it ends.
func (k *socket) serve() {
	k.out.whenFreed(func() { k.locked(k.freed) })
	context.AfterFunc(k.ctx, k.bye) // which ends the reading, too
	k.mu.Lock()
	k.pinger = time.AfterFunc(socketPing, k.ping)
	k.mu.Unlock()
	k.read()
	k.end(errGone)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pinger.Stop()
	for _, f := range k.feeds {
		k.unfollow(f)
	}
}

// ping has the client show that it is there.
func (k *socket) ping() {
	k.locked(func() bool {
		if k.ctx.Err() != nil {
			return true
		}
		k.pinger = time.AfterFunc(socketPing, k.ping)
		return k.conn.WriteControl(websocket.PingMessage, nil, time.Time{}) == nil
	})
}

// bye says why the socket ends, and closes it.
func (k *socket) bye() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if why := context.Cause(k.ctx); !errors.Is(why, errGone) {
		code := websocket.CloseGoingAway
		switch {
		case errors.Is(why, errTokenEnded):
			code = websocket.ClosePolicyViolation
		case errors.Is(why, errFailed):
			code = websocket.CloseInternalServerErr
		}
		_ = k.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why.Error()), time.Time{})
	}
	k.out.finish()
}

// read handles what the client says, until it says something unreadable or goes.
func (k *socket) read() {
	k.conn.SetReadLimit(maxFrame)
	alive := func(string) error { return k.conn.SetReadDeadline(time.Now().Add(3 * socketPing)) }
	k.conn.SetPongHandler(alive)
	for k.ctx.Err() == nil {
		_ = alive("") // a connection without deadlines fails at its next read
		_, text, err := k.conn.ReadMessage()
		if err != nil {
			return
		}
		q, err := readFrame(text)
		k.locked(func() bool {
			if err != nil {
				return k.refuse(socketRequest{}, err)
			}
			return k.handle(q)
		})
	}
}

// locked does something for the socket. If the client cannot be told of it, the socket ends. A panic ends the socket,
// and not the program: the teller and the timers have no caller that would catch it.
func (k *socket) locked(do func() bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			k.failed(p)
		}
	}()
	if !do() {
		k.end(errGone)
	}
}

// failed ends a socket that an error of Corebot itself struck.
func (k *socket) failed(p any) {
	k.server.opts.Log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("a socket panicked")
	k.out.pour() // what was gathered before, and the end behind it
	k.end(errFailed)
}

// tell writes one event.
func (k *socket) tell(e socketEvent) bool {
	text, err := k.server.redacted(e)
	return err == nil && k.conn.WriteMessage(websocket.TextMessage, text) == nil
}

// redacted is an event as clients are told it. Text of an answer has no secrets already. A piece of it can begin in the
// middle of a word, and would look like a secret that the whole is not.
func (s *Server) redacted(e socketEvent) ([]byte, error) {
	said := e.Data
	e.Data = nil
	text, err := encode(e)
	if text = []byte(s.opts.Redact(string(text))); err != nil || said == nil {
		return text, err
	}
	data, err := encode(said)
	return slices.Concat([]byte(`{"data":`), bytes.TrimSpace(data), []byte(","), text[1:]), err
}

// pass writes an event of a run. Every socket that follows the chat writes the same bytes, which are made once.
func (k *socket) pass(first int64, e socketEvent) bool {
	f := k.server.frames.of(frameKey{e.SessionID, e.Type, first, e.Seq})
	f.make(func() { f.add(k.server, e) })
	return k.write(f)
}

// write writes what a frame holds.
func (k *socket) write(f *frame) bool {
	if f.failed {
		k.end(errFailed)
		return false
	}
	if len(f.bytes) > 0 {
		if _, err := k.out.Write(f.bytes); err != nil {
			return false
		}
	}
	return f.err == nil
}

// keptFrames is how many events are kept for the sockets that have not written them yet. A later one makes its own.
const keptFrames = 256

// frameKey names an event that sockets are told: the events of a run that it stands for, from the first to the last.
type frameKey struct {
	session, kind string
	first, last   int64
}

// frame is the messages of an event, for all sockets.
type frame struct {
	once          sync.Once
	bytes         []byte    // of the messages, as they go over a connection
	before, after string    // the text that the run has streamed to a socket
	began         time.Time // of an end: when the run began, as the socket knows
	unseen        bool      // of an end: the run began before the socket, and the client may have text of it
	text          string    // of an answer, before it is told
	err           error
	failed        bool // a panic ended the making
}

// make fills the frame, once for all sockets. After a panic the frame stays failed: the other sockets that want the
// frame end, too, because they would go on without the event.
func (f *frame) make(fill func()) {
	f.once.Do(func() {
		f.failed = true
		fill()
		f.failed = false
	})
}

func (f *frame) add(s *Server, e socketEvent) {
	text, err := s.redacted(e)
	if err == nil {
		f.bytes = appendMessage(f.bytes, text)
	}
	f.err = errors.Join(f.err, err)
}

// appendMessage adds a text message as a server sends it (RFC 6455, section 5.2): whole, not masked, not compressed.
// The library would make a connection with a buffer of 4 KiB for each message that it prepares.
func appendMessage(to, text []byte) []byte {
	const wholeText, twoBytes, eightBytes = 0x81, 126, 127
	switch n := len(text); {
	case n < twoBytes:
		to = append(to, wholeText, byte(n))
	case n <= math.MaxUint16:
		to = binary.BigEndian.AppendUint16(append(to, wholeText, twoBytes), uint16(n))
	default:
		to = binary.BigEndian.AppendUint64(append(to, wholeText, eightBytes), uint64(n))
	}
	return append(to, text...)
}

// frames are the newest ones.
type frames struct {
	mu    sync.Mutex
	all   map[frameKey]*frame
	order [keptFrames]frameKey
	next  int
}

// of gives the frame of an event. The first socket makes it.
func (s *frames) of(k frameKey) *frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.all[k]; f != nil {
		return f
	}
	if s.all == nil {
		s.all = map[frameKey]*frame{}
	}
	delete(s.all, s.order[s.next])
	f := &frame{}
	s.all[k], s.order[s.next] = f, k
	s.next = (s.next + 1) % keptFrames
	return f
}

func (k *socket) refuse(q socketRequest, err error) bool {
	p := problemOf(err)
	return k.tell(socketEvent{Type: "error", AgentID: q.AgentID, MessageID: q.ID, Message: p.Detail})
}

func (k *socket) handle(q socketRequest) bool {
	switch q.Type {
	case "send":
		return k.send(q)
	case "subscribe", "resume":
		key, err := k.session(q.AgentID, q.SessionKey, q.SessionID)
		if err != nil {
			return k.refuse(q, err)
		}
		if q.Type == "subscribe" {
			q.After = 0
		}
		return k.subscribe(q, key)
	case "unsubscribe":
		for key, f := range k.feeds {
			if q.AgentID == "" || key.Agent == q.AgentID && (key.Chat == q.SessionKey || key.String() == q.SessionID) {
				f.subscribed = false
			}
		}
		k.prune()
		return true
	}
	return k.refuse(q, malformed("", "want an object with the type send, subscribe, resume or unsubscribe"))
}

// unfollow ends what follow began.
func (k *socket) unfollow(f *chatFeed) {
	k.server.teller.leave(k, f.key)
	f.Stop()
	delete(k.feeds, f.key)
}

// follow follows a chat, if the socket does not yet.
func (k *socket) follow(key corebot.Key, after int64) (f *chatFeed, gap bool, err error) {
	if f = k.feeds[key]; f != nil && after == 0 {
		return f, false, nil
	}
	if len(k.feeds) >= maxSubscriptions+maxPending {
		return nil, false, malformed("unsubscribe from some", "this socket follows %d chats already", len(k.feeds))
	}
	again := &chatFeed{key: key}
	if f != nil {
		again.told = f.told
		k.unfollow(f)
	}
	f = again
	f.Follower, gap = k.server.opts.Live.Follow(key, after, nil)
	k.feeds[key] = f
	k.server.teller.join(k, f)
	return f, gap, nil
}

func (k *socket) subscribe(q socketRequest, key corebot.Key) bool {
	f, gap, err := k.follow(key, q.After)
	if err != nil {
		return k.refuse(q, err)
	}
	f.subscribed = true
	if gap && !k.updated(f, f.Seq()) {
		return false
	}
	return k.catchUp()
}

// updated has the client read the history: it has missed something, or there is more.
func (k *socket) updated(f *chatFeed, seq int64) bool {
	return k.pass(seq, socketEvent{
		Type: "history_updated", Seq: seq, AgentID: f.key.Agent, SessionID: f.key.String(),
	})
}
