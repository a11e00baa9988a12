package telegramtest

import (
	"maps"
	"regexp"
	"strconv"
	"time"
)

// Said is what somebody says.
type Said struct {
	Chat    Chat // empty: the chat with From
	Thread  int64
	From    User
	Text    string
	ReplyTo int64
	At      time.Time      // zero: now
	More    map[string]any // further fields of the message
}

// Ann is a person.
var Ann = User{ID: 1001, FirstName: "Ann", Username: "ann"}

// commandIn is a command at the beginning of a text, which the platform marks.
var commandIn = regexp.MustCompile(`^/[A-Za-z0-9_]{1,64}(@[A-Za-z0-9_]+)?`)

// Say has somebody say something, and gives the id of the message.
func (s *Server) Say(m Said) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.From.ID == 0 {
		m.From = Ann
	}
	if m.Chat.ID == 0 {
		m.Chat.ID = m.From.ID
	}
	r := s.roomOf(m.Chat)
	r.last++
	if m.At.IsZero() {
		m.At = time.Now()
	}
	body := map[string]any{"message_id": r.last, "from": m.From, "chat": r.Chat, "date": m.At.Unix()}
	if m.Text != "" {
		body["text"] = m.Text
	}
	if command := commandIn.FindString(m.Text); command != "" {
		body["entities"] = []map[string]any{{"type": "bot_command", "offset": 0, "length": len(command)}}
	}
	if m.Thread != 0 {
		r.threads[m.Thread] = true
		body["message_thread_id"], body["is_topic_message"] = m.Thread, true
	}
	if answered := r.messages[m.ReplyTo]; answered != nil {
		body["reply_to_message"] = answered
	}
	maps.Copy(body, m.More)
	r.messages[r.last] = body
	s.push("message", body)
	return r.last
}

// Know makes a chat known to the bot.
func (s *Server) Know(c Chat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roomOf(c)
}

// Edit gives a message another text, and gives the number of the update.
func (s *Server) Edit(chat, id int64, text string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := maps.Clone(s.chats[chat].messages[id])
	body["text"], body["edit_date"] = text, time.Now().Unix()
	s.chats[chat].messages[id] = body
	s.push("edited_message", body)
	return s.next - 1
}

// Press has somebody press a button of a message of the bot. With a forged client the data can be any.
func (s *Server) Press(from User, chat, message int64, data string) (query string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query = strconv.FormatInt(9_000_000_000+s.next, 10)
	s.queries[query] = true
	s.push("callback_query", map[string]any{
		"id": query, "from": from, "chat_instance": "1", "data": data,
		"message": s.chats[chat].messages[message],
	})
	return query
}

// Push gives the bot an update of any kind.
func (s *Server) Push(kind string, body map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push(kind, body)
}

// Replay gives the bot again all that it has confirmed, under new numbers.
func (s *Server) Replay() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.seen {
		s.push(u.kind, u.body)
	}
}

// Renumber begins the numbers of updates anew, as the platform does after a week without any.
func (s *Server) Renumber(from int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = from
}

// push adds an update. The mutex is held.
func (s *Server) push(kind string, body map[string]any) {
	s.updates = append(s.updates, update{s.next, kind, body})
	s.next++
	close(s.news)
	s.news = make(chan struct{})
}
