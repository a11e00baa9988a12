package discord_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/discord/discordtest"
)

// patience bounds every wait.
const patience = 10 * time.Second

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%v pass without: %s", patience, what)
		}
	}
}

// run receives until stop is called or the test ends; the error of the run comes from ended.
func run(t *testing.T, c channels.Channel, d channels.Door) (ended <-chan error, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { errs <- c.Run(ctx, d) })
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	return errs, stop
}

// begun runs a channel until it has a place from which it receives.
func begun(t *testing.T, s *discordtest.Server, d *channeltest.Door) (stop func()) {
	t.Helper()
	_, stop = run(t, open(t, s), d)
	until(t, "the position is stored", func() bool { return d.Position() != "" && s.Connected() > 0 })
	return stop
}

func say(s *discordtest.Server, texts ...string) {
	for _, text := range texts {
		s.Say(discordtest.Said{Text: text})
	}
}

func TestWhatWasSaidBeforeTheFirstConnectionIsNotAnswered(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Say(discordtest.Said{Text: "old", At: time.Now().Add(-time.Hour)})
	stop := begun(t, s, d)
	say(s, "new")
	until(t, "the new message is stored", func() bool { return slices.Equal(d.Texts(), []string{"new"}) })
	stop()
	say(s, "while away")
	run(t, open(t, s), d)
	until(t, "both are stored", func() bool { return slices.Equal(d.Texts(), []string{"new", "while away"}) })
	if n := s.Begun(); n != 1 {
		t.Errorf("%d sessions have begun", n)
	}
}

// TestAForgottenSessionIsFilledChannelByChannel: the platform has told nothing of an hour.
func TestAForgottenSessionIsFilledChannelByChannel(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	const thread, hidden, other = "600000000000000001", "300000000000000002", "300000000000000003"
	s.Open(hidden, discordtest.Text, "")
	s.Open(other, discordtest.Text, "")
	s.Say(discordtest.Said{Channel: other, Text: "nothing new here", At: time.Now().Add(-time.Hour)})
	stop := begun(t, s, d)
	say(s, "first")
	until(t, "it is stored", func() bool { return len(d.Got()) == 1 })
	stop()
	s.Forget()
	s.Open(thread, discordtest.Thread, discordtest.Room)
	s.Hide(hidden)
	var want []string
	for n := range 230 { // more than two pages
		want = append(want, fmt.Sprint("room ", n))
		s.Say(discordtest.Said{Channel: discordtest.Room, Text: want[n]})
	}
	s.Say(discordtest.Said{Channel: hidden, Text: "nobody can read it"})
	s.Say(discordtest.Said{Channel: thread, Text: "in the thread"})
	say(s, "to the bot alone")
	run(t, open(t, s), d)
	until(t, "the direct chat is filled", func() bool { return slices.Contains(d.Texts(), "to the bot alone") })
	until(t, "all is stored", func() bool { return len(d.Got()) == 233 })
	say(s, "live")
	until(t, "what comes now is stored", func() bool { return slices.Contains(d.Texts(), "live") })
	var room []string
	for _, in := range d.Got() {
		switch {
		case in.Text() == "in the thread" && (in.Chat != discordtest.Room || in.Thread != thread):
			t.Errorf("the thread is %s of %s", in.Thread, in.Chat)
		case in.Chat == discordtest.Room && in.Thread == "":
			room = append(room, in.Text())
			if !in.Envelope.Group {
				t.Errorf("%q is no message of a group", in.Text())
			}
		}
	}
	if !slices.Equal(room, want) {
		t.Errorf("the channel has %d messages: %.300q", len(room), room)
	}
	for _, c := range s.Calls("messages") {
		if c.Channel == other {
			t.Error("a channel without news was asked for its history")
		}
	}
}

