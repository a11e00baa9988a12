package slacktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// serve answers requests to the Web API and to sockets.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/link/" {
		s.listen(w, r)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/upload/") {
		s.upload(w, r)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/files-pri/") && r.Header.Get("Authorization") == "Bearer "+Token &&
		s.Files.Give(w, r) {
		return
	}
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	_ = r.ParseForm() // what is missing is refused
	if s.Silent() {
		s.Wait(r.Context())
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Date", time.Now().Add(-s.behind).UTC().Format(http.TimeFormat))
	call := Call{method, r.Form.Get("channel"), r.Form.Get("text")}
	if method == "chat.update" {
		s.edited = append(s.edited, call.Text)
	}
	f := s.Take(call)
	if s.refuse > 0 && method == "chat.postMessage" {
		s.refuse--
		f = Fault{Error: "rate_limited"}
	}
	switch {
	case f.Drop:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte(f.Page))
		return
	case f.Error != "":
		s.write(w, map[string]any{"ok": false, "error": f.Error})
		return
	}
	a := s.answer(method, r)
	if f.DropAfter {
		panic(http.ErrAbortHandler)
	}
	s.write(w, a)
}

func (s *Server) write(w http.ResponseWriter, a map[string]any) {
	if _, failed := a["error"]; !failed {
		a["ok"] = true
	} else {
		a["ok"] = false
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(a)
}

func refused(why string) map[string]any { return map[string]any{"error": why} }

// answer does what a request asks for.
func (s *Server) answer(method string, r *http.Request) map[string]any {
	token := Token
	if method == "apps.connections.open" {
		token = AppToken
	}
	switch given := r.Header.Get("Authorization"); {
	case s.revoked || given != "Bearer "+Token && given != "Bearer "+AppToken:
		return refused("invalid_auth")
	case given != "Bearer "+token:
		return refused("not_allowed_token_type")
	case r.Method != http.MethodPost:
		s.Complain("%s by %s", method, r.Method)
	}
	switch method {
	case "auth.test":
		return map[string]any{
			"user_id": Bot, "bot_id": BotID, "user": "corebot", "team_id": Team, "team": "the workspace",
			"url": s.HTTP.URL,
		}
	case "apps.connections.open":
		return map[string]any{"url": strings.Replace(s.HTTP.URL, "http://", "ws://", 1) + "/link/?ticket=1"}
	case "users.info":
		name, known := s.names[r.Form.Get("user")]
		if !known {
			return refused("user_not_found")
		}
		profile := map[string]any{"display_name": name}
		return map[string]any{"user": map[string]any{"real_name": name, "profile": profile}}
	case "users.conversations":
		var all []any
		for id := range s.rooms {
			all = append(all, map[string]any{"id": id})
		}
		return map[string]any{"channels": all}
	case "conversations.history", "conversations.replies":
		return s.history(method == "conversations.replies", r)
	case "chat.postMessage":
		return s.post(r)
	case "chat.update":
		return s.update(r)
	case "chat.delete":
		return s.remove(r)
	case "files.getUploadURLExternal":
		return s.expect(r)
	case "files.completeUploadExternal":
		return s.share(r)
	}
	s.Complain("there is no method %s", method)
	return refused("unknown_method")
}

// history gives what a channel shows, newest first, or a thread, oldest first.
func (s *Server) history(replies bool, r *http.Request) map[string]any {
	room, is := s.rooms[r.Form.Get("channel")]
	if !is {
		return refused("channel_not_found")
	}
	var all []Message
	for _, m := range room {
		inside := m.Thread == "" || m.Thread == m.TS
		if replies {
			inside = m.Thread == r.Form.Get("ts") || m.TS == r.Form.Get("ts")
		}
		if old := m.TS < r.Form.Get("oldest"); !inside || old && (!replies || m.TS != m.Thread) {
			continue
		}
		if latest := r.Form.Get("latest"); latest != "" && m.TS >= latest {
			continue
		}
		copied := *m
		if r.Form.Get("include_all_metadata") != "true" {
			copied.Metadata = nil
		}
		all = append(all, copied)
	}
	if !replies {
		slices.Reverse(all)
	}
	limit, _ := strconv.Atoi(r.Form.Get("limit"))
	if limit < 1 || limit > 999 {
		s.Complain("a limit of %d", limit)
		limit = 100
	}
	from, _ := strconv.Atoi(r.Form.Get("cursor"))
	to := min(from+limit, len(all))
	a := map[string]any{"messages": all[min(from, to):to], "has_more": to < len(all)}
	if to < len(all) {
		a["response_metadata"] = map[string]any{"next_cursor": strconv.Itoa(to)}
	}
	return a
}

// Upload is a file that the app sends.
type Upload struct {
	ID, Name, Content string
	Length            int
}

// maxUpload is the size of a file that the workspace takes.
const maxUpload = 1 << 20

// expect gives an address for a file.
func (s *Server) expect(r *http.Request) map[string]any {
	length, err := strconv.Atoi(r.Form.Get("length"))
	switch name := r.Form.Get("filename"); {
	case err != nil || length < 1:
		return refused("invalid_arguments")
	case name == "":
		return refused("missing_argument")
	case length > maxUpload:
		return refused(fmt.Sprintf("file_upload_size_restricted (%d)", length))
	}
	u := &Upload{ID: fmt.Sprintf("F%05d", len(s.uploads)), Name: r.Form.Get("filename"), Length: length}
	s.uploads[u.ID] = u
	return map[string]any{"upload_url": s.HTTP.URL + "/upload/" + u.ID, "file_id": u.ID}
}

// upload takes the bytes of a file. The address is the secret: it asks for no token.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	content, err := bytesOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uploads[strings.TrimPrefix(r.URL.Path, "/upload/")]
	if u == nil || err != nil || len(content) != u.Length || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	u.Content = string(content)
	_, _ = fmt.Fprintf(w, "OK - %d", len(content))
}

