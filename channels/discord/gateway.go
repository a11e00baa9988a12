package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// Operations of the gateway.
const (
	opDispatch  = 0
	opHeartbeat = 1
	opIdentify  = 2
	opResume    = 6
	opReconnect = 7
	opInvalid   = 9
	opHello     = 10
	opAck       = 11
)

// Codes with which the gateway closes a connection.
const (
	closeNotAuthenticated = 4003
	closeAuthentication   = 4004
	closeSequence         = 4007
	closeTimedOut         = 4009
	closeShard            = 4010
	closeSharding         = 4011
	closeVersion          = 4012
	closeIntents          = 4013
	closeDisallowed       = 4014

	// closeResumable is with which the bot itself closes a connection: after 1000 and 1001 the session is gone.
	closeResumable = 4900
)

const (
	intentGuilds   = 1 << 0
	intentMessages = 1 << 9
	intentReacted  = 1 << 10
	intentDirect   = 1 << 12
	intentSigned   = 1 << 13 // reactions in direct chats
	intentContent  = 1 << 15 // privileged: the portal has a switch for it
)

// intents are what the bot asks to be told.
func (me self) intents() int {
	all := intentGuilds | intentMessages | intentReacted | intentDirect | intentSigned
	if me.reads {
		all |= intentContent
	}
	return all
}

// payload is a message of the gateway.
type payload struct {
	Op       int             `json:"op"`
	Data     json.RawMessage `json:"d"`
	Sequence *int64          `json:"s"`
	Type     string          `json:"t"`
}

const (
	dialTime    = 15 * time.Second
	writeTime   = 10 * time.Second
	maxPayload  = 32 << 20 // a large server is told in one payload
	maxInterval = 5 * time.Minute
	waitingMost = 1024 // events that were received and not processed; then the gateway has to wait
)

var (
	// errForgotten says that the platform does not know the session any more.
	errForgotten = errors.New("discord has forgotten the session")
	// errReconnect says that the platform wants another connection: it moves its servers every few hours.
	errReconnect = errors.New("discord asks to connect again")
	errDeaf      = errors.New("discord did not acknowledge a heartbeat: the connection is taken to be dead")
	sharding     = corebot.WithHint(errors.New("the bot is in so many servers that Discord wants shards of it"),
		"Corebot connects once for a bot: take it out of servers, or make another bot for it")
	disallowed = corebot.WithHint(errors.New("the portal does not allow the intents of the bot"),
		"look at Privileged Gateway Intents on the page Bot of the developer portal, then `corebot channels restart "+
			"discord`")
)

// gateway is one connection. Its events come in the order of their sequence, without a gap. A slow receiver holds the
// connection up: nothing is left out.
type gateway struct {
	ws       *websocket.Conn
	events   chan payload
	err      error // why it ended, once events is closed
	interval time.Duration
	heard    func()        // is called for each payload
	stored   *atomic.Int64 // the sequence that a heartbeat names; negative: none

	writing sync.Mutex
	acked   atomic.Bool
	failed  atomic.Pointer[error] // why this side closed it
	done    chan struct{}
	running sync.WaitGroup
}

// dial connects, and waits for the gateway's first word.
func dial(ctx context.Context, address string, heard func(), stored *atomic.Int64) (*gateway, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	dialer := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, HandshakeTimeout: dialTime, NetDialContext: channels.Dial,
	}
	ws, response, err := dialer.DialContext(ctx, address+"?v=10&encoding=json", http.Header{"User-Agent": {userAgent}})
	if response != nil {
		_ = response.Body.Close() // it is of the handshake alone
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the gateway of Discord: %w", err)
	}
	ws.SetReadLimit(maxPayload)
	g := &gateway{
		ws: ws, events: make(chan payload, waitingMost), heard: heard, stored: stored, done: make(chan struct{}),
	}
	g.acked.Store(true)
	if err := g.hello(); err != nil {
		_ = ws.Close()
		return nil, err
	}
	return g, nil
}

// hello reads how often the gateway wants a heartbeat.
func (g *gateway) hello() error {
	if err := g.ws.SetReadDeadline(time.Now().Add(dialTime)); err != nil {
		return err
	}
	p, err := g.read()
	if err != nil {
		return fmt.Errorf("wait for the hello of the gateway: %w", err)
	}
	var hello struct {
		Interval float64 `json:"heartbeat_interval"`
	}
	if p.Op != opHello || lenient(p.Data, &hello) != nil || hello.Interval < 1 {
		return fmt.Errorf("the gateway began with operation %d and not with a heartbeat interval", p.Op)
	}
	g.interval = min(time.Duration(hello.Interval*float64(time.Millisecond)), maxInterval)
	return g.ws.SetReadDeadline(time.Time{})
}

// read gives the next payload. One that is no JSON ends the connection: what it had is sent again after a resume.
func (g *gateway) read() (p payload, err error) {
	_, data, err := g.ws.ReadMessage()
	if err != nil {
		return p, ended(err)
	}
	g.heard()
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("the gateway sent what cannot be read: %w", err)
	}
	return p, nil
}

