package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/matrix/sealed"
	"github.com/corebot/corebot/internal/backoff"
)

// answer is what the homeserver says to a sync.
type answer struct {
	Next string `json:"next_batch"`
	keys
	Rooms struct {
		Join   map[string]json.RawMessage `json:"join"`
		Invite map[string]json.RawMessage `json:"invite"`
	} `json:"rooms"`
}

// joined is a room of which something is new.
type joined struct {
	State struct {
		Events []json.RawMessage `json:"events"`
	} `json:"state"`
	Timeline struct {
		Events  []event `json:"events"`
		Limited bool    `json:"limited"`
		Prev    string  `json:"prev_batch"`
	} `json:"timeline"`
}

const (
	timelineMost = 20               // events of a room in one answer; those before them are fetched by pages
	storeAfter   = 10 * time.Minute // a position behind which nothing was said is stored that often
)

// filter asks for events that mean something, and for the names of those who speak.
func filter(timeline int) string {
	types := []string{
		typeMessage, typeEncrypted, typeEncryption, typeRedaction, typeSticker, typeReaction, typeMember,
		typeTombstone,
	}
	none := map[string]any{"not_types": []string{"*"}}
	text, _ := json.Marshal(map[string]any{ // texts and numbers: cannot fail
		"presence": none, "account_data": none,
		"room": map[string]any{
			"ephemeral": none, "account_data": none,
			"state": map[string]any{
				"types": []string{typeMember}, "lazy_load_members": true, "include_redundant_members": true,
			},
			"timeline": map[string]any{
				"types": types, "limit": timeline, "lazy_load_members": true, "include_redundant_members": true,
			},
		},
	})
	return string(text)
}

// place is where a run has received up to: the stored cursor, and a position behind it up to which nothing was said.
type place struct {
	cursor corebot.Cursor
	since  string
	stored time.Time
}

// position is the text of a cursor: a position is one of this user only. Another user, or one on another homeserver,
// begins anew.
func position(me self, since string) string { return me.id + " " + since }

func begin(me self, cursor corebot.Cursor) place {
	since, is := strings.CutPrefix(cursor.Position, me.id+" ")
	if !is {
		since = ""
	}
	return place{cursor: cursor, since: since, stored: time.Now()}
}

// Run receives until ctx ends. A connection that breaks and a refused token are errors: the supervisor runs the channel
// again.
func (c *Channel) Run(ctx context.Context, door channels.Door) error {
	ctx, cancel := context.WithCancel(ctx)
	joins := joiner{channel: c, places: make(chan struct{}, 4)}
	err := c.receive(ctx, door, &joins)
	ended := ctx.Err() != nil
	cancel()
	joins.running.Wait()
	if ended {
		return nil
	}
	return err
}

func (c *Channel) receive(ctx context.Context, door channels.Door, joins *joiner) error {
	me, err := c.me(ctx)
	if err != nil {
		return err
	}
	door.Alive()
	if err := c.openKeys(ctx, me); err != nil {
		return err
	}
	cursor, err := door.Cursor(ctx)
	if err != nil {
		return err
	}
	at := begin(me, cursor)
	if at.since == "" && cursor.Position != "" {
		c.site.Log.Warn().Msg("the stored position cannot be read, or is of another user: what was said until now is " +
			"not answered")
	}
	for most := timelineMost; ; {
		a, err := c.fetch(ctx, at.since, most)
		switch {
		case errors.Is(err, errLong) && most > 1: // what is left out comes by pages
			most = max(most/4, 1)
			continue
		case at.since != "" && refused(err, "M_INVALID_PARAM", "M_UNKNOWN_POS"):
			c.site.Log.Error().Err(err).Msg("the homeserver does not know the stored position any more: " +
				"what was said " +
				"since then is not answered")
			at.since = ""
			continue
		case err != nil:
			return err
		}
		door.Alive()
		most = timelineMost
		joins.follow(ctx, door, me, a.Rooms.Invite)
		if at, err = c.takeAll(ctx, door, me, at, a); err != nil {
			return err
		}
	}
}

