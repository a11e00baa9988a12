package matrixtest

import (
	"encoding/json"
	"strings"
	"time"
)

// find is an event of a room; nil: there is none. The mutex is held.
func (r *room) find(id any) *event {
	for _, e := range r.events {
		if e.fields["event_id"] == id {
			return e
		}
	}
	return nil
}

// checkEdit complains about an edit that programs would not show: homeservers take any.
func (s *Server) checkEdit(in *room, of any, body map[string]any) {
	text, _ := json.Marshal(body)
	e := in.find(of)
	changed, is := body["m.new_content"].(map[string]any)
	switch fallback, _ := body["body"].(string); {
	case e == nil || e.fields["sender"] != Bot || e.fields["type"] != "m.room.message":
		s.Complain("an edit is of no message of the account: %s", text)
	case relation(e.content())["rel_type"] == "m.replace":
		s.Complain("an edit is of an edit: %s", text)
	case !is || changed["msgtype"] != body["msgtype"] || changed["m.relates_to"] != nil:
		s.Complain("an edit has no proper new content: %s", text)
	case fallback != "* "+changed["body"].(string):
		s.Complain("programs that know no edits show another text: %s", text)
	default:
		if formatted, is := changed["formatted_body"].(string); is && Check(formatted) != "" {
			s.Complain("the markup %s: %s", formatted, Check(formatted))
		}
		if mentions, is := changed["m.mentions"].(map[string]any); !is || len(mentions) > 0 {
			s.Complain("an edit rings somebody: %s", text)
		}
	}
}

func (e *event) content() map[string]any {
	content, _ := e.fields["content"].(map[string]any)
	return content
}

func relation(content map[string]any) map[string]any {
	relates, _ := content["m.relates_to"].(map[string]any)
	return relates
}

// redact takes a message of the account back, unless the transaction is known.
func (s *Server) redact(in *room, q query) (any, *Fault) {
	of, transaction := q.path[3], in.id+"\n"+q.path[4]
	if id := s.transactions[transaction]; id != "" {
		return map[string]any{"event_id": id}, nil
	}
	e := in.find(of)
	if e == nil {
		return nil, missing
	}
	if e.fields["sender"] != Bot {
		s.Complain("the account takes back what somebody else has said: %s", of)
		return nil, forbidden
	}
	return map[string]any{"event_id": s.takeBack(in, e, Bot, transaction)}, nil
}

// takeBack empties an event, and adds the event that says so. The mutex is held.
func (s *Server) takeBack(in *room, e *event, from, transaction string) (id string) {
	e.fields["content"] = map[string]any{}
	by := s.add(in, map[string]any{
		"type": "m.room.redaction", "sender": from, "redacts": e.fields["event_id"], "content": map[string]any{},
		"origin_server_ts": at(time.Time{}), "unsigned": map[string]any{},
	})
	id, _ = by.fields["event_id"].(string)
	if transaction != "" {
		s.transactions[transaction] = id
	}
	s.wake()
	return id
}

// edits are the edits that a room has, in order, by the message that they edit. Nobody edits what somebody else said.
func (r *room) edits() map[any][]*event {
	all := map[any][]*event{}
	senders := map[any]any{}
	for _, e := range r.events {
		senders[e.fields["event_id"]] = e.fields["sender"]
		content := e.content()
		relates := relation(content)
		if _, is := content["m.new_content"].(map[string]any); !is || relates["rel_type"] != "m.replace" {
			continue
		}
		if of := relates["event_id"]; senders[of] == e.fields["sender"] {
			all[of] = append(all[of], e)
		}
	}
	return all
}

// Edited are the texts of all edits of the account.
func (s *Server) Edited() (texts []string) {
	for _, c := range s.Calls("send") {
		if changed, is := c.Body["m.new_content"].(map[string]any); is {
			text, _ := changed["body"].(string)
			texts = append(texts, strings.TrimSpace(text))
		}
	}
	return texts
}
