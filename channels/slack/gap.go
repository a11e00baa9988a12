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
	maxPlaces = 1000
	maxTries  = 3 // of a page for which Slack has an error of its own
)

// maxPages is how much of one channel or thread is fetched: its last 10,000 messages. Tests fetch less.
var maxPages = 50

// fill fetches what was said while nobody was connected, channel by channel. A crash in between fetches the same again:
// what was stored is a duplicate then. A channel that Slack does not give, or not whole, holds up no other: the log
// says so, and the rest is stored.
//
// The new position is a time of the clock of Slack. A clock of this machine that was ahead would leave out what is said
// until then.
func (r *receiver) fill(ctx context.Context) error {
	until := stamp(r.bot.now().Add(-time.Minute))
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

// errMore says that a list has more pages than are fetched.
var errMore = fmt.Errorf("%w: Slack has more pages of it", corebot.ErrTooLarge)

// pages fetches the pages of a list, and waits as long as Slack asks. Its error is errMore behind the last page that it
// fetches.
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
	return errMore
}

// patient makes a request again after a limit of the rate, and some times after an error of Slack's own.
func (c *Channel) patient(ctx context.Context, method string, ask args, into any) error {
	for tries := 1; ; tries++ {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, 2*slack)
			defer cancel()
			return c.bot.call(ctx, method, ask, into)
		}()
		f := (*corebot.Failure)(nil)
		wait := ownPause
		switch {
		case errors.As(err, &f) && f.Class == corebot.RateLimited && f.RetryAfter > 0:
			c.site.Log.Info().Str("method", method).Dur("wait_ms", f.RetryAfter).Msg("Slack asks to wait")
			wait = f.RetryAfter
		case !ofSlack(err) || tries >= maxTries:
			return err
		}
		if by, bounded := ctx.Deadline(); bounded && time.Until(by) < wait {
			return err // the wait is the caller's: a request meanwhile would be one too many
		}
		if backoff.Sleep(ctx, wait); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// ofSlack says whether Slack has answered that it failed by itself.
func ofSlack(err error) bool {
	return refusedFor(err, "internal_error", "fatal_error", "request_timeout")
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
	if len(all) >= maxPlaces || errors.Is(err, errMore) {
		r.site.Log.Warn().Int("channels", len(all)).Msg("the bot is in more channels than are looked at after an " +
			"outage: what was said meanwhile in the others is not fetched")
		err = nil
	}
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
	if err == nil {
		r.mu.Lock()
		delete(r.failed, channel)
		r.mu.Unlock()
	}
	if err := r.partly(err, channel); err != nil {
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
		if err := r.partly(err, channel); err != nil {
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

// ownPatience is for how long a connection is made anew because Slack itself fails to give a channel. After an outage
// Slack fails for some minutes; a channel that it never gives must not keep the others from being heard.
var ownPatience = 15 * time.Minute

// ownPause is between two tries of a page at which Slack itself has failed.
var ownPause = time.Second

// partly takes an error that only one channel or thread has: the log says what is missing of it. Any other error ends
// the connection, and everything is fetched again. So does a failure of Slack itself at first.
func (r *receiver) partly(err error, channel string) error {
	if err == nil || ofSlack(err) && r.failing(channel) < ownPatience {
		return err
	}
	switch log := r.site.Log.Warn().Err(err).Str("channel_of_slack", channel); {
	case errors.Is(err, errMore):
		log.Msg("more was said meanwhile than is fetched: the rest is left out")
	case barred(err) || ofSlack(err):
		log.Msg("what was said meanwhile cannot be fetched")
	default:
		return err
	}
	return nil
}

// failing is for how long Slack has failed to give a channel.
func (r *receiver) failing(channel string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, known := r.failed[channel]
	if !known {
		since = time.Now()
		if r.failed == nil || len(r.failed) >= maxPlaces {
			r.failed = map[string]time.Time{}
		}
		r.failed[channel] = since
	}
	return time.Since(since)
}

// padded is a name by which messages sort as they were said.
func padded(ts string) string { return fmt.Sprintf("%24s", ts) }
