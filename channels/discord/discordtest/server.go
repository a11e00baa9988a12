// Package discordtest is the gateway and the HTTP API of Discord on a port of the loopback interface, for tests. It is
// strict: it refuses what the platform refuses, by the platform's codes, and complains about what the platform would
// overlook or punish.
//
// A session keeps its events until it is forgotten, and sends them again when it is resumed. Tests order
// faults: refusals, floods, answers that never come, connections that break after the request has taken effect.
// Sessions are forgotten and the gateway is deaf on request, too.
package discordtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot/channels/channeltest/platform"
)

// Token is the token of the server's bot.
const Token = "MTAwMDAwMDAwMDAwMDAwMDE.GtestX.token_of_the_fake_platform_0000000000"

// Ids of the platform.
const (
	BotID = "100000000000000001"
	AppID = "100000000000000002"
	Guild = "200000000000000001"
	Room  = "300000000000000001" // a channel of the server
)

// User is somebody on the platform.
type User struct {
	ID     string
	Name   string
	Global string
	Nick   string // in the server
	Bot    bool
}

// Ann is a person.
var Ann = User{ID: "400000000000000001", Name: "ann", Global: "Ann"}

var bot = User{ID: BotID, Name: "corebot", Bot: true}

func (u User) object() map[string]any {
	var global any
	if u.Global != "" {
		global = u.Global
	}
	return map[string]any{
		"id": u.ID, "username": u.Name, "global_name": global, "discriminator": "0", "avatar": nil, "bot": u.Bot,
		"public_flags": 0, "flags": 0,
	}
}

func (u User) member() map[string]any {
	var nick any
	if u.Nick != "" {
		nick = u.Nick
	}
	return map[string]any{
		"nick": nick, "roles": []string{}, "joined_at": joined.Format(time.RFC3339), "deaf": false, "mute": false,
		"flags": 0,
	}
}

var joined = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// Kinds of channels.
const (
	Text   = 0
	Direct = 1
	Forum  = 15
	Thread = 11
)

// Shown is a message of the bot, as a channel shows it.
type Shown struct {
	ID      string
	Text    string
	ReplyTo string
	Edits   []string // the texts that it had before
	Buttons []Button
	Rows    [][]Button // how they stand
	Flags   int
	File    *Upload
}

// Upload is a file that the bot has sent.
type Upload struct{ Name, Content string }

// Button is one of the buttons below a message.
type Button struct{ Label, Command string }

// Call is a request of the bot.
type Call struct {
	Name    string // such as send
	Channel string
	Body    json.RawMessage
	File    *Upload // beside the body
}

// Fault is what becomes of a request. The zero Fault is none.
type Fault struct {
	Status     int // of a refusal
	Code       int
	Message    string
	RetryAfter float64 // in seconds
	Global     bool
	Page       string // the answer is this, of a server in between
	Drop       bool   // the connection breaks before the request has taken effect
	DropAfter  bool   // the connection breaks after it has
}

// Flood is a refusal for the rate of sends.
func Flood(after float64) Fault {
	return Fault{Status: 429, Message: "You are being rate limited.", RetryAfter: after}
}

// Server is the platform.
type Server struct {
	// Beat is how often the gateway wants a heartbeat. Content says that the portal gives the bot the text of messages
	// in servers. Both are for connections to come.
	Beat    time.Duration
	Content bool
	// EditsIn is the time in which a channel takes [MostEdits] edits. It is set before the first.
	EditsIn time.Duration

	platform.Platform[Call, Fault]

	mu       sync.Mutex
	token    string
	last     uint64 // the newest id
	channels map[string]*channel
	guilds   []string
	sessions map[string]*session
	begun    int // sessions
	starts   int // sessions that may still begin today
	conns    map[*conn]struct{}
	deaf     bool
	floods   map[string]flood // by [Call.route]
	budgets  map[string]*edits
	global   time.Time
	waiting  map[string]string // interactions that were not answered: their tokens
	answers  []string
	commands []string
	highest  int64 // sequence that a heartbeat has named
}

// channel is a place of the platform, also a thread.
type channel struct {
	id, guild, parent string
	kind              int
	messages          []map[string]any // oldest first
	nonces            map[string]map[string]any
	shown             []Shown
	typing            int
	hidden            bool
	mute              bool
}

// New starts a server with one guild and one channel.
func New() *Server {
	s := &Server{
		Beat: 41250 * time.Millisecond, Content: true, EditsIn: 5 * time.Second, token: Token, starts: 1000,
		channels: map[string]*channel{}, guilds: []string{Guild}, sessions: map[string]*session{},
		conns: map[*conn]struct{}{}, floods: map[string]flood{}, waiting: map[string]string{},
		budgets: map[string]*edits{},
	}
	s.Listen(s.serve)
	s.Open(Room, Text, "")
	return s
}

// URL is the address of the HTTP API.
func (s *Server) URL() string { return s.HTTP.URL + "/api/v10" }

func (s *Server) gatewayURL() string { return "ws" + strings.TrimPrefix(s.HTTP.URL, "http") }

// Close ends the server and its connections.
func (s *Server) Close() {
	s.Silence(false)
	s.Cut()
	s.HTTP.Close()
}

// Cut breaks every connection.
func (s *Server) Cut() {
	s.mu.Lock()
	for c := range s.conns {
		_ = c.ws.Close()
	}
	s.mu.Unlock()
	s.HTTP.CloseClientConnections()
}

// Silence has the server answer nothing, or answer again. It tells later of the events meanwhile.
func (s *Server) Silence(silent bool) {
	s.Platform.Silence(silent)
	if silent {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.flush()
	}
}

