package slack

import (
	"encoding/json"
)

// envelope is what comes by the socket.
type envelope struct {
	Type     string          `json:"type"`
	ID       string          `json:"envelope_id"`
	Payload  json.RawMessage `json:"payload"`
	Reason   string          `json:"reason"` // of a disconnect
	Programs int             `json:"num_connections"`
}

// callback is the payload of an event.
type callback struct {
	Team  string          `json:"team_id"`
	Event json.RawMessage `json:"event"`
}

// message is one that somebody wrote, as an event or in a history. Fields that Corebot does not read are left out.
type message struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Hidden  bool   `json:"hidden"`
	Channel string `json:"channel"`
	User    string `json:"user"`
	Team    string `json:"user_team"` // of somebody of another workspace, in a channel that is shared
	Bot     string `json:"bot_id"`
	Name    string `json:"username"` // of an app
	TS      string `json:"ts"`
	Thread  string `json:"thread_ts"`
	Begun   string `json:"parent_user_id"` // who has begun the thread
	Last    string `json:"latest_reply"`   // of the beginning of a thread, in a history
	Text    string `json:"text"`
	Files   []file `json:"files"`
	Edited  *struct {
		TS string `json:"ts"`
	} `json:"edited"`
	Metadata struct {
		Type    string `json:"event_type"`
		Payload struct {
			Key string `json:"key"`
		} `json:"event_payload"`
	} `json:"metadata"`

	Blocks []struct {
		ID string `json:"block_id"`
	} `json:"blocks"`

	Message  *message `json:"message"` // of an edit
	Previous *message `json:"previous_message"`
	Deleted  string   `json:"deleted_ts"`
}

type file struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	MIME string `json:"mimetype"`
	Mode string `json:"mode"` // of a file that Slack does not keep itself: external
	URL  string `json:"url_private"`
}

// press is a press of a button.
type press struct {
	Type string `json:"type"`
	User struct {
		ID   string `json:"id"`
		Name string `json:"username"`
		Team string `json:"team_id"`
	} `json:"user"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
	Message struct {
		TS     string `json:"ts"`
		Thread string `json:"thread_ts"`
	} `json:"message"`
	Actions []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
		At    string `json:"action_ts"`
	} `json:"actions"`
}

// slash is a slash command of the app.
type slash struct {
	Command string `json:"command"`
	Text    string `json:"text"`
	User    string `json:"user_id"`
	Name    string `json:"user_name"`
	Team    string `json:"team_id"`
	Channel string `json:"channel_id"`
	Trigger string `json:"trigger_id"`
}

// UnmarshalJSON takes a message of any form: one that cannot be read must not hold up those beside it.
func (m *message) UnmarshalJSON(data []byte) error {
	type plain message
	var p plain
	if json.Unmarshal(data, &p) != nil {
		var named struct {
			TS string `json:"ts"`
		}
		_ = json.Unmarshal(data, &named) // then it has no name either, and is left out
		p = plain{Subtype: "unreadable", TS: named.TS}
	}
	*m = message(p)
	return nil
}
