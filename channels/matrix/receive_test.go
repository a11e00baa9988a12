package matrix_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/matrix"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
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
func begun(t *testing.T, s *matrixtest.Server, d *channeltest.Door) (stop func()) {
	t.Helper()
	_, stop = run(t, open(t, s), d)
	until(t, "the position is stored", func() bool { return d.Position() != "" })
	return stop
}

func say(s *matrixtest.Server, texts ...string) {
	for _, text := range texts {
		s.Say(matrixtest.Said{Room: room, Text: text})
	}
}

func TestWhatWasSaidBeforeTheFirstSyncIsNotAnswered(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(room)
	say(s, "old", "older")
	stop := begun(t, s, d)
	say(s, "new")
	until(t, "the new message is stored", func() bool { return slices.Equal(d.Texts(), []string{"new"}) })
	if want := matrixtest.Bot + " s"; !strings.HasPrefix(d.Position(), want) {
		t.Errorf("the position is %q", d.Position())
	}
	stop()
	say(s, "while away")
	run(t, open(t, s), d)
	until(t, "both are stored", func() bool { return slices.Equal(d.Texts(), []string{"new", "while away"}) })
}

func TestAPositionOfAnotherUserOrOfAForgottenTimeBeginsAnew(t *testing.T) {
	for name, position := range map[string]string{
		"another user": "@other:test s1_0", "a lost homeserver": matrixtest.Bot + " s999_0",
	} {
		t.Run(name, func(t *testing.T) {
			s, d := platform(t), &channeltest.Door{}
			s.Room(room)
			say(s, "old")
			if _, err := d.AcceptBatch(t.Context(), nil, corebot.Cursor{Position: position}); err != nil {
				t.Fatal(err)
			}
			run(t, open(t, s), d)
			until(t, "the position is another", func() bool { return d.Position() != position })
			say(s, "new")
			until(t, "the new message is stored", func() bool { return slices.Equal(d.Texts(), []string{"new"}) })
		})
	}
}

func TestThePositionMovesOnlyBehindWhatIsStored(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(room)
	begun(t, s, d)()
	before := d.Position()
	d.Take = func([]channels.Incoming) ([]error, error) { return nil, errors.New("the disk is gone") }
	say(s, "one")
	ended, _ := run(t, open(t, s), d)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the disk is gone") || d.Position() != before {
		t.Fatalf("the run ended with %v at %q", err, d.Position())
	}
	tries := 0
	d.Take = func([]channels.Incoming) ([]error, error) {
		if tries++; tries < 3 {
			return nil, &corebot.Busy{Err: corebot.ErrOverloaded, RetryAfter: time.Millisecond}
		}
		return nil, nil
	}
	run(t, open(t, s), d)
	until(t, "the message is stored", func() bool { return slices.Equal(d.Texts(), []string{"one"}) })
	until(t, "it is marked as read", func() bool { return s.Read(room) == d.Got()[0].ID })
	if tries != 3 {
		t.Errorf("it was given %d times", tries)
	}
}

func TestAnOutageOfAnyLengthIsFetchedInOrderAndHoldsUpNoOtherRoom(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(room)
	s.Room("!other:test", "@bob:test")
	begun(t, s, d)()
	var want []string
	for i := range 1000 {
		want = append(want, fmt.Sprint("message ", i))
	}
	say(s, want...)
	s.Say(matrixtest.Said{Room: "!other:test", From: "@bob:test", Text: "hello"})
	_, stop := run(t, open(t, s), d)
	until(t, "all are stored", func() bool { return len(d.Got()) == 1001 })
	if got := d.Texts(); got[0] != "hello" || !slices.Equal(got[1:], want) {
		t.Errorf("%d messages begin with %q", len(got), got[:5])
	}
	stop()
	if got := s.Calls("messages"); len(got) > 15 {
		t.Errorf("they took %d pages", len(got))
	}
}

func TestACrashInTheMiddleOfAGapRepeatsAndLosesNothing(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(room)
	begun(t, s, d)()
	before := d.Position()
	var want []string
	for i := range 300 {
		want = append(want, fmt.Sprint("message ", i))
	}
	say(s, want...)
	batches := 0
	d.Take = func([]channels.Incoming) ([]error, error) {
		if batches++; batches == 3 {
			return nil, errors.New("the disk is gone")
		}
		return nil, nil
	}
	ended, _ := run(t, open(t, s), d)
	if err := <-ended; err == nil || d.Position() != before || len(d.Got()) == 0 {
		t.Fatalf("the run ended with %v at %q with %d messages", err, d.Position(), len(d.Got()))
	}
	d.Take = nil
	run(t, open(t, s), d)
	until(t, "all are stored", func() bool { return len(d.Got()) == 300 })
	if got := d.Texts(); !slices.Equal(got, want) {
		t.Errorf("the messages are %q", got)
	}
}

