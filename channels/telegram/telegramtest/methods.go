package telegramtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// args are the arguments of a request, as they came: JSON, or texts of a form.
type args map[string]json.RawMessage

// read takes the arguments of a request, in each of the ways that the platform knows.
func read(r *http.Request) (args, error) {
	a := args{}
	for name, values := range r.URL.Query() {
		a.form(name, values)
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(body, &a); err != nil || a == nil {
			return nil, fmt.Errorf("can't parse request JSON object: %w", cmp.Or(err, errors.New("it is null")))
		}
	case "multipart/form-data":
		if err := r.ParseMultipartForm(1 << 20); err != nil {
			return nil, err
		}
		for name, values := range r.PostForm {
			a.form(name, values)
		}
		for name, files := range r.MultipartForm.File {
			f, err := files[0].Open()
			if err != nil {
				return nil, err
			}
			content, err := io.ReadAll(f)
			if err = errors.Join(err, f.Close()); err != nil {
				return nil, err
			}
			a[a.attaches(name)], _ = json.Marshal(Upload{files[0].Filename, content}) // it is always JSON
		}
	case "application/x-www-form-urlencoded":
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		for name, values := range r.PostForm {
			a.form(name, values)
		}
	}
	return a, nil
}

// form takes an argument of a form: JSON for what is no text.
func (a args) form(name string, values []string) {
	raw := json.RawMessage(values[0])
	if name == "text" || name == "caption" || !json.Valid(raw) {
		raw, _ = json.Marshal(values[0]) // a text is always JSON
	}
	a[name] = raw
}

// attaches is the argument that names a file of the form; otherwise the file is the argument of its own name.
func (a args) attaches(file string) string {
	for name := range a {
		if a.text(name) == "attach://"+file {
			return name
		}
	}
	return file
}

func (a args) int(name string) (n int64) {
	_ = json.Unmarshal(a[name], &n)
	if text := a.text(name); n == 0 && text != "" {
		n, _ = strconv.ParseInt(text, 10, 64)
	}
	return n
}

func (a args) text(name string) (s string) {
	_ = json.Unmarshal(a[name], &s)
	return s
}

// known are the methods and their arguments.
var known = map[string][]string{
	"getfile":        {"file_id"},
	"getme":          {},
	"getwebhookinfo": {},
	"setwebhook": {
		"url", "max_connections", "allowed_updates", "drop_pending_updates", "secret_token", "ip_address",
	},
	"deletewebhook": {"drop_pending_updates"},
	"getupdates":    {"offset", "limit", "timeout", "allowed_updates"},
	"sendmessage": {
		"chat_id", "message_thread_id", "text", "parse_mode", "entities", "link_preview_options",
		"disable_notification", "protect_content", "reply_parameters", "reply_markup",
	},
	"editmessagetext": {
		"chat_id", "message_id", "text", "parse_mode", "entities", "link_preview_options", "reply_markup",
	},
	"deletemessage":       {"chat_id", "message_id"},
	"sendphoto":           sendsA("photo"),
	"sendvoice":           sendsA("voice"),
	"sendaudio":           sendsA("audio"),
	"senddocument":        sendsA("document"),
	"sendchataction":      {"chat_id", "message_thread_id", "action"},
	"answercallbackquery": {"callback_query_id", "text", "show_alert"},
	"setmycommands":       {"commands", "scope", "language_code"},
}

// sendsA are the arguments of a method that sends a file.
func sendsA(field string) []string {
	return []string{
		"chat_id", "message_thread_id", field, "caption", "parse_mode", "caption_entities", "disable_notification",
		"protect_content", "reply_parameters", "reply_markup",
	}
}

func bad(format string, a ...any) *Fault {
	return &Fault{Code: 400, Description: "Bad Request: " + fmt.Sprintf(format, a...)}
}

// do carries out a request.
func (s *Server) do(r *http.Request, c Call, a args) (any, *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	method := strings.ToLower(c.Method)
	names, is := known[method]
	if !is {
		s.Complain("there is no method %s", c.Method)
		return nil, &Fault{Code: 404, Description: "Not Found: method not found"}
	}
	for name := range a {
		if !slices.Contains(names, name) {
			s.Complain("%s has no argument %s", c.Method, name)
		}
	}
	switch method {
	case "getme":
		me := Bot
		me.Username = s.username
		return struct {
			User
			Joins bool `json:"can_join_groups"`
			Reads bool `json:"can_read_all_group_messages"`
		}{me, true, false}, nil
	case "getwebhookinfo":
		return s.webhookInfo(), nil
	case "setwebhook":
		return s.setWebhook(a)
	case "deletewebhook":
		s.unhook()
		return true, nil
	case "getfile":
		id := a.text("file_id")
		if !s.Files.Has(id) {
			return nil, &Fault{Code: 400, Description: "Bad Request: wrong file_id"}
		}
		return map[string]any{"file_id": id, "file_unique_id": id, "file_path": "documents/" + id}, nil
	case "getupdates":
		return s.getUpdates(r, a)
	case "sendchataction":
		return s.sendChatAction(c, a)
	case "answercallbackquery":
		return s.answerCallback(a)
	case "setmycommands":
		return s.setCommands(a)
	case "sendphoto", "sendvoice", "sendaudio", "senddocument":
		return s.sendFile(c, a, strings.TrimPrefix(method, "send"))
	case "editmessagetext":
		return s.editMessage(c, a)
	case "deletemessage":
		return s.deleteMessage(c, a)
	}
	return s.sendMessage(c, a)
}

