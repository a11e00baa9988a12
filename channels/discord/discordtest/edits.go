package discordtest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MostEdits is how many edits in a channel the platform takes in [Server.EditsIn].
const MostEdits = 5

// edits are those of a channel in one span of time.
type edits struct {
	left  int
	fresh time.Time // when all are left again
}

// budget counts an edit, and tells the bot how many are left. It refuses one too many.
func (s *Server) budget(w http.ResponseWriter, c Call) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Name != "edit" {
		return nil
	}
	b := s.budgets[c.Channel]
	if b == nil || time.Now().After(b.fresh) {
		b = &edits{left: MostEdits, fresh: time.Now().Add(s.EditsIn)}
		s.budgets[c.Channel] = b
	}
	after := float64(time.Until(b.fresh)/time.Millisecond+1) / 1000 // rounded up: whoever waits so long is never early
	refused := b.left == 0
	b.left = max(b.left-1, 0)
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(MostEdits))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(b.left))
	h.Set("X-RateLimit-Reset-After", strconv.FormatFloat(after, 'f', 3, 64))
	h.Set("X-RateLimit-Bucket", "edits")
	if !refused {
		return nil
	}
	f := Flood(after)
	return &f
}

// editMessage gives a message of the bot another text.
func (s *Server) editMessage(c *channel, id string, body json.RawMessage) (any, *Fault) {
	var a sent
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		s.Complain("an edit: %v", err)
		return nil, bad(err.Error())
	}
	at := slices.IndexFunc(c.messages, func(m map[string]any) bool { return m["id"] == id })
	i := slices.IndexFunc(c.shown, func(m Shown) bool { return m.ID == id })
	switch {
	case at < 0:
		return nil, &Fault{Status: 404, Code: 10008, Message: "Unknown Message"}
	case i < 0:
		return nil, &Fault{Status: 403, Code: 50005, Message: "Cannot edit a message authored by another user"}
	case a.Nonce != nil || a.Reference != nil || a.Enforce:
		s.Complain("an edit has what only a new message has: %s", body)
	case a.Flags&^flagNoEmbeds != 0:
		return nil, bad("flags: only the previews of links can be switched off")
	}
	if strings.TrimSpace(a.Content) == "" {
		return nil, &Fault{Status: 400, Code: 50006, Message: "Cannot send an empty message"}
	}
	if utf8.RuneCountInString(a.Content) > 2000 {
		return nil, bad("content: BASE_TYPE_MAX_LENGTH")
	}
	rows, refused := a.buttons()
	if refused != nil {
		return nil, refused
	}
	m := &c.shown[i]
	m.Edits = append(slices.Clone(m.Edits), m.Text)
	m.Text, m.Rows, m.Flags = strings.TrimSpace(a.Content), rows, a.Flags
	m.Buttons = slices.Concat(rows...)
	changed := maps.Clone(c.messages[at])
	changed["content"], changed["flags"] = m.Text, a.Flags
	changed["edited_timestamp"] = time.Now().UTC().Format(time.RFC3339Nano)
	c.messages[at] = changed
	s.tell("MESSAGE_UPDATE", c, bot, changed)
	return changed, nil
}

// flagNoEmbeds switches the previews of links off.
const flagNoEmbeds = 1 << 2

// remove takes a message of the bot back.
func (s *Server) remove(c *channel, id string) (any, *Fault) {
	i := slices.IndexFunc(c.shown, func(m Shown) bool { return m.ID == id })
	switch {
	case c.find(id) == nil:
		return nil, &Fault{Status: 404, Code: 10008, Message: "Unknown Message"}
	case i < 0:
		return nil, &Fault{Status: 403, Code: 50013, Message: "Missing Permissions"}
	}
	s.drop(c, id)
	return nil, nil
}

// drop takes messages out of a channel, and tells of it. The mutex is held.
func (s *Server) drop(c *channel, ids ...string) {
	c.messages = slices.DeleteFunc(c.messages, func(m map[string]any) bool {
		return slices.Contains(ids, m["id"].(string))
	})
	c.shown = slices.DeleteFunc(slices.Clone(c.shown), func(m Shown) bool { return slices.Contains(ids, m.ID) })
	kind, data := "MESSAGE_DELETE", map[string]any{"id": ids[0], "channel_id": c.id}
	if len(ids) > 1 {
		kind, data = "MESSAGE_DELETE_BULK", map[string]any{"ids": ids, "channel_id": c.id}
	}
	if c.guild != "" {
		data["guild_id"] = c.guild
	}
	s.dispatch(kind, c.guild, data)
}
