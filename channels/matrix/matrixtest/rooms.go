package matrixtest

import (
	"fmt"
	"maps"
	"net/url"
	"time"
)

// event is what happened in a room. position is its place in the stream.
type event struct {
	room        string
	position    int
	transaction string
	fields      map[string]any
}

// room is a room and who is in it.
type room struct {
	id      string
	members map[string]string // membership
	events  []*event
	typing  int
	read    string
	locked  bool
}

// Said is what somebody does in a room.
type Said struct {
	Room     string
	From     string // empty: Ann
	Text     string
	Content  map[string]any // of the event, beside or instead of the text
	Type     string         // empty: a message
	StateKey *string
	At       time.Time // zero: now
	More     map[string]any
}

// Shown is a message of the account, as a room shows it.
type Shown struct {
	ID      string
	Kind    string
	Body    string
	HTML    string
	Thread  string
	ReplyTo string
	Edits   []string // the texts that it had before
	Content map[string]any
}

// Room makes a room in which the account and some people are; without people it is a chat with Ann.
func (s *Server) Room(id string, people ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(people) == 0 {
		people = []string{Ann}
	}
	r := s.makeRoom(id, people[0])
	for _, p := range people[1:] {
		s.member(r, p, p, "join", nil)
	}
	s.member(r, people[0], Bot, "invite", nil)
	s.member(r, Bot, Bot, "join", nil)
	s.wake()
	return id
}

// Invite has somebody make a room and invite the account into it.
func (s *Server) Invite(id, from string, direct bool, others ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.makeRoom(id, from)
	for _, p := range others {
		s.member(r, p, p, "join", nil)
	}
	s.member(r, from, Bot, "invite", map[string]any{"is_direct": direct})
	s.wake()
}

// Rename has a member call himself by another name.
func (s *Server) Rename(room, of, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member(s.rooms[room], of, of, "join", map[string]any{"displayname": name})
	s.wake()
}

// Member changes somebody's membership.
func (s *Server) Member(room, of, membership string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member(s.rooms[room], of, of, membership, nil)
	s.wake()
}

func (s *Server) makeRoom(id, owner string) *room {
	r := s.rooms[id]
	if r == nil {
		r = &room{id: id, members: map[string]string{}}
		s.rooms[id] = r
		s.member(r, owner, owner, "join", nil)
	}
	return r
}

// member adds an event about a membership. The mutex is held.
func (s *Server) member(r *room, from, of, membership string, more map[string]any) {
	content := map[string]any{"membership": membership, "displayname": NameOf(of)}
	maps.Copy(content, more)
	unsigned := map[string]any{}
	if was, is := r.members[of]; is {
		unsigned["prev_content"] = map[string]any{"membership": was}
		unsigned["replaces_state"] = "$earlier"
	}
	r.members[of] = membership
	s.add(r, map[string]any{
		"type": "m.room.member", "sender": from, "state_key": of, "content": content, "unsigned": unsigned,
		"origin_server_ts": at(time.Time{}),
	})
}

// NameOf is the display name of a user.
func NameOf(user string) string {
	if user == Bot {
		return "Corebot"
	}
	return "Name of " + user
}

// add puts an event into a room. The mutex is held.
func (s *Server) add(r *room, fields map[string]any) *event {
	s.ids++
	if fields["event_id"] == nil {
		fields["event_id"] = fmt.Sprintf("$event-%d_of:the/stream", s.ids)
	}
	e := &event{room: r.id, position: len(s.stream) + 1, fields: fields}
	s.stream, r.events = append(s.stream, e), append(r.events, e)
	return e
}

// Say has somebody say or do something, and gives the id of the event.
func (s *Server) Say(m Said) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rooms[m.Room]
	if m.From == "" {
		m.From = Ann
	}
	if m.Type == "" {
		m.Type = "m.room.message"
	}
	content := map[string]any{}
	if m.Text != "" {
		content["msgtype"], content["body"] = "m.text", m.Text
	}
	maps.Copy(content, m.Content)
	fields := map[string]any{
		"type": m.Type, "sender": m.From, "content": content, "origin_server_ts": at(m.At),
		"unsigned": map[string]any{},
	}
	if m.StateKey != nil {
		fields["state_key"] = *m.StateKey
	}
	maps.Copy(fields, m.More)
	e := s.add(r, fields)
	s.wake()
	id, _ := e.fields["event_id"].(string)
	return id
}

// Again has the next sync give an event once more.
func (s *Server) Again(room, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rooms[room]
	for _, e := range r.events {
		if e.fields["event_id"] == id {
			s.add(r, maps.Clone(e.fields))
			s.wake()
			return
		}
	}
}

// Edit has somebody give a message another text.
func (s *Server) Edit(room, from, of, text string) string {
	return s.Say(Said{Room: room, From: from, Text: "* " + text, Content: map[string]any{
		"m.new_content": map[string]any{"msgtype": "m.text", "body": text},
		"m.relates_to":  map[string]any{"rel_type": "m.replace", "event_id": of},
	}})
}

// Redact has somebody take a message back.
func (s *Server) Redact(room, from, of string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rooms[room]
	return s.takeBack(r, r.find(of), from, "")
}

// Lock has a room refuse what the account says.
func (s *Server) Lock(room string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rooms[room].locked = true
}

// Shown are the messages of the account that a room shows, in order.
func (s *Server) Shown(room string) (all []Shown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rooms[room]
	if r == nil {
		return nil
	}
	edits := r.edits()
	for _, e := range r.events {
		content := e.content()
		if e.fields["sender"] != Bot || e.fields["type"] != "m.room.message" || len(content) == 0 ||
			relation(content)["rel_type"] == "m.replace" {
			continue
		}
		m := Shown{}
		relates := relation(content)
		for _, edit := range edits[e.fields["event_id"]] {
			before, _ := content["body"].(string)
			m.Edits = append(m.Edits, before)
			content, _ = edit.content()["m.new_content"].(map[string]any)
		}
		m.Content = content
		m.ID, _ = e.fields["event_id"].(string)
		m.Kind, _ = content["msgtype"].(string)
		m.Body, _ = content["body"].(string)
		m.HTML, _ = content["formatted_body"].(string)
		if relates["rel_type"] == "m.thread" {
			m.Thread, _ = relates["event_id"].(string)
		}
		if to, is := relates["m.in_reply_to"].(map[string]any); is {
			m.ReplyTo, _ = to["event_id"].(string)
		}
		all = append(all, m)
	}
	return all
}

// Texts are the bodies of Shown.
func (s *Server) Texts(room string) (texts []string) {
	for _, m := range s.Shown(room) {
		texts = append(texts, m.Body)
	}
	return texts
}

// Membership is how the account stands to a room.
func (s *Server) Membership(room string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rooms[room]; r != nil {
		return r.members[Bot]
	}
	return ""
}

// Typing is how often the account has shown in a room that it types, and Read the event that it has read.
func (s *Server) Typing(room string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rooms[room].typing
}

// Read is the last event of a room that the account has marked as read.
func (s *Server) Read(room string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rooms[room].read
}

func unescape(path []string) []string {
	for i, p := range path {
		if text, err := url.PathUnescape(p); err == nil {
			path[i] = text
		}
	}
	return path
}
