package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// rooms is what is known of rooms and events, so that the homeserver is asked once. It is bounded, and a restart
// forgets it. Its users hold the mutex of the channel.
type rooms struct {
	people  map[string]int    // how many are at least in a room
	threads map[string]string // the threads of events
	own     map[string]bool   // events that messages answer: whether the account sent them
	sent    map[string]string // what the account has said, by its mark
	looked  int               // how often the homeserver was asked for an event since the last sync
	askers  map[string]int    // how often of these for what one sender has said
}

// mostLooked bounds the questions for events that one sync causes: people choose how many there are.
const mostLooked = 100

// mostOfOne bounds those that one sender causes, so that nobody uses up the questions of the others with replies to
// events that do not exist.
const mostOfOne = 10

// mostSigned bounds those that reactions cause. Where people react to more, questions are left for the answers to the
// account, which are prompts.
const mostSigned = mostLooked / 2

// mostKnown bounds each part of what is known.
const mostKnown = 10_000

// keep puts something into a bounded map. Of too many it forgets one, whichever.
func keep[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	if len(*m) >= mostKnown {
		for other := range *m {
			delete(*m, other)
			break
		}
	}
	(*m)[key] = value
}

// known looks something up under the mutex of the channel.
func known[V any](c *Channel, m *map[string]V, key string) (value V, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, is = (*m)[key]
	return value, is
}

func note[V any](c *Channel, m *map[string]V, key string, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep(m, key, value)
}

// isGroup says whether others than one person and the account read a room. The inviter's own statement counts for
// nothing. A room that the homeserver does not tell about is a group: then nothing is taken for meant for the account.
func (c *Channel) isGroup(ctx context.Context, room string) (bool, error) {
	if n, is := known(c, &c.rooms.people, room); is {
		return n > pair, nil
	}
	found, err := call[struct {
		Joined map[string]struct{} `json:"joined"`
	}](ctx, &c.client, channels.Get("rooms", room, "joined_members"))
	n := len(found.Joined)
	switch refused := (*refusal)(nil); {
	case errors.As(err, &refused) && refused.status < 429:
		return true, nil
	case errors.Is(err, errLong):
		n = mostKnown
	case err != nil:
		return false, fmt.Errorf("ask the homeserver who is in a room: %w", err)
	}
	note(c, &c.rooms.people, room, n)
	return n > pair, nil
}

// IsGroup implements [channels.Rooms]: people are invited into a room of two.
func (c *Channel) IsGroup(ctx context.Context, k corebot.Key) (bool, error) {
	return c.isGroup(ctx, k.Chat)
}

// pair is how many are in a room in which one person talks to the account.
const pair = 2

// changed notes that somebody may have come or gone. A large room is not asked about each time: it stays a group for
// as many changes as it has people too many.
func (c *Channel) changed(room string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.rooms.people[room] - 1; n > pair {
		c.rooms.people[room] = n
	} else {
		delete(c.rooms.people, room)
	}
}

// lookUp asks for an event of a room, because a sender has named it. Without one there is no error: it may be gone, or
// hidden from the account.
func (c *Channel) lookUp(ctx context.Context, room, id, sender string) (e event, err error) {
	if c.rooms.looked >= mostLooked || c.rooms.askers[sender] >= mostOfOne {
		return event{}, nil
	}
	c.rooms.looked++
	c.rooms.askers[sender]++
	e, err = call[event](ctx, &c.client, channels.Get("rooms", room, "event", id))
	if refused := (*refusal)(nil); errors.As(err, &refused) && refused.status < 429 {
		return event{}, nil
	}
	if err != nil {
		return event{}, fmt.Errorf("ask the homeserver for an event: %w", err)
	}
	return e, nil
}

// threadOf is the thread in which an event was said that a sender names.
func (c *Channel) threadOf(ctx context.Context, room, id, sender string) (string, error) {
	if thread, is := known(c, &c.rooms.threads, id); is {
		return thread, nil
	}
	e, err := c.lookUp(ctx, room, id, sender)
	if err != nil {
		return "", err
	}
	thread := contentOf(e.Content).Relates.thread()
	if e.ID != "" {
		note(c, &c.rooms.threads, id, thread)
	}
	return thread, nil
}

// isOwn says whether the account sent an event that a sender names.
func (c *Channel) isOwn(ctx context.Context, me self, room, id, sender string) (bool, error) {
	if own, is := known(c, &c.rooms.own, id); is {
		return own, nil
	}
	e, err := c.lookUp(ctx, room, id, sender)
	if err != nil {
		return false, err
	}
	own := e.Sender == me.id
	if e.ID != "" {
		note(c, &c.rooms.own, id, own)
	}
	return own, nil
}

// invitation is a room into which somebody has invited the account.
type invitation struct {
	State struct {
		Events []event `json:"events"`
	} `json:"invite_state"`
}

// inviter is who has invited the account.
func (i invitation) inviter(me self) (from string, m member, name string) {
	for _, e := range i.State.Events {
		if of, is := e.member(); of == me.id && is.Membership == "invite" && isUser(e.Sender) {
			from, m = e.Sender, is
		}
	}
	for _, e := range i.State.Events {
		if of, is := e.member(); of == from && from != "" {
			name = is.Name
		}
	}
	return from, m, name
}

// accepts says whether the account follows an invitation: if its inviter may talk in the room. A stranger who can be
// let in by a code gets a direct chat, as a place for the code. strangers bounds how many strangers do.
func (c *Channel) accepts(ctx context.Context, door channels.Door, me self, room string, i invitation, strangers *int) (
	server string, yes bool,
) {
	from, m, name := i.inviter(me)
	if from == "" {
		return "", false
	}
	in := channels.Incoming{ID: "invitation", Chat: room, SenderID: from, SenderName: shortName(name)}
	in.Envelope.Group = !m.Direct
	err := door.Admit(ctx, in)
	if errors.Is(err, channels.ErrNotPaired) && m.Direct && *strangers > 0 {
		*strangers--
		err = nil
	}
	if err != nil {
		c.site.Log.Info().Err(err).Str("room", room).Str("from", from).Msg("an invitation is not followed")
		return "", false
	}
	return serverOf(from), true
}

// state is what a part of an answer tells of the room's members.
func names(events []json.RawMessage) map[string]string {
	found := map[string]string{}
	for _, raw := range events {
		var e event
		if json.Unmarshal(raw, &e) == nil {
			if of, m := e.member(); of != "" && m.Name != "" {
				found[of] = m.Name
			}
		}
	}
	return found
}
