package discordtest

import (
	"maps"
	"regexp"
	"strings"
	"time"
)

// Said is what somebody says.
type Said struct {
	Channel string // empty: the direct chat with From
	From    User
	Text    string
	ReplyTo string
	At      time.Time      // zero: now
	More    map[string]any // further fields of the message
}

// DirectOf is the direct chat with a person.
func DirectOf(u User) string { return "7" + u.ID[1:] }

// Open makes a channel of the server, a thread of one, or with an empty server a direct chat.
func (s *Server) Open(id string, kind int, parent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open(id, kind, parent)
}

func (s *Server) open(id string, kind int, parent string) *channel {
	c := s.channels[id]
	if c != nil {
		return c
	}
	c = &channel{id: id, kind: kind, parent: parent}
	if kind != Direct {
		c.guild = Guild
	}
	s.channels[id] = c
	switch kind {
	case Thread:
		s.dispatch("THREAD_CREATE", c.guild, c.object())
	case Text, Forum:
		s.dispatch("CHANNEL_CREATE", c.guild, c.object())
	}
	return c
}

// Know opens the direct chat with a person.
func (s *Server) Know(u User) string {
	s.Open(DirectOf(u), Direct, "")
	return DirectOf(u)
}

var named = regexp.MustCompile(`<@!?([0-9]+)>`)

// said makes a message of somebody. The mutex is held.
func (s *Server) said(c *channel, from User, text string, at time.Time) map[string]any {
	sent := at
	if at.IsZero() {
		sent = time.Now()
	}
	mentions := []any{}
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		for _, u := range []User{bot, Ann} {
			if u.ID == m[1] {
				mentions = append(mentions, u.object())
			}
		}
	}
	return map[string]any{
		"id": s.id(at), "channel_id": c.id, "author": from.object(), "content": text,
		"timestamp": sent.UTC().Format(time.RFC3339Nano), "edited_timestamp": nil, "tts": false, "type": 0,
		"mention_everyone": false, "mentions": mentions, "mention_roles": []any{}, "attachments": []any{},
		"embeds": []any{}, "components": []any{}, "pinned": false, "flags": 0,
	}
}

// tell sends an event about a message, with what the history does not have.
func (s *Server) tell(kind string, c *channel, from User, m map[string]any) {
	m = maps.Clone(m)
	m["channel_type"] = c.kind
	if c.guild != "" {
		m["guild_id"], m["member"] = c.guild, from.member()
	}
	s.dispatch(kind, c.guild, m)
}

// Say has somebody say something, and gives the id of the message.
func (s *Server) Say(a Said) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.From.ID == "" {
		a.From = Ann
	}
	c := s.channels[a.Channel]
	if a.Channel == "" {
		c = s.open(DirectOf(a.From), Direct, "")
	}
	m := s.said(c, a.From, a.Text, a.At)
	if answered := c.find(a.ReplyTo); answered != nil {
		m["type"], m["referenced_message"] = 19, without(answered, "nonce", "guild_id", "member")
		m["message_reference"] = map[string]any{"type": 0, "message_id": a.ReplyTo, "channel_id": c.id}
	}
	maps.Copy(m, a.More)
	c.messages = append(c.messages, m)
	s.tell("MESSAGE_CREATE", c, a.From, m)
	return m["id"].(string)
}

// Again gives the bot a message of Ann once more, under a new sequence.
func (s *Server) Again(channel, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channel]
	s.tell("MESSAGE_CREATE", c, Ann, c.find(id))
}

// Edit gives a message another text, and the time of the edit.
func (s *Server) Edit(channel, id, text string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channel]
	at := time.Now().UTC()
	for i, m := range c.messages {
		if m["id"] != id {
			continue
		}
		for _, other := range c.messages { // edits of one message differ in time
			if e, is := other["edited_timestamp"].(string); is && e == at.Format(time.RFC3339Nano) {
				at = at.Add(time.Millisecond)
			}
		}
		changed := maps.Clone(m)
		changed["content"], changed["edited_timestamp"] = text, at.Format(time.RFC3339Nano)
		c.messages[i] = changed
		s.tell("MESSAGE_UPDATE", c, Ann, changed)
	}
	return at
}

// Delete takes messages back.
func (s *Server) Delete(channel string, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(s.channels[channel], ids...)
}

// React has somebody put a sign at a message.
func (s *Server) React(from User, channel, message, sign string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channel]
	r := map[string]any{
		"user_id": from.ID, "channel_id": c.id, "message_id": message, "burst": false, "type": 0,
		"emoji": map[string]any{"id": nil, "name": sign},
	}
	if m := c.find(message); m != nil {
		r["message_author_id"] = m["author"].(map[string]any)["id"]
	}
	if c.guild != "" {
		m := from.member()
		m["user"] = from.object()
		r["guild_id"], r["member"] = c.guild, m
	}
	s.dispatch("MESSAGE_REACTION_ADD", c.guild, r)
}

// Press has somebody press a button of a message of the bot. With a forged client the command can be any.
func (s *Server) Press(from User, channel, message, command string) (id string) {
	return s.interact(from, channel, message, 3, map[string]any{"custom_id": command, "component_type": 2})
}

// Command has somebody give a slash command.
func (s *Server) Command(from User, channel, name, text string) (id string) {
	data := map[string]any{"id": "500000000000000001", "name": strings.TrimPrefix(name, "/"), "type": 1}
	if text != "" {
		data["options"] = []any{map[string]any{"name": "text", "type": 3, "value": text}}
	}
	return s.interact(from, channel, "", 2, data)
}

func (s *Server) interact(from User, channel, message string, kind int, data map[string]any) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channel]
	id = s.id(time.Time{})
	token := "token-of-the-interaction-" + id
	s.waiting[id] = token
	i := map[string]any{
		"id": id, "application_id": AppID, "type": kind, "token": token, "version": 1, "channel_id": c.id,
		"channel": c.object(), "data": data, "locale": "en-US", "entitlements": []any{}, "attachment_size_limit": 1,
		"authorizing_integration_owners": map[string]any{}, "app_permissions": "0",
	}
	if c.guild != "" {
		m := from.member()
		m["user"] = from.object()
		m["permissions"] = "0"
		i["guild_id"], i["member"] = c.guild, m
	} else {
		i["user"] = from.object()
	}
	if m := c.find(message); m != nil {
		i["message"] = without(m, "nonce", "guild_id", "member")
	}
	s.dispatch("INTERACTION_CREATE", c.guild, i)
	return id
}