// takeAll takes in one answer: its keys first, then the messages that have waited for them, then its messages. So a
// message whose key comes late stands before those that came with the key.
func (c *Channel) takeAll(ctx context.Context, door channels.Door, me self, at place, a answer) (place, error) {
	if err := c.takeKeys(ctx, a); err != nil {
		return at, err
	}
	at, err := c.late(ctx, door, me, at)
	if err != nil {
		return at, c.patient(ctx, err)
	}
	return c.take(ctx, door, me, at, a)
}

var errLong = corebot.ErrTooLarge

// fetch waits for what is new behind a position. Without one it only asks where the present is.
func (c *Channel) fetch(ctx context.Context, since string, most int) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.poll+slack)
	defer cancel()
	held := c.poll
	if c.keeper != nil && c.keeper.Waits() {
		held = min(held, sealed.Soon)
	}
	ask, poll := channels.Get("sync"), strconv.FormatInt(held.Milliseconds(), 10)
	if since == "" {
		ask = ask.With("timeout", "0").With("filter", filter(1))
	} else {
		ask = ask.With("timeout", poll).With("filter", filter(most)).With("since", since)
	}
	a, err := call[answer](ctx, &c.client, ask)
	if err == nil && a.Next == "" {
		err = c.client.wire.Strange("sync", 200, errors.New("it names no position"))
	}
	if err != nil {
		return a, fmt.Errorf("fetch what is new: %w", err)
	}
	return a, nil
}

// take gives what one answer has to the door. The cursor moves with the last of it. Rooms of which the answer has not
// all come last, so that they hold up no other.
func (c *Channel) take(ctx context.Context, door channels.Door, me self, at place, a answer) (place, error) {
	if at.since == "" { // the account begins here: what was said before is not for Corebot
		taken, err := door.AcceptBatch(ctx, nil, at.cursor.To(position(me, a.Next)))
		return place{taken.Cursor, a.Next, time.Now()}, err
	}
	c.rooms.looked, c.rooms.askers = 0, map[string]int{}
	var all []said
	var open []string
	rooms := map[string]joined{}
	for _, id := range slices.Sorted(maps.Keys(a.Rooms.Join)) {
		var r joined
		if err := lenient(a.Rooms.Join[id], &r); err != nil || !isRoom(id) {
			c.site.Log.Warn().Err(err).Str("room", fmt.Sprintf("%.300q", id)).Msg(
				"a room cannot be read, and is left out",
			)
			continue
		}
		rooms[id] = r
		if r.Timeline.Limited || r.arrives(me) >= 0 {
			open = append(open, id)
			continue
		}
		more, err := c.read(ctx, me, id, r.Timeline.Events, names(r.State.Events))
		if err != nil {
			return at, err
		}
		all = append(all, more...)
	}
	for _, id := range open {
		var err error
		if at.cursor, err = c.give(ctx, door, at.cursor, all, at.cursor.Position); err != nil {
			return at, c.patient(ctx, err)
		}
		if all, err = c.fill(ctx, door, me, &at, id, rooms[id]); err != nil {
			return at, c.patient(ctx, err)
		}
	}
	next := place{at.cursor, a.Next, at.stored}
	if len(all) == 0 && len(open) == 0 && time.Since(at.stored) < storeAfter {
		return next, nil
	}
	taken, err := c.give(ctx, door, at.cursor, all, position(me, a.Next))
	if err != nil {
		at.cursor = taken
		return at, c.patient(ctx, err)
	}
	return place{taken, a.Next, time.Now()}, nil
}

