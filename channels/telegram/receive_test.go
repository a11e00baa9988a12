package telegram_test

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
	"github.com/corebot/corebot/channels/telegram"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
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

func TestTheOffsetMovesOnlyBehindWhatIsStored(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	d.Take = func([]channels.Incoming) ([]error, error) { return nil, errors.New("the disk is gone") }
	s.Say(telegramtest.Said{Text: "one"})
	ended, _ := run(t, open(t, s), d)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the disk is gone") || s.Waiting() != 1 {
		t.Fatalf("the run ended with %v, and %d updates wait", err, s.Waiting())
	}
	d.Take = nil
	_, stop := run(t, open(t, s), d)
	until(t, "the message is stored", func() bool { return len(d.Texts()) == 1 })
	until(t, "the next poll confirms it", func() bool { return s.Waiting() == 0 })
	stop()
	s.Say(telegramtest.Said{Text: "two"})
	run(t, open(t, s), d) // begins at the stored offset
	until(t, "the second is stored", func() bool { return slices.Equal(d.Texts(), []string{"one", "two"}) })
}

func TestTheSameIsFetchedAgainWhereNobodyHasRoom(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	tries := 0
	d.Take = func([]channels.Incoming) ([]error, error) {
		if tries++; tries < 3 {
			return nil, &corebot.Busy{Err: corebot.ErrOverloaded, RetryAfter: time.Millisecond}
		}
		return nil, nil
	}
	s.Say(telegramtest.Said{Text: "one"})
	run(t, open(t, s), d)
	until(t, "the message is stored", func() bool { return slices.Equal(d.Texts(), []string{"one"}) })
	if tries != 3 {
		t.Errorf("it was given %d times", tries)
	}
}

func TestNumbersThatBeginAnewLoseNothing(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	s.Say(telegramtest.Said{Text: "one"})
	_, stop := run(t, open(t, s), d)
	until(t, "the first is stored", func() bool { return len(d.Texts()) == 1 })
	until(t, "it is confirmed", func() bool { return s.Waiting() == 0 })
	stop()
	s.Renumber(1000)
	s.Say(telegramtest.Said{Text: "two"})
	run(t, open(t, s), d)
	until(t, "the second is stored", func() bool { return slices.Equal(d.Texts(), []string{"one", "two"}) })
	s.Say(telegramtest.Said{Text: "three"})
	until(t, "the third is stored", func() bool { return len(d.Texts()) == 3 })
}

