package channeltest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// Door is a door that keeps what it is given, as the front door does, for tests of a channel that fetches messages.
type Door struct {
	Take   func([]channels.Incoming) ([]error, error) // nil: all is taken
	Admits func(channels.Incoming) error              // nil: everybody may talk

	mu     sync.Mutex
	cursor corebot.Cursor
	got    []channels.Incoming
}

// Accept implements [channels.Door].
func (d *Door) Accept(context.Context, channels.Incoming) (channels.Accepted, error) {
	return channels.Accepted{}, errors.New("the channel fetches in batches")
}

// Alive implements [channels.Door].
func (d *Door) Alive() {}

// Admit implements [channels.Door].
func (d *Door) Admit(_ context.Context, in channels.Incoming) error {
	if d.Admits == nil {
		return nil
	}
	return d.Admits(in)
}

// Cursor implements [channels.Door].
func (d *Door) Cursor(context.Context) (corebot.Cursor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cursor, nil
}

// AcceptBatch implements [channels.Door]. A cursor that another batch has moved is refused.
func (d *Door) AcceptBatch(_ context.Context, batch []channels.Incoming, c corebot.Cursor) (channels.AcceptedBatch,
	error,
) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.Moves != d.cursor.Moves {
		return channels.AcceptedBatch{}, corebot.ErrCursorMoved
	}
	taken := channels.AcceptedBatch{Messages: make([]channels.BatchResult, len(batch))}
	if d.Take != nil {
		refused, err := d.Take(batch)
		if err != nil {
			return channels.AcceptedBatch{}, err
		}
		for i, r := range refused {
			taken.Messages[i].Err = r
		}
	}
	for i, in := range batch {
		taken.Messages[i].Duplicate = slices.ContainsFunc(d.got, func(g channels.Incoming) bool {
			return g.ID == in.ID && g.Chat == in.Chat && g.Tell == in.Tell
		})
		if !taken.Messages[i].Duplicate {
			d.got = append(d.got, in)
		}
	}
	c.Moves++
	d.cursor, taken.Cursor = c, c
	return taken, nil
}

// Got is what was taken, without duplicates.
func (d *Door) Got() []channels.Incoming {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.got)
}

// Position is the stored position.
func (d *Door) Position() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cursor.Position
}

// Texts are the texts of Got.
func (d *Door) Texts() (all []string) {
	for _, in := range d.Got() {
		all = append(all, in.Text())
	}
	return all
}