// TestAHeartbeatNamesNoMessageThatIsNotStored: the platform may forget what a heartbeat has named.
func TestAHeartbeatNamesNoMessageThatIsNotStored(t *testing.T) {
	s := platform(t)
	s.Beat = 40 * time.Millisecond // a busy machine must not look deaf
	var held atomic.Bool
	d := &channeltest.Door{Take: func(batch []channels.Incoming) ([]error, error) {
		if held.Load() {
			return nil, &corebot.Busy{Err: corebot.ErrOverloaded, RetryAfter: 2 * time.Millisecond}
		}
		return nil, nil
	}}
	begun(t, s, d)
	until(t, "the session is named", func() bool { return s.Named() > 0 })
	held.Store(true)
	before := s.Named()
	say(s, "one", "two", "three")
	time.Sleep(3 * s.Beat)
	if now := s.Named(); now > before+1 { // the server is told to the bot as an event, too
		t.Errorf("a heartbeat names %d, and what is stored is %d", now, before)
	}
	held.Store(false)
	until(t, "all is stored", func() bool { return len(d.Got()) == 3 })
	until(t, "a heartbeat names it", func() bool { return s.Named() >= before+3 })
}

func TestADeafGatewayEndsTheRun(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Beat = 10 * time.Millisecond
	ended, _ := run(t, open(t, s), d)
	until(t, "the position is stored", func() bool { return d.Position() != "" })
	s.Deafen(true)
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "did not acknowledge a heartbeat") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it has not ended")
	}
}

// TestWhatTheGatewayAsksForIsDone: neither of it is a failure, and nothing is lost.
func TestWhatTheGatewayAsksForIsDone(t *testing.T) {
	for name, k := range map[string]struct {
		ask      func(*discordtest.Server)
		sessions int
	}{
		"to connect again": {func(s *discordtest.Server) { s.Reconnect() }, 1},
		"a session ends":   {func(s *discordtest.Server) { s.Invalidate() }, 2},
		"its sequence":     {func(s *discordtest.Server) { s.Forget(); s.Disconnect(4007) }, 2},
		"a timeout":        {func(s *discordtest.Server) { s.Forget(); s.Disconnect(4009) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, d := platform(t), &channeltest.Door{}
			begun(t, s, d)
			say(s, "before")
			until(t, "it is stored", func() bool { return len(d.Got()) == 1 })
			k.ask(s)
			say(s, "after")
			until(t, "both are stored", func() bool { return slices.Equal(d.Texts(), []string{"before", "after"}) })
			if n := s.Begun(); n != k.sessions {
				t.Errorf("%d sessions have begun", n)
			}
		})
	}
}

