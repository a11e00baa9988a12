package slack

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/sorted"
)

const (
	overlap   = 10 * time.Minute // events come out of order, and Slack's retries late
	threadAge = 48 * time.Hour   // how old the beginning of a thread can be whose replies are fetched
	pageSize  = 200
	maxPages  = 50 // of one channel or thread
	maxPlaces = 1000
)

// fill fetches what was said while nobody was connected, channel by channel. A crash in between fetches the same again:
// what was stored is a duplicate then.
func (r *receiver) fill(ctx context.Context) error {
	until := stamp(time.Now().Add(-time.Minute))
	since := before(r.at.Since, overlap)
	if later(r.at.Begin, since) {
		since = r.at.Begin
	}
	places, err := r.places(ctx)
	if err != nil {
		return fmt.Errorf("fetch the channels of the bot: %w", err)
	}
	for _, channel := range places {
		if err := r.fillChannel(ctx, channel, since); err != nil {
			return fmt.Errorf("fetch what was said in %s: %w", channel, err)
		}
	}
	if later(until, r.at.Since) {
		r.at.Since = until
	}
	return r.give(ctx, nil)
}

// later says whether a message comes after another.
func later(a, b string) bool {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return x > y
}

func before(ts string, d time.Duration) string { return stamp(sentAt(ts).Add(-d)) }

type page struct {
	Messages []message `json:"messages"`
	Channels []struct {
		ID string `json:"id"`
	} `json:"channels"`
	Meta struct {
		Next string `json:"next_cursor"`
	} `json:"response_metadata"`
}

// pages fetches all pages of a list, and waits as long as Slack asks.
func (c *Channel) pages(ctx context.Context, method string, ask args, each func(page) (more bool)) error {
	for range maxPages {
		var p page
		err := c.patient(ctx, method, ask, &p)
		if err != nil {
			return err
		}
		if !each(p) || p.Meta.Next == "" {
			return nil
		}
		ask["cursor"] = p.Meta.Next
	}
	return fmt.Errorf("%w: %s has more than %d pages", corebot.ErrTooLarge, method, maxPages)
}

// patient makes a request again after a limit of the rate.
func (c *Channel) patient(ctx context.Context, method string, ask args, into any) error {
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, 2*slack)
			defer cancel()
			return c.bot.call(ctx, method, ask, into)
		}()
		f := (*corebot.Failure)(nil)
		if !errors.As(err, &f) || f.Class != corebot.RateLimited || f.RetryAfter <= 0 {
			return err
		}
		c.site.Log.Info().Str("method", method).Dur("wait_ms", f.RetryAfter).Msg("Slack asks to wait")
		if backoff.Sleep(ctx, f.RetryAfter); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// places are the channels and private chats in which the bot is.
func (r *receiver) places(ctx context.Context) (all []string, err error) {
	ask := args{"types": "public_channel,private_channel,mpim,im", "exclude_archived": "true", "limit": "200"}
	err = r.pages(ctx, "users.conversations", ask, func(p page) bool {
		for _, one := range p.Channels {
			if isID(one.ID) {
				all = append(all, one.ID)
			}
		}
		return len(all) < maxPlaces
	})
	return all, err
}

// fillChannel stores what was said in a channel and its threads since a time, oldest first.
func (r *receiver) fillChannel(ctx context.Context, channel, since string) error {
	ask := args{
		"channel": channel, "oldest": before(since, threadAge), "inclusive": "true", "limit": strconv.Itoa(pageSize),
	}
	var found []message
	var threads []string
	err := r.pages(ctx, "conversations.history", ask, func(p page) bool {
		r.door.Alive()
		for _, m := range p.Messages {
			if !later(since, m.TS) {
				found = append(found, m)
			}
			if m.Last != "" && later(m.Last, since) && isStamp(m.TS) {
				threads = append(threads, m.TS)
			}
		}
		return true
	})
	if refusedFor(err, "missing_scope", "not_in_channel", "channel_not_found") {
		r.site.Log.Warn().Err(err).Str("channel_of_slack", channel).Msg("what was said meanwhile cannot be fetched")
		return nil
	}
	if err != nil {
		return err
	}
	for _, root := range threads {
		ask := args{
			"channel": channel, "ts": root, "oldest": since, "inclusive": "true", "limit": strconv.Itoa(pageSize),
		}
		err := r.pages(ctx, "conversations.replies", ask, func(p page) bool {
			r.door.Alive()
			for _, m := range p.Messages {
				if m.TS != root && !later(since, m.TS) {
					found = append(found, m)
				}
			}
			return true
		})
		if err != nil && !refusedFor(err, "thread_not_found") {
			return err
		}
	}
	sorted.By(found, func(a, b message) int { return strings.Compare(padded(a.TS), padded(b.TS)) })
	var batch []channels.Incoming
	for _, m := range found {
		if in, means := r.message(ctx, r.me, channel, m); means {
			batch = append(batch, in)
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return r.give(ctx, batch)
}

// padded is a name by which messages sort as they were said.
func padded(ts string) string { return fmt.Sprintf("%24s", ts) }
