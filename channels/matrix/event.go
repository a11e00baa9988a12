package matrix

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Types of events that mean something to the account.
const (
	typeMessage   = "m.room.message"
	typeEncrypted = "m.room.encrypted"
	typeRedaction = "m.room.redaction"
	typeSticker   = "m.sticker"
	typeReaction  = "m.reaction"
	typeMember    = "m.room.member"
	typeTombstone = "m.room.tombstone"
)

// event is something that happened in a room. Fields that Corebot does not read are left out.
type event struct {
	ID       string          `json:"event_id"`
	Type     string          `json:"type"`
	Sender   string          `json:"sender"`
	StateKey *string         `json:"state_key"`
	Sent     float64         `json:"origin_server_ts"`
	Redacts  string          `json:"redacts"`
	Content  json.RawMessage `json:"content"`
	Unsigned struct {
		Transaction   string `json:"transaction_id"`
		ReplacesState string `json:"replaces_state"`
		PrevContent   *struct {
			Membership string `json:"membership"`
		} `json:"prev_content"`
	} `json:"unsigned"`

	wrong error // it has a form that Corebot does not know
}

// UnmarshalJSON takes an event of any form: one that cannot be read must not hold up the others.
func (e *event) UnmarshalJSON(data []byte) error {
	type plain event
	var p plain
	if err := lenient(data, &p); err != nil {
		*e = event{wrong: err}
		return nil
	}
	*e = event(p)
	switch {
	case !isUser(e.Sender):
		e.wrong = errors.New("it has no sender")
	case e.Type == "":
		e.wrong = errors.New("it has no type")
	}
	return nil
}

// named says whether the event has an id: events of the state of an invitation have none.
func (e event) named() error {
	if e.wrong == nil && !isEvent(e.ID) {
		return fmt.Errorf("%.300q is no id of an event", e.ID)
	}
	return e.wrong
}

// member is the content of an event about somebody's membership.
type member struct {
	Membership string `json:"membership"`
	Name       string `json:"displayname"`
	Direct     bool   `json:"is_direct"`
}

// of gives whose membership an event is about, and what it is.
func (e event) member() (of string, m member) {
	if e.Type != typeMember || e.StateKey == nil || lenient(e.Content, &m) != nil {
		return "", member{}
	}
	return *e.StateKey, m
}

// relation says to which event another belongs, and how.
type relation struct {
	Type      string `json:"rel_type"`
	Event     string `json:"event_id"`
	Key       string `json:"key"` // of a reaction: the sign
	Fallback  bool   `json:"is_falling_back"`
	InReplyTo *struct {
		Event string `json:"event_id"`
	} `json:"m.in_reply_to"`
}

const (
	relThread  = "m.thread"
	relReplace = "m.replace"
	relReact   = "m.annotation"
)

// thread is the root of the thread that an event stands in; empty: none.
func (r relation) thread() string {
	if r.Type == relThread && isEvent(r.Event) {
		return r.Event
	}
	return ""
}

// answers is the event to which another is a reply; empty: none. In a thread each event names an earlier one, for
// programs that know no threads.
func (r relation) answers() string {
	if r.InReplyTo == nil || r.Fallback || !isEvent(r.InReplyTo.Event) {
		return ""
	}
	return r.InReplyTo.Event
}

// content is the content of a message.
type content struct {
	Kind     string  `json:"msgtype"`
	Body     string  `json:"body"`
	HTML     string  `json:"formatted_body"`
	FileName string  `json:"filename"`
	URL      string  `json:"url"` // of a file: mxc://SERVER/ID; an encrypted one has it in File
	Geo      string  `json:"geo_uri"`
	Redacts  string  `json:"redacts"` // of a redaction, in newer rooms
	Sent     *string `json:"com.github.corebot.sent"`
	Info     struct {
		Type string `json:"mimetype"`
	} `json:"info"`
	Mentions *struct {
		Users []string `json:"user_ids"`
	} `json:"m.mentions"`
	Relates relation        `json:"m.relates_to"`
	New     json.RawMessage `json:"m.new_content"`
	File    json.RawMessage `json:"file"` // of an encrypted file: its address, key and hash
}

// contentOf reads a content; what has another form is empty.
func contentOf(data json.RawMessage) (c content) {
	if err := lenient(data, &c); err != nil {
		return content{}
	}
	return c
}