func TestTheErrorOfAConnectionSaysWhatMendsIt(t *testing.T) {
	for name, k := range map[string]struct {
		of         func(*discordtest.Server)
		code       int // with which the gateway closes; 0: it is not reached
		says, hint string
	}{
		"a revoked token":   {func(s *discordtest.Server) { s.Revoke() }, 0, "unknown to Discord", "developer portal"},
		"a token meanwhile": {nil, 4004, "unknown to Discord", "developer portal"},
		"intents":           {nil, 4014, "does not allow the intents", "Privileged Gateway Intents"},
		"shards":            {nil, 4011, "wants shards", "take it out of servers"},
		"too many sessions": {
			func(s *discordtest.Server) { s.Starts(0) }, 0, "begun too many sessions",
			"another program uses the same token",
		},
		"a page": {func(s *discordtest.Server) {
			s.Faults(func(discordtest.Call) discordtest.Fault { return discordtest.Fault{Page: "<html>", Status: 200} })
		}, 0, "is not Discord", "channels.discord.ACCOUNT.api_url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, d := platform(t), &channeltest.Door{}
			if k.of != nil {
				k.of(s)
			}
			ended, _ := run(t, open(t, s), d)
			if k.code != 0 {
				until(t, "it is connected", func() bool { return s.Connected() > 0 })
				s.Disconnect(k.code)
			}
			err := <-ended
			if err == nil || !strings.Contains(err.Error(), k.says) || !strings.Contains(corebot.HintOf(err), k.hint) {
				t.Errorf("it ended with %v; hint: %s", err, corebot.HintOf(err))
			}
			if err != nil && strings.Contains(err.Error(), discordtest.Token) {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

// TestWhatOnlyAPersonCanMendIsTriedSeldom: Discord has 1,000 beginnings of sessions in a day for a bot.
func TestWhatOnlyAPersonCanMendIsTriedSeldom(t *testing.T) {
	for _, code := range []int{4004, 4011, 4013, 4014} {
		s, d, asked := platform(t), &channeltest.Door{}, atomic.Int64{}
		s.Faults(func(c discordtest.Call) discordtest.Fault {
			if c.Name == "application" {
				asked.Add(1)
			}
			return discordtest.Fault{}
		})
		c := open(t, s)
		for range 2 {
			ended, _ := run(t, c, d)
			until(t, "it is connected", func() bool { return s.Connected() > 0 })
			s.Disconnect(code)
			f := (*corebot.Failure)(nil)
			if err := <-ended; !errors.As(err, &f) || f.RetryAfter < 10*time.Minute {
				t.Errorf("after %d it ended with %v, to be tried again in %+v", code, err, f)
			}
			until(t, "it is gone", func() bool { return s.Connected() == 0 })
		}
		if n := asked.Load(); code >= 4013 && n != 2 {
			t.Errorf("after %d the intents of the application were read %d times", code, n)
		}
	}
}

func TestAPositionThatCannotBeReadIsSaid(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	if _, err := d.AcceptBatch(t.Context(), nil, corebot.Cursor{Position: "damaged"}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	_, stop := run(t, openWith(t, s, zerolog.New(&log), nil), d)
	until(t, "it is connected", func() bool { return s.Connected() > 0 })
	stop()
	if !strings.Contains(log.String(), "the stored position cannot be read") {
		t.Errorf("the log has %s", log.String())
	}
}

// TestADuplicateIsOneMessage: the platform can send an event again under another sequence.
// The gateway tells of reactions only a bot that has asked for them, in servers and in direct chats.
func TestReactionsToTheBotComeInWhereverTheyAre(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	begun(t, s, d)
	direct := discordtest.DirectOf(discordtest.Ann)
	say(s, "hello")
	until(t, "the message is stored", func() bool { return len(d.Got()) == 1 })
	own := discordtest.User{ID: discordtest.BotID, Name: "corebot", Bot: true}
	for _, at := range []string{direct, discordtest.Room} {
		answer := s.Say(discordtest.Said{Channel: at, From: own, Text: "an answer"})
		s.React(discordtest.Ann, at, answer, "👍")
	}
	until(t, "both are stored", func() bool { return len(d.Got()) == 3 })
	for _, in := range d.Got()[1:] {
		if !in.Aside || in.SenderID != discordtest.Ann.ID || !strings.Contains(in.Text(), "👍") {
			t.Errorf("it came in as %+v", in)
		}
	}
}

func TestADuplicateIsOneMessage(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	begun(t, s, d)
	say(s, "one", "two")
	until(t, "both are stored", func() bool { return len(d.Got()) == 2 })
	s.Replay(1)
	say(s, "three")
	until(t, "the third is stored", func() bool { return len(d.Got()) == 3 })
	if got := d.Texts(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("stored are %q", got)
	}
}

// TestWhatCannotBeReadHoldsNothingUp sends events of every form.
func TestWhatCannotBeReadHoldsNothingUp(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	begun(t, s, d)
	for _, kind := range []string{
		"MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK", "INTERACTION_CREATE",
		"THREAD_CREATE", "AN_EVENT_OF_NEXT_YEAR",
	} {
		for _, data := range []any{
			nil, 7, "x",
			[]any{},
			map[string]any{},
			map[string]any{"id": 7, "channel_id": "../..", "author": "x"},
			map[string]any{"id": "7", "channel_id": "8", "guild_id": "x", "author": map[string]any{"id": "9"}},
			map[string]any{"id": "7", "token": "a/b", "type": 2, "channel_id": "7", "user": map[string]any{"id": "x"}},
		} {
			s.Push(kind, data)
		}
	}
	say(s, "hello")
	until(t, "what comes behind is stored", func() bool { return slices.Equal(d.Texts(), []string{"hello"}) })
}

func TestAnotherBotUnderTheSameNameBeginsAnew(t *testing.T) {
	for _, position := range []string{"", "x", `{"bot":"1","since":"7","session":"s"}`, `{"bot":7}`} {
		s, d := platform(t), &channeltest.Door{}
		if _, err := d.AcceptBatch(t.Context(), nil, corebot.Cursor{Position: position}); err != nil {
			t.Fatal(err)
		}
		run(t, open(t, s), d)
		until(t, "it has begun", func() bool { return strings.Contains(d.Position(), discordtest.BotID) })
		if s.Begun() != 1 {
			t.Errorf("after %q %d sessions have begun", position, s.Begun())
		}
	}
}
