package discord

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/sorted"
)

const (
	pageMessages = 100
	pageGuilds   = 200
	mostPages    = 200 // of one channel in one gap
	mostGuilds   = 2500
	// margin is how far ids of different channels can come out of order. A message that was received already
	// is a duplicate.
	margin = time.Minute
)

// page are messages of a channel behind an id, oldest first.
func (c *Channel) page(ctx context.Context, channel, after string) ([]message, error) {
	found, err := call[[]message](ctx, &c.client, channels.Get("channels", channel, "messages").With("after", after).
		With("limit", strconv.Itoa(pageMessages)))
	sorted.By(found, func(a, b message) int {
		return int(min(max(int64(number(a.ID)-number(b.ID)), -1), 1)) //nolint:gosec // 63 bits
	})
	return found, err
}

// fill gives the door what was said since the last session, channel by channel. The stored position stays: after a
// crash in between all of it comes again, and what is stored is a duplicate.
func (r *receiver) fill(ctx context.Context, next *position) error {
	after := firstAt(madeAt(r.at.Since).Add(-margin))
	spots, err := r.news(ctx, after)
	if err != nil {
		return fmt.Errorf("ask Discord where something was said: %w", err)
	}
	for _, s := range spots {
		if err := r.fillOne(ctx, s, next); err != nil {
			return fmt.Errorf("fetch what was said: %w", err)
		}
	}
	return nil
}

// gap is a channel in which something may have been said behind an id.
type gap struct {
	spot
	after string
}

// fillOne fetches what one channel has said.
func (r *receiver) fillOne(ctx context.Context, g gap, next *position) error {
	for n := 0; ; n++ {
		found, err := r.page(ctx, g.ID, g.after)
		r.door.Alive()
		if final(err) || n == mostPages {
			r.site.Log.Warn().Err(err).Str("channel", g.ID).Int("messages", n*pageMessages).
				Msg("what was said in a channel while Corebot was away cannot be fetched any further")
			return nil
		}
		if err != nil {
			return err
		}
		var all []said
		for _, m := range found {
			if m.wrong != nil || m.Channel != g.ID {
				r.site.Log.Warn().Err(m.wrong).Str("channel", g.ID).Msg("a message cannot be read, and is left out")
				continue
			}
			m.Guild = g.Guild
			in, err := r.message(ctx, r.me, m, next)
			if err != nil {
				return err
			}
			if in != nil {
				all = append(all, *in)
			}
			g.after = later(g.after, m.ID)
		}
		if len(all) > 0 {
			if err := r.give(ctx, all, r.at); err != nil {
				return err
			}
		}
		if len(found) < pageMessages {
			return nil
		}
	}
}

// news lists the channels in which something may have been said.
func (r *receiver) news(ctx context.Context, after string) (all []gap, err error) {
	for _, chat := range strings.Fields(r.at.Direct) {
		all = append(all, gap{spot{ID: chat}, after})
	}
	guilds, err := r.guilds(ctx)
	if err != nil {
		return nil, err
	}
	for _, guild := range guilds {
		r.door.Alive()
		spots, err := r.spots(ctx, guild)
		if final(err) {
			continue // the bot was taken out of the server
		}
		if err != nil {
			return nil, err
		}
		began := ""
		for _, s := range spots {
			at := s.place()
			note(r.Channel, &r.places, s.ID, at)
			if number(s.Last) <= number(after) || !r.listens(guild, s.ID, at) {
				continue
			}
			if began == "" {
				if began, err = r.joined(ctx, guild); err != nil {
					return nil, err
				}
			}
			s.Guild = guild
			all = append(all, gap{s, later(after, began)})
		}
	}
	return all, nil
}

// guilds are the servers that the bot is in and listens to.
func (r *receiver) guilds(ctx context.Context) (all []string, err error) {
	for after, last := "0", ""; len(all) < mostGuilds && after != last; { // a list that does not move on has no end
		last = after
		found, err := call[[]spot](ctx, &r.client, channels.Get("users", "@me", "guilds").With("after", after).
			With("limit", strconv.Itoa(pageGuilds)))
		if err != nil {
			return nil, err
		}
		for _, g := range found {
			if !isID(g.ID) {
				continue
			}
			after = later(after, g.ID)
			if r.inGuild(g.ID) {
				all = append(all, g.ID)
			}
		}
		if len(found) < pageGuilds {
			break
		}
	}
	return all, nil
}

// spots are the channels and the threads of a server in which people write.
func (r *receiver) spots(ctx context.Context, guild string) (all []spot, err error) {
	found, err := call[[]spot](ctx, &r.client, channels.Get("guilds", guild, "channels"))
	if err != nil {
		return nil, err
	}
	active, err := call[struct {
		Threads []spot `json:"threads"`
	}](ctx, &r.client, channels.Get("guilds", guild, "threads", "active"))
	if err != nil {
		return nil, err
	}
	for _, s := range append(found, active.Threads...) {
		if isID(s.ID) && s.Type != kindCategory && s.Type != kindForum && s.Type != kindMedia {
			all = append(all, s)
		}
	}
	return all, nil
}

// joined is the lowest id of what was said in a server since the bot is there: what was said before is not for it.
func (r *receiver) joined(ctx context.Context, guild string) (string, error) {
	m, err := call[struct {
		Joined string `json:"joined_at"`
	}](ctx, &r.client, channels.Get("guilds", guild, "members", r.me.id))
	if err != nil && !final(err) {
		return "", err
	}
	at, err := time.Parse(time.RFC3339, m.Joined)
	if err != nil {
		return "1", nil //nolint:nilerr // nobody says since when: then all of the gap counts
	}
	return firstAt(at), nil
}
