package discord

import (
	"encoding/json"
	"fmt"
)

// message is what was said, as the platform tells it. Fields that Corebot does not read are left out.
type message struct {
	ID      string  `json:"id"`
	Channel string  `json:"channel_id"`
	Guild   string  `json:"guild_id"` // empty: a direct chat
	Type    int     `json:"type"`
	Author  *user   `json:"author"`
	Member  *member `json:"member"`
	Webhook string  `json:"webhook_id"`
	Content string  `json:"content"`
	Edited  string  `json:"edited_timestamp"`
	Nonce   any     `json:"nonce"`

	Mentions    []user       `json:"mentions"`
	Attachments []attachment `json:"attachments"`
	Stickers    []struct {
		Name string `json:"name"`
	} `json:"sticker_items"`
	Poll *struct {
		Question struct {
			Text string `json:"text"`
		} `json:"question"`
		Answers []struct {
			Media struct {
				Text string `json:"text"`
			} `json:"poll_media"`
		} `json:"answers"`
	} `json:"poll"`
	Reference *struct {
		Type    int    `json:"type"`
		Message string `json:"message_id"`
	} `json:"message_reference"`
	Referenced *struct {
		Author user `json:"author"`
	} `json:"referenced_message"`
	Snapshots []struct {
		Message struct {
			Content     string       `json:"content"`
			Attachments []attachment `json:"attachments"`
		} `json:"message"`
	} `json:"message_snapshots"`

	wrong error // it has a form that Corebot does not know
}

// Types of messages that people write, and of references.
const (
	typeSaid     = 0
	typeReply    = 19
	refForwarded = 1
)

// UnmarshalJSON takes a message of any form: one that cannot be read must not hold up the others.
func (m *message) UnmarshalJSON(data []byte) error {
	type plain message
	var p plain
	if err := lenient(data, &p); err != nil {
		*m = message{wrong: err}
		return nil
	}
	*m = message(p)
	if !isID(m.ID) || !isID(m.Channel) || m.Guild != "" && !isID(m.Guild) || m.Author != nil && !isID(m.Author.ID) {
		m.wrong = fmt.Errorf("message %.100q of channel %.100q has no ids", m.ID, m.Channel)
	}
	return nil
}

// member is somebody in a server.
type member struct {
	Nick string `json:"nick"`
	User *user  `json:"user"`
}

// attachment is a file beside a message.
type attachment struct {
	Name string `json:"filename"`
	Type string `json:"content_type"`
	Size int64  `json:"size"`
	URL  string `json:"url"`
}

// deletion is a message, or several, that somebody took back.
type deletion struct {
	ID      string   `json:"id"`
	IDs     []string `json:"ids"`
	Channel string   `json:"channel_id"`
	Guild   string   `json:"guild_id"`
}

// reaction is a sign that somebody puts at a message.
type reaction struct {
	User    string  `json:"user_id"`
	Channel string  `json:"channel_id"`
	Message string  `json:"message_id"`
	Guild   string  `json:"guild_id"`
	Author  string  `json:"message_author_id"` // who wrote the message
	Member  *member `json:"member"`
	Emoji   struct {
		ID   string `json:"id"` // of one that a server has made; empty: it is a sign of Unicode
		Name string `json:"name"`
	} `json:"emoji"`
}

// interaction is the press of a button, or a slash command.
type interaction struct {
	ID      string   `json:"id"`
	Type    int      `json:"type"`
	Token   string   `json:"token"`
	Guild   string   `json:"guild_id"`
	Channel *spot    `json:"channel"`
	Where   string   `json:"channel_id"`
	User    *user    `json:"user"`
	Member  *member  `json:"member"`
	Message *message `json:"message"`
	Data    struct {
		Name    string `json:"name"`
		Command string `json:"custom_id"`
		Options []struct {
			Value any `json:"value"`
		} `json:"options"`
	} `json:"data"`
}

// Types of interactions.
const (
	typeCommand = 2
	typePress   = 3
)

// decoded reads the data of an event.
func decoded[T any](e payload) (v T, err error) {
	if err = lenient(e.Data, &v); err != nil {
		err = fmt.Errorf("an event %.60q: %w", e.Type, err)
	}
	return v, err
}

var _ json.Unmarshaler = (*message)(nil)
