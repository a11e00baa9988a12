package discordtest

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

// routes are the requests that the platform takes here.
var routes = []struct {
	method, path, name string
}{
	{"GET", "users/@me", "me"},
	{"GET", "applications/@me", "application"},
	{"GET", "oauth2/applications/@me", "application"},
	{"GET", "gateway", "gateway"},
	{"GET", "gateway/bot", "gateway"},
	{"PUT", "applications/ID/commands", "commands"},
	{"GET", "users/@me/guilds", "guilds"},
	{"GET", "guilds/ID/channels", "channels"},
	{"GET", "guilds/ID/threads/active", "threads"},
	{"GET", "guilds/ID/members/ID", "member"},
	{"GET", "channels/ID", "channel"},
	{"GET", "channels/ID/messages", "messages"},
	{"POST", "channels/ID/messages", "send"},
	{"PATCH", "channels/ID/messages/ID", "edit"},
	{"DELETE", "channels/ID/messages/ID", "delete"},
	{"POST", "channels/ID/typing", "typing"},
	{"POST", "interactions/ID/TOKEN/callback", "callback"},
}

var isNumber = regexp.MustCompile(`^[0-9]{1,20}$`)

// route names a request.
func route(r *http.Request, path string) (c Call, known bool) {
	parts := strings.Split(path, "/")
	for _, x := range routes {
		want := strings.Split(x.path, "/")
		if x.method != r.Method || len(want) != len(parts) {
			continue
		}
		same := true
		for i, w := range want {
			same = same && (w == parts[i] || w == "ID" && isNumber.MatchString(parts[i]) || w == "TOKEN")
		}
		if !same {
			continue
		}
		c.Name = x.name
		if parts[0] == "channels" {
			c.Channel = parts[1]
		}
		if c.Name == "send" && strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
			return c, c.form(r)
		}
		c.Body, _ = io.ReadAll(io.LimitReader(r.Body, 1<<20))
		return c, true
	}
	return c, false
}

// form reads a message with one file.
func (c *Call) form(r *http.Request) bool {
	if r.ParseMultipartForm(1<<20) != nil || len(r.MultipartForm.File["files[0]"]) != 1 ||
		len(r.PostForm["payload_json"]) != 1 {
		return false
	}
	c.Body = json.RawMessage(r.PostForm["payload_json"][0])
	f, err := r.MultipartForm.File["files[0]"][0].Open()
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(f)
	c.File = &Upload{r.MultipartForm.File["files[0]"][0].Filename, string(content)}
	return err == nil
}

// maxUpload is the size of a request that the platform takes from a bot in a server without boosts.
const maxUpload = 10 << 20

// attach puts a file beside a message. The platform changes the file's name.
func (a sent) attach(m map[string]any, up *Upload) *Fault {
	if up == nil {
		return nil
	}
	if len(a.Attachments) > 1 || up.Content == "" {
		return bad("attachments")
	}
	for _, told := range a.Attachments {
		if fmt.Sprint(told.ID) != "0" || told.Name != "" && told.Name != up.Name {
			return bad("attachments")
		}
	}
	if len(up.Content) > maxUpload {
		return &Fault{Status: 413, Code: 40005, Message: fmt.Sprintf("Request entity too large: %d", len(up.Content))}
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '_'
		case r == '"':
			return -1
		}
		return r
	}, up.Name)
	m["attachments"] = []any{map[string]any{
		"id": m["id"], "filename": name, "size": len(up.Content), "content_type": "application/octet-stream",
		"url": "https://cdn.discordapp.com/attachments/1/2/" + name, "proxy_url": "https://media.discordapp.net/x",
	}}
	return nil
}

// Uploads are the files of the bot that a channel shows, in order, as "NAME: BYTES".
func (s *Server) Uploads(channel string) (files []string) {
	for _, m := range s.Shown(channel) {
		if m.File != nil {
			files = append(files, m.File.Name+": "+m.File.Content)
		}
	}
	return files
}

func bad(message string) *Fault {
	return &Fault{Status: 400, Code: 50035, Message: "Invalid Form Body: " + message}
}

func (s *Server) flags() int {
	if s.Content {
		return 1 << 19
	}
	return 0
}

