package slack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/slack"
	"github.com/corebot/corebot/channels/slack/slacktest"
)

const mention = "<@" + slacktest.Bot + ">"

func TestAnEnvelopeIsAcknowledgedAfterItsMessageIsStored(t *testing.T) {
	s := platform(t)
	r := &running{s, t, open(t, s), &channeltest.Door{}, nil}
	room := make(chan struct{})
	r.door.Take = func(batch []channels.Incoming) ([]error, error) {
		select {
		case <-room:
			return make([]error, len(batch)), nil
		default:
		}
		if len(batch) == 0 {
			return nil, nil
		}
		return nil, &corebot.Busy{Err: corebot.ErrLaneFull, RetryAfter: time.Millisecond}
	}
	r.start()
	r.until("the app is connected", func() bool { return s.Connected() && r.door.Position() != "" })
	s.Say(slacktest.Said{Text: "hello"})
	time.Sleep(20 * time.Millisecond)
	if n := s.Acked(); n != 0 {
		t.Fatalf("%d are acknowledged without room", n)
	}
	close(room)
	r.got(1)
	r.until("it is acknowledged", func() bool { return s.Acked() == 1 })
}

func TestRetriesAndDoubledEventsAreOneMessage(t *testing.T) {
	s := platform(t)
	s.Twice()
	r := run(t, s)
	s.Say(slacktest.Said{Channel: slacktest.Room, Text: mention + " hello"}) // as a message and as a mention
	s.Say(slacktest.Said{Text: "the end"})
	if got := r.got(2); len(got) != 2 || got[0].Text() != "hello" || !got[0].Envelope.Mentioned {
		t.Errorf("there is %+v", got)
	}
}

func TestWhatWasSaidInAnOutageIsFetchedInOrderWithItsThreads(t *testing.T) {
	s := platform(t)
	first := open(t, s)
	before := s.Say(slacktest.Said{Channel: slacktest.Room, Text: "before the begin"})
	r := &running{s, t, first, &channeltest.Door{}, nil}
	stop := r.start()
	r.until("the app is connected", func() bool { return s.Connected() && r.door.Position() != "" })
	root := s.Say(slacktest.Said{Channel: slacktest.Room, Text: "a thread"})
	r.got(1)
	stop()
	s.Say(slacktest.Said{Channel: slacktest.Room, Text: "in the thread", Thread: root})
	s.Say(slacktest.Said{Channel: slacktest.Room, Text: "in an old thread", Thread: before})
	for i := range 450 {
		s.Say(slacktest.Said{Channel: slacktest.Room, Text: fmt.Sprint("line ", i)})
	}
	s.Say(slacktest.Said{Text: "in private"})
	limits := 2
	s.Faults(func(c slacktest.Call) slacktest.Fault {
		if limits--; limits >= 0 && c.Method == "conversations.history" {
			return slacktest.Fault{Status: 429, RetryAfter: 1}
		}
		return slacktest.Fault{}
	})
	r.channel = open(t, s)
	r.start()
	r.got(1 + 2 + 450 + 1)
	var room []string
	for _, in := range r.door.Got() {
		if strings.HasPrefix(in.Text(), "line ") {
			room = append(room, in.Text())
		}
		if want := map[string]string{"in the thread": root, "in an old thread": before}[in.Text()]; in.Thread != want {
			t.Errorf("%q is in the thread %q", in.Text(), in.Thread)
		}
		if in.Text() == "before the begin" {
			t.Error("what was said before the begin came in")
		}
	}
	inOrder := slices.IsSortedFunc(room, func(a, b string) int { return len(a) - len(b) })
	if len(room) != 450 || room[0] != "line 0" || room[449] != "line 449" || !inOrder {
		t.Errorf("%d lines, from %q", len(room), room[:3])
	}
}

func TestAConnectionThatSlackEndsIsMadeAgain(t *testing.T) {
	s := platform(t)
	r := run(t, s)
	s.Disconnect("refresh_requested")
	r.until("it is gone", func() bool { return !s.Connected() })
	s.Say(slacktest.Said{Text: "in between"})
	r.got(1)
	r.until("the app is connected", s.Connected)
	s.Disconnect("link_disabled")
	if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "socket mode is switched off") {
		t.Errorf("it ended with %v", err)
	}
}

