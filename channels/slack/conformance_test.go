package slack_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/slack"
	"github.com/corebot/corebot/channels/slack/slacktest"
)

var account = channels.Account{Kind: "slack", Name: "main"}

// platform is a workspace that ends with the test, about whose app it has nothing to complain.
func platform(t *testing.T) *slacktest.Server {
	t.Helper()
	s := slacktest.New()
	t.Cleanup(func() {
		s.Close()
		for _, c := range s.Complaints() {
			t.Errorf("the platform complains: %s", c)
		}
	})
	return s
}

// open makes the channel of the app.
func open(t *testing.T, s *slacktest.Server) *slack.Channel {
	t.Helper()
	return openAt(t, s, channels.Site{Account: account, Log: zerolog.Nop()})
}

func openAt(t *testing.T, s *slacktest.Server, site channels.Site) *slack.Channel {
	t.Helper()
	c, err := slack.New(slack.Settings{Token: slacktest.Token, AppToken: slacktest.AppToken, APIURL: s.URL()},
		site)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*slack.Channel)
}

func TestSlackKeepsTheGuaranteesOfAChannel(t *testing.T) {
	for name, threaded := range map[string]bool{"in private": false, "in a thread of a channel": true} {
		t.Run(name, func(t *testing.T) {
			channeltest.Run(t, func(t *testing.T) channeltest.Subject { return subject(t, threaded) })
		})
	}
}

func TestSlackGetsOverMisfortunes(t *testing.T) {
	channeltest.Misfortunes(t, func(t *testing.T) channeltest.Subject {
		return subject(t, false)
	})
}

func TestSlackGivesAMessageAgainAndItIsAnsweredOnce(t *testing.T) {
	channeltest.Redelivery(t, slack.Network().Redelivers, func(t *testing.T) channeltest.Subject {
		return subject(t, false)
	})
}

func subject(t *testing.T, threaded bool) channeltest.Subject {
	t.Helper()
	return subjectOf(t, platform(t), threaded)
}

func subjectOf(t *testing.T, s *slacktest.Server, threaded bool) channeltest.Subject {
	names := &channeltest.Names{}
	chat, thread, begin := slacktest.Direct, "", ""
	if threaded {
		chat, begin = slacktest.Room, "<@"+slacktest.Bot+"> "
		thread = s.Say(slacktest.Said{Channel: chat, Text: "the beginning"})
	}
	begun, files := false, channeltest.NewFiles(t)
	site := channels.Site{Account: account, Log: zerolog.Nop(), Files: files}
	return channeltest.Subject{
		Revoke: func() { s.Revoke(); s.Cut() }, Restore: s.Restore, Revoked: "the token is unknown to Slack",
		Secret: slacktest.Token, Closed: "C0CLOSED", Refused: "channel_not_found",
		Account: account, Chat: chat, Thread: thread, ID: names.Of,
		Open:  func() channels.Channel { return openAt(t, s, site) },
		Files: files, Uploads: func() []string { return s.Uploads(chat) }, TooLarge: 1<<20 + 1,
		Say: func(_ channels.Accepter, id, text string) {
			for began := time.Now(); !begun && !s.Connected() && time.Since(began) < 5*time.Second; {
				time.Sleep(time.Millisecond) // what was said before the first connection is not answered
			}
			begun = true
			names.Is(id, s.Say(slacktest.Said{Channel: chat, Thread: thread, Text: begin + text}))
		},
		Attach: func(_ channels.Accepter, id, text string, f channeltest.SentFile) string {
			for began := time.Now(); !s.Connected() && time.Since(began) < 5*time.Second; {
				time.Sleep(time.Millisecond)
			}
			s.Files.Put(f)
			address := strings.TrimSuffix(s.URL(), "/api") + "/files-pri/T1-F1/" + f.ID
			names.Is(id, s.Say(slacktest.Said{
				Channel: chat, Thread: thread, Text: begin + text, Files: []any{map[string]any{
					"id": "F1", "name": f.Name, "mimetype": f.MediaType, "size": f.Size,
					"url_private": address,
				}},
			}))
			return ""
		},
		Pose: func(id, text string) {
			s.Call(slacktest.Ann, "Ann")
			s.Call("U0OTHER", "Ann")
			names.Is(id, s.Say(slacktest.Said{
				Channel: chat, Thread: thread, User: "U0OTHER", Text: begin + text,
			}))
		},
		Edit: func(_ channels.Accepter, id, of, text string) {
			names.Is(id, names.Of(of)+"/edit/"+s.Edit(chat, names.Of(of), begin+text))
		},
		Delete: func(_ channels.Accepter, _, of string) { s.Delete(chat, names.Of(of)) },
		Again:  func(id string) { s.Again(chat, names.Of(id)) },
		Shown:  func() []string { return s.Texts(chat) },
		Cut:    s.Cut, Silence: s.Silence, Refuse: s.Refuse,
	}
}

// running is a channel that receives into a door.
type running struct {
	*slacktest.Server
	t       *testing.T
	channel *slack.Channel
	door    *channeltest.Door
	ended   chan error
}

// run connects an app to a workspace.
func run(t *testing.T, s *slacktest.Server) *running {
	t.Helper()
	r := &running{s, t, open(t, s), &channeltest.Door{}, nil}
	r.start()
	r.until("the app is connected", func() bool { return s.Connected() && r.door.Position() != "" })
	return r
}

// start runs the channel until the test ends; stop ends it before.
func (r *running) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r.ended = make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- r.channel.Run(ctx, r.door)
	}()
	stop = func() { cancel(); <-done }
	r.t.Cleanup(stop)
	return stop
}

// until waits for something to become true.
func (r *running) until(what string, is func() bool) {
	r.t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			r.t.Fatalf("10 s pass without: %s; there is %+v", what, r.door.Got())
		}
	}
}

// got waits for so many messages.
func (r *running) got(n int) []channels.Incoming {
	r.t.Helper()
	r.until("the messages came", func() bool { return len(r.door.Got()) >= n })
	return r.door.Got()
}

func keyOf(chat, thread string) corebot.Key {
	return corebot.Key{Agent: "main", Channel: "slack", Account: "main", Chat: chat, Thread: thread}
}