// do carries out a request.
func (s *Server) do(c Call, r *http.Request, path string) (any, *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(path, "/")
	if until := time.Until(s.global); until > 0 {
		s.Complain("%s: everything was to be left alone for another %v", c.Name, until)
	}
	switch c.Name {
	case "me":
		return bot.object(), nil
	case "application":
		return map[string]any{
			"id": AppID, "name": "Corebot", "flags": s.flags(), "description": "", "bot": bot.object(),
		}, nil
	case "gateway":
		return map[string]any{"url": s.gatewayURL(), "shards": 1, "session_start_limit": map[string]any{
			"total": 1000, "remaining": max(s.starts, 0), "reset_after": 3_600_000, "max_concurrency": 1,
		}}, nil
	case "commands":
		return s.setCommands(parts[1], c.Body)
	case "guilds":
		return s.listGuilds(r)
	case "channels", "threads":
		return s.listChannels(parts[1], c.Name == "threads")
	case "member":
		if parts[3] != BotID {
			return nil, &Fault{Status: 404, Code: 10007, Message: "Unknown Member"}
		}
		m := bot.member()
		m["user"] = bot.object()
		return m, nil
	case "callback":
		return s.callback(parts[1], parts[2], c.Body)
	}
	ch := s.channels[c.Channel]
	switch {
	case ch == nil:
		return nil, &Fault{Status: 404, Code: 10003, Message: "Unknown Channel"}
	case ch.hidden:
		return nil, &Fault{Status: 403, Code: 50001, Message: "Missing Access"}
	case c.Name == "channel":
		return ch.object(), nil
	case c.Name == "messages":
		return s.history(ch, r)
	case ch.mute:
		return nil, &Fault{Status: 403, Code: 50013, Message: "Missing Permissions"}
	}
	f := s.floods[c.route()]
	if until := time.Until(f.until); until > 0 && time.Since(f.told) > underWay {
		s.Complain("channel %s was to be left alone for another %v by %s", c.Channel, until, c.Name)
	}
	if c.Name == "typing" {
		ch.typing++
		return nil, nil
	}
	switch c.Name {
	case "edit":
		return s.editMessage(ch, parts[3], c.Body)
	case "delete":
		return s.remove(ch, parts[3])
	}
	return s.send(ch, c.Body, c.File)
}

func (s *Server) listGuilds(r *http.Request) (any, *Fault) {
	found := []map[string]any{}
	for _, g := range slices.Sorted(slices.Values(s.guilds)) {
		if after := r.URL.Query().Get("after"); number(g) > number(after) {
			found = append(found, map[string]any{"id": g, "name": "Server", "owner": false, "permissions": "0"})
		}
	}
	return found, nil
}

func (s *Server) listChannels(guild string, threads bool) (any, *Fault) {
	if !slices.Contains(s.guilds, guild) {
		return nil, &Fault{Status: 404, Code: 10004, Message: "Unknown Guild"}
	}
	found := []map[string]any{}
	for _, c := range s.channels {
		if c.guild == guild && (c.kind == Thread) == threads {
			found = append(found, c.object())
		}
	}
	if threads {
		return map[string]any{"threads": found, "members": []any{}}, nil
	}
	return found, nil
}

// object is a channel as the platform tells it.
func (c *channel) object() map[string]any {
	o := map[string]any{"id": c.id, "type": c.kind, "flags": 0, "last_message_id": nil}
	if n := len(c.messages); n > 0 {
		o["last_message_id"] = c.messages[n-1]["id"]
	}
	if c.guild == "" {
		o["recipients"] = []any{Ann.object()}
		return o
	}
	o["guild_id"], o["name"], o["position"], o["permission_overwrites"] = c.guild, "channel-"+c.id, 0, []any{}
	if c.kind == Thread {
		o["parent_id"], o["owner_id"] = c.parent, Ann.ID
		o["member_count"], o["message_count"], o["total_message_sent"] = 1, len(c.messages), len(c.messages)
		o["thread_metadata"] = map[string]any{
			"archived": false, "auto_archive_duration": 1440, "archive_timestamp": "2026-01-01T00:00:00+00:00",
			"locked": false,
		}
	}
	return o
}

