package httpapi

import "slices"

// member is a socket that follows a chat.
type member struct {
	socket *socket
	chat   *chatFeed
}

// round is what one round tells the sockets of a chat. Sockets that know the same are told the same bytes, and know
// the same afterwards. So the first of them makes the bytes, and the others write them.
type round struct {
	lone     bool   // one socket follows the chat
	room     []byte // for its bytes
	tellings []telling
}

// maxTellings bounds the different things that sockets of a chat are told together. A socket that knows something
// else is told alone.
const maxTellings = 16

// telling is what all sockets are told that know the same of a chat.
type telling struct {
	from, to  int64     // numbers of the last events that they know, before and afterwards
	was, open []openRun // the runs, before and afterwards
	first     int64     // the first event that was not lost; zero: none was
	ended     []string  // the messages whose ends they are told
	frames    []byte
}

// of finds what sockets were told that know the same as one.
func (r *round) of(c *chatFeed) *telling {
	for i := range r.tellings {
		t := &r.tellings[i]
		if c.Seq() < t.first-1 { // it has lost events, too, so what it knew before does not matter
			return t
		}
		if t.from == c.Seq() && slices.Equal(t.was, c.open) {
			return t
		}
	}
	return nil
}

// toldOf tells what has happened in a chat, in one call of the kernel.
func (k *socket) toldOf(c *chatFeed, r *round) {
	k.locked(func() bool {
		if k.feeds[c.key] != c || k.ctx.Err() != nil || k.out.waits() {
			return true
		}
		if r.lone {
			k.out.gather(r.room)
			ok := k.events(c)
			r.room = k.out.pour()
			return ok
		}
		same := k.asOthers(c)
		if t := r.of(c); t != nil && same {
			return k.repeat(c, t)
		}
		t := telling{from: c.Seq(), was: c.open}
		before, gaps := c.ends, c.gaps
		k.out.gather(nil)
		ok := k.events(c)
		t.frames = k.out.pour()
		if n := c.ends - before; ok && same && n <= len(c.over) && len(r.tellings) < maxTellings {
			if c.gaps > gaps {
				t.first = c.first
			}
			t.to, t.open, t.ended = c.Seq(), c.open, slices.Clone(c.over[len(c.over)-n:])
			r.tellings = append(r.tellings, t)
		}
		return ok
	})
}

// asOthers says whether a socket is told of a chat what others are told: it has no message of its own there.
func (k *socket) asOthers(c *chatFeed) bool {
	if !c.subscribed || c.early > 0 {
		return false
	}
	for _, p := range k.pending {
		if p.key == c.key {
			return false
		}
	}
	return true
}

// repeat tells what another socket was told.
func (k *socket) repeat(c *chatFeed, t *telling) bool {
	if len(t.frames) > 0 {
		if _, err := k.out.Write(t.frames); err != nil {
			return false
		}
	}
	c.Skip(t.to)
	c.open = t.open
	for _, id := range t.ended {
		c.ended(id)
	}
	return true
}
