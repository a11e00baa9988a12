package telegram

import (
	"encoding/json"
	"errors"
	"fmt"
)

// update is something that happened, as the platform tells it. Fields that Corebot does not read are left out.
type update struct {
	ID       int64     `json:"update_id"`
	Message  *message  `json:"message"`
	Edited   *message  `json:"edited_message"`
	Callback *callback `json:"callback_query"`

	wrong error // it has a form that Corebot does not know
}

// UnmarshalJSON takes an update of any form that has a number: an update that cannot be read must not hold up those
// behind it.
func (u *update) UnmarshalJSON(data []byte) error {
	var numbered struct {
		ID *int64 `json:"update_id"`
	}
	if err := json.Unmarshal(data, &numbered); err != nil || numbered.ID == nil {
		return fmt.Errorf("an update has no number: %w", errors.Join(err))
	}
	type plain update
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		p = plain{wrong: err}
	}
	p.ID = *numbered.ID
	*u = update(p)
	return nil
}

type user struct {
	ID        int64  `json:"id"`
	IsBot     bool   `json:"is_bot"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	Username  string `json:"username"`
}

type chat struct {
	ID    int64  `json:"id"`
	Type  string `json:"type"`
	Title string `json:"title"`
}

// entity is a part of a text with a meaning; places are in UTF-16 units.
type entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
	URL    string `json:"url"`
	User   *user  `json:"user"`
}

// file is a file of any kind.
type file struct {
	ID    string `json:"file_id"`
	Name  string `json:"file_name"`
	MIME  string `json:"mime_type"`
	Emoji string `json:"emoji"` // of a sticker
}

type message struct {
	ID         int64  `json:"message_id"`
	Thread     int64  `json:"message_thread_id"`
	InTopic    bool   `json:"is_topic_message"`
	From       *user  `json:"from"`
	SenderChat *chat  `json:"sender_chat"`
	Signature  string `json:"author_signature"`
	Chat       chat   `json:"chat"`
	Date       int64  `json:"date"`
	EditDate   int64  `json:"edit_date"`

	Forward     *struct{} `json:"forward_origin"`
	AutoForward bool      `json:"is_automatic_forward"`
	ViaBot      *user     `json:"via_bot"`
	ReplyTo     *message  `json:"reply_to_message"`
	TopicMade   *struct{} `json:"forum_topic_created"`

	Text            string   `json:"text"`
	Entities        []entity `json:"entities"`
	Caption         string   `json:"caption"`
	CaptionEntities []entity `json:"caption_entities"`

	Photo     []file `json:"photo"`
	Document  *file  `json:"document"`
	Audio     *file  `json:"audio"`
	Voice     *file  `json:"voice"`
	Video     *file  `json:"video"`
	VideoNote *file  `json:"video_note"`
	Animation *file  `json:"animation"`
	Sticker   *file  `json:"sticker"`
	Location  *struct {
		Latitude  float64 `json:"latitude"`
		Longitude float64 `json:"longitude"`
	} `json:"location"`
	Venue *struct {
		Title   string `json:"title"`
		Address string `json:"address"`
	} `json:"venue"`
	Contact *struct {
		user
		Phone string `json:"phone_number"`
	} `json:"contact"`
	Poll *struct {
		Question string `json:"question"`
		Options  []struct {
			Text string `json:"text"`
		} `json:"options"`
	} `json:"poll"`
	Dice *struct {
		Emoji string `json:"emoji"`
		Value int    `json:"value"`
	} `json:"dice"`
}

// callback is the press of a button.
type callback struct {
	ID      string   `json:"id"`
	From    user     `json:"from"`
	Message *message `json:"message"`
	Data    string   `json:"data"`
}