// guild is a server as an event tells it.
func (s *Server) guild(id string) map[string]any {
	channels, threads := []any{}, []any{}
	for _, c := range s.channels {
		if c.guild == id && c.kind == Thread {
			threads = append(threads, c.object())
		} else if c.guild == id {
			channels = append(channels, c.object())
		}
	}
	me := bot.member()
	me["user"] = bot.object()
	everyone := map[string]any{
		"id": id, "name": "@everyone", "color": 0, "colors": map[string]any{"primary_color": 0}, "hoist": false,
		"position": 0, "permissions": "8", "managed": false, "mentionable": false, "flags": 0,
	}
	return map[string]any{
		"id": id, "name": "Server", "icon": nil, "owner_id": Ann.ID, "roles": []any{everyone}, "emojis": []any{},
		"stickers": []any{}, "features": []any{}, "channels": channels, "threads": threads, "members": []any{me},
		"member_count": 2, "large": false, "unavailable": false, "voice_states": []any{}, "presences": []any{},
		"stage_instances": []any{}, "guild_scheduled_events": []any{}, "joined_at": joined.Format(time.RFC3339),
		"verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0, "mfa_level": 0,
		"nsfw_level": 0, "premium_tier": 0, "preferred_locale": "en-US", "system_channel_flags": 0, "afk_timeout": 300,
		"soundboard_sounds": []any{}, "premium_progress_bar_enabled": false,
	}
}

// history gives messages of a channel: those right behind an id, or the newest; newest first.
func (s *Server) history(c *channel, r *http.Request) (any, *Fault) {
	limit := 50
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > 100 {
			return nil, bad("limit")
		}
	}
	found := []map[string]any{}
	after := r.URL.Query().Get("after")
	for _, m := range c.messages {
		if after == "" || number(m["id"].(string)) > number(after) {
			found = append(found, without(m, "nonce", "guild_id", "member"))
		}
	}
	if after == "" {
		found = found[max(len(found)-limit, 0):]
	} else {
		found = found[:min(len(found), limit)]
	}
	slices.Reverse(found)
	return found, nil
}

func without(m map[string]any, names ...string) map[string]any {
	kept := map[string]any{}
	for name, value := range m {
		if !slices.Contains(names, name) {
			kept[name] = value
		}
	}
	return kept
}

func number(id string) uint64 {
	n, _ := strconv.ParseUint(id, 10, 64)
	return n
}

// sent is the body of a message of the bot.
type sent struct {
	Content  string `json:"content"`
	Nonce    any    `json:"nonce"`
	Enforce  bool   `json:"enforce_nonce"`
	Flags    int    `json:"flags"`
	TTS      bool   `json:"tts"`
	Mentions *struct {
		Parse       []string `json:"parse"`
		RepliedUser bool     `json:"replied_user"`
	} `json:"allowed_mentions"`
	Reference *struct {
		Message string `json:"message_id"`
		Channel string `json:"channel_id"`
		Guild   string `json:"guild_id"`
		Type    int    `json:"type"`
		Fail    *bool  `json:"fail_if_not_exists"`
	} `json:"message_reference"`
	Components []struct {
		Type    int `json:"type"`
		Buttons []struct {
			Type    int    `json:"type"`
			Style   int    `json:"style"`
			Label   string `json:"label"`
			Command string `json:"custom_id"`
		} `json:"components"`
	} `json:"components"`
	Embeds      []any `json:"embeds"`
	Attachments []struct {
		ID   any    `json:"id"` // a number, also as a text
		Name string `json:"filename"`
	} `json:"attachments"`
	Stickers []any `json:"sticker_ids"`
}