func TestAPressIsAnsweredAfterItIsStored(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	c := open(t, s)
	s.Know(telegramtest.Chat{ID: telegramtest.Ann.ID})
	key := corebot.Key{Agent: "main", Channel: "telegram", Account: "main", Chat: fmt.Sprint(telegramtest.Ann.ID)}
	_, err := c.Send(t.Context(), channels.Outbound{
		ID: "n1", Key: key, Kind: corebot.KindNotice, Parts: corebot.TextPart("May it?"),
		Buttons: []corebot.Action{
			{Name: "approve", Label: "Approve", Command: "/approve 7"},
			{Name: "deny", Label: "Deny", Command: "/deny 7"},
			{Name: "long", Label: "Long", Command: "/retry " + strings.Repeat("x", 60)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	shown := s.Shown(telegramtest.Ann.ID)[0]
	if got := fmt.Sprint(shown.Buttons); got != "[{Approve /approve 7} {Deny /deny 7}]" {
		t.Fatalf("the message has the buttons %s", got)
	}
	d.Take = func(batch []channels.Incoming) ([]error, error) {
		if n := len(s.Answers()); n != 0 {
			t.Errorf("%d presses were answered before they were stored", n)
		}
		return []error{nil, channels.ErrNotAdmitted}, nil
	}
	s.Press(telegramtest.Ann, telegramtest.Ann.ID, shown.ID, "/approve 7")
	s.Press(telegramtest.User{ID: 66, FirstName: "Eve"}, telegramtest.Ann.ID, shown.ID, "/approve 7")
	run(t, c, d)
	until(t, "both are answered", func() bool { return len(s.Answers()) == 2 })
	if got := s.Answers(); !slices.Contains(got, "") || !slices.Contains(got, "This was not accepted.") {
		t.Errorf("they were answered with %q", got)
	}
	for i, sender := range []string{fmt.Sprint(telegramtest.Ann.ID), "66"} {
		if in := d.Got()[i]; in.SenderID != sender || in.Text() != "/approve 7" || !in.Interactive {
			t.Errorf("press %d came in as %+v", i, in)
		}
	}
}

func TestTheCommandsAreRegistered(t *testing.T) {
	s := platform(t)
	run(t, open(t, s), &channeltest.Door{})
	until(t, "they are registered", func() bool { return len(s.Commands()) > 0 })
	for _, name := range []string{"start", "new", "status", "stop", "help"} {
		if !slices.Contains(s.Commands(), name) {
			t.Errorf("%s is not among %v", name, s.Commands())
		}
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

func TestARunSaysWhyThePlatformDoesNotServeIt(t *testing.T) {
	t.Run("the token was revoked", func(t *testing.T) {
		s := platform(t)
		s.Revoke()
		err := failing(t, open(t, s))
		if !strings.Contains(fmt.Sprint(err), "revoked") || !strings.Contains(corebot.HintOf(err), "@BotFather") {
			t.Errorf("it ended with %v; hint: %s", err, corebot.HintOf(err))
		}
	})
	t.Run("another program has set a webhook", func(t *testing.T) {
		s := platform(t)
		s.Hook("https://example.org/hook")
		err := failing(t, open(t, s))
		if !strings.Contains(fmt.Sprint(err), "set a webhook") ||
			!strings.Contains(corebot.HintOf(err), "deleteWebhook") {
			t.Errorf("it ended with %v; hint: %s", err, corebot.HintOf(err))
		}
		if _, err := open(t, s).Check(t.Context()); !strings.Contains(fmt.Sprint(err), "set a webhook") {
			t.Errorf("a check says %v", err)
		}
	})
	t.Run("another program polls", func(t *testing.T) {
		s := platform(t)
		ended, _ := run(t, open(t, s), &channeltest.Door{})
		until(t, "the first polls", func() bool { return s.Polls() == 1 })
		run(t, open(t, s), &channeltest.Door{})
		err := <-ended
		if !strings.Contains(fmt.Sprint(err), "another program fetches") || corebot.HintOf(err) == "" {
			t.Errorf("it ended with %v; hint: %s", err, corebot.HintOf(err))
		}
	})
	t.Run("nobody is there", func(t *testing.T) {
		s := platform(t)
		c := open(t, s)
		s.Close()
		if err := failing(t, c); !strings.Contains(corebot.HintOf(err), "api_url") {
			t.Errorf("it ended with %v; hint: %s", err, corebot.HintOf(err))
		}
	})
	t.Run("something else is there", func(t *testing.T) {
		s := platform(t)
		s.Faults(func(telegramtest.Call) telegramtest.Fault {
			return telegramtest.Fault{Code: 403, Page: "<html>go away</html>"}
		})
		if err := failing(t, open(t, s)); !strings.Contains(fmt.Sprint(err), "not the Bot API: Forbidden") {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestTheTokenStandsInNoErrorAndNoLog(t *testing.T) {
	s := platform(t)
	_, secret, _ := strings.Cut(telegramtest.Token, ":")
	var log bytes.Buffer
	made, err := telegram.New(telegram.Settings{Token: telegramtest.Token, APIURL: s.URL(), Poll: time.Second},
		channels.Site{Account: account, Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	var all []error
	for _, fault := range []telegramtest.Fault{
		{Drop: true}, {Page: "oops"}, {Code: 400, Description: "Bad Request: no"}, {Code: 302, Page: "gone"},
	} {
		s.Faults(func(telegramtest.Call) telegramtest.Fault { return fault })
		all = append(all, failing(t, made))
	}
	s.Faults(func(c telegramtest.Call) telegramtest.Fault {
		return telegramtest.Fault{Drop: c.Method != "getMe"}
	})
	all = append(all, failing(t, made))
	s.Close()
	all = append(all, failing(t, made))
	for _, err := range all {
		if err == nil || strings.Contains(err.Error()+corebot.HintOf(err), secret) {
			t.Errorf("an error is %v", err)
		}
	}
	if strings.Contains(log.String(), secret) || log.Len() == 0 {
		t.Errorf("the log has %s", log.String())
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	good := telegram.Settings{Token: telegramtest.Token, APIURL: "https://api.telegram.org", Poll: 50 * time.Second}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*telegram.Settings){
		"token is empty":    func(s *telegram.Settings) { s.Token = "" },
		"token has not":     func(s *telegram.Settings) { s.Token = "bot123" },
		"token has not the": func(s *telegram.Settings) { s.Token += "/../x" },
		"api_url":           func(s *telegram.Settings) { s.APIURL = "ftp://a" },
		`api_url ""`:        func(s *telegram.Settings) { s.APIURL = "" },
		"poll":              func(s *telegram.Settings) { s.Poll = time.Minute },
	} {
		s := good
		spoil(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), name) || corebot.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A proxy can answer each poll at once. Corebot must not poll thousands of times a second then.
func TestAServerThatHoldsNoPollIsNotAskedWithoutPause(t *testing.T) {
	s := platform(t)
	s.Faults(func(c telegramtest.Call) telegramtest.Fault {
		if c.Method == "getUpdates" {
			return telegramtest.Fault{Code: 200, Page: `{"ok":true,"result":[]}`}
		}
		return telegramtest.Fault{}
	})
	_, stop := run(t, open(t, s), &channeltest.Door{})
	until(t, "a poll", func() bool { return len(s.Calls("getUpdates")) > 0 })
	time.Sleep(300 * time.Millisecond)
	stop()
	if n := len(s.Calls("getUpdates")); n > 2 {
		t.Errorf("there were %d polls", n)
	}
}
