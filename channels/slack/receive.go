package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/backoff"
)

const (
	maxFrame  = 4 << 20 // bytes of an envelope
	maxQueued = 256     // envelopes that wait to be stored
	writeTime = 10 * time.Second

	againAfter = 500 * time.Millisecond // a connection that Slack has ended soon
)

// place of the account: where it began, and up to where everything has come in.
type position struct {
	Team  string `json:"team"`
	User  string `json:"user"`
	Begin string `json:"begin"` // the name that a message of the first connection would have had
	Since string `json:"since"`
}

func (p position) String() string {
	text, _ := json.Marshal(p) // texts only: cannot fail
	return string(text)
}

// stamp is the name that a message of this time would have.
func stamp(t time.Time) string { return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000) }

// positionOf reads the stored position. A position is one of this bot only; another begins anew.
func positionOf(me self, cursor corebot.Cursor, now time.Time) (p position, stored bool) {
	if json.Unmarshal([]byte(cursor.Position), &p) == nil && p.Team == me.team && p.User == me.id &&
		isStamp(p.Begin) && isStamp(p.Since) {
		return p, true
	}
	begin := stamp(now)
	return position{me.team, me.id, begin, begin}, false
}

// Run receives until ctx ends. A connection that Slack ends to make a new one is made again at once; one that breaks is
// an error, and the supervisor runs the channel again.
func (c *Channel) Run(ctx context.Context, door channels.Door) error {
	for ctx.Err() == nil {
		began := time.Now()
		if err := c.receive(ctx, door); err != nil && ctx.Err() == nil {
			return err
		}
		if lasted := time.Since(began); lasted < time.Minute && lasted >= 0 { // Slack ends connections after hours
			backoff.Sleep(ctx, againAfter)
		}
	}
	return nil
}

// receive makes one connection, and fetches what came before it.
func (c *Channel) receive(ctx context.Context, door channels.Door) error {
	me, err := c.me(ctx)
	if err != nil {
		return err
	}
	cursor, err := door.Cursor(ctx)
	if err != nil {
		return err
	}
	socket, err := c.dial(ctx)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	unbind := context.AfterFunc(ctx, func() { _ = socket.Close() })
	envelopes := make(chan envelope, maxQueued)
	var running sync.WaitGroup
	defer running.Wait()
	defer unbind()
	defer socket.Close() //nolint:errcheck // it was used up
	defer end()
	var broken error
	greeted, ended := make(chan struct{}), make(chan struct{})
	running.Go(func() {
		defer close(envelopes)
		defer close(ended)
		broken = c.hear(ctx, door, socket, envelopes, sync.OnceFunc(func() { close(greeted) }))
	})
	running.Go(func() { c.ping(ctx, socket) })
	select { // a message that is said before that is in no envelope: it must be fetched
	case <-greeted:
	case <-ended:
		return broken
	case <-time.After(c.Period()):
		return errors.New("slack has opened a socket and says no hello on it")
	}
	r := receiver{Channel: c, me: me, door: door, socket: socket, cursor: cursor}
	if err := r.begin(ctx); err != nil {
		return err
	}
	for e := range envelopes {
		if err := r.take(ctx, append([]envelope{e}, waiting(envelopes)...)); err != nil {
			return err
		}
	}
	return broken // written before the channel was closed
}

// waiting are the envelopes that have come meanwhile.
func waiting(envelopes <-chan envelope) (all []envelope) {
	for len(all) < corebot.MaxBatch-1 {
		select {
		case e, open := <-envelopes:
			if !open {
				return all
			}
			all = append(all, e)
		default:
			return all
		}
	}
	return all
}

// dial opens a socket. Its address has a ticket in it, so it stands in no error.
func (c *Channel) dial(ctx context.Context) (*websocket.Conn, error) {
	address, err := c.link(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	dialer := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, HandshakeTimeout: slack, NetDialContext: channels.Dial,
	}
	socket, response, err := dialer.DialContext(ctx, address, nil)
	if err != nil {
		status := 0
		if response != nil {
			status = response.StatusCode
			_ = response.Body.Close()
		}
		return nil, fmt.Errorf("open the socket that Slack named (%d): %w", status, c.app.wire.Hidden(err))
	}
	socket.SetReadLimit(maxFrame)
	return socket, nil
}

