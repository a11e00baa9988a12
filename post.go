package corebot

import (
	"regexp"
	"strings"
)

// postKind is the kind of the ids of messages that [SendMessage] sends: see [OwnID].
const postKind = "sent"

// PostID is the id of a message that a step sends. It names the life, which is one in all conversations, and not the message of the turn, whose
// id may be that of another in the conversation that the post goes to.
func (d Delivery) PostID(position int) string { return OwnID(postKind, d.Life, d.Run, position) }

// earlierPost is how earlier versions of Corebot spelled the id of a post, which a sender could spell, too.
var earlierPost = regexp.MustCompile(`^sent/[0-9]+/[0-9]+/[0-9]+$`)

// Posted says of an entry of the history that it was sent there by a turn of another conversation.
func (e HistoryEntry) Posted() bool {
	own := strings.HasPrefix(e.MessageID, OwnIDs+postKind+"/") || earlierPost.MatchString(e.MessageID)
	return e.Speaker == SpeakerAssistant && own
}
