// Package telegramtest is the Bot API of Telegram on a port of the loopback interface, for tests. It is strict: it
// refuses what the platform refuses, in the platform's words, and complains about what the platform would overlook.
//
// An update is given again until a later offset confirms it. A second poll that waits ends the first with a conflict.
// With a webhook each update is posted until it is answered with 200. The updates of a chat are posted one after the
// other, as the platform's own server does; those of other chats do not wait for one that fails.
// Faults can be ordered: refusals, floods, answers that never come, and connections that break after the request has
// taken effect.
package telegramtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot/channels/channeltest/platform"
)

// Token is the token of the server's bot.
const Token = "4242:AAtest-token_of_the_fake_platform_00000"

// Bot is the user of the bot.
var Bot = User{ID: 4242, IsBot: true, FirstName: "Corebot", Username: "corebot_bot"}

// User is somebody on the platform.
type User struct {
	ID        int64  `json:"id"`
	IsBot     bool   `json:"is_bot"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name,omitempty"`
	Username  string `json:"username,omitempty"`
}

// Chat is a conversation on the platform. The chat with a person has the person's id.
type Chat struct {
	ID      int64  `json:"id"`
	Type    string `json:"type"` // private, group, supergroup or channel
	Title   string `json:"title,omitempty"`
	IsForum bool   `json:"is_forum,omitempty"`
}

// Shown is a message of the bot, as a chat shows it.
type Shown struct {
	ID      int64
	Text    string
	Looks   []Look
	Edits   []string // the texts that it had before
	Thread  int64
	ReplyTo int64
	Buttons []Button
	Rows    [][]Button // how they stand
	Kind    string     // of a file: photo, voice, audio or document
	File    *Upload
}

// Upload is a file that the bot has sent.
type Upload struct {
	Name    string
	Content []byte
}

// Look is a style of a part of a text; places are in UTF-16 units.
type Look struct {
	Type           string
	Offset, Length int
	URL, Language  string
}

// Button is one of the buttons below a message.
type Button struct{ Text, Data string }

// Call is a request of the bot.
type Call struct {
	Method string
	Chat   int64
	Thread int64
	Text   string
}

// Fault is what becomes of a request. The zero Fault is none.
type Fault struct {
	Code        int // of a refusal
	Description string
	RetryAfter  float64 // in seconds
	MigrateTo   int64
	Page        string // the answer is this, of a server in between
	Drop        bool   // the connection breaks before the request has taken effect
	DropAfter   bool   // the connection breaks after it has
}

// Server is the platform.
type Server struct {
	platform.Platform[Call, Fault]

	posts sync.WaitGroup // goroutines that post

	mu       sync.Mutex
	closed   bool
	token    string
	username string
	webhook  string
	hook     hook // while the bot itself has set a webhook
	chats    map[int64]*room
	next     int64 // the id of the next update
	updates  []update
	seen     []update // confirmed
	allowed  []string
	waiting  chan struct{}       // closed to end the poll that waits, by another one
	news     chan struct{}       // closed when there is an update
	floods   map[int64]time.Time // chats that refuse everything until then
	queries  map[string]bool     // callbacks that were not answered
	answers  []string
	commands []string
	polls    int
}

// room is a chat and what it has.
type room struct {
	Chat
	last     int64
	messages map[int64]map[string]any
	threads  map[int64]bool
	shown    []Shown
	typing   int
	blocked  bool
}

type update struct {
	id   int64
	kind string
	body map[string]any
}

// New starts a server whose updates begin at a large number, as the platform's do.
func New() *Server {
	s := &Server{
		token: Token, username: Bot.Username, chats: map[int64]*room{}, next: 870_000_001, news: make(chan struct{}),
		queries: map[string]bool{}, floods: map[int64]time.Time{},
	}
	s.Listen(s.serve)
	return s
}

// URL is where the server listens.
func (s *Server) URL() string { return s.HTTP.URL }

// Close ends the server and its connections.
func (s *Server) Close() {
	s.Silence(false)
	s.mu.Lock()
	s.closed = true
	s.unhook()
	if s.waiting != nil {
		close(s.waiting)
		s.waiting = nil
	}
	s.mu.Unlock()
	s.HTTP.CloseClientConnections()
	s.HTTP.Close()
	s.posts.Wait()
}

// Refuse refuses the next n sends for their rate.
func (s *Server) Refuse(n int, after float64) {
	s.Faults(func(c Call) Fault {
		if c.Method != "sendMessage" || n == 0 {
			return Fault{}
		}
		n--
		return Flood(after)
	})
}

