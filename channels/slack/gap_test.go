package slack_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/slack"
	"github.com/corebot/corebot/channels/slack/slacktest"
)

// reconnect has an app begin and go away, and gives the app with its door, to be started again.
func reconnect(t *testing.T, s *slacktest.Server) *running {
	t.Helper()
	r := &running{s, t, open(t, s), &channeltest.Door{}, nil}
	stop := r.start()
	r.until("the app is connected", func() bool { return s.Connected() && r.door.Position() != "" })
	stop()
	r.channel = open(t, s)
	return r
}

func (r *running) has(text string) bool {
	return slices.ContainsFunc(r.door.Got(), func(in channels.Incoming) bool { return in.Text() == text })
}

func TestAChannelOfWhichTooMuchWasSaidMakesNoChatDeaf(t *testing.T) {
	s := platform(t)
	r := reconnect(t, s)
	for i := range slack.MaxFetched + 5 {
		s.Say(slacktest.Said{Channel: slacktest.Room, Text: fmt.Sprint("alert ", i)})
	}
	s.Say(slacktest.Said{Text: "in private"})
	r.start()
	r.until("what was said elsewhere came", func() bool { return r.has("in private") })
	s.Say(slacktest.Said{Text: "live"})
	r.until("what is said now comes", func() bool { return r.has("live") })
	if newest := fmt.Sprint("alert ", slack.MaxFetched+4); !r.has(newest) || r.has("alert 0") {
		t.Errorf("the oldest of too many came, or the newest, %q, did not", newest)
	}
}

// Slack gives a socket what is said from its hello on. Earlier words are in the history only.
func TestWhatIsSaidBeforeTheHelloOfASocketIsFetched(t *testing.T) {
	s := platform(t)
	r := reconnect(t, s)
	s.Shy(true)
	r.start()
	r.until("a socket is open", func() bool { return s.Waiting() == 1 })
	time.Sleep(100 * time.Millisecond) // in which an app that does not wait for the hello fetches, and finds nothing
	s.Say(slacktest.Said{Text: "right before the hello"})
	s.Shy(false)
	r.until("it came", func() bool { return r.has("right before the hello") })
}

func TestASocketWithoutAHelloIsDead(t *testing.T) {
	s := platform(t)
	s.Shy(true)
	r := &running{s, t, open(t, s), &channeltest.Door{}, nil}
	r.channel.Hurry(20*time.Millisecond, 500*time.Millisecond)
	r.start()
	select {
	case err := <-r.ended: // a machine that stands still hears no pong in that time
		if err == nil || !strings.Contains(err.Error(), "no hello") && !strings.Contains(err.Error(), "nothing was") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it is not noticed")
	}
}

func TestAChannelThatSlackDoesNotGiveMakesNoChatDeaf(t *testing.T) {
	for _, code := range []string{
		"ekm_access_denied", "no_permission", "access_denied", "team_access_not_granted", "missing_scope", "a new code",
		"internal_error",
	} {
		t.Run(code, func(t *testing.T) {
			slack.Impatient(t)
			s := platform(t)
			r := reconnect(t, s)
			s.Say(slacktest.Said{Text: "in private"})
			var tries atomic.Int64
			s.Faults(func(c slacktest.Call) slacktest.Fault {
				if c.Method == "conversations.history" && c.Channel == slacktest.Room {
					tries.Add(1)
					return slacktest.Fault{Error: code}
				}
				return slacktest.Fault{}
			})
			r.start()
			r.until("what was said elsewhere came", func() bool { return r.has("in private") })
			if n, want := tries.Load(), map[bool]int64{true: 3, false: 1}[code == "internal_error"]; n > want {
				t.Errorf("Slack was asked %d times", n)
			}
		})
	}
}

func TestAClockThatWasAheadLosesNothing(t *testing.T) {
	s := platform(t)
	s.Behind(2 * time.Hour) // by this machine's clock, which is ahead
	r := reconnect(t, s)
	stop := r.start() // it fetches, and stores up to where
	s.Say(slacktest.Said{Text: "before"})
	r.until("the first message came", func() bool { return r.has("before") })
	stop()
	s.Say(slacktest.Said{Text: "while away"})
	r.channel = open(t, s)
	r.start()
	r.until("what was said while it was away came", func() bool { return r.has("while away") })
}

func TestAPositionThatCannotBeReadIsSaid(t *testing.T) {
	s, log := platform(t), &bytes.Buffer{}
	r := &running{s, t, openAt(t, s, channels.Site{Account: account, Log: zerolog.New(log)}), &channeltest.Door{}, nil}
	if _, err := r.door.AcceptBatch(t.Context(), nil, corebot.Cursor{Position: "damaged"}); err != nil {
		t.Fatal(err)
	}
	stop := r.start()
	r.until("it begins anew", func() bool { return r.door.Position() != "damaged" })
	stop()
	if !strings.Contains(log.String(), "the stored position cannot be read") {
		t.Errorf("the log has %s", log.String())
	}
}

func TestAFailureOfSlackItselfLosesNothing(t *testing.T) {
	s := platform(t)
	s.Behind(2 * time.Hour)
	r := reconnect(t, s)
	s.Say(slacktest.Said{Text: "while away"})
	s.Behind(0) // two hours later
	var fails atomic.Bool
	fails.Store(true)
	s.Faults(func(c slacktest.Call) slacktest.Fault {
		if c.Method == "conversations.history" && fails.Load() {
			return slacktest.Fault{Error: "internal_error"}
		}
		return slacktest.Fault{}
	})
	r.start()
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "internal_error") {
		t.Errorf("it ended with %v", err)
	}
	fails.Store(false)
	r.start() // as the supervisor does
	r.until("what was said meanwhile came", func() bool { return r.has("while away") })
}
