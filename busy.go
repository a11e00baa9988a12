package corebot

import "time"

// Busy says that a message was refused for want of room: nothing was stored, and the same message may be accepted later. Err is
// [ErrLaneFull], [ErrSenderFull], [ErrCommandRate], [ErrOverloaded] or [ErrDiskFull].
type Busy struct {
	Err        error
	RetryAfter time.Duration // when another try is worth it, about
	// Tell is set on the first refusal of an episode in a chat. A channel that has no other way to answer than in the chat says there
	// that it is busy, once, and is silent about the refusals that follow.
	Tell bool
}

func (b *Busy) Error() string { return b.Err.Error() }
func (b *Busy) Unwrap() error { return b.Err }
