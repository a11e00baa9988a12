package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/backoff"
)

// position is the text of a cursor: a session of the gateway. It also has what is needed to fetch messages once the
// platform has forgotten that session.
type position struct {
	Bot     string `json:"bot"`
	Since   string `json:"since"`             // the highest id that was received; empty: the bot begins
	Session string `json:"session,omitempty"` // empty: none
	Seq     int64  `json:"seq,omitempty"`
	URL     string `json:"url,omitempty"` // where the session is resumed
	// Direct are direct chats, the last that wrote first: no list of the platform has them.
	Direct string `json:"direct,omitempty"`
}

const (
	mostDirect = 150
	maxSession = 200
	storeAfter = time.Minute // a position behind which nothing was said is stored that often
)

// text is the position as it is stored.
func (p position) text() string {
	text, _ := json.Marshal(p) // texts and numbers: cannot fail
	return string(text)
}

// wrote notes a direct chat.
func (p *position) wrote(chat string) {
	chats := strings.Fields(p.Direct)
	if len(chats) > 0 && chats[0] == chat {
		return
	}
	chats = slices.DeleteFunc(chats, func(other string) bool { return other == chat })
	p.Direct = strings.Join(append([]string{chat}, chats[:min(len(chats), mostDirect-1)]...), " ")
}

// receiver is one run of the channel.
type receiver struct {
	*Channel
	door     channels.Door
	me       self
	cursor   corebot.Cursor // as it is stored
	at       position
	storedAt time.Time
	stored   atomic.Int64 // the sequence of the stored position; negative: none
}

// Run receives until ctx ends. A connection that breaks and a refused token are errors: the supervisor runs the channel
// again.
func (c *Channel) Run(ctx context.Context, door channels.Door) error {
	err := c.receive(ctx, door)
	if ctx.Err() != nil {
		return nil
	}
	if errors.Is(err, disallowed) { // what the portal allows has changed
		c.mu.Lock()
		c.bot = self{}
		c.mu.Unlock()
	}
	return err
}