// send shows a message of the bot.
func (s *Server) send(c *channel, body json.RawMessage, file *Upload) (any, *Fault) {
	var a sent
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		s.Complain("a message: %v", err)
		return nil, bad(err.Error())
	}
	nonce, _ := a.Nonce.(string)
	switch {
	case strings.TrimSpace(a.Content) == "" && len(a.Embeds) == 0 && file == nil:
		return nil, &Fault{Status: 400, Code: 50006, Message: "Cannot send an empty message"}
	case utf8.RuneCountInString(a.Content) > 2000:
		return nil, bad("content: BASE_TYPE_MAX_LENGTH")
	case utf8.RuneCountInString(nonce) > 25:
		return nil, bad("nonce: BASE_TYPE_MAX_LENGTH")
	}
	if before := c.nonces[nonce]; a.Enforce && nonce != "" && before != nil {
		return before, nil
	}
	shown := Shown{Text: strings.TrimSpace(a.Content), Flags: a.Flags, File: file}
	var refused *Fault
	if shown.Rows, refused = a.buttons(); refused != nil {
		return nil, refused
	}
	shown.Buttons = slices.Concat(shown.Rows...)
	m := s.said(c, bot, shown.Text, time.Time{})
	m["flags"] = a.Flags
	if refused = a.attach(m, file); refused != nil {
		return nil, refused
	}
	if r := a.Reference; r != nil {
		switch answered := c.find(r.Message); {
		case answered != nil:
			m["type"], m["referenced_message"] = 19, without(answered, "nonce", "guild_id", "member")
			m["message_reference"] = map[string]any{"type": 0, "message_id": r.Message, "channel_id": c.id}
			shown.ReplyTo = r.Message
		case r.Fail == nil || *r.Fail:
			return nil, bad("message_reference: MESSAGE_REFERENCE_UNKNOWN_MESSAGE")
		}
	}
	if nonce != "" {
		m["nonce"] = nonce
		if c.nonces == nil {
			c.nonces = map[string]map[string]any{}
		}
		c.nonces[nonce] = m
	}
	shown.ID = m["id"].(string)
	c.messages, c.shown = append(c.messages, m), append(c.shown, shown)
	s.tell("MESSAGE_CREATE", c, bot, m)
	return m, nil
}

// buttons checks what stands below a message.
func (a sent) buttons() (rows [][]Button, refused *Fault) {
	if len(a.Components) > 5 {
		return nil, bad("components: too many rows")
	}
	seen := map[string]bool{}
	for _, row := range a.Components {
		if row.Type != 1 || len(row.Buttons) < 1 || len(row.Buttons) > 5 {
			return nil, bad("components: a row")
		}
		var all []Button
		for _, b := range row.Buttons {
			if b.Type != 2 || b.Style < 1 || b.Style > 4 || b.Label == "" || utf8.RuneCountInString(b.Label) > 80 ||
				b.Command == "" || utf8.RuneCountInString(b.Command) > 100 || seen[b.Command] {
				return nil, bad(fmt.Sprintf("components: the button %q", b.Label))
			}
			seen[b.Command] = true
			all = append(all, Button{b.Label, b.Command})
		}
		rows = append(rows, all)
	}
	return rows, nil
}

func (c *channel) find(id string) map[string]any {
	for _, m := range c.messages {
		if m["id"] == id {
			return m
		}
	}
	return nil
}

var commandName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

// described is a command, or what stands behind one.
type described struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Type        int         `json:"type"`
	Required    bool        `json:"required,omitempty"`
	Options     []described `json:"options,omitempty"`
}

func (d described) wrong() bool {
	n := utf8.RuneCountInString(d.Description)
	return !commandName.MatchString(d.Name) || n < 1 || n > 100 || slices.ContainsFunc(d.Options, described.wrong)
}

func (s *Server) setCommands(app string, body json.RawMessage) (any, *Fault) {
	var all []described
	if err := json.Unmarshal(body, &all); err != nil || len(all) > 100 || app != AppID {
		return nil, bad("commands")
	}
	s.commands = nil
	for _, c := range all {
		if c.wrong() {
			return nil, bad("the command " + c.Name)
		}
		s.commands = append(s.commands, c.Name)
	}
	return all, nil
}

// callback is the answer to an interaction. It is late 3 s after the interaction.
func (s *Server) callback(id, token string, body json.RawMessage) (any, *Fault) {
	if s.waiting[id] != token {
		return nil, &Fault{Status: 404, Code: 10062, Message: "Unknown interaction"}
	}
	var a struct {
		Type int `json:"type"`
		Data struct {
			Content string `json:"content"`
			Flags   int    `json:"flags"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &a) != nil || a.Type != 4 && a.Type != 6 || a.Type == 4 && a.Data.Content == "" {
		return nil, bad("type")
	}
	delete(s.waiting, id)
	s.answers = append(s.answers, a.Data.Content)
	return nil, nil
}