// getUpdates gives what is behind the offset, and waits for it. The mutex is held, but not while it waits.
func (s *Server) getUpdates(r *http.Request, a args) (any, *Fault) {
	s.polls++
	if s.webhook != "" {
		return nil, &Fault{Code: 409, Description: "Conflict: can't use getUpdates method while webhook is active; " +
			"use deleteWebhook to delete the webhook first"}
	}
	if a["allowed_updates"] != nil {
		s.allowed = nil
		if err := json.Unmarshal(a["allowed_updates"], &s.allowed); err != nil {
			return nil, bad("can't parse allowed_updates JSON object")
		}
	}
	limit := int(a.int("limit"))
	if limit < 1 || limit > 100 {
		limit = 100
	}
	wait := time.NewTimer(time.Duration(min(max(a.int("timeout"), 0), 50)) * time.Second)
	defer wait.Stop()
	offset := a.int("offset")
	for {
		if found := s.behind(offset, limit); len(found) > 0 || a.int("timeout") == 0 {
			return found, nil
		}
		if s.waiting != nil {
			close(s.waiting)
		}
		own := make(chan struct{})
		s.waiting = own
		news := s.news
		s.mu.Unlock()
		var ended *Fault
		over := false
		select {
		case <-news:
		case <-wait.C:
			over = true
		case <-own:
			ended = &Fault{Code: 409, Description: "Conflict: terminated by other getUpdates request; make sure that " +
				"only one bot instance is running"}
		case <-r.Context().Done():
			over = true
		}
		s.mu.Lock()
		if s.waiting == own {
			s.waiting = nil
		}
		if ended != nil {
			return nil, ended
		}
		if over {
			return []any{}, nil
		}
	}
}

// behind confirms what is before the offset, and gives what is not. An offset that lies far ahead of all updates is of
// an earlier numbering: then it confirms nothing.
func (s *Server) behind(offset int64, limit int) []any {
	found := []any{}
	if offset > s.next+10 {
		offset = 0
	}
	for offset > 0 && len(s.updates) > 0 && s.updates[0].id < offset {
		s.seen = append(s.seen, s.updates[0])
		s.updates = s.updates[1:]
	}
	for _, u := range s.updates {
		if len(found) == limit {
			break
		}
		if len(s.allowed) > 0 && !slices.Contains(s.allowed, u.kind) {
			continue
		}
		found = append(found, map[string]any{"update_id": u.id, u.kind: u.body})
	}
	return found
}

// place is the chat of a request, if the bot can write there.
func (s *Server) place(c Call) (*room, *Fault) {
	r := s.chats[c.Chat]
	switch {
	case r == nil:
		return nil, bad("chat not found")
	case r.blocked && r.Type == "private":
		return nil, &Fault{Code: 403, Description: "Forbidden: bot was blocked by the user"}
	case r.blocked:
		return nil, &Fault{Code: 403, Description: "Forbidden: bot was kicked from the " + r.Type + " chat"}
	case c.Thread != 0 && !r.threads[c.Thread]:
		return nil, bad("message thread not found")
	}
	return r, nil
}

func (s *Server) sendChatAction(c Call, a args) (any, *Fault) {
	r, refused := s.place(c)
	if refused != nil {
		return nil, refused
	}
	if a.text("action") != "typing" {
		return nil, bad("wrong parameter action in request")
	}
	r.typing++
	return true, nil
}

func (s *Server) answerCallback(a args) (any, *Fault) {
	id := a.text("callback_query_id")
	if !s.queries[id] {
		return nil, bad("query is too old and response timeout expired or query ID is invalid")
	}
	if len(utf16.Encode([]rune(a.text("text")))) > 200 {
		return nil, bad("MESSAGE_TOO_LONG")
	}
	delete(s.queries, id)
	s.answers = append(s.answers, a.text("text"))
	return true, nil
}

var commandName = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

func (s *Server) setCommands(a args) (any, *Fault) {
	var all []struct{ Command, Description string }
	if err := json.Unmarshal(a["commands"], &all); err != nil || len(all) > 100 {
		return nil, bad("can't parse commands")
	}
	s.commands = nil
	for _, c := range all {
		if n := len([]rune(c.Description)); !commandName.MatchString(c.Command) || n < 1 || n > 256 {
			return nil, bad("BOT_COMMAND_INVALID")
		}
		s.commands = append(s.commands, c.Command)
	}
	return true, nil
}