func TestAnAnswerThatIsTooLongIsAskedForInSmallerParts(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Room(room)
	begun(t, s, d)()
	for range 20 {
		say(s, strings.Repeat("x", 1<<20))
	}
	run(t, open(t, s), d)
	until(t, "all are stored", func() bool { return len(d.Got()) == 20 })
}

func TestAnInvitationIsFollowedByTheRuleOfAccess(t *testing.T) {
	for name, c := range map[string]struct {
		admits error
		direct bool
		others []string
		joined bool
	}{
		"who may talk invites":                    {nil, false, []string{"@bob:test"}, true},
		"who may not talk":                        {channels.ErrNotAdmitted, true, nil, false},
		"a stranger who can be let in, alone":     {channels.ErrNotPaired, true, nil, true},
		"a stranger who can be let in, in a room": {channels.ErrNotPaired, false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := platform(t), &channeltest.Door{Admits: func(in channels.Incoming) error {
				if in.SenderID != matrixtest.Ann || in.Chat != room || in.Envelope.Group == c.direct {
					t.Errorf("asked for %+v", in)
				}
				return c.admits
			}}
			begun(t, s, d)
			s.Invite(room, matrixtest.Ann, c.direct, c.others...)
			say(s, "at once")
			if c.joined {
				until(t, "what was said before the arrival is stored", func() bool {
					return slices.Equal(d.Texts(), []string{"at once"})
				})
				return
			}
			s.Room("!other:test", "@bob:test")
			s.Say(matrixtest.Said{Room: "!other:test", From: "@bob:test", Text: "afterwards"})
			until(t, "it has gone on", func() bool { return slices.Contains(d.Texts(), "afterwards") })
			if got := s.Membership(room); got != "invite" || len(s.Calls("join")) != 0 {
				t.Errorf("the account is %s", got)
			}
		})
	}
}

func TestStrangersGetAsManyRoomsAnHourAsThereAreCodes(t *testing.T) {
	s, d := platform(t), &channeltest.Door{Admits: func(channels.Incoming) error { return channels.ErrNotPaired }}
	begun(t, s, d)
	for i := range 10 {
		s.Invite(fmt.Sprintf("!room%d:test", i), fmt.Sprintf("@eve%d:test", i), true)
	}
	until(t, "some are joined", func() bool { return len(s.Calls("join")) == corebot.MaxOpenPairings })
	s.Invite("!last:test", "@eve:test", true)
	s.Room("!other:test", "@bob:test")
	s.Say(matrixtest.Said{Room: "!other:test", From: "@bob:test", Text: "afterwards"})
	until(t, "it has gone on", func() bool { return slices.Contains(d.Texts(), "afterwards") })
	if n := len(s.Calls("join")); n != corebot.MaxOpenPairings {
		t.Errorf("%d rooms were joined", n)
	}
}

func TestTheHistoryOfARoomIsNotAnsweredAfterAnInvitation(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	begun(t, s, d)
	s.Faults(func(c matrixtest.Call) matrixtest.Fault { return matrixtest.Fault{Drop: c.Name == "join"} })
	const old = "!old:test"
	s.Invite(old, matrixtest.Ann, true)
	s.Member(old, matrixtest.Bot, "leave")
	for i := range 40 {
		s.Say(matrixtest.Said{Room: old, Text: fmt.Sprint("history ", i)})
	}
	s.Invite(old, matrixtest.Ann, true)
	var want []string
	for i := range 60 { // more than an answer has
		want = append(want, fmt.Sprint("to the bot ", i))
		s.Say(matrixtest.Said{Room: old, Text: want[i]})
	}
	s.Faults(nil)
	until(t, "what is new is stored", func() bool { return len(d.Got()) >= 60 })
	if got := d.Texts(); !slices.Equal(got, want) {
		t.Errorf("the messages are %q", got)
	}
}

// failing runs a channel and gives the error of its end.
func failing(t *testing.T, c channels.Channel) error {
	t.Helper()
	ended, _ := run(t, c, &channeltest.Door{})
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatal("the run goes on")
		return nil
	}
}

