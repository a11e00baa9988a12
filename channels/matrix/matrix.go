package matrix

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/matrix/sealed"
)

// Settings are what an account needs, under channels.matrix.ACCOUNT.
type Settings struct {
	Homeserver string        `mapstructure:"homeserver" doc:"the address of the homeserver of the account"`
	Token      string        `mapstructure:"token" secret:"yes" doc:"an access token of the account"`
	Hourly     int           `mapstructure:"hourly" min:"1" doc:"how many messages of a sender are answered in an hour"`
	Poll       time.Duration `mapstructure:"poll" min:"1s" doc:"how long an empty sync is held; at most 5m"`
	Stream     time.Duration `mapstructure:"stream" min:"0" doc:"show answers while they grow: the time between edits"`
}

const (
	standardPoll   = 30 * time.Second
	standardHourly = 120
	maxPoll        = 5 * time.Minute
	maxToken       = 4096
	streamLeast    = 5 * time.Second // Synapse takes one event of an account in five seconds, as it is installed
)

// Validate refuses settings that cannot work.
func (s Settings) Validate() error {
	if s.Homeserver == "" {
		return corebot.WithHint(errors.New("homeserver is empty"),
			"write the address of the homeserver of the account, such as https://matrix.example.org")
	}
	u, err := url.Parse(s.Homeserver)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.User != nil ||
		u.Fragment != "" {
		return corebot.WithHint(fmt.Errorf("homeserver %q is no address of a server", s.Homeserver),
			"write one such as https://matrix.example.org")
	}
	if u.Scheme == "http" && !channels.Loopback(u.Hostname()) {
		return corebot.WithHint(fmt.Errorf("homeserver %q would be sent the token in the clear", s.Homeserver),
			"use https; http is for a homeserver on this machine")
	}
	if s.Token == "" {
		return corebot.WithHint(errors.New("token is empty"),
			"docs/channels.md says how to log in; keep the token in a file and set token to file:matrix.token")
	}
	if len(s.Token) > maxToken || strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return corebot.WithHint(errors.New("token has not the form of an access token"),
			"copy the value of access_token, without quotes")
	}
	if s.Poll > maxPoll {
		return corebot.WithHint(
			fmt.Errorf("poll is %v", s.Poll),
			"a dead connection would be noticed too late: at most 5m",
		)
	}
	return channels.CheckStream(s.Stream, streamLeast, s.Homeserver)
}

// Network describes Matrix for the list of networks in package internal/app.
func Network() channels.Network {
	return channels.NewNetwork(channels.Kind{
		Name: "matrix", People: true, Redelivers: 24 * time.Hour, About: about(),
		Questions: []channels.Question{
			{Key: "homeserver", Text: "Address of the homeserver", Hint: "Such as https://matrix.example.org."},
			{Key: "token", Text: "Access token of the account", Hint: "docs/channels.md says how to log in for one."},
		},
	}, Settings{Hourly: standardHourly, Poll: standardPoll}, New)
}

// Channel is one account.
type Channel struct {
	client client
	keeper *sealed.Keeper // of the keys of encrypted rooms; nil: they cannot be read
	poll   time.Duration
	stream time.Duration
	site   channels.Site
	hourly channels.Hourly

	mu    sync.Mutex
	user  self  // zero: the homeserver was not asked yet
	rooms rooms // what is known of rooms
}

var (
	_ channels.Periodic      = (*Channel)(nil)
	_ channels.Checker       = (*Channel)(nil)
	_ channels.Noting        = (*Channel)(nil)
	_ channels.Typer         = (*Channel)(nil)
	_ channels.Reconciler    = (*Channel)(nil)
	_ channels.Editor        = (*Channel)(nil)
	_ channels.EditsTogether = (*Channel)(nil)
)

// New makes the channel of an account. It connects to nothing.
func New(s Settings, site channels.Site) (channels.Channel, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Channel{
		client: client{
			base: strings.TrimRight(s.Homeserver, "/") + apiPath, token: s.Token,
			wire: channels.NewWire("the homeserver", "channels.matrix.ACCOUNT.homeserver", s.Token),
		},
		keeper: keeperOf(s, site), poll: s.Poll, stream: s.Stream, site: site,
		hourly: channels.Hourly{Most: s.Hourly},
	}, nil
}

// slack is how long the homeserver has for an answer beyond what it was asked to wait.
const slack = 10 * time.Second

// Period implements [channels.Periodic].
func (c *Channel) Period() time.Duration { return c.poll + slack }

// Check implements [channels.Checker].
func (c *Channel) Check(ctx context.Context) (string, error) {
	me, err := c.me(ctx)
	if err != nil {
		return "", err
	}
	return "known as " + me.id + "; " + c.Note(), nil
}

// self is who the token stands for.
type self struct {
	id     string
	name   string // for people; empty: none
	device string // empty: the homeserver does not say
}

// me asks the homeserver who the account is, once.
func (c *Channel) me(ctx context.Context) (self, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.user.id != "" {
		return c.user, nil
	}
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	who, err := call[struct {
		ID     string `json:"user_id"`
		Device string `json:"device_id"`
	}](ctx, &c.client, channels.Get("account", "whoami"))
	if err != nil {
		return self{}, fmt.Errorf("ask the homeserver who the account is: %w", err)
	}
	if !isUser(who.ID) {
		return self{}, c.client.wire.Strange("whoami", 200, fmt.Errorf("%.300q is no user", who.ID))
	}
	profile, err := call[struct {
		Name string `json:"displayname"`
	}](ctx, &c.client, channels.Get("profile", who.ID))
	if refused := (*refusal)(nil); err != nil && !errors.As(err, &refused) { // without a profile there is no name
		return self{}, fmt.Errorf("ask the homeserver for the name of the account: %w", err)
	}
	c.user = self{id: who.ID, name: strings.TrimSpace(profile.Name), device: who.Device}
	return c.user, nil
}
