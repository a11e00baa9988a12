package discordtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// session is what the gateway knows of a bot that has identified. It keeps all its events.
type session struct {
	id      string
	intents int
	events  []map[string]any // the sequence of the first is 1
}

// conn is one connection.
type conn struct {
	server  *Server
	ws      *websocket.Conn
	session *session
	sent    int           // events of the session
	out     chan any      // what is written, in order
	ended   chan struct{} // nothing more is written
}

const (
	intentGuilds   = 1 << 0
	intentMessages = 1 << 9
	intentReacted  = 1 << 10
	intentDirect   = 1 << 12
	intentSigned   = 1 << 13
	intentContent  = 1 << 15
	intentsAll     = 1<<26 - 1
	mostOut        = 100_000
)

// connect begins a connection of the gateway.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &conn{server: s, ws: ws, out: make(chan any, mostOut), ended: make(chan struct{})}
	s.mu.Lock()
	if v := r.URL.Query().Get("v"); v != "10" {
		s.Complain("a gateway of version %q", v)
	}
	s.conns[c] = struct{}{}
	beat := s.Beat
	s.mu.Unlock()
	go c.write()
	c.out <- map[string]any{"op": 10, "d": map[string]any{
		"heartbeat_interval": float64(beat) / float64(time.Millisecond), "_trace": []string{"fake"},
	}, "s": nil, "t": nil}
	c.read()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	close(c.ended)
	_ = ws.Close()
}

func (c *conn) write() {
	for {
		select {
		case <-c.ended:
			return
		case m := <-c.out:
			if code, is := m.(int); is {
				_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, "closed"),
					time.Now().Add(time.Second))
				_ = c.ws.Close()
				return
			}
			if c.ws.WriteJSON(m) != nil {
				return
			}
		}
	}
}

// read takes what the bot sends until it ends.
func (c *conn) read() {
	for {
		_, data, err := c.ws.ReadMessage()
		if err != nil {
			if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) {
				c.server.mu.Lock()
				if c.session != nil { // the bot wants no more of the session
					delete(c.server.sessions, c.session.id)
				}
				c.server.mu.Unlock()
			}
			return
		}
		var p struct {
			Op   *int            `json:"op"`
			Data json.RawMessage `json:"d"`
		}
		if json.Unmarshal(data, &p) != nil || p.Op == nil {
			c.out <- 4002
			continue
		}
		c.server.mu.Lock()
		c.handle(*p.Op, p.Data)
		c.server.mu.Unlock()
	}
}

// handle does what the bot asks. The mutex is held.
func (c *conn) handle(op int, data json.RawMessage) {
	s := c.server
	switch op {
	case 1:
		var at *int64
		if json.Unmarshal(data, &at) != nil {
			c.out <- 4002
			return
		}
		if at != nil {
			s.highest = max(s.highest, *at)
			if c.session == nil || *at > int64(len(c.session.events)) {
				s.Complain("a heartbeat names %d, which was not sent", *at)
			}
		}
		if !s.deaf && !s.Silent() {
			c.out <- map[string]any{"op": 11, "d": nil, "s": nil, "t": nil}
		}
	case 2:
		c.identify(data)
	case 6:
		c.resume(data)
	case 3:
		if c.session == nil {
			c.out <- 4003
		}
	default:
		s.Complain("an operation %d", op)
		c.out <- 4001
	}
}

func (c *conn) identify(data json.RawMessage) {
	s := c.server
	var ask struct {
		Token      string            `json:"token"`
		Intents    *int              `json:"intents"`
		Properties map[string]string `json:"properties"`
	}
	switch {
	case json.Unmarshal(data, &ask) != nil || ask.Properties == nil:
		c.out <- 4002
		return
	case c.session != nil:
		c.out <- 4005
		return
	case ask.Token != s.token || s.token == "":
		c.out <- 4004
		return
	case ask.Intents == nil || *ask.Intents&^intentsAll != 0:
		c.out <- 4013
		return
	case *ask.Intents&intentContent != 0 && !s.Content:
		c.out <- 4014
		return
	}
	if s.starts--; s.starts < 0 {
		s.Complain("a session began beyond those of the day")
	}
	s.begun++
	c.session = &session{id: fmt.Sprintf("%032x", s.begun), intents: *ask.Intents}
	s.sessions[c.session.id] = c.session
	var guilds []map[string]any
	for _, g := range s.guilds {
		guilds = append(guilds, map[string]any{"id": g, "unavailable": true})
	}
	c.session.add("READY", map[string]any{
		"v": 10, "user": bot.object(), "guilds": guilds, "session_id": c.session.id, "session_type": "normal",
		"resume_gateway_url": s.gatewayURL(), "shard": []int{0, 1},
		"application":      map[string]any{"id": AppID, "flags": s.flags()},
		"private_channels": []any{}, "presences": []any{}, "relationships": []any{}, "user_settings": map[string]any{},
	})
	if *ask.Intents&intentGuilds != 0 {
		for _, g := range s.guilds {
			c.session.add("GUILD_CREATE", s.guild(g))
		}
	}
	c.flush()
}