func TestARunSaysWhyTheHomeserverDoesNotServeIt(t *testing.T) {
	for name, c := range map[string]struct {
		spoil      func(*matrixtest.Server)
		says, hint string
	}{
		"the token was revoked": {func(s *matrixtest.Server) { s.Revoke(false) }, "was revoked", "docs/channels.md"},
		"the token has expired": {
			func(s *matrixtest.Server) { s.Revoke(true) },
			"logged the account out softly",
			"device_id",
		},
		"nobody is there":        {func(s *matrixtest.Server) { s.Close() }, "cannot be reached", "homeserver"},
		"something else answers": {page(200, "<html>hello</html>"), "not the homeserver", "homeserver"},
		"a proxy redirects":      {page(302, "moved"), "not the homeserver: Found", "homeserver"},
		"a server without Matrix": {
			func(s *matrixtest.Server) {
				s.Faults(func(matrixtest.Call) matrixtest.Fault {
					return matrixtest.Fault{Status: 404, Code: "M_UNRECOGNIZED", Error: "no"}
				})
			}, "not the homeserver: Not Found", "homeserver",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := platform(t)
			channel := open(t, s)
			c.spoil(s)
			err := failing(t, channel)
			if !strings.Contains(fmt.Sprint(err), c.says) || !strings.Contains(corebot.HintOf(err), c.hint) {
				t.Errorf("it ended with %v; hint: %s", err, corebot.HintOf(err))
			}
			if _, err := open(t, s).Check(t.Context()); !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("a check says %v", err)
			}
		})
	}
}

func page(status int, text string) func(*matrixtest.Server) {
	return func(s *matrixtest.Server) {
		s.Faults(func(matrixtest.Call) matrixtest.Fault { return matrixtest.Fault{Status: status, Page: text} })
	}
}

func TestACheckSaysAsWhomTheAccountIsKnown(t *testing.T) {
	if got, err := open(t, platform(t)).Check(t.Context()); !strings.HasPrefix(got, "known as "+matrixtest.Bot+"; ") ||
		!strings.Contains(got, "encrypted rooms") || err != nil {
		t.Errorf("it says %q, %v", got, err)
	}
}

func TestAPositionThatCannotBeReadIsSaid(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	if _, err := d.AcceptBatch(t.Context(), nil, corebot.Cursor{Position: "damaged"}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- openWith(t, s, zerolog.New(&log)).Run(ctx, d) }()
	for began := time.Now(); d.Position() == "damaged" && time.Since(began) < 10*time.Second; {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
	if !strings.Contains(log.String(), "the stored position cannot be read") {
		t.Errorf("the log has %s", log.String())
	}
}

func TestTheTokenStandsInNoErrorAndNoLog(t *testing.T) {
	s := platform(t)
	var log bytes.Buffer
	made := openWith(t, s, zerolog.New(&log))
	var all []error
	for _, fault := range []matrixtest.Fault{
		{Drop: true}, {Page: "oops"}, {
			Status: 400,
			Code:   "M_BAD",
			Error:  "token " + matrixtest.Token,
		}, {Page: "x", Status: 302},
	} {
		s.Faults(func(matrixtest.Call) matrixtest.Fault { return fault })
		all = append(all, failing(t, made))
	}
	s.Close()
	all = append(all, failing(t, made))
	for _, err := range all {
		if err == nil || strings.Contains(err.Error()+corebot.HintOf(err), matrixtest.Token) {
			t.Errorf("an error is %v", err)
		}
	}
	if strings.Contains(log.String(), matrixtest.Token) {
		t.Errorf("the log has %s", log.String())
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	good := matrix.Settings{Homeserver: "https://matrix.example.org", Token: matrixtest.Token, Poll: 30 * time.Second}
	for _, address := range []string{
		good.Homeserver, "http://127.0.0.1:8008", "http://localhost:8008/", "http://[::1]:8008",
	} {
		s := good
		if s.Homeserver = address; s.Validate() != nil {
			t.Errorf("%s: %v", address, s.Validate())
		}
	}
	for name, spoil := range map[string]func(*matrix.Settings){
		"token is empty":            func(s *matrix.Settings) { s.Token = "" },
		"token has not the form":    func(s *matrix.Settings) { s.Token = "a\nb" },
		"homeserver is empty":       func(s *matrix.Settings) { s.Homeserver = "" },
		"is no address":             func(s *matrix.Settings) { s.Homeserver = "example.org" },
		`"https://a:b@example.org"`: func(s *matrix.Settings) { s.Homeserver = "https://a:b@example.org" },
		"in the clear":              func(s *matrix.Settings) { s.Homeserver = "http://example.org" },
		"poll":                      func(s *matrix.Settings) { s.Poll = time.Hour },
	} {
		s := good
		spoil(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), name) || corebot.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
