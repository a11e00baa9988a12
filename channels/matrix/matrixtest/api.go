package matrixtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"
)

var (
	unknown   = &Fault{Status: 404, Code: "M_UNRECOGNIZED", Error: "Unrecognized request"}
	missing   = &Fault{Status: 404, Code: "M_NOT_FOUND", Error: "Event not found"}
	forbidden = &Fault{Status: 403, Code: "M_FORBIDDEN", Error: "You are not in this room"}
	invalid   = &Fault{Status: 400, Code: "M_INVALID_PARAM", Error: "malformed sync token"}
)

// do does what a request asks for.
func (s *Server) do(r *http.Request, q query) (any, *Fault) {
	if q.Name == "sync" {
		return s.sync(r, q)
	}
	if q.Name == "upload" {
		return s.upload(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case q.Name == "whoami":
		return map[string]any{"user_id": Bot, "device_id": "DEVICE"}, nil
	case q.Name == "profile":
		return map[string]any{"displayname": s.name}, nil
	case q.Name == "join":
		return s.join(q)
	}
	in := s.rooms[q.Room]
	if in == nil || in.members[Bot] != "join" {
		return nil, forbidden
	}
	switch q.Method + " " + q.Name {
	case "GET messages":
		return s.messages(in, q)
	case "GET joined_members":
		joined := map[string]any{}
		for who, is := range in.members {
			if is == "join" {
				joined[who] = map[string]any{"display_name": NameOf(who)}
			}
		}
		return map[string]any{"joined": joined}, nil
	case "GET state": // no room has any that is asked for
		return nil, missing
	case "GET context":
		if e := in.find(q.path[3]); e != nil && q.args["limit"] == "0" {
			return map[string]any{
				"event": e.fields, "events_before": []any{}, "events_after": []any{}, "state": []any{},
				"start": token(e.position - 1), "end": token(e.position),
			}, nil
		}
		return nil, missing
	case "GET event":
		if e := in.find(q.path[3]); e != nil {
			return e.fields, nil
		}
		return nil, missing
	case "PUT send":
		return s.send(in, q)
	case "PUT redact":
		return s.redact(in, q)
	case "PUT typing":
		if q.path[3] != Bot || q.Body["typing"] != true || q.Body["timeout"] == nil {
			s.Complain("typing: %v", q.Body)
		}
		in.typing++
		return map[string]any{}, nil
	case "POST receipt":
		in.read = q.path[4]
		return map[string]any{}, nil
	}
	return nil, unknown
}

func (s *Server) join(q query) (any, *Fault) {
	r := s.rooms[q.Room]
	if r == nil || r.members[Bot] != "invite" {
		return nil, forbidden
	}
	s.member(r, Bot, Bot, "join", nil)
	s.wake()
	return map[string]any{"room_id": q.Room}, nil
}

// maxUpload is the size of a file that the homeserver takes.
const maxUpload = 1 << 20

// secretType is the type of an encrypted file.
const secretType = "application/octet-stream"

// upload keeps a file, and gives it an address.
func (s *Server) upload(r *http.Request) (any, *Fault) {
	content, err := io.ReadAll(io.LimitReader(r.Body, maxUpload+1))
	if err != nil {
		return nil, &Fault{Status: 400, Code: "M_UNKNOWN", Error: err.Error()}
	}
	if len(content) > maxUpload {
		return nil, &Fault{Status: 413, Code: "M_TOO_LARGE", Error: fmt.Sprintf(
			"a file may have %d bytes, and this one has %d", maxUpload, r.ContentLength)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, name := r.Header.Get("Content-Type"), r.URL.Query().Get("filename")
	if kind == "" || name == "" && kind != secretType { // an encrypted file says nothing of itself
		s.Complain("an upload has the type %q and the name %q", kind, name)
	}
	address := fmt.Sprintf("mxc://localhost/file%d", len(s.files))
	s.files[address] = name + ": " + string(content)
	return map[string]any{"content_uri": address}, nil
}

// Bytes are those of a file at an address, as they were uploaded.
func (s *Server) Bytes(address string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, bytes, _ := strings.Cut(s.files[address], ": ")
	return []byte(bytes)
}

// Uploaded is how many files were uploaded.
func (s *Server) Uploaded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.files)
}

// Uploads are the files of the account that a room shows, in order, as "NAME: BYTES".
func (s *Server) Uploads(room string) (files []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.rooms[room].events {
		content, _ := e.fields["content"].(map[string]any)
		address, _ := content["url"].(string)
		if e.fields["sender"] != Bot || address == "" {
			continue
		}
		file := s.files[address]
		info, _ := content["info"].(map[string]any)
		size, _ := info["size"].(float64)
		name, bytes, _ := strings.Cut(file, ": ")
		if content["filename"] != name || int(size) != len(bytes) || info["mimetype"] == nil {
			s.Complain("a file is shown as %v", content)
		}
		files = append(files, file)
	}
	return files
}

// maxEvent is the size of an event; homeservers add a part to it.
const (
	maxEvent  = 65_536
	theirPart = 1_500
)

// send takes a message, unless it knows the transaction.
func (s *Server) send(in *room, q query) (any, *Fault) {
	if in.locked {
		return nil, forbidden
	}
	transaction := q.path[4]
	if id := s.transactions[in.id+"\n"+transaction]; id != "" {
		return map[string]any{"event_id": id}, nil
	}
	text, _ := json.Marshal(q.Body)
	if len(text)+theirPart > maxEvent {
		return nil, &Fault{Status: 413, Code: "M_TOO_LARGE", Error: "event is too long"}
	}
	if body, is := q.Body["body"].(string); !is || strings.TrimSpace(body) == "" {
		s.Complain("a message has no body: %s", text)
	}
	if mentions, is := q.Body["m.mentions"].(map[string]any); !is || len(mentions) > 0 {
		s.Complain("a message rings somebody: %s", text)
	}
	if formatted, is := q.Body["formatted_body"].(string); is {
		if wrong := Check(formatted); wrong != "" || q.Body["format"] != "org.matrix.custom.html" {
			s.Complain("the markup %s: %s", formatted, wrong)
		}
	}
	if relates, is := q.Body["m.relates_to"].(map[string]any); is && relates["rel_type"] == "m.replace" {
		s.checkEdit(in, relates["event_id"], q.Body)
	}
	e := s.add(in, map[string]any{
		"type": q.path[3], "sender": Bot, "content": q.Body, "origin_server_ts": at(time.Time{}),
		"unsigned": map[string]any{},
	})
	e.transaction = transaction
	id, _ := e.fields["event_id"].(string)
	s.transactions[in.id+"\n"+transaction] = id
	s.wake()
	return map[string]any{"event_id": id}, nil
}

// filter is what a program wants of a sync.
type filter struct {
	Types []string `json:"types"`
	Limit int      `json:"limit"`
}

func (f filter) wants(e *event) bool {
	kind, _ := e.fields["type"].(string)
	return len(f.Types) == 0 || slices.Contains(f.Types, kind)
}

func token(position int) string { return fmt.Sprintf("s%d_0", position) }

func positionOf(token string) (int, bool) {
	number, is := strings.CutPrefix(token, "s")
	number, rest := strings.CutSuffix(number, "_0")
	n, err := strconv.Atoi(number)
	return n, is && rest && err == nil && n >= 0
}

// sync waits for what is new behind a position.
func (s *Server) sync(r *http.Request, q query) (any, *Fault) {
	var ask struct {
		Room struct {
			Timeline filter `json:"timeline"`
		} `json:"room"`
	}
	if err := json.Unmarshal([]byte(q.args["filter"]), &ask); err != nil {
		return nil, &Fault{Status: 400, Code: "M_NOT_JSON", Error: err.Error()}
	}
	timeout, err := strconv.Atoi(q.args["timeout"])
	since, is := positionOf(q.args["since"])
	if err != nil || q.args["since"] != "" && !is {
		return nil, invalid
	}
	late := time.NewTimer(time.Duration(timeout) * time.Millisecond)
	defer late.Stop()
	for {
		s.mu.Lock()
		if since > len(s.stream) {
			s.mu.Unlock()
			return nil, invalid
		}
		answer, any := s.answer(since, q.args["since"] == "", ask.Room.Timeline)
		news, closed := s.news, s.closed
		s.mu.Unlock()
		if any || q.args["since"] == "" || closed {
			return answer, nil
		}
		select {
		case <-news:
		case <-late.C:
			return answer, nil
		case <-r.Context().Done():
			return nil, invalid
		}
	}
}

// answer is what is new behind a position. The mutex is held.
func (s *Server) answer(since int, first bool, f filter) (answer map[string]any, any bool) {
	join, invite := map[string]interface{}{}, map[string]interface{}{}
	for id, r := range s.rooms {
		var events []*event
		arrived := false
		for _, e := range r.events {
			if e.position > since && f.wants(e) {
				arrived = arrived || e.fields["state_key"] == Bot && r.members[Bot] == "join"
				events = append(events, e)
			}
		}
		switch {
		case len(events) == 0:
		case r.members[Bot] == "invite":
			invite[id] = map[string]interface{}{"invite_state": map[string]interface{}{"events": stripped(r)}}
		case r.members[Bot] == "join":
			if arrived || first { // the newest are given, whenever they were said
				events = slices.DeleteFunc(slices.Clone(r.events), func(e *event) bool { return !f.wants(e) })
			}
			join[id] = s.timeline(r, events, f.Limit)
		}
	}
	answer = map[string]interface{}{
		"next_batch": token(len(s.stream)), "rooms": map[string]interface{}{"join": join, "invite": invite},
	}
	return answer, len(join)+len(invite) > 0
}

// timeline is a room of an answer, with the newest events.
func (s *Server) timeline(r *room, events []*event, most int) map[string]any {
	limited := len(events) > most
	if limited {
		events = events[len(events)-most:]
	}
	return map[string]any{
		"state": map[string]any{"events": states(r, events)},
		"timeline": map[string]any{
			"events": fields(events, true), "limited": limited, "prev_batch": token(events[0].position - 1),
		},
	}
}

// states are the memberships of those who speak.
func states(r *room, events []*event) (all []any) {
	for who, is := range r.members {
		if slices.ContainsFunc(events, func(e *event) bool { return e.fields["sender"] == who }) {
			all = append(all, map[string]any{
				"type": "m.room.member", "sender": who, "state_key": who, "event_id": "$state",
				"content": map[string]any{"membership": is, "displayname": NameOf(who)},
			})
		}
	}
	return all
}

func stripped(r *room) (all []any) {
	for _, e := range r.events {
		if e.fields["type"] == "m.room.member" {
			all = append(all, map[string]any{
				"type": e.fields["type"], "sender": e.fields["sender"], "state_key": e.fields["state_key"],
				"content": e.fields["content"],
			})
		}
	}
	return all
}

// fields are events as a program gets them. Only syncs name transactions.
func fields(events []*event, sync bool) []any {
	all := []any{}
	for _, e := range events {
		given := maps.Clone(e.fields)
		if unsigned, is := given["unsigned"].(map[string]any); is && sync && e.transaction != "" {
			unsigned = maps.Clone(unsigned)
			unsigned["transaction_id"] = e.transaction
			given["unsigned"] = unsigned
		}
		all = append(all, given)
	}
	return all
}

// messages is a page of the history. Filters are not followed, and each page but the first repeats an event.
func (s *Server) messages(r *room, q query) (any, *Fault) {
	limit, err := strconv.Atoi(q.args["limit"])
	from, is := positionOf(q.args["from"])
	if q.args["from"] == "" {
		from, is = len(s.stream), true
	}
	if err != nil || !is {
		return nil, invalid
	}
	var found []*event
	switch q.args["dir"] {
	case "f":
		to, is := positionOf(q.args["to"])
		if !is {
			to = len(s.stream)
		}
		for _, e := range r.events {
			if e.position > from && e.position <= to {
				found = append(found, e)
			}
		}
	case "b":
		for _, e := range slices.Backward(r.events) {
			if e.position <= from {
				found = append(found, e)
			}
		}
	default:
		return nil, invalid
	}
	found = found[:min(len(found), limit)]
	page := map[string]any{"chunk": fields(found, false), "state": states(r, found), "start": q.args["from"]}
	if n := len(found); n > 0 {
		page["end"] = token(max(found[n-1].position-1, 0))
	}
	if n := len(found); n == 1 && q.args["dir"] == "f" {
		page["end"] = token(found[0].position)
	}
	return page, nil
}

// elements are those that the specification has programs show.
var elements = strings.Fields("strong em del code pre blockquote a br")

// Check reads markup as a program that shows it: what is wrong with it, if anything.
func Check(markup string) (wrong string) {
	tokens := html.NewTokenizer(strings.NewReader(markup))
	var open []string
	for {
		kind := tokens.Next()
		t := tokens.Token()
		switch kind {
		case html.ErrorToken:
			if len(open) > 0 {
				return "it does not end " + open[len(open)-1]
			}
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			if !slices.Contains(elements, t.Data) {
				return "it has the element " + t.Data
			}
			if t.Data == "a" && (len(t.Attr) != 1 || t.Attr[0].Key != "href" || !web(t.Attr[0].Val)) {
				return fmt.Sprint("a link has ", t.Attr)
			}
			if kind == html.StartTagToken {
				open = append(open, t.Data)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != t.Data {
				return "it ends " + t.Data + ", which is not open"
			}
			open = open[:len(open)-1]
		case html.CommentToken, html.DoctypeToken:
			return "it has a comment"
		}
	}
}

func web(address string) bool {
	for _, scheme := range []string{"http://", "https://", "mailto:"} {
		if strings.HasPrefix(address, scheme) {
			return true
		}
	}
	return false
}