func (c *conn) resume(data json.RawMessage) {
	s := c.server
	var ask struct {
		Token   string `json:"token"`
		Session string `json:"session_id"`
		Seq     *int   `json:"seq"`
	}
	switch {
	case json.Unmarshal(data, &ask) != nil || ask.Seq == nil:
		c.out <- 4002
		return
	case ask.Token != s.token || s.token == "":
		c.out <- 4004
		return
	case s.sessions[ask.Session] == nil:
		c.out <- map[string]any{"op": 9, "d": false, "s": nil, "t": nil}
		return
	}
	session := s.sessions[ask.Session]
	if *ask.Seq < 0 || *ask.Seq > len(session.events) {
		c.out <- 4007
		return
	}
	for other := range s.conns {
		if other.session == session { // one connection has a session
			other.session = nil
			other.out <- 4000
		}
	}
	c.session, c.sent = session, *ask.Seq
	session.add("RESUMED", map[string]any{"_trace": []string{"fake"}})
	c.flush()
}

// add puts an event into a session.
func (x *session) add(kind string, data map[string]any) {
	x.events = append(x.events, map[string]any{"op": 0, "t": kind, "s": len(x.events) + 1, "d": data})
}

// flush sends what the connection has not had. The mutex is held.
func (c *conn) flush() {
	if c.session == nil || c.server.Silent() || c.server.deaf {
		return
	}
	for ; c.sent < len(c.session.events); c.sent++ {
		c.out <- c.session.events[c.sent]
	}
}

// dispatch tells every session what has happened, as far as its intents go. The mutex is held.
func (s *Server) dispatch(kind string, guild string, data map[string]any) {
	for _, x := range s.sessions {
		need := intentDirect
		if guild != "" {
			need = intentMessages
		}
		switch reacts := strings.HasPrefix(kind, "MESSAGE_REACTION_"); {
		case reacts && guild != "":
			need = intentReacted
		case reacts:
			need = intentSigned
		}
		if strings.HasPrefix(kind, "THREAD_") || strings.HasPrefix(kind, "CHANNEL_") {
			need = intentGuilds
		}
		if kind != "INTERACTION_CREATE" && x.intents&need == 0 {
			continue
		}
		x.add(kind, x.visible(kind, guild, data))
	}
	for c := range s.conns {
		c.flush()
	}
}

// visible is what a session sees of a message: without the intent no text that is not meant for the bot.
func (x *session) visible(kind, guild string, data map[string]any) map[string]any {
	text, _ := data["content"].(string)
	author, _ := data["author"].(map[string]any)
	if !strings.HasPrefix(kind, "MESSAGE_") || guild == "" || x.intents&intentContent != 0 || author == nil ||
		author["id"] == BotID || strings.Contains(text, "<@"+BotID+">") {
		return data
	}
	data = maps.Clone(data)
	data["content"], data["attachments"], data["embeds"], data["components"] = "", []any{}, []any{}, []any{}
	return data
}

// Reconnect asks every connection to connect again.
func (s *Server) Reconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.out <- map[string]any{"op": 7, "d": nil, "s": nil, "t": nil}
	}
}

// Invalidate ends every session, and says so.
func (s *Server) Invalidate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = map[string]*session{}
	for c := range s.conns {
		c.out <- map[string]any{"op": 9, "d": false, "s": nil, "t": nil}
	}
}

// Disconnect closes every connection with a code.
func (s *Server) Disconnect(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.out <- code
	}
}

// Push sends an event of any kind, or data of any form.
func (s *Server) Push(kind string, data any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		x.events = append(x.events, map[string]any{"op": 0, "t": kind, "s": len(x.events) + 1, "d": data})
	}
	for c := range s.conns {
		c.flush()
	}
}

// Replay sends again all that the sessions had from an event on, under new sequences.
func (s *Server) Replay(from int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		for _, e := range x.events[from:] {
			x.add(e["t"].(string), e["d"].(map[string]any))
		}
	}
	for c := range s.conns {
		c.flush()
	}
}

// Connected is how many connections there are.
func (s *Server) Connected() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.session != nil {
			n++
		}
	}
	return n
}