func (c *Channel) receive(ctx context.Context, door channels.Door) error {
	me, err := c.me(ctx)
	if err != nil {
		return err
	}
	door.Alive()
	c.register(ctx, me)
	r := &receiver{Channel: c, door: door, me: me, storedAt: time.Now()}
	if r.cursor, err = door.Cursor(ctx); err != nil {
		return err
	}
	r.at = begin(me, r.cursor)
	if r.cursor.Position != "" && r.at.Since == "" {
		c.site.Log.Warn().Msg("the stored position cannot be read, or is of another bot: what was said until now is " +
			"not answered")
	}
	for {
		err := r.connect(ctx)
		switch {
		case errors.Is(err, errForgotten):
			c.site.Log.Warn().Err(err).Msg("what was said meanwhile is fetched channel by channel")
			r.at.Session, r.at.Seq, r.at.URL = "", 0, ""
			backoff.Sleep(ctx, time.Second+rand.N(time.Second)) // the platform asks for a pause
		case errors.Is(err, errReconnect):
			backoff.Sleep(ctx, rand.N(time.Second))
		default:
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// begin reads a stored position. Another bot begins anew.
func begin(me self, cursor corebot.Cursor) (p position) {
	if json.Unmarshal([]byte(cursor.Position), &p) != nil || p.Bot != me.id || p.Since != "" && !isID(p.Since) {
		p = position{}
	}
	p.Bot = me.id
	if p.Seq < 0 || p.Session == "" || len(p.Session) > maxSession {
		p.Session, p.Seq, p.URL = "", 0, ""
	}
	chats := slices.DeleteFunc(strings.Fields(p.Direct), func(chat string) bool { return !isID(chat) })
	p.Direct = strings.Join(chats[:min(len(chats), mostDirect)], " ")
	return p
}

// connect makes one connection and receives until it ends.
func (r *receiver) connect(ctx context.Context) error {
	address, from := r.at.URL, ""
	if r.at.Session == "" || !isGateway(address, r.local()) {
		var err error
		if address, from, err = r.whereToConnect(ctx); err != nil {
			return err
		}
	}
	r.stored.Store(-1)
	if r.at.Session != "" {
		r.stored.Store(r.at.Seq)
	}
	g, err := dial(ctx, address, r.door.Alive, &r.stored)
	if err != nil {
		r.at.URL = "" // the next try asks for another
		return err
	}
	op, data := opResume, any(map[string]any{
		"token": r.client.token, "session_id": r.at.Session, "seq": r.at.Seq,
	})
	if r.at.Session == "" {
		op, data = opIdentify, map[string]any{
			"token": r.client.token, "intents": r.me.intents(),
			"properties": map[string]any{"os": "linux", "browser": "corebot", "device": "corebot"},
		}
	}
	if err := g.begin(ctx, op, data); err != nil {
		_ = g.ws.Close()
		return err
	}
	defer g.close()
	for {
		events, err := g.next(ctx, corebot.MaxBatch)
		if err != nil {
			return err
		}
		if err := r.take(ctx, events, from); err != nil {
			return err
		}
	}
}

// local says whether the HTTP API is on this machine, so that the gateway may be there, too.
func (c *Channel) local() bool {
	u, err := url.Parse(c.settings.APIURL)
	return err == nil && u.Scheme == "http"
}

// whereToConnect asks for the address of the gateway. The platform bounds how many sessions a bot begins in a day, and
// resets the token of one that begins more. The result now is the lowest id of the platform's present, by its own
// clock.
func (r *receiver) whereToConnect(ctx context.Context) (address, now string, err error) {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	answer, err := r.client.do(ctx, channels.Get("gateway", "bot"))
	if err != nil {
		return "", "", fmt.Errorf("ask Discord for its gateway: %w", err)
	}
	var bot struct {
		URL   string `json:"url"`
		Limit struct {
			Remaining *int    `json:"remaining"`
			After     float64 `json:"reset_after"`
		} `json:"session_start_limit"`
	}
	if err := lenient(answer.Body, &bot); err != nil || !isGateway(bot.URL, r.local()) {
		return "", "", r.client.wire.Strange("gateway/bot", answer.Status, errors.Join(err,
			fmt.Errorf("%.300q is no address of a gateway", bot.URL)))
	}
	if left := bot.Limit.Remaining; r.at.Session == "" && left != nil && *left <= 0 {
		return "", "", corebot.WithHint(fmt.Errorf("the bot has begun too many sessions: Discord takes the next in %v",
			time.Duration(bot.Limit.After)*time.Millisecond),
			"nothing is lost; look whether another program uses the same token")
	}
	at, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		at = time.Now()
	}
	return strings.TrimRight(bot.URL, "/") + "/", firstAt(at), nil
}

// take gives what has come to the door. The position moves with it.
func (r *receiver) take(ctx context.Context, events []payload, from string) error {
	next := r.at
	var all []said
	for _, e := range events {
		switch e.Type {
		case "READY":
			if err := r.ready(ctx, e, from, &next); err != nil {
				return err
			}
			// The session is stored at once, also while nobody has room. Else a bot that is ended before its first
			// message has room would begin behind that message.
			if err := r.give(ctx, all, next); err != nil {
				return err
			}
			all = nil
		case "RESUMED":
			r.site.Log.Debug().Msg("the session goes on")
		default:
			more, err := r.read(ctx, r.me, e, &next)
			if err != nil {
				return err
			}
			all = append(all, more...)
		}
		next.Seq = *e.Sequence
	}
	if len(all) == 0 && r.cursor.Position != "" && time.Since(r.storedAt) < storeAfter && next.Session == r.at.Session {
		r.at = next
		return nil
	}
	return r.give(ctx, all, next)
}

// give stores messages and the position behind them, and waits while nobody has room. Then it acknowledges.
func (r *receiver) give(ctx context.Context, all []said, to position) error {
	batch := make([]channels.Incoming, len(all))
	for i, s := range all {
		batch[i] = s.Incoming
	}
	for {
		taken, err := channels.AcceptAll(ctx, r.door, batch, r.cursor, to.text())
		r.cursor = taken.Cursor
		if busy := (*corebot.Busy)(nil); errors.As(err, &busy) {
			r.site.Log.Warn().Err(err).Msg("no room for what was received; it waits")
			backoff.Sleep(ctx, busy.RetryAfter)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if err != nil {
			return err
		}
		r.at, r.storedAt = to, time.Now()
		if to.Session != "" {
			r.stored.Store(to.Seq)
		}
		r.acknowledge(ctx, all, taken.Messages)
		return nil
	}
}

// ready begins a session. It first fetches the messages since the last session. Only then is the new session stored,
// and its events are processed.
func (r *receiver) ready(ctx context.Context, e payload, from string, next *position) error {
	var ready struct {
		User    user   `json:"user"`
		Session string `json:"session_id"`
		URL     string `json:"resume_gateway_url"`
	}
	if err := lenient(e.Data, &ready); err != nil || ready.User.ID != r.me.id || ready.Session == "" ||
		len(ready.Session) > maxSession {
		return fmt.Errorf("the gateway began a session that cannot be used: %w", errors.Join(err,
			fmt.Errorf("it is of the user %.100q", ready.User.ID)))
	}
	if next.Since == "" { // the bot begins here: what was said before is not for it
		next.Since = firstAt(madeAt(from).Add(margin))
	} else if err := r.fill(ctx, next); err != nil {
		return err
	}
	next.Session, next.Seq = ready.Session, *e.Sequence
	if next.URL = strings.TrimRight(ready.URL, "/") + "/"; !isGateway(next.URL, r.local()) {
		next.URL = ""
	}
	return nil
}