// sendMessage shows a text.
func (s *Server) sendMessage(c Call, a args) (any, *Fault) {
	r, refused := s.place(c)
	if refused != nil {
		return nil, refused
	}
	text, looks, refused := s.text(c, a)
	if refused != nil {
		return nil, refused
	}
	m := Shown{Text: text, Looks: looks, Thread: c.Thread}
	if m.Rows, refused = buttons(a["reply_markup"]); refused != nil {
		return nil, refused
	}
	m.Buttons = slices.Concat(m.Rows...)
	if refused := m.answer(r, a); refused != nil {
		return nil, refused
	}
	return s.show(r, m, "text", text), nil
}

// text reads the text of a message that is sent or edited.
func (s *Server) text(c Call, a args) (text string, looks []Look, refused *Fault) {
	if until := s.floods[c.Chat]; time.Now().Before(until) {
		s.Complain("chat %d was to be left alone for another %v", c.Chat, time.Until(until))
		delete(s.floods, c.Chat) // one complaint for each wait that was not kept
	}
	text, wrong := c.Text, ""
	switch a.text("parse_mode") {
	case "":
	case "HTML":
		if text, looks, wrong = Parse(c.Text); wrong != "" {
			return "", nil, bad("can't parse entities: %s", wrong)
		}
	default:
		return "", nil, bad("unsupported parse_mode")
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", nil, bad("message text is empty")
	case len(utf16.Encode([]rune(text))) > 4096:
		return "", nil, bad("message is too long")
	}
	return text, looks, nil
}

// answer notes which message another one answers.
func (m *Shown) answer(r *room, a args) *Fault {
	var answers struct {
		ID      int64 `json:"message_id"`
		Without bool  `json:"allow_sending_without_reply"`
	}
	_ = json.Unmarshal(a["reply_parameters"], &answers)
	if answers.ID != 0 && r.messages[answers.ID] == nil {
		if !answers.Without {
			return bad("message to be replied not found")
		}
		answers.ID = 0
	}
	m.ReplyTo = answers.ID
	return nil
}

// show adds a message of the bot to a chat. A field of it has a content of its own.
func (s *Server) show(r *room, m Shown, field string, content any) any {
	r.last++
	m.ID = r.last
	r.shown = append(r.shown, m)
	me := Bot
	me.Username = s.username
	body := map[string]any{"message_id": m.ID, "from": me, "chat": r.Chat, "date": time.Now().Unix(), field: content}
	if m.Thread != 0 {
		body["message_thread_id"], body["is_topic_message"] = m.Thread, true
	}
	r.messages[m.ID] = body
	return body
}

// Limits of files that bots send, in bytes.
const (
	maxPhoto  = 10_000_000
	maxUpload = 50_000_000
)

// sendFile shows a file: a photo is an image of three kinds, and a voice is a recording in OGG.
func (s *Server) sendFile(c Call, a args, kind string) (any, *Fault) {
	r, refused := s.place(c)
	if refused != nil {
		return nil, refused
	}
	var up Upload
	if err := json.Unmarshal(a[kind], &up); err != nil || up.Name == "" {
		return nil, bad("there is no %s in the request", kind)
	}
	m := Shown{Text: a.text("caption"), Thread: c.Thread, Kind: kind, File: &up}
	if refused := m.answer(r, a); refused != nil {
		return nil, refused
	}
	is := http.DetectContentType(up.Content)
	switch {
	case len(up.Content) == 0:
		return nil, bad("file must be non-empty")
	case len(up.Content) > maxUpload:
		return nil, &Fault{Code: 413, Description: "Request Entity Too Large"}
	case kind == "photo" && len(up.Content) > maxPhoto:
		return nil, bad("file is too big for a photo")
	case kind == "photo" && !strings.HasPrefix(is, "image/"):
		return nil, bad("IMAGE_PROCESS_FAILED")
	case kind == "voice" && is != "application/ogg":
		return nil, bad("wrong file type")
	case len(utf16.Encode([]rune(m.Text))) > 1024:
		return nil, bad("message caption is too long")
	}
	return s.show(r, m, kind, map[string]any{"file_id": "f" + strconv.FormatInt(r.last, 10)}), nil
}

// buttons reads a keyboard below a message.
func buttons(raw json.RawMessage) (rows [][]Button, refused *Fault) {
	if raw == nil {
		return nil, nil
	}
	var markup struct {
		Rows [][]struct {
			Text string `json:"text"`
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	}
	if err := json.Unmarshal(raw, &markup); err != nil {
		return nil, bad("can't parse reply keyboard markup JSON object")
	}
	for _, row := range markup.Rows {
		var all []Button
		for _, b := range row {
			if b.Text == "" || b.Data == "" || len(b.Data) > 64 {
				return nil, bad("BUTTON_DATA_INVALID")
			}
			all = append(all, Button(b))
		}
		rows = append(rows, all)
	}
	return rows, nil
}
