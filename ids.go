package corebot

import (
	"fmt"
	"strings"
)

// Ids of messages are made in three ways, and no two of them can make the same one in a lane:
//
//   - What comes in has the id that its channel or its sender gave it. It never begins with [OwnIDs]; see [CheckID].
//   - What answers it has that id with a name behind it: RunID/ordinal for replies, RunID/name for notices, and the name
//     alone for the notices of control messages. Read from its end, such an id tells what it is made of: ordinals and runs
//     are numbers, and no two kinds have the same name.
//   - What Corebot sends by itself has an id that begins with OwnIDs and the name of its kind.

// OwnIDs begins the ids of messages that answer nothing.
const OwnIDs = "corebot:"

// OwnID is the id of a message that Corebot sends by itself: its kind, and what tells it from others of its kind. The
// parts have no slashes.
func OwnID(kind string, parts ...any) string {
	var b strings.Builder
	b.WriteString(OwnIDs + kind)
	for _, p := range parts {
		fmt.Fprintf(&b, "/%v", p)
	}
	return b.String()
}

// CheckID refuses an id that a sender may not give his message: it is Corebot's own.
func CheckID(id string) error {
	if strings.HasPrefix(id, OwnIDs) {
		return WithHint(fmt.Errorf("%w: id %q: ids that begin with %q are Corebot's own", ErrInvalid, id, OwnIDs),
			"give the message another id")
	}
	return nil
}
