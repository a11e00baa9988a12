package discord

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/lazy"
)

// Settings are what an account needs, under channels.discord.ACCOUNT.
type Settings struct {
	Token    string   `mapstructure:"token" secret:"yes" doc:"the token of the bot, as the developer portal gave it"`
	APIURL   string   `mapstructure:"api_url" doc:"where the HTTP API is: Discord's own, or a server of yours"`
	Guilds   []string `mapstructure:"guilds" doc:"the ids of the servers in which the bot listens; none: all"`
	Channels []string `mapstructure:"channels" doc:"the ids of the channels in which the bot listens; none: all"`

	Stream time.Duration `mapstructure:"stream" min:"0" doc:"show answers while they grow: the time between edits"`
}

const (
	standardURL = "https://discord.com/api/v10"
	streamLeast = time.Second // Discord takes about five edits in five seconds in a channel
)

// tokens is the form of a token: the id of the bot, a time and a signature.
var tokens = lazy.Regexp(`^[A-Za-z0-9_-]{17,40}\.[A-Za-z0-9_-]{4,20}\.[A-Za-z0-9_-]{20,100}$`)

// Validate refuses settings that cannot work.
func (s Settings) Validate() error {
	if s.Token == "" {
		return corebot.WithHint(errors.New("token is empty"),
			"docs/channels.md says how to make a bot; keep its token in a file and set token to file:discord.token")
	}
	if !tokens().MatchString(s.Token) {
		return corebot.WithHint(errors.New("token has not the form of a bot's token"),
			"copy the token of the page Bot in the developer portal, without the word Bot; it is not the client secret")
	}
	u, err := url.Parse(s.APIURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.User != nil ||
		u.Fragment != "" {
		return corebot.WithHint(fmt.Errorf("api_url %q is no address of a server", s.APIURL),
			"leave it out for Discord's own, or write one such as http://127.0.0.1:8081/api/v10")
	}
	if u.Scheme == "http" && !channels.Loopback(u.Hostname()) {
		return corebot.WithHint(fmt.Errorf("api_url %q would be sent the token in the clear", s.APIURL),
			"use https; http is for a server on this machine")
	}
	for key, ids := range map[string][]string{"guilds": s.Guilds, "channels": s.Channels} {
		for _, id := range ids {
			if !isID(id) {
				return corebot.WithHint(fmt.Errorf("%s has %q, which is no id of Discord", key, id),
					"ids are numbers in quotes; with Developer Mode on, Discord copies them from the menu of a name")
			}
		}
	}
	return channels.CheckStream(s.Stream, streamLeast, s.APIURL)
}

// Network describes Discord for the list of networks in package internal/app.
func Network() channels.Network {
	return channels.NewNetwork(channels.Kind{
		Name: "discord", People: true, Redelivers: 24 * time.Hour, About: "a bot of Discord",
		Questions: []channels.Question{
			{Key: "api_url", Text: "Address of the HTTP API"},
			{Key: "token", Text: "Token of the bot", Hint: "The page Bot of https://discord.com/developers shows it."},
		},
	}, Settings{APIURL: standardURL, Guilds: []string{}, Channels: []string{}}, New)
}

// Channel is one bot.
type Channel struct {
	client   client
	settings Settings
	site     channels.Site

	mu         sync.Mutex
	bot        self // zero: the platform was not asked yet
	registered bool // the commands
	places     known[place]
	authors    known[author] // of messages, for deletions: the platform does not say whose message it was
	sent       known[string] // the ids of the bot's messages, by their nonce
}

var (
	_ channels.Periodic   = (*Channel)(nil)
	_ channels.Checker    = (*Channel)(nil)
	_ channels.Typer      = (*Channel)(nil)
	_ channels.Buttons    = (*Channel)(nil)
	_ channels.Reconciler = (*Channel)(nil)
	_ channels.Editor     = (*Channel)(nil)
)

// New makes the channel of an account. It connects to nothing.
func New(s Settings, site channels.Site) (channels.Channel, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Channel{
		client: client{
			base: strings.TrimRight(s.APIURL, "/") + "/", token: s.Token,
			wire: channels.NewWire("Discord", "channels.discord.ACCOUNT.api_url", s.Token),
		},
		settings: s, site: site,
	}, nil
}

// period bounds how long the gateway says nothing. It acknowledges a heartbeat each 41 seconds.
const period = time.Minute

// Period implements [channels.Periodic].
func (c *Channel) Period() time.Duration { return period }

// Check implements [channels.Checker].
func (c *Channel) Check(ctx context.Context) (string, error) {
	me, err := c.me(ctx)
	if err != nil {
		return "", err
	}
	says := "known as @" + me.name
	if !me.reads {
		says += "; in servers it sees only what mentions it, until the Message Content Intent is switched on"
	}
	return says, nil
}

// self is who the token stands for.
type self struct {
	id    string
	name  string
	app   string // the id of the application
	reads bool   // the platform gives it the text of messages that do not mention it
}

// Flags of an application: it was given the content of messages, or takes it as a small bot.
const flagsOfContent = 1<<18 | 1<<19

// user is somebody on the platform.
type user struct {
	ID     string `json:"id"`
	Name   string `json:"username"`
	Global string `json:"global_name"`
	Bot    bool   `json:"bot"`
}

// me asks the platform who the bot is, once.
func (c *Channel) me(ctx context.Context) (self, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bot.id != "" {
		return c.bot, nil
	}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	who, err := call[user](ctx, &c.client, channels.Get("users", "@me"))
	if err != nil {
		return self{}, fmt.Errorf("ask Discord who the bot is: %w", err)
	}
	app, err := call[struct {
		ID    string `json:"id"`
		Flags int64  `json:"flags"`
	}](ctx, &c.client, channels.Get("applications", "@me"))
	if err != nil {
		return self{}, fmt.Errorf("ask Discord for the application of the bot: %w", err)
	}
	if !isID(who.ID) || !isID(app.ID) {
		return self{}, c.client.wire.Strange("users/@me", 200, fmt.Errorf("%.100q is no user", who.ID))
	}
	c.bot = self{id: who.ID, name: who.Name, app: app.ID, reads: app.Flags&flagsOfContent != 0}
	return c.bot, nil
}

// inGuild says whether the settings leave a server to the bot. A direct chat is in none.
func (c *Channel) inGuild(guild string) bool {
	return guild == "" || len(c.settings.Guilds) == 0 || slices.Contains(c.settings.Guilds, guild)
}

// listens says whether the settings leave a place to the bot. To name a channel is to name its threads.
func (c *Channel) listens(guild, channel string, at place) bool {
	chosen := c.settings.Channels
	return guild == "" || c.inGuild(guild) &&
		(len(chosen) == 0 || slices.Contains(chosen, channel) || slices.Contains(chosen, at.chat))
}
