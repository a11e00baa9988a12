// Package slacktest is a workspace of Slack for tests: the Web API and socket mode. It keeps everything in memory,
// holds apps to the documented rules, and can fail as Slack fails. An event that no socket is there for is lost, so
// that an app must fetch it.
package slacktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/corebot/corebot/channels/channeltest/platform"
)

// The app of the workspace, and who is in it.
const (
	Token    = "xoxb-1234567890-secret"
	AppToken = "xapp-1-A1234567890-secret"
	Team     = "T1"
	Bot      = "U0BOT"
	BotID    = "B0BOT"
	Ann      = "U0ANN"
	Direct   = "D0ANN" // the private chat with Ann
	Room     = "C0ROOM"
)

// Message is one as the history has it.
type Message struct {
	Type     string          `json:"type"`
	Subtype  string          `json:"subtype,omitempty"`
	User     string          `json:"user,omitempty"`
	BotID    string          `json:"bot_id,omitempty"`
	Team     string          `json:"user_team,omitempty"`
	TS       string          `json:"ts"`
	Thread   string          `json:"thread_ts,omitempty"`
	Begun    string          `json:"parent_user_id,omitempty"`
	Latest   string          `json:"latest_reply,omitempty"`
	Text     string          `json:"text"`
	Files    []any           `json:"files,omitempty"`
	Blocks   json.RawMessage `json:"blocks,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Edited   *edit           `json:"edited,omitempty"`
	Plain    bool            `json:"-"` // mrkdwn is off
	Edits    []string        `json:"-"` // the texts that it had before
	Upload   *Upload         `json:"-"`
}

type edit struct {
	User string `json:"user"`
	TS   string `json:"ts"`
}

// Call is a request of the app.
type Call struct{ Method, Channel, Text string }

// Fault is what happens to a request instead of its answer.
type Fault struct {
	Error      string // refused in these words
	Status     int    // with Page as its body
	Page       string
	RetryAfter int  // a limit of the rate, in seconds; with Status 429
	Drop       bool // the connection breaks before anything is done, DropAfter after it was done
	DropAfter  bool
}

// Server is one workspace on loopback.
type Server struct {
	platform.Platform[Call, Fault]
	deaf    atomic.Bool
	shy     atomic.Bool
	waiting atomic.Int64 // sockets that were not greeted yet

	mu        sync.Mutex
	rooms     map[string][]*Message
	uploads   map[string]*Upload
	names     map[string]string
	sockets   map[*socket]struct{}
	envelopes int
	clock     int64
	behind    time.Duration
	refuse    int
	twice     bool
	revoked   bool
	acked     int
	edited    []string
}

// New starts a workspace with Ann, her private chat with the app, and a channel.
func New() *Server {
	s := &Server{
		rooms: map[string][]*Message{Direct: {}, Room: {}}, names: map[string]string{Ann: "Ann"},
		sockets: map[*socket]struct{}{}, uploads: map[string]*Upload{},
	}
	s.Listen(s.serve)
	return s
}

// URL is the address of the Web API.
func (s *Server) URL() string { return s.HTTP.URL + "/api" }

// Close ends the workspace.
func (s *Server) Close() {
	s.Silence(false)
	s.Cut()
	s.HTTP.CloseClientConnections()
	s.HTTP.Close()
}

func (s *Server) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Refuse has the next n sends refused for their rate, for no time. Revoke makes the tokens unknown, and Restore
// known again. Twice has each event delivered twice.
func (s *Server) Refuse(n int) { s.set(func() { s.refuse = n }) }
func (s *Server) Revoke()      { s.set(func() { s.revoked = true }) }
func (s *Server) Restore()     { s.set(func() { s.revoked = false }) }
func (s *Server) Twice()       { s.set(func() { s.twice = true }) }

// Behind has the clock of the workspace be behind that of this machine.
func (s *Server) Behind(d time.Duration) { s.set(func() { s.behind = d }) }

// Call has somebody known by a name. Open makes a channel in which the app is.
func (s *Server) Call(user, name string) { s.set(func() { s.names[user] = name }) }
func (s *Server) Open(channel string)    { s.set(func() { s.rooms[channel] = nil }) }

// Deafen has sockets answer no ping, or answer them again.
func (s *Server) Deafen(deaf bool) { s.deaf.Store(deaf) }

// stamp names a new message.
func (s *Server) stamp() string {
	s.clock = max(s.clock+1, time.Now().Add(-s.behind).UnixMicro())
	return fmt.Sprintf("%d.%06d", s.clock/1_000_000, s.clock%1_000_000)
}

// Said is what somebody says. The zero value is of Ann, in her private chat.
type Said struct {
	Channel, User, Text, Thread, Subtype, BotID, Team string
	Files                                             []any
}

// Say has somebody say something, and gives the name of the message.
func (s *Server) Say(m Said) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.User == "" && m.BotID == "" {
		m.User = Ann
	}
	if m.Channel == "" {
		m.Channel = Direct
	}
	said := &Message{
		Type: "message", Subtype: m.Subtype, User: m.User, BotID: m.BotID, Team: m.Team, TS: s.stamp(),
		Thread: m.Thread, Text: m.Text, Files: m.Files,
	}
	s.add(m.Channel, said)
	s.event(said, m.Channel)
	return said.TS
}

// Again gives the app the event of a message once more, as Slack does when it has no acknowledgement.
func (s *Server) Again(channel, ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.rooms[channel] {
		if m.TS == ts {
			s.event(m, channel)
		}
	}
}

// add puts a message into the history. The caller has the lock.
func (s *Server) add(channel string, m *Message) {
	for _, root := range s.rooms[channel] {
		if m.Thread != "" && root.TS == m.Thread {
			root.Thread, root.Latest, m.Begun = root.TS, m.TS, root.User
		}
	}
	s.rooms[channel] = append(s.rooms[channel], m)
}

// event tells the app of a message. In a channel it is told of a mention twice, as Slack does.
func (s *Server) event(m *Message, channel string) {
	kind := "channel"
	if strings.HasPrefix(channel, "D") {
		kind = "im"
	}
	s.deliver("events_api", s.callback(m, map[string]any{"channel": channel, "channel_type": kind, "event_ts": m.TS}))
	if kind == "channel" && strings.Contains(m.Text, "<@"+Bot+">") {
		s.deliver("events_api", s.callback(m, map[string]any{
			"type": "app_mention", "channel": channel, "event_ts": m.TS,
		}))
	}
}

// callback is an event with further fields.
func (s *Server) callback(m any, more map[string]any) map[string]any {
	text, err := json.Marshal(m)
	event := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &event)
	}
	if err != nil {
		panic(err)
	}
	for name, value := range more {
		event[name] = value
	}
	s.envelopes++
	return map[string]any{
		"type": "event_callback", "team_id": Team, "api_app_id": "A1", "event": event,
		"event_id": fmt.Sprint("Ev", s.envelopes), "event_time": time.Now().Unix(),
	}
}

// Edit gives a message another text, and gives the name of the edit. Delete takes a message back.
func (s *Server) Edit(channel, ts, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.rooms[channel] {
		if m.TS == ts {
			old := *m
			m.Text, m.Edited = text, &edit{m.User, s.stamp()}
			s.changed(channel, m, old)
			return m.Edited.TS
		}
	}
	panic("there is no such message")
}

func (s *Server) Delete(channel, ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.rooms[channel] {
		if m.TS == ts {
			s.drop(channel, m)
			return
		}
	}
	panic("there is no such message")
}

// Press has somebody press the button of a message whose value is given.
func (s *Server) Press(user, channel string, m Message, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver("interactive", map[string]any{
		"type": "block_actions", "user": map[string]any{"id": user, "username": "x", "team_id": Team},
		"channel": map[string]any{"id": channel}, "message": m, "trigger_id": "1.2.3",
		"actions": []any{map[string]any{
			"type": "button", "action_id": "corebot-0", "value": value, "action_ts": s.stamp(),
		}},
	})
}

// Slash has Ann use the slash command of the app.
func (s *Server) Slash(channel, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver("slash_commands", map[string]any{
		"command": "/corebot", "text": text, "user_id": Ann, "user_name": "ann", "team_id": Team, "channel_id": channel,
		"trigger_id": s.stamp(),
	})
}

// Raw delivers any payload.
func (s *Server) Raw(kind string, payload any) { s.set(func() { s.deliver(kind, payload) }) }

// Shown are the messages of the app in a channel, in order; Texts are their texts.
func (s *Server) Shown(channel string) (all []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.rooms[channel] {
		if m.User == Bot {
			all = append(all, *m)
		}
	}
	return all
}

func (s *Server) Texts(channel string) (all []string) {
	for _, m := range s.Shown(channel) {
		all = append(all, m.Text)
	}
	return all
}

// Acked is how many envelopes were acknowledged.
func (s *Server) Acked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked
}

// socket is one connection of socket mode.
type socket struct {
	*websocket.Conn
	open map[string]bool // envelopes that are not acknowledged
}

// Connected says whether a socket is there.
func (s *Server) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sockets) > 0
}

// Shy has no socket greeted while it is so. Until its hello a socket gets no event. Waiting is how many there are.
func (s *Server) Shy(is bool)    { s.shy.Store(is) }
func (s *Server) Waiting() int64 { return s.waiting.Load() }

// Cut breaks every socket. Disconnect has Slack end them, for a reason.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sockets {
		_ = c.Close()
		delete(s.sockets, c)
	}
}

func (s *Server) Disconnect(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sockets {
		_ = c.WriteJSON(map[string]any{"type": "disconnect", "reason": reason})
	}
}

// deliver gives an envelope to a socket. The caller has the lock.
func (s *Server) deliver(kind string, payload any) {
	for c := range s.sockets {
		s.envelopes++
		id := fmt.Sprintf("envelope-%d", s.envelopes)
		c.open[id] = true
		e := map[string]any{"type": kind, "envelope_id": id, "payload": payload, "accepts_response_payload": false}
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
		_ = c.WriteJSON(e)
		if s.twice {
			e["retry_attempt"], e["retry_reason"] = 1, "timeout"
			_ = c.WriteJSON(e)
		}
		return
	}
}

// greet says hello to a socket once the workspace is not shy.
func (s *Server) greet(c *socket, gone <-chan struct{}) {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	for s.shy.Load() {
		select {
		case <-gone:
			return
		case <-time.After(time.Millisecond):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sockets[c] = struct{}{}
	_ = c.WriteJSON(map[string]any{"type": "hello", "num_connections": len(s.sockets)})
}

func (s *Server) listen(w http.ResponseWriter, r *http.Request) {
	conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	c := &socket{conn, map[string]bool{}}
	answer := conn.PingHandler()
	conn.SetPingHandler(func(data string) error {
		if s.deaf.Load() {
			return nil
		}
		return answer(data)
	})
	gone := make(chan struct{})
	var greeting sync.WaitGroup
	greeting.Go(func() { s.greet(c, gone) })
	for {
		var ack struct {
			ID string `json:"envelope_id"`
		}
		if err := c.ReadJSON(&ack); err != nil {
			break
		}
		s.mu.Lock()
		if s.acked++; !c.open[ack.ID] {
			s.Complain("an acknowledgement of %q, which is not open", ack.ID)
		}
		if !s.twice {
			delete(c.open, ack.ID)
		}
		s.mu.Unlock()
	}
	close(gone)
	greeting.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sockets, c)
	_ = c.Close()
}
