package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/corebot/corebot/channels"
)

const (
	pageEvents = 100
	mostPages  = 200 // of one gap
	startPages = 5   // of what was said between an invitation and the arrival
)

// page is a part of the history of a room.
type page struct {
	Chunk []event           `json:"chunk"`
	State []json.RawMessage `json:"state"`
	End   string            `json:"end"`
}

func (c *Channel) page(ctx context.Context, room, direction, from, to string) (page, error) {
	types, _ := json.Marshal(map[string]any{ // texts: cannot fail
		"types": []string{
			typeMessage,
			typeEncrypted,
			typeEncryption,
			typeRedaction,
			typeSticker,
			typeReaction,
			typeMember,
			typeTombstone,
		},
		"lazy_load_members": true, "include_redundant_members": true,
	})
	ask := channels.Get("rooms", room, "messages").With("dir", direction).With("limit", strconv.Itoa(pageEvents)).
		With("filter", string(types))
	if from != "" {
		ask = ask.With("from", from)
	}
	if to != "" {
		ask = ask.With("to", to)
	}
	return call[page](ctx, &c.client, ask)
}

// fill gives the door what an answer has left out of a room, oldest first, page by page, and returns the rest. The
// cursor keeps its position: after a crash in between all of it comes again, and what is stored is a duplicate.
func (c *Channel) fill(ctx context.Context, door channels.Door, me self, at *place, room string, r joined) ([]said,
	error,
) {
	known := names(r.State.Events)
	if r.arrives(me) >= 0 {
		events, err := c.sinceInvited(ctx, me, room, r)
		if err != nil {
			return nil, err
		}
		return c.read(ctx, me, room, events, known)
	}
	for from, n := at.since, 0; r.Timeline.Prev != "" && from != ""; n++ {
		p, err := c.page(ctx, room, "f", from, r.Timeline.Prev)
		if refused := (*refusal)(nil); errors.As(err, &refused) && refused.status < 429 || n == mostPages {
			c.site.Log.Error().Err(err).Str("room", room).Int("events", n*pageEvents).
				Msg("what was said in a room while Corebot was away cannot be fetched any further")
			break
		}
		if err != nil {
			return nil, err
		}
		more, err := c.read(ctx, me, room, p.Chunk, names(p.State))
		if err != nil {
			return nil, err
		}
		if at.cursor, err = c.give(ctx, door, at.cursor, more, at.cursor.Position); err != nil {
			return nil, err
		}
		if p.End == from || len(p.Chunk) == 0 {
			break
		}
		from = p.End
	}
	return c.read(ctx, me, room, r.Timeline.Events, known)
}

// arrives is where in the timeline the account has come into the room; -1: it was there before. Another event of its
// own membership changes its name only.
func (r joined) arrives(me self) int {
	return slices.IndexFunc(r.Timeline.Events, func(e event) bool {
		of, m := e.member()
		prev := e.Unsigned.PrevContent
		first := prev == nil && e.Unsigned.ReplacesState == "" || prev != nil && prev.Membership != "join"
		return of == me.id && m.Membership == "join" && first
	})
}

// sinceInvited is what was said in a room since somebody invited the account. Earlier messages were not for it: a
// room can have years of history.
func (c *Channel) sinceInvited(ctx context.Context, me self, room string, r joined) ([]event, error) {
	events := r.Timeline.Events
	invited := func(e event) bool {
		of, m := e.member()
		return of == me.id && m.Membership == "invite"
	}
	for from, n := r.Timeline.Prev, 0; r.Timeline.Limited && from != "" && n < startPages &&
		!slices.ContainsFunc(events, invited); n++ {
		p, err := c.page(ctx, room, "b", from, "")
		if refused := (*refusal)(nil); errors.As(err, &refused) && refused.status < 429 {
			break
		}
		if err != nil {
			return nil, err
		}
		slices.Reverse(p.Chunk)
		events = append(p.Chunk, events...)
		if p.End == from || len(p.Chunk) == 0 {
			break
		}
		from = p.End
	}
	for i := len(events) - 1; i >= 0; i-- {
		if invited(events[i]) {
			return events[i:], nil
		}
	}
	r.Timeline.Events = events
	return events[max(r.arrives(me), 0):], nil
}