// bytesOf is the file of an upload: the body itself, or the one file of a form.
func bytesOf(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return io.ReadAll(io.LimitReader(r.Body, maxUpload+1))
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, err
	}
	for {
		p, err := parts.NextPart()
		if err != nil {
			return nil, err
		}
		if p.FileName() != "" {
			return io.ReadAll(io.LimitReader(p, maxUpload+1))
		}
	}
}

// share shows a file that was uploaded, once.
func (s *Server) share(r *http.Request) map[string]any {
	var files []struct{ ID, Title string }
	channel, thread := r.Form.Get("channel_id"), r.Form.Get("thread_ts")
	room, is := s.rooms[channel]
	if json.Unmarshal([]byte(r.Form.Get("files")), &files) != nil || len(files) != 1 {
		return refused("invalid_arguments")
	}
	u := s.uploads[files[0].ID]
	switch {
	case !is:
		return refused("channel_not_found")
	case u == nil || u.Content == "":
		return refused("file_not_found")
	case thread != "" && !slices.ContainsFunc(room, func(m *Message) bool { return m.TS == thread }):
		return refused("thread_not_found")
	case r.Form.Get("initial_comment") != "" || !valid(r.Form.Get("blocks")):
		return refused("invalid_blocks")
	}
	var blocks []struct{ Text struct{ Text string } }
	_ = json.Unmarshal([]byte(r.Form.Get("blocks")), &blocks) // they are valid
	m := &Message{
		Type: "message", User: Bot, BotID: BotID, TS: s.stamp(), Thread: thread, Text: blocks[0].Text.Text,
		Blocks: json.RawMessage(r.Form.Get("blocks")), Upload: u,
		Files: []any{map[string]any{"id": u.ID, "name": u.Name, "title": files[0].Title, "size": u.Length}},
	}
	s.add(channel, m)
	s.event(m, channel)
	return map[string]any{"files": []any{map[string]any{"id": u.ID, "title": files[0].Title}}}
}

// Uploads are the files of the app that a channel shows, in order, as "NAME: BYTES".
func (s *Server) Uploads(channel string) (files []string) {
	for _, m := range s.Shown(channel) {
		if m.Upload != nil {
			files = append(files, m.Upload.Name+": "+m.Upload.Content)
		}
	}
	return files
}

// angles are what a text may have between angle brackets: addresses of the web.
var angles = regexp.MustCompile(`<https?://[^<>|]+(\|[^<>|]+)?>`)

// post shows a message of the app.
func (s *Server) post(r *http.Request) map[string]any {
	channel, text, thread := r.Form.Get("channel"), r.Form.Get("text"), r.Form.Get("thread_ts")
	room, is := s.rooms[channel]
	switch {
	case !is:
		return refused("channel_not_found")
	case strings.TrimSpace(text) == "":
		return refused("no_text")
	case utf8.RuneCountInString(text) > 4000:
		s.Complain("a text of %d characters, which Slack would cut", utf8.RuneCountInString(text))
	case r.Form.Get("unfurl_links") != "false" || r.Form.Get("unfurl_media") != "false":
		s.Complain("addresses of the text would be opened")
	}
	s.checkText(text)
	if thread != "" && !slices.ContainsFunc(room, func(m *Message) bool { return m.TS == thread }) {
		return refused("thread_not_found")
	}
	m := &Message{
		Type: "message", User: Bot, BotID: BotID, TS: s.stamp(), Thread: thread, Text: text,
		Plain: r.Form.Get("mrkdwn") == "false",
	}
	if raw := r.Form.Get("metadata"); raw != "" {
		var meta struct {
			Type    string         `json:"event_type"`
			Payload map[string]any `json:"event_payload"`
		}
		if json.Unmarshal([]byte(raw), &meta) != nil || meta.Type == "" || meta.Payload == nil {
			return refused("invalid_metadata_format")
		}
		m.Metadata = json.RawMessage(raw)
	}
	if raw := r.Form.Get("blocks"); raw != "" {
		if !valid(raw) {
			return refused("invalid_blocks")
		}
		m.Blocks = json.RawMessage(raw)
	}
	s.add(channel, m)
	s.event(m, channel)
	return map[string]any{"ts": m.TS, "channel": channel, "message": m}
}

// valid checks blocks by their documented limits.
func valid(raw string) bool {
	type text struct{ Type, Text string }
	var all []struct {
		Type     string
		Text     text
		Elements []struct {
			Type, Value string
			ActionID    string `json:"action_id"`
			Text        text
		}
	}
	if json.Unmarshal([]byte(raw), &all) != nil || len(all) > 50 {
		return false
	}
	for _, b := range all {
		if b.Type == "section" && (b.Text.Text == "" || utf8.RuneCountInString(b.Text.Text) > 3000) {
			return false
		}
		if b.Type == "actions" && (len(b.Elements) == 0 || len(b.Elements) > 25) {
			return false
		}
		for _, e := range b.Elements {
			if e.Type != "button" || len(e.Value) > 2000 || e.Text.Type != "plain_text" || e.Text.Text == "" ||
				utf8.RuneCountInString(e.Text.Text) > 75 || e.ActionID == "" {
				return false
			}
		}
	}
	return true
}
