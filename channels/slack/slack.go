package slack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/lazy"
)

// Settings are what an account needs, under channels.slack.ACCOUNT.
type Settings struct {
	Token    string `mapstructure:"token" secret:"yes" doc:"the token of the bot user, xoxb-…"`
	AppToken string `mapstructure:"app_token" secret:"yes" doc:"the token of the app for socket mode, xapp-…"`
	APIURL   string `mapstructure:"api_url" doc:"where the Web API is: Slack's own, or a server of yours"`

	Stream time.Duration `mapstructure:"stream" min:"0" doc:"show answers while they grow: the time between edits"`
}

const (
	standardURL = "https://slack.com/api"
	streamLeast = 2 * time.Second // Slack takes about 50 edits a minute of an app, and replies need some of them
)

var (
	botTokens = lazy.Regexp(`^xoxb-[A-Za-z0-9-]{10,300}$`)
	appTokens = lazy.Regexp(`^xapp-[A-Za-z0-9-]{10,300}$`)
)

// Validate refuses settings that cannot work.
func (s Settings) Validate() error {
	if !botTokens().MatchString(s.Token) {
		return corebot.WithHint(errors.New("token has not the form of a bot token, xoxb-…"),
			"copy the Bot User OAuth Token of the app; keep it in a file and set token to file:slack.token")
	}
	if !appTokens().MatchString(s.AppToken) {
		return corebot.WithHint(errors.New("app_token has not the form of an app token, xapp-…"),
			"make an app-level token with the scope connections:write, and set app_token to file:slack.app_token")
	}
	u, err := url.Parse(s.APIURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return corebot.WithHint(fmt.Errorf("api_url %q is no address of a server", s.APIURL),
			"leave it out for Slack's own, or write one such as http://127.0.0.1:8081/api")
	}
	if u.Scheme == "http" && !channels.Loopback(u.Hostname()) {
		return corebot.WithHint(fmt.Errorf("api_url %q would be sent the tokens in the clear", s.APIURL),
			"use https; http is for a server on this machine")
	}
	return channels.CheckStream(s.Stream, streamLeast, s.APIURL)
}

// Network describes Slack for the list of networks in package internal/app.
func Network() channels.Network {
	return channels.NewNetwork(channels.Kind{
		Name: "slack", People: true, Redelivers: 24 * time.Hour, About: "an app of Slack",
		Questions: []channels.Question{
			{Key: "token", Text: "Bot token of the app, xoxb-…", Hint: "docs/channels.md says how to make the app."},
			{Key: "app_token", Text: "App-level token, xapp-…", Hint: "Its scope is connections:write."},
		},
	}, Settings{APIURL: standardURL}, New)
}

// Channel is one app in one workspace.
type Channel struct {
	bot, app client
	local    bool // the API is on this machine
	site     channels.Site
	stream   time.Duration
	pings    time.Duration // between two of them
	patience time.Duration // how long a pong can take

	mu    sync.Mutex
	user  self // zero: Slack was not asked yet
	names names

	failed map[string]time.Time // channels that Slack itself has failed to give, and since when; guarded by mu
}

var (
	_ channels.Periodic      = (*Channel)(nil)
	_ channels.Checker       = (*Channel)(nil)
	_ channels.Buttons       = (*Channel)(nil)
	_ channels.Reconciler    = (*Channel)(nil)
	_ channels.Editor        = (*Channel)(nil)
	_ channels.EditsTogether = (*Channel)(nil)
)

// New makes the channel of an account. It connects to nothing.
func New(s Settings, site channels.Site) (channels.Channel, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	base := strings.TrimRight(s.APIURL, "/") + "/"
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	ahead := new(atomic.Int64)
	open := func(token, setting string) client {
		return client{base, token, setting, channels.NewWire("Slack", "channels.slack.ACCOUNT.api_url", token), ahead}
	}
	return &Channel{
		bot: open(s.Token, "token"), app: open(s.AppToken, "app_token"),
		local: channels.Loopback(u.Hostname()), site: site,
		stream: s.Stream, pings: pingEvery, patience: slack,
	}, nil
}

