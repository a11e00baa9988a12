package telegramtest

import (
	"maps"
	"slices"
	"time"
)

// own is the place of a message of the bot among those that a chat shows.
func (r *room) own(a args) int {
	return slices.IndexFunc(r.shown, func(m Shown) bool { return m.ID == a.int("message_id") })
}

// editMessage gives a message of the bot another text.
func (s *Server) editMessage(c Call, a args) (any, *Fault) {
	r, refused := s.place(c)
	if refused != nil {
		return nil, refused
	}
	i := r.own(a)
	if i < 0 {
		return nil, bad("message to edit not found")
	}
	text, looks, refused := s.text(c, a)
	if refused != nil {
		return nil, refused
	}
	m := r.shown[i]
	if m.Rows, refused = buttons(a["reply_markup"]); refused != nil {
		return nil, refused
	}
	m.Buttons = slices.Concat(m.Rows...)
	if text == m.Text && slices.Equal(looks, m.Looks) && slices.Equal(m.Buttons, r.shown[i].Buttons) {
		return nil, bad("message is not modified: specified new message content and reply markup are exactly the " +
			"same as a current content and reply markup of the message")
	}
	m.Text, m.Looks, m.Edits = text, looks, append(slices.Clone(m.Edits), m.Text)
	r.shown[i] = m
	body := maps.Clone(r.messages[m.ID])
	body["text"], body["edit_date"] = text, time.Now().Unix()
	r.messages[m.ID] = body
	return body, nil
}

func (s *Server) deleteMessage(c Call, a args) (any, *Fault) {
	r, refused := s.place(c)
	if refused != nil {
		return nil, refused
	}
	i := r.own(a)
	if i < 0 {
		return nil, bad("message to delete not found")
	}
	delete(r.messages, r.shown[i].ID)
	r.shown = slices.Delete(r.shown, i, i+1)
	return true, nil
}