// Deafen has the gateway acknowledge and tell nothing, on connections that stay open.
func (s *Server) Deafen(deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = deaf
}

// Forget has the gateway know no session any more.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = map[string]*session{}
}

// Refuse refuses the next n sends for their rate.
func (s *Server) Refuse(n int, after float64) {
	s.Faults(func(c Call) Fault {
		if c.Name != "send" || n == 0 {
			return Fault{}
		}
		n--
		return Flood(after)
	})
}

// Restore has the server know the token again.
func (s *Server) Restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = Token
}

// Revoke has the server know the bot no longer.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
}

// Starts sets how many sessions may still begin today.
func (s *Server) Starts(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts = n
}

// Begun is how many sessions have begun.
func (s *Server) Begun() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// Named is the highest sequence that a heartbeat has named.
func (s *Server) Named() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.highest
}

// Hide has the bot see a channel no longer.
func (s *Server) Hide(id string) { s.with(id, func(c *channel) { c.hidden = true }) }

// Mute takes the bot's right to write in a channel.
func (s *Server) Mute(id string) { s.with(id, func(c *channel) { c.mute = true }) }

func (s *Server) with(id string, do func(*channel)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.channels[id])
}

// Shown are the messages of the bot that a channel shows, in order.
func (s *Server) Shown(id string) []Shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.channels[id]; c != nil {
		return slices.Clone(c.shown)
	}
	return nil
}

// Texts are the texts of Shown.
func (s *Server) Texts(id string) (texts []string) {
	for _, m := range s.Shown(id) {
		texts = append(texts, m.Text)
	}
	return texts
}

// Typing is how often the bot has shown in a channel that it types.
func (s *Server) Typing(id string) (n int) {
	s.with(id, func(c *channel) { n = c.typing })
	return n
}

// Calls are the requests with a name so far; all without a name.
func (s *Server) Calls(name string) []Call {
	return s.Taken(func(c Call) bool { return name == "" || c.Name == name })
}

// Answers are the words with which interactions were answered.
func (s *Server) Answers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.answers)
}

// Commands are those that the bot has registered.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.commands)
}

// id makes an id of now. The mutex is held.
func (s *Server) id(at time.Time) string {
	if at.IsZero() {
		at = time.Now()
		n := uint64(at.UnixMilli()-epoch) << 22 //nolint:gosec // positive
		s.last = max(n, s.last+1)
		return strconv.FormatUint(s.last, 10)
	}
	s.last++
	return strconv.FormatUint(uint64(at.UnixMilli()-epoch)<<22|s.last&0xfff, 10) //nolint:gosec // positive
}

const epoch = 1420070400000

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.Wait(r.Context()) {
		return
	}
	if strings.HasPrefix(r.URL.Path, "/attachments/") && s.Files.Give(w, r) {
		return
	}
	path, is := strings.CutPrefix(r.URL.Path, "/api/v10/")
	if !is {
		s.connect(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxUpload+1<<20))
	if err != nil { // whoever asked is gone in the middle of the request
		platform.HangUp(w)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call, known := route(r, path)
	if !known {
		s.mu.Lock()
		s.Complain("there is no %s %s", r.Method, path)
		s.mu.Unlock()
		refuse(w, Fault{Status: 404, Message: "404: Not Found"})
		return
	}
	s.mu.Lock()
	authorized := r.Header.Get("Authorization") == "Bot "+s.token && s.token != "" || call.Name == "callback"
	if !strings.HasPrefix(r.Header.Get("User-Agent"), "DiscordBot (") {
		s.Complain("the user agent is %q", r.Header.Get("User-Agent"))
	}
	s.mu.Unlock()
	fault := s.Take(call)
	switch {
	case !authorized:
		refuse(w, Fault{Status: 401, Message: "401: Unauthorized"})
	case fault.Drop:
		platform.HangUp(w)
	case fault.Page != "":
		w.WriteHeader(cmp.Or(fault.Status, 502))
		_, _ = w.Write([]byte(fault.Page))
	case fault.Status != 0:
		s.flood(call, fault)
		refuse(w, fault)
	default:
		if over := s.budget(w, call); over != nil {
			s.flood(call, *over)
			refuse(w, *over)
			return
		}
		result, refused := s.do(call, r, path)
		if fault.DropAfter {
			platform.HangUp(w)
			return
		}
		answer(w, result, refused)
	}
}

func answer(w http.ResponseWriter, result any, refused *Fault) {
	switch {
	case refused != nil:
		refuse(w, *refused)
	case result == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result)
	}
}

// route is what the platform counts requests by: sends to a channel are not counted as signs of typing there.
func (c Call) route() string { return c.Name + " " + c.Channel }

// flood is when the bot was told to leave a route alone, and until when.
type flood struct{ told, until time.Time }

// underWay is how long a request can have been on its way when the bot was told.
const underWay = 100 * time.Millisecond

// flood remembers until when a route, or everything, must be left alone.
func (s *Server) flood(c Call, f Fault) {
	if f.RetryAfter == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	until := time.Now().Add(time.Duration(f.RetryAfter * float64(time.Second)))
	if f.Global {
		s.global = until
	} else {
		s.floods[c.route()] = flood{time.Now(), until}
	}
}

func refuse(w http.ResponseWriter, f Fault) {
	body := map[string]any{"message": f.Message, "code": f.Code}
	if f.RetryAfter > 0 {
		body["retry_after"], body["global"] = f.RetryAfter, f.Global
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter)+1))
		w.Header().Set("X-RateLimit-Scope", "user")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(body)
}
