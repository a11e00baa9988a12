package corebot

import (
	"strconv"
	"strings"
)

// Post is a message that the agent sends into a conversation by itself, in answer to nothing that was said there.
type Post struct {
	To    Key
	Text  string
	Known bool // refuse a conversation that nobody has ever used
}

// postPrefix begins the ids of posts.
const postPrefix = "sent/"

// PostID is the id of a message that a step sends. It names the life, which is one in all conversations, and not the message of the turn, whose
// id may be that of another in the conversation that the post goes to.
func (d Delivery) PostID(position int) string {
	return postPrefix + strconv.FormatInt(d.Life, 10) + "/" + strconv.Itoa(d.Run) + "/" + strconv.Itoa(position)
}

// Posted says of an entry of the history that it was sent there by a turn of another conversation.
func (e Entry) Posted() bool {
	return e.Speaker == SpeakerAssistant && strings.HasPrefix(e.MessageID, postPrefix)
}
