package slack

import "time"

// Hurry has the channel ping often, and wait only so long for a pong.
func (c *Channel) Hurry(pings, patience time.Duration) { c.pings, c.patience = pings, patience }

// MaxFetched is how many messages of a channel tests fetch.
const MaxFetched = 4 * pageSize

func init() { maxPages, ownPause = MaxFetched/pageSize, time.Millisecond }

// Impatient has no patience with failures of Slack itself until the test ends.
func Impatient(t interface{ Cleanup(func()) }) {
	before := ownPatience
	ownPatience = 0
	t.Cleanup(func() { ownPatience = before })
}