// Flood is a refusal for the rate of sends.
func Flood(after float64) Fault {
	return Fault{Code: 429, Description: fmt.Sprint("Too Many Requests: retry after ", after), RetryAfter: after}
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

// Hook sets a webhook, as another program of the same bot does.
func (s *Server) Hook(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.webhook = url
}

// Block has a person refuse the bot, or kicks it out of a group.
func (s *Server) Block(chat int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roomOf(Chat{ID: chat}).blocked = true
}

// Shown are the messages of the bot that a chat shows, in order.
func (s *Server) Shown(chat int64) []Shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.chats[chat]; r != nil {
		return slices.Clone(r.shown)
	}
	return nil
}

// Texts are the texts of Shown.
func (s *Server) Texts(chat int64) (texts []string) {
	for _, m := range s.Shown(chat) {
		texts = append(texts, m.Text)
	}
	return texts
}

// Uploads are the files of Shown, as "NAME: BYTES".
func (s *Server) Uploads(chat int64) (files []string) {
	for _, m := range s.Shown(chat) {
		if m.File != nil {
			files = append(files, m.File.Name+": "+string(m.File.Content))
		}
	}
	return files
}

// Typing is how often the bot has shown in a chat that it types.
func (s *Server) Typing(chat int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.chats[chat]; r != nil {
		return r.typing
	}
	return 0
}

// Calls are the requests of a method so far.
func (s *Server) Calls(method string) []Call {
	return s.Taken(func(c Call) bool { return c.Method == method })
}

// Answers are the words with which presses of buttons were answered.
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

// Waiting is how many updates no offset has confirmed.
func (s *Server) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.updates)
}

// Polls is how many fetches of updates have begun.
func (s *Server) Polls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.polls
}

// roomOf is a chat, which begins with its first mention. The mutex is held.
func (s *Server) roomOf(c Chat) *room {
	r := s.chats[c.ID]
	if r == nil {
		c.Type = cmp.Or(c.Type, "private")
		r = &room{Chat: c, messages: map[int64]map[string]any{}, threads: map[int64]bool{}}
		s.chats[c.ID] = r
	}
	return r
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/file/bot"+Token+"/documents/") && s.Files.Give(w, r) {
		return
	}
	rest, is := strings.CutPrefix(r.URL.Path, "/bot")
	token, method, found := strings.Cut(rest, "/")
	if !is || !found {
		refuse(w, Fault{Code: 404, Description: "Not Found"})
		return
	}
	args, err := read(r) // of all of it: until then the server does not see that the client has gone
	s.mu.Lock()
	known := token == s.token
	s.mu.Unlock()
	if !s.Wait(r.Context()) {
		return
	}
	if !known {
		refuse(w, Fault{Code: 401, Description: "Unauthorized"})
		return
	}
	if err != nil {
		refuse(w, Fault{Code: 400, Description: "Bad Request: " + err.Error()})
		return
	}
	call := Call{
		Method: method, Chat: args.int("chat_id"), Thread: args.int("message_thread_id"), Text: args.text("text"),
	}
	fault := s.Take(call)
	switch {
	case fault.Drop:
		platform.HangUp(w)
		return
	case fault.Page != "":
		w.WriteHeader(cmp.Or(fault.Code, 502))
		_, _ = w.Write([]byte(fault.Page))
		return
	case fault.Code != 0:
		s.flood(call, fault)
		refuse(w, fault)
		return
	}
	result, refused := s.do(r, call, args)
	switch {
	case fault.DropAfter:
		platform.HangUp(w)
	case refused != nil:
		refuse(w, *refused)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
	}
}

// flood remembers until when a chat must be left alone.
func (s *Server) flood(c Call, f Fault) {
	if f.RetryAfter == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floods[c.Chat] = time.Now().Add(time.Duration(f.RetryAfter * float64(time.Second)))
}

func refuse(w http.ResponseWriter, f Fault) {
	body := map[string]any{"ok": false, "error_code": f.Code, "description": f.Description}
	parameters := map[string]any{}
	if f.RetryAfter > 0 {
		parameters["retry_after"] = f.RetryAfter
		w.Header().Set("Retry-After", strconv.FormatFloat(f.RetryAfter, 'f', -1, 64))
	}
	if f.MigrateTo != 0 {
		parameters["migrate_to_chat_id"] = f.MigrateTo
	}
	if len(parameters) > 0 {
		body["parameters"] = parameters
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Code)
	_ = json.NewEncoder(w).Encode(body)
}