// A connection can be open and dead: nothing comes, and nothing is refused.
func TestADeafSocketIsNoticedByItsMissingPong(t *testing.T) {
	s := platform(t)
	r := &running{s, t, open(t, s), &channeltest.Door{}, nil}
	r.channel.Hurry(20*time.Millisecond, 500*time.Millisecond)
	stop := r.start()
	r.until("the app is connected", s.Connected)
	select {
	case err := <-r.ended:
		t.Fatalf("it ended with %v, while pongs came", err)
	case <-time.After(time.Second):
	}
	s.Deafen(true)
	select {
	case err := <-r.ended:
		if err == nil || !strings.Contains(err.Error(), "nothing was heard of Slack in 520ms") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it is not noticed")
	}
	stop()
	r.start() // which hears nothing from its begin
	select {
	case <-r.ended:
	case <-time.After(10 * time.Second):
		t.Error("a socket that was never heard is not noticed")
	}
}

func TestAMessageIsReadAsAPersonSeesIt(t *testing.T) {
	s := platform(t)
	r := run(t, s)
	for i, c := range []struct {
		said      slacktest.Said
		want      string
		mentioned bool
	}{
		{slacktest.Said{Text: mention + " hello"}, "hello", true},
		{slacktest.Said{Text: mention + ": !status"}, "/status", true},
		{slacktest.Said{Text: "is " + mention + " there?"}, "is @corebot there?", true},
		{slacktest.Said{Text: mention}, "@corebot", true},
		{slacktest.Said{Text: mention + " :,"}, ":,", true},
		{slacktest.Said{Text: "hello <@U0BOB> in <#C1|general>, <!here>"}, "hello @U0BOB in #general, @here", false},
		{slacktest.Said{Text: "a &lt;b&gt; &amp;amp; <https://a.org|link>"}, "a <b> &amp; link (https://a.org)", false},
		{slacktest.Said{Text: "<mailto:a@b.org|a@b.org> <https://a.org>"}, "a@b.org https://a.org", false},
		{slacktest.Said{Text: "!hello"}, "!hello", false},
	} {
		c.said.Channel = slacktest.Room
		s.Say(c.said)
		in := r.got(i + 1)[i]
		if in.Text() != c.want || in.Envelope.Mentioned != c.mentioned || !in.Envelope.Group ||
			in.SenderName != "Ann" || in.SenderID != slacktest.Ann || !in.Interactive {
			t.Errorf("%q came in as %q, %+v", c.said.Text, in.Text(), in)
		}
	}
}

func TestWhoSaysSomethingIsWhoSlackSays(t *testing.T) {
	s := platform(t)
	r := run(t, s)
	s.Call("U0EVE", "Ann") // she calls herself so
	root := s.Say(slacktest.Said{Channel: slacktest.Room, Text: "a"})
	s.Say(slacktest.Said{Channel: slacktest.Room, User: slacktest.Ann, Team: "T2", Text: "b"})
	s.Say(slacktest.Said{Channel: slacktest.Room, User: "U0EVE", Text: "c"})
	s.Say(slacktest.Said{Channel: slacktest.Room, User: "U0X", BotID: "B0X", Text: mention + " d"})
	s.Say(slacktest.Said{Channel: slacktest.Room, BotID: "B0Y", Subtype: "bot_message", Text: "e"})
	s.Say(slacktest.Said{Channel: slacktest.Room, User: slacktest.Bot, BotID: slacktest.BotID, Text: "own"})
	s.Say(slacktest.Said{Channel: slacktest.Room, Subtype: "channel_join", Text: "joined"})
	s.Say(slacktest.Said{Text: "f"})
	got := r.got(6)
	want := []string{slacktest.Ann, "T2/" + slacktest.Ann, "U0EVE", "U0X", "", slacktest.Ann}
	for i, in := range got {
		if bot := i == 3 || i == 4; in.SenderID != want[i] || in.Bot != bot || in.Interactive == bot {
			t.Errorf("%d is %+v", i, in)
		}
	}
	if got[0].ID != root || got[5].Chat != slacktest.Direct || got[5].Envelope.Group {
		t.Errorf("there is %+v", got)
	}
}