// patient waits where nobody has room: the same is fetched again then.
func (c *Channel) patient(ctx context.Context, err error) error {
	if busy := (*corebot.Busy)(nil); errors.As(err, &busy) {
		c.site.Log.Warn().Err(err).Msg("no room for what was fetched; it is fetched again")
		backoff.Sleep(ctx, busy.RetryAfter)
		return ctx.Err()
	}
	return err
}

// said is a message with its room.
type said struct {
	channels.Incoming
	event string
}

// give stores messages and shows their senders that they were read.
func (c *Channel) give(ctx context.Context, door channels.Door, cursor corebot.Cursor, all []said, to string) (
	corebot.Cursor, error,
) {
	if len(all) == 0 && to == cursor.Position {
		return cursor, nil
	}
	batch := make([]channels.Incoming, len(all))
	for i, s := range all {
		batch[i] = s.Incoming
	}
	taken, err := channels.AcceptAll(ctx, door, batch, cursor, to)
	if err != nil {
		return taken.Cursor, err
	}
	c.receipts(ctx, all, taken.Messages)
	return taken.Cursor, nil
}

// receiptTime bounds the receipts of one answer: the next sync waits for them.
const receiptTime = 2 * time.Second

// receipts marks the last message of each room as read that was stored.
func (c *Channel) receipts(ctx context.Context, all []said, taken []channels.BatchResult) {
	ctx, cancel := context.WithTimeout(ctx, receiptTime)
	defer cancel()
	last := map[string]string{}
	for i, s := range all {
		if taken[i].Err == nil && !taken[i].Duplicate && s.Tell == "" {
			last[s.Chat] = s.event
		}
	}
	for room, id := range last {
		_, err := call[struct{}](ctx, &c.client, channels.Post(struct{}{}, "rooms", room, "receipt", "m.read", id))
		if err != nil {
			c.site.Log.Debug().Err(err).Msg("a message was not marked as read")
			return
		}
	}
}

// joiner follows invitations beside the syncs: a room on a far homeserver takes long to join.
type joiner struct {
	channel   *Channel
	places    chan struct{}
	running   sync.WaitGroup
	since     time.Time // of the count of strangers
	strangers int
}

const (
	joinTime  = time.Minute
	joinTries = 3
	// strangersAnHour is how many direct chats of strangers are joined, so that they can be given a code: as many as
	// there are codes.
	strangersAnHour = corebot.MaxOpenPairings
)

// follow joins the rooms of those who may invite.
func (j *joiner) follow(ctx context.Context, door channels.Door, me self, invited map[string]json.RawMessage) {
	if time.Since(j.since) > time.Hour {
		j.since, j.strangers = time.Now(), strangersAnHour
	}
	for _, room := range slices.Sorted(maps.Keys(invited)) {
		var i invitation
		if lenient(invited[room], &i) != nil || !isRoom(room) {
			continue
		}
		server, yes := j.channel.accepts(ctx, door, me, room, i, &j.strangers)
		if !yes {
			continue
		}
		select {
		case j.places <- struct{}{}:
		case <-time.After(time.Second):
			j.channel.site.Log.Warn().Str("room", room).Msg("too many rooms are being joined: this one is left out")
			continue
		}
		j.running.Go(func() {
			defer func() { <-j.places }()
			j.channel.join(ctx, room, server)
		})
	}
}

func (c *Channel) join(ctx context.Context, room, server string) {
	for try := 1; ; try++ {
		tried, cancel := context.WithTimeout(ctx, joinTime)
		_, err := call[struct{}](tried, &c.client, channels.Post(struct{}{}, "join", room).With("server_name", server))
		cancel()
		switch {
		case err == nil:
			c.site.Log.Info().Str("room", room).Msg("an invitation was followed")
			return
		case try == joinTries || ctx.Err() != nil:
			c.site.Log.Warn().Err(err).Str("room", room).Msg(
				"a room could not be joined; another invitation tries it again",
			)
			return
		}
		backoff.Sleep(ctx, time.Duration(try)*time.Second)
	}
}