const (
	pingEvery = 20 * time.Second
	slack     = 10 * time.Second // how long Slack has for an answer
)

// Period implements [channels.Periodic].
func (c *Channel) Period() time.Duration { return c.pings + c.patience }

// Check implements [channels.Checker].
func (c *Channel) Check(ctx context.Context) (string, error) {
	me, err := c.me(ctx)
	if err != nil {
		return "", err
	}
	if _, err := c.link(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("known as %s in %s", me.name, me.workspace), nil
}

// self is the bot user of the token.
type self struct{ id, bot, name, team, workspace string }

// me is the bot user. Slack is asked until it has answered once.
func (c *Channel) me(ctx context.Context) (self, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.user.id != "" {
		return c.user, nil
	}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	var a struct {
		User      string `json:"user_id"`
		Bot       string `json:"bot_id"`
		Name      string `json:"user"`
		Team      string `json:"team_id"`
		Workspace string `json:"team"`
	}
	if err := c.bot.call(ctx, "auth.test", nil, &a); err != nil {
		return self{}, fmt.Errorf("ask Slack who the bot is: %w", err)
	}
	if !isID(a.User) || !isID(a.Team) {
		return self{}, c.bot.wire.Strange("auth.test", 200, errors.New("it names no user"))
	}
	c.user = self{id: a.User, bot: a.Bot, name: a.Name, team: a.Team, workspace: a.Workspace}
	return c.user, nil
}

var (
	ids    = lazy.Regexp(`^[A-Z0-9]{2,40}$`)
	stamps = lazy.Regexp(`^[0-9]{1,12}\.[0-9]{6}$`)
)

// isID says whether a text is an id of a user, a channel or a workspace; isStamp whether it names a message.
func isID(s string) bool    { return ids().MatchString(s) }
func isStamp(s string) bool { return stamps().MatchString(s) }

// link asks Slack for the address of a socket. The address must be encrypted, unless the API is on this machine.
func (c *Channel) link(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	var a struct {
		URL string `json:"url"`
	}
	if err := c.app.call(ctx, "apps.connections.open", nil, &a); err != nil {
		return "", fmt.Errorf("ask Slack for a socket: %w", err)
	}
	u, err := url.Parse(a.URL)
	if err != nil || u.Scheme != "wss" && (u.Scheme != "ws" || !c.local || !channels.Loopback(u.Hostname())) {
		return "", c.app.wire.Strange("apps.connections.open", 200, errors.New("it names no safe address of a socket"))
	}
	return a.URL, nil
}

// names are the display names of people, by their ids. At maxNames all are forgotten, and each is asked for again when
// needed.
type names struct {
	known map[string]string
	off   bool // the app lacks the scope to ask, until the next start
}

const maxNames = 1000

// nameOf is the display name of a user; empty: it is not known, or Slack could not be asked.
func (c *Channel) nameOf(ctx context.Context, user string) string {
	c.mu.Lock()
	name, known := c.names.known[user]
	off := c.names.off
	c.mu.Unlock()
	if known || off || !isID(user) {
		return name
	}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	var a struct {
		User struct {
			RealName string `json:"real_name"`
			Profile  struct {
				Display string `json:"display_name"`
			} `json:"profile"`
		} `json:"user"`
	}
	err := c.bot.call(ctx, "users.info", args{"user": user}, &a)
	if name = strings.TrimSpace(a.User.Profile.Display); name == "" {
		name = strings.TrimSpace(a.User.RealName)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names.known == nil || len(c.names.known) >= maxNames {
		c.names.known = map[string]string{}
	}
	if refusedFor(err, "missing_scope") {
		c.names.off = true
	}
	if err == nil || refusedFor(err, "user_not_found", "user_not_visible") {
		c.names.known[user] = name
	}
	return name
}
