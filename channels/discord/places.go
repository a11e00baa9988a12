package discord

import (
	"context"
	"fmt"

	"github.com/corebot/corebot/channels"
)

// known is a bounded map of what the platform was asked or has told, under the mutex of the channel. A restart forgets
// it.
type known[V any] map[string]V

// mostKnown bounds each of them.
const mostKnown = 10_000

// look finds something.
func look[V any](c *Channel, m *known[V], key string) (value V, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, is = (*m)[key]
	return value, is
}

// note keeps something. Of too many it forgets one, whichever.
func note[V any](c *Channel, m *known[V], key string, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *m == nil {
		*m = known[V]{}
	}
	if len(*m) >= mostKnown {
		for other := range *m {
			delete(*m, other)
			break
		}
	}
	(*m)[key] = value
}

// place is where a message stands: in a channel, or in a thread of one.
type place struct {
	chat, thread string
}

// author is who wrote a message.
type author struct {
	id, name string
}

// spot is a channel of the platform, which can be a thread.
type spot struct {
	ID     string `json:"id"`
	Type   int    `json:"type"`
	Parent string `json:"parent_id"`
	Last   string `json:"last_message_id"`
	Guild  string `json:"guild_id"`
}

// Kinds of channels.
const (
	kindCategory         = 4
	kindAnnouncesThread  = 10
	kindPublicThread     = 11
	kindPrivateThread    = 12
	kindForum, kindMedia = 15, 16
)

func (s spot) place() place {
	if s.Type >= kindAnnouncesThread && s.Type <= kindPrivateThread && isID(s.Parent) {
		return place{s.Parent, s.ID}
	}
	return place{chat: s.ID}
}

// placeOf is where a message of a channel of a server stands. The platform's event does not say whether that channel is
// a thread.
func (c *Channel) placeOf(ctx context.Context, guild, channel string) (place, error) {
	if guild == "" {
		return place{chat: channel}, nil
	}
	if p, is := look(c, &c.places, channel); is {
		return p, nil
	}
	s, err := call[spot](ctx, &c.client, channels.Get("channels", channel))
	switch {
	case final(err):
		return place{chat: channel}, nil // it is gone, or hidden by now
	case err != nil:
		return place{}, fmt.Errorf("ask Discord for a channel: %w", err)
	}
	s.ID = channel
	note(c, &c.places, channel, s.place())
	return s.place(), nil
}