func TestAnswersToCorebotInAThreadAreMeantForIt(t *testing.T) {
	s := platform(t)
	r := run(t, s)
	sent, err := r.channel.Send(t.Context(), channels.Outbound{
		ID: "r1", IdempotencyKey: "r1", Key: keyOf(slacktest.Room, ""), Kind: corebot.KindReply,
		Parts: corebot.TextPart("a reminder"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Say(slacktest.Said{Channel: slacktest.Room, Thread: sent.IDs[0], Text: "done"})
	if in := r.got(1)[0]; !in.Envelope.Mentioned || in.Thread != sent.IDs[0] {
		t.Errorf("it is %+v", in)
	}
}

func TestFilesButtonsAndSlashCommandsComeIn(t *testing.T) {
	s := platform(t)
	r := run(t, s)
	s.Say(slacktest.Said{Subtype: "file_share", Files: []any{
		map[string]any{"name": "../a.png", "mimetype": "image/png"},
		map[string]any{"name": "b.ogg", "mimetype": "audio/ogg"},
		map[string]any{"name": strings.Repeat("c", 999), "mimetype": "application/zip"},
	}})
	in := r.got(1)[0]
	if len(in.Parts) != 3 || in.Parts[0].Type != corebot.PartImage || in.Parts[1].Type != corebot.PartAudio ||
		in.Parts[2].Type != corebot.PartFile || len(in.Parts[2].Name) > 255 {
		t.Errorf("the files came in as %+v", in.Parts)
	}
	at := slacktest.Message{TS: "1700000000.000200", Thread: "1700000000.000100"}
	s.Press("U0EVE", slacktest.Room, at, "/approve 7")
	in = r.got(2)[1]
	if in.SenderID != "U0EVE" || in.Text() != "/approve 7" || in.Thread != at.Thread || !in.Interactive ||
		!in.Envelope.Mentioned {
		t.Errorf("the press came in as %+v", in)
	}
	s.Press("U0EVE", slacktest.Room, at, "not a command")
	s.Slash(slacktest.Room, "status")
	s.Slash(slacktest.Room, "how are you?")
	s.Slash(slacktest.Room, "")
	if got := r.got(5); got[2].Text() != "/status" || got[3].Text() != "how are you?" || got[4].Text() != "/help" {
		t.Errorf("there is %q", r.door.Texts())
	}
	r.until("all are acknowledged", func() bool { return s.Acked() == 6 })
}

func TestHostilePayloadsHoldUpNothing(t *testing.T) {
	s := platform(t)
	r := run(t, s)
	of := func(team string, event any) any { return map[string]any{"team_id": team, "event": event} }
	type m = map[string]any
	for _, payload := range []any{
		nil, "text", 7,
		[]int{1},
		of(slacktest.Team, 7),
		of(slacktest.Team, m{"type": "message", "ts": 7, "channel": "C1"}),
		of("T2", m{"type": "message", "ts": "1.000001", "channel": "C1", "user": "U1", "text": "x"}),
		of(slacktest.Team, m{"type": "message", "ts": "1.000001", "channel": "../x", "user": "U1", "text": "x"}),
		m{"type": "block_actions", "actions": []any{m{}}},
	} {
		for _, kind := range []string{"events_api", "interactive", "slash_commands", "unknown"} {
			s.Raw(kind, payload)
		}
	}
	s.Say(slacktest.Said{Text: "the end"})
	if got := r.got(1); got[0].Text() != "the end" {
		t.Errorf("there is %+v", got)
	}
	r.until("all are acknowledged", func() bool { return s.Acked() == 37 })
}

func TestARefusedTokenIsNamedAndHidden(t *testing.T) {
	s := platform(t)
	c := open(t, s)
	if says, err := c.Check(t.Context()); err != nil || says != "known as corebot in the workspace" {
		t.Errorf("it says %q, %v", says, err)
	}
	s.Revoke()
	_, err := open(t, s).Check(t.Context())
	if err == nil || corebot.HintOf(err) == "" || strings.Contains(err.Error(), "secret") {
		t.Errorf("a revoked token: %v", err)
	}
	good := slack.Settings{Token: slacktest.Token, AppToken: slacktest.AppToken, APIURL: "https://slack.com/api"}
	for name, change := range map[string]func(*slack.Settings){
		"the tokens are exchanged": func(s *slack.Settings) { s.Token, s.AppToken = s.AppToken, s.Token },
		"no token":                 func(s *slack.Settings) { s.Token = "" },
		"a user token":             func(s *slack.Settings) { s.Token = "xoxp-1234567890-secret" },
		"in the clear":             func(s *slack.Settings) { s.APIURL = "http://slack.com/api" },
		"no address":               func(s *slack.Settings) { s.APIURL = "slack" },
	} {
		bad := good
		change(&bad)
		if err := bad.Validate(); err == nil || corebot.HintOf(err) == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