// ended says what the end of a connection means.
func ended(err error) error {
	var c *websocket.CloseError
	if !errors.As(err, &c) {
		return fmt.Errorf("the connection to the gateway broke: %w", err)
	}
	switch c.Code {
	case closeAuthentication:
		return settled(revoked, err)
	case closeNotAuthenticated, closeSequence, closeTimedOut:
		return fmt.Errorf("%w: %w", errForgotten, err)
	case closeShard, closeSharding:
		return settled(sharding, err)
	case closeIntents, closeDisallowed:
		return settled(disallowed, err)
	}
	return fmt.Errorf("the gateway closed the connection: %w", err)
}

// settledPause is when to connect again after an end that only a person can mend. Discord has 1,000 beginnings of
// sessions in a day for a bot, and resets its token after more.
const settledPause = 15 * time.Minute

// settled is such an end. A restart of the account connects at once.
func settled(why, err error) error {
	return &corebot.Failure{Class: corebot.Cancelled, RetryAfter: settledPause, Err: fmt.Errorf("%w; %w", why, err)}
}

// begin identifies the bot or resumes a session, and then receives until ctx ends.
func (g *gateway) begin(ctx context.Context, op int, data any) error {
	if err := g.write(op, data); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { g.fail(ctx.Err()) })
	g.running.Go(g.beat)
	g.running.Go(func() {
		defer stop()
		g.err = g.receive()
		if own := g.failed.Load(); own != nil {
			g.err = *own
		}
		close(g.done)
		close(g.events)
	})
	return nil
}

// receive gives on what happens until the connection ends.
func (g *gateway) receive() error {
	for {
		p, err := g.read()
		if err != nil {
			return err
		}
		switch p.Op {
		case opDispatch:
			if p.Sequence == nil {
				return errors.New("the gateway sent an event without a sequence")
			}
			g.events <- p // its receiver drains it, or closes the connection and drains it
		case opHeartbeat:
			if err := g.heartbeat(); err != nil {
				return err
			}
		case opAck:
			g.acked.Store(true)
		case opReconnect:
			return errReconnect
		case opInvalid:
			var resumable bool
			if json.Unmarshal(p.Data, &resumable) == nil && resumable {
				return errReconnect
			}
			return errForgotten
		}
	}
}

// beat sends heartbeats. The first comes after a random part of the interval, as the platform asks.
func (g *gateway) beat() {
	wait := time.NewTimer(time.Duration(rand.Float64() * float64(g.interval)))
	defer wait.Stop()
	for {
		select {
		case <-g.done:
			return
		case <-wait.C:
		}
		if !g.acked.Swap(false) {
			g.fail(errDeaf)
			return
		}
		if err := g.heartbeat(); err != nil {
			g.fail(err)
			return
		}
		wait.Reset(g.interval)
	}
}

// heartbeat tells the gateway what was received and stored.
func (g *gateway) heartbeat() error {
	if at := g.stored.Load(); at >= 0 {
		return g.write(opHeartbeat, at)
	}
	return g.write(opHeartbeat, nil)
}

func (g *gateway) write(op int, data any) error {
	g.writing.Lock()
	defer g.writing.Unlock()
	_ = g.ws.SetWriteDeadline(time.Now().Add(writeTime)) // of a closed connection: the write says so
	if err := g.ws.WriteJSON(map[string]any{"op": op, "d": data}); err != nil {
		return fmt.Errorf("write to the gateway: %w", err)
	}
	return nil
}

// fail ends the connection from this side. The session goes on.
func (g *gateway) fail(err error) {
	if !g.failed.CompareAndSwap(nil, &err) {
		return
	}
	_ = g.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(closeResumable, ""),
		time.Now().Add(time.Second))
	_ = g.ws.Close()
}

// close ends the connection, and waits until nothing of it runs.
func (g *gateway) close() {
	g.fail(errors.New("the connection is not needed any more"))
	for range g.events { // the reader can wait for a place
	}
	g.running.Wait()
}

// next gives what has come, at least one event and at most as many as asked for. Without events it waits. After the
// last there is the error that ended the connection.
func (g *gateway) next(ctx context.Context, most int) (all []payload, err error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case p, open := <-g.events:
		if !open {
			return nil, g.err
		}
		all = append(all, p)
	}
	for len(all) < most {
		select {
		case p, open := <-g.events:
			if !open {
				return all, nil
			}
			all = append(all, p)
		default:
			return all, nil
		}
	}
	return all, nil
}

// isGateway says whether an address can be given the token.
func isGateway(address string, local bool) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		len(address) > maxAddress {
		return false
	}
	return u.Scheme == "wss" || u.Scheme == "ws" && local && channels.Loopback(u.Hostname())
}

// maxAddress bounds the address of a gateway, in bytes.
const maxAddress = 300