// hear reads envelopes until the connection ends. A connection that Slack wants to end is no error. One on which
// nothing comes in the period, not even a pong, is dead.
// Slack gives a socket what is said from its hello on.
func (c *Channel) hear(ctx context.Context, door channels.Door, socket *websocket.Conn, to chan<- envelope,
	greeted func(),
) error {
	wait := func() error { return socket.SetReadDeadline(time.Now().Add(c.Period())) }
	socket.SetPongHandler(func(string) error { door.Alive(); return wait() })
	answer := socket.PingHandler()
	socket.SetPingHandler(func(data string) error { door.Alive(); return errors.Join(wait(), answer(data)) })
	for {
		err := wait() // the queue may have been full for long
		if err != nil {
			return fmt.Errorf("read from the socket: %w", err)
		}
		_, frame, err := socket.ReadMessage()
		if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
			return fmt.Errorf("nothing was heard of Slack in %v: the connection is taken to be dead", c.Period())
		}
		if err != nil {
			return fmt.Errorf("read from the socket: %w", err)
		}
		door.Alive()
		var e envelope
		if json.Unmarshal(frame, &e) != nil {
			c.site.Log.Warn().Int("bytes", len(frame)).Msg("an envelope cannot be read, and is left out")
			continue
		}
		switch {
		case e.Type == "hello":
			greeted()
			if e.Programs > 1 {
				c.site.Log.Warn().Int("connections", e.Programs).Msg("another program receives for this app, or an " +
					"earlier connection has not ended: Slack gives each event to one of them")
			}
		case e.Type == "disconnect" && e.Reason == "link_disabled":
			return noSockets
		case e.Type == "disconnect":
			return nil
		case e.ID != "":
			select {
			case to <- e:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// ping asks Slack whether it is there. A pong is heard by the socket.
func (c *Channel) ping(ctx context.Context, socket *websocket.Conn) {
	ticker := time.NewTicker(c.pings)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if socket.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTime)) != nil {
				_ = socket.Close() // hear says so
				return
			}
		}
	}
}

// receiver is one connection that is being heard.
type receiver struct {
	*Channel
	me     self
	door   channels.Door
	socket *websocket.Conn
	cursor corebot.Cursor
	at     position
}

// begin stores where the account begins, or fetches what came while it was not connected.
func (r *receiver) begin(ctx context.Context) error {
	at, stored := positionOf(r.me, r.cursor, r.bot.now())
	r.at = at
	if !stored {
		if r.cursor.Position != "" {
			r.site.Log.Warn().Msg("the stored position cannot be read, or is of another bot: what was said until now " +
				"is not answered")
		}
		return r.give(ctx, nil)
	}
	return r.fill(ctx)
}

// take stores the messages of envelopes, and then acknowledges these.
func (r *receiver) take(ctx context.Context, all []envelope) error {
	var batch []channels.Incoming
	for _, e := range all {
		if in, means := r.read(ctx, r.me, e); means {
			batch = append(batch, in)
			r.reached(in)
		}
	}
	if len(batch) > 0 {
		if err := r.give(ctx, batch); err != nil {
			return err
		}
	}
	for _, e := range all {
		ack, err := json.Marshal(map[string]string{"envelope_id": e.ID})
		if err == nil {
			err = errors.Join(r.socket.SetWriteDeadline(time.Now().Add(writeTime)),
				r.socket.WriteMessage(websocket.TextMessage, ack))
		}
		if err != nil {
			return fmt.Errorf("acknowledge an envelope: %w", err)
		}
	}
	return nil
}

// reached moves the position to the time of a message. A time ahead of Slack's clock does not count: with it the next
// fetch would leave out others.
func (r *receiver) reached(in channels.Incoming) {
	ts := in.ID
	if isStamp(ts) && later(ts, r.at.Since) && sentAt(ts).Before(r.bot.now().Add(time.Minute)) {
		r.at.Since = ts
	}
}

// give stores messages, and waits while nobody has room: they are not acknowledged meanwhile.
func (r *receiver) give(ctx context.Context, batch []channels.Incoming) error {
	for {
		taken, err := channels.AcceptAll(ctx, r.door, batch, r.cursor, r.at.String())
		r.cursor = taken.Cursor
		busy := (*corebot.Busy)(nil)
		if !errors.As(err, &busy) {
			return err
		}
		r.site.Log.Warn().Err(err).Msg("no room for what came; it is given again")
		backoff.Sleep(ctx, busy.RetryAfter)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
