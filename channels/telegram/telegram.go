package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/backoff"
	"github.com/corebot/corebot/internal/lazy"
)

// Settings are what an account needs, under channels.telegram.ACCOUNT.
type Settings struct {
	Token  string        `mapstructure:"token" secret:"yes" doc:"the token of the bot, as @BotFather gave it"`
	APIURL string        `mapstructure:"api_url" doc:"where the Bot API is: Telegram's own, or a server of yours"`
	Poll   time.Duration `mapstructure:"poll" min:"1s" doc:"how long Telegram holds an empty poll; at most 50s"`
	Stream time.Duration `mapstructure:"stream" min:"0" doc:"show answers while they grow: the time between edits"`

	Webhook     string `mapstructure:"webhook_url" doc:"the public address Telegram posts to; empty: Corebot polls"`
	WebhookAddr string `mapstructure:"webhook_addr" doc:"where Corebot listens for what a proxy passes on from there"`
}

const (
	standardURL  = "https://api.telegram.org"
	maxPoll      = 50 * time.Second // the platform's own limit
	standardAddr = "127.0.0.1:8443"
	streamLeast  = time.Second // Telegram takes about one message a second of a chat
)

// tokens is the form of a token: the bot's id and a secret.
var tokens = lazy.Regexp(`^([0-9]{1,18}):[A-Za-z0-9_-]{20,200}$`)

// Validate refuses settings that cannot work.
func (s Settings) Validate() error {
	if s.Token == "" {
		return corebot.WithHint(errors.New("token is empty"),
			"ask @BotFather on Telegram for a bot; keep its token in a file and set token to file:telegram.token")
	}
	if !tokens().MatchString(s.Token) {
		return corebot.WithHint(errors.New("token has not the form of a bot's token, NUMBER:SECRET"),
			"copy the whole line that @BotFather gave, such as 123456:AA…")
	}
	u, err := url.Parse(s.APIURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return corebot.WithHint(fmt.Errorf("api_url %q is no address of a server", s.APIURL),
			"leave it out for Telegram's own, or write one such as http://127.0.0.1:8081")
	}
	if s.Poll > maxPoll {
		return corebot.WithHint(fmt.Errorf("poll is %v", s.Poll), "Telegram holds a poll for at most 50s")
	}
	if err := channels.CheckStream(s.Stream, streamLeast, s.APIURL); err != nil {
		return err
	}
	_, err = hookOf(s)
	return err
}

// Network describes Telegram for the list of networks in package internal/app.
func Network() channels.Network {
	return channels.NewNetwork(channels.Kind{
		Name: "telegram", People: true, Redelivers: 24 * time.Hour, About: "a bot of Telegram",
		Questions: []channels.Question{
			{Key: "api_url", Text: "Address of the Bot API"},
			{Key: "token", Text: "Token of the bot", Hint: "Write /newbot to @BotFather on Telegram to get one."},
		},
	}, Settings{APIURL: standardURL, Poll: maxPoll, WebhookAddr: standardAddr}, New)
}

// Channel receives and sends for one bot.
type Channel struct {
	client client
	poll   time.Duration
	hook   hook
	stream time.Duration // between two edits of a draft; zero: there are no drafts
	site   channels.Site
	id     int64 // of the bot
}

var (
	_ channels.Periodic = (*Channel)(nil)
	_ channels.Checker  = (*Channel)(nil)
	_ channels.Reacher  = (*Channel)(nil)
	_ channels.Typer    = (*Channel)(nil)
	_ channels.Buttons  = (*Channel)(nil)
	_ channels.Editor   = (*Channel)(nil)
)

// New makes the channel of an account. It connects to nothing.
func New(s Settings, site channels.Site) (_ channels.Channel, err error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	c := &Channel{
		client: client{
			base:  strings.TrimRight(s.APIURL, "/") + "/bot" + s.Token + "/",
			files: strings.TrimRight(s.APIURL, "/") + "/file/bot" + s.Token + "/",
			wire:  channels.NewWire("the Bot API", "channels.telegram.ACCOUNT.api_url", s.Token),
		},
		poll: s.Poll, stream: s.Stream, site: site,
	}
	if c.hook, err = hookOf(s); err != nil {
		return nil, err
	}
	_, err = fmt.Sscan(tokens().FindStringSubmatch(s.Token)[1], &c.id)
	return c, err
}

// answerGrace is how long an answer of the platform can take, beyond the time for which a poll is held.
const answerGrace = 10 * time.Second

// Period implements [channels.Periodic].
func (c *Channel) Period() time.Duration {
	if c.hook.url != "" {
		return c.hook.watch + answerGrace
	}
	return c.poll + answerGrace
}

// Reach implements [channels.Reacher].
func (c *Channel) Reach(ctx context.Context) error {
	_, err := c.client.me(ctx)
	return err
}

// Check implements [channels.Checker].
func (c *Channel) Check(ctx context.Context) (string, error) {
	me, err := c.client.me(ctx)
	if err != nil {
		return "", err
	}
	info, err := c.client.webhook(ctx)
	if err != nil {
		return "", err
	}
	says := fmt.Sprintf("known as @%s", me.Username)
	if !me.ReadsAll {
		says += "; in groups it sees only what is meant for it"
	}
	switch {
	case info.URL == c.hook.url && info.URL != "":
		says += fmt.Sprintf("; Telegram posts to its webhook, and %v", info)
	case info.URL != "": // before the next start it can be of this account, with other settings
		return says, errOtherWebhook
	case c.hook.url != "":
		says += "; `corebot serve` sets its webhook"
	}
	return says, nil
}

