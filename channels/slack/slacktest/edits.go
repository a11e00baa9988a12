package slacktest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// knownTo are the arguments of a request to edit that the app gives.
var knownTo = []string{
	"channel", "ts", "text", "blocks", "parse", "link_names", "metadata", "as_user", "reply_broadcast", "team_id",
}

// update gives a message of the app another text. Blocks that are not given again are gone, and metadata stay.
func (s *Server) update(r *http.Request) map[string]any {
	channel, text := r.Form.Get("channel"), r.Form.Get("text")
	m, why := s.own(channel, r.Form.Get("ts"), "cant_update_message")
	switch {
	case m == nil:
		return refused(why)
	case strings.TrimSpace(text) == "":
		return refused("no_text")
	case utf8.RuneCountInString(text) > 4000:
		return refused("msg_too_long")
	}
	for name := range r.Form {
		if !slices.Contains(knownTo, name) && name != "token" {
			s.Complain("chat.update knows no %s", name)
		}
	}
	s.checkText(text)
	raw := r.Form.Get("blocks")
	if raw != "" && !valid(raw) {
		return refused("invalid_blocks")
	}
	old := *m
	m.Text, m.Edited, m.Blocks = text, &edit{Bot, s.stamp()}, nil
	m.Edits = append(slices.Clone(m.Edits), old.Text)
	if raw != "" {
		m.Blocks = json.RawMessage(raw)
	}
	if raw := r.Form.Get("metadata"); raw != "" {
		m.Metadata = json.RawMessage(raw)
	}
	s.changed(channel, m, old)
	return map[string]any{"ts": m.TS, "channel": channel, "text": text, "message": m}
}

// remove takes a message of the app back.
func (s *Server) remove(r *http.Request) map[string]any {
	channel := r.Form.Get("channel")
	m, why := s.own(channel, r.Form.Get("ts"), "cant_delete_message")
	if m == nil {
		return refused(why)
	}
	s.drop(channel, m)
	return map[string]any{"ts": m.TS, "channel": channel}
}

// own is a message of the app; nil: why not.
func (s *Server) own(channel, ts, foreign string) (*Message, string) {
	room, is := s.rooms[channel]
	i := slices.IndexFunc(room, func(m *Message) bool { return m.TS == ts })
	switch {
	case !is:
		return nil, "channel_not_found"
	case i < 0:
		return nil, "message_not_found"
	case room[i].User != Bot:
		return nil, foreign
	}
	return room[i], ""
}

// changed tells the app of an edit, and drop takes a message out and tells the app. The caller has the lock.
func (s *Server) changed(channel string, m *Message, old Message) {
	s.deliver("events_api", s.callback(map[string]any{
		"type": "message", "subtype": "message_changed", "hidden": true, "channel": channel, "message": m,
		"previous_message": old, "ts": m.Edited.TS,
	}, nil))
}

func (s *Server) drop(channel string, m *Message) {
	s.rooms[channel] = slices.DeleteFunc(s.rooms[channel], func(other *Message) bool { return other == m })
	s.deliver("events_api", s.callback(map[string]any{
		"type": "message", "subtype": "message_deleted", "hidden": true, "channel": channel, "deleted_ts": m.TS,
		"previous_message": m, "ts": s.stamp(),
	}, nil))
}

// checkText complains about a text with something that Slack would read as its own.
func (s *Server) checkText(text string) {
	rest := angles.ReplaceAllString(text, "")
	if strings.ContainsAny(strings.ReplaceAll(rest, "\n> ", ""), "<") {
		s.Complain("a text with something of Slack's own: %.200q", rest)
	}
}

// Edited are the texts of all requests to edit, also of those that a fault has kept from taking effect.
func (s *Server) Edited() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.edited)
}