// Run receives updates until ctx ends. A connection that breaks, a conflict and a refused token are errors: the
// supervisor runs the channel again.
func (c *Channel) Run(ctx context.Context, door channels.Door) error {
	err := c.receive(ctx, door)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *Channel) receive(ctx context.Context, door channels.Door) error {
	me, err := c.client.me(ctx)
	if err != nil {
		return err
	}
	door.Alive()
	if _, err := call[bool](ctx, &c.client, "setMyCommands", menu()); err != nil {
		c.site.Log.Warn().Err(err).Msg("the commands were not registered; people can still type them")
	}
	cursor, err := door.Cursor(ctx)
	if err != nil {
		return err
	}
	if c.hook.url != "" {
		return c.serve(ctx, door, me, cursor)
	}
	cursor, err = c.unhook(ctx, door, cursor)
	for err == nil {
		var updates []update
		asked := time.Now()
		if updates, err = c.fetch(ctx, cursor); err != nil {
			break
		}
		door.Alive()
		if len(updates) == 0 && time.Since(asked) < c.poll/2 { // a proxy can answer polls at once
			backoff.Sleep(ctx, time.Second)
		}
		if len(updates) > 0 {
			cursor, err = c.acceptAll(ctx, door, me, updates, cursor)
		}
	}
	return err
}

// mostUpdates bounds a fetch. The platform gives at most 100.
const mostUpdates = 100

// wanted are the updates that Corebot reads.
var wanted = []string{"message", "edited_message", "callback_query"}

// fetch waits for updates behind the cursor. The request confirms the updates before the cursor.
func (c *Channel) fetch(ctx context.Context, cursor corebot.Cursor) ([]update, error) {
	ctx, cancel := context.WithTimeout(ctx, c.poll+answerGrace)
	defer cancel()
	ask := map[string]any{
		"timeout": int(c.poll / time.Second), "limit": mostUpdates,
		"allowed_updates": wanted,
	}
	if cursor.Position != "" {
		offset, err := parseID(cursor.Position)
		if err != nil {
			return nil, fmt.Errorf("the stored offset: %w", err)
		}
		ask["offset"] = offset
	}
	found, err := call[[]update](ctx, &c.client, "getUpdates", ask)
	if err != nil {
		return nil, fmt.Errorf("fetch updates: %w", err)
	}
	return found, nil
}

// acceptAll gives one fetch to the door. If the queue has no room, the offset stays, and a later fetch gets the same
// updates again.
func (c *Channel) acceptAll(ctx context.Context, door channels.Door, me bot, updates []update,
	cursor corebot.Cursor,
) (corebot.Cursor, error) {
	batch, err := c.accept(ctx, door, me, updates, cursor, fmt.Sprint(updates[len(updates)-1].ID+1))
	if busy := (*corebot.Busy)(nil); errors.As(err, &busy) {
		c.site.Log.Warn().Err(err).Msg("no room for what was fetched; it is fetched again")
		backoff.Sleep(ctx, busy.RetryAfter)
		return cursor, nil
	}
	if err != nil {
		return cursor, err
	}
	c.answerPresses(ctx, batch)
	return batch.Cursor, nil
}

// accepted is what became of updates. presses has the id of each press of a button, by the index of its message in the
// batch.
type accepted struct {
	channels.AcceptedBatch
	presses map[int]string
}

// accept gives updates to the door, and moves the cursor to a position with them.
func (c *Channel) accept(ctx context.Context, door channels.Door, me bot, updates []update, cursor corebot.Cursor,
	to string,
) (a accepted, err error) {
	var batch []channels.Incoming
	a.presses = map[int]string{}
	for _, u := range updates {
		in, relevant, err := me.read(u)
		if err != nil {
			c.site.Log.Warn().Int64("update", u.ID).Err(err).Msg("an update cannot be read, and is left out")
		}
		if !relevant {
			continue
		}
		if u.Callback != nil {
			a.presses[len(batch)] = u.Callback.ID
		}
		batch = append(batch, in)
	}
	a.AcceptedBatch, err = door.AcceptBatch(ctx, batch, cursor.To(to))
	return a, err
}

// pressAnswerTime bounds the answers to all presses of one batch. The next poll waits for these answers.
const pressAnswerTime = 5 * time.Second

// answerPresses tells the programs of people who pressed buttons that the press has arrived: each program shows a
// waiting button until then. A notice tells the chat what comes of the press.
func (c *Channel) answerPresses(ctx context.Context, batch accepted) {
	ctx, cancel := context.WithTimeout(ctx, pressAnswerTime)
	defer cancel()
	for at, query := range batch.presses {
		args := pressed(query, batch.Messages[at].Err)
		if _, err := call[bool](ctx, &c.client, "answerCallbackQuery", args); err != nil {
			c.site.Log.Debug().Err(err).Msg("the press of a button was not answered")
		}
	}
}

// pressed are the arguments of the answer to a press.
func pressed(query string, refused error) map[string]any {
	args := map[string]any{"callback_query_id": query}
	if refused != nil {
		args["text"], args["show_alert"] = "This was not accepted.", true
	}
	return args
}
