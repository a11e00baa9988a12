package telegram_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/telegram"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

// freeAddr is an address of the loopback interface at which nobody listens.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nobody has connected
	return l.Addr().String()
}

// said has a person say something, and waits for nothing.
func said(s *telegramtest.Server, person int64, text string) {
	s.Say(telegramtest.Said{From: telegramtest.User{ID: person, FirstName: "P"}, Text: text})
}

func TestAnUpdateIsConfirmedAfterItIsStoredAndTheOffsetStays(t *testing.T) {
	s, d, addr := platform(t), &channeltest.Door{}, freeAddr(t)
	said(s, 1, "polled")
	_, stop := run(t, open(t, s), d)
	until(t, "a poll confirms it", func() bool { return len(d.Texts()) == 1 && s.Waiting() == 0 })
	stop()
	offset := d.Position()
	d.Take = func(batch []channels.Incoming) ([]error, error) {
		if len(batch) == 0 {
			return nil, nil
		}
		return nil, errors.New("the disk is gone")
	}
	said(s, 1, "one")
	ended, _ := run(t, at(t, s, addr, nil), d)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the disk is gone") || s.Waiting() != 1 {
		t.Fatalf("the run ended with %v, and %d updates wait", err, s.Waiting())
	}
	d.Take = nil
	run(t, at(t, s, addr, nil), d)
	until(t, "the message is stored", func() bool { return slices.Equal(d.Texts(), []string{"polled", "one"}) })
	until(t, "it is confirmed", func() bool { return s.Waiting() == 0 })
	if want := offset + " http://" + addr + "/telegram"; d.Position() != want {
		t.Errorf("the position is %q and not %q", d.Position(), want)
	}
}

func TestARequestWithoutTheSecretDoesNothing(t *testing.T) {
	s, d, addr := platform(t), &channeltest.Door{}, freeAddr(t)
	run(t, at(t, s, addr, nil), d)
	until(t, "the webhook is set", func() bool { address, _ := s.Webhook(); return address != "" })
	_, secret := s.Webhook()
	before := d.Position()
	ask := func(method, path string, secrets ...string) int {
		t.Helper()
		// a body that is never sent: whoever wants to read it waits
		body, _ := io.Pipe()
		r, err := http.NewRequest(method, "http://"+addr+path, body) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		r.Header["X-Telegram-Bot-Api-Secret-Token"] = secrets
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // its status is all
		return response.StatusCode
	}
	for name, got := range map[string][2]int{
		"no secret":      {ask("POST", "/telegram"), 401},
		"another":        {ask("POST", "/telegram", secret+"x"), 401},
		"its beginning":  {ask("POST", "/telegram", secret[:40]), 401},
		"two":            {ask("POST", "/telegram", secret, secret), 401},
		"an empty one":   {ask("POST", "/telegram", ""), 401},
		"another path":   {ask("POST", "/telegram/", secret), 404},
		"another method": {ask("PUT", "/telegram", secret), 405},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: answered %d and not %d", name, got[0], got[1])
		}
	}
	if len(d.Got()) != 0 || d.Position() != before {
		t.Errorf("something was stored: %+v", d.Got())
	}
}

func TestWhatIsPostedAgainComesInOnceAndInOrder(t *testing.T) {
	s, d, addr := platform(t), &channeltest.Door{}, freeAddr(t)
	tries := 0
	d.Take = func(batch []channels.Incoming) ([]error, error) {
		if tries++; tries%5 == 0 {
			return nil, &corebot.Busy{Err: corebot.ErrOverloaded, RetryAfter: time.Millisecond}
		}
		return nil, nil
	}
	s.PostFaults(func(n int) telegramtest.PostFault {
		return telegramtest.PostFault{Forget: n%3 == 0, Twice: n%4 == 0}
	})
	var want [3][]string
	for i := range 30 {
		chat := rand.N(3)
		text := fmt.Sprint("message ", i)
		said(s, int64(chat+1), text)
		want[chat] = append(want[chat], text)
	}
	run(t, at(t, s, addr, nil), d)
	until(t, "all is confirmed", func() bool { return s.Waiting() == 0 })
	if n := s.Connections(); n != 1 {
		t.Errorf("%d updates can come at once, and overtake each other", n)
	}
	var got [3][]string
	for _, in := range d.Got() {
		chat := in.Chat[0] - '1'
		got[chat] = append(got[chat], in.Text())
	}
	for chat := range want {
		if !slices.Equal(got[chat], want[chat]) {
			t.Errorf("chat %d has %q and not %q", chat, got[chat], want[chat])
		}
	}
}

// A server of one's own can post several updates at once, whatever the bot asks for.
func TestUpdatesThatArePostedAtOnceAreTakenInOneAfterTheOther(t *testing.T) {
	s, d, addr := platform(t), &channeltest.Door{}, freeAddr(t)
	d.Take = func(batch []channels.Incoming) ([]error, error) {
		if len(batch) > 0 {
			time.Sleep(20 * time.Millisecond)
		}
		return nil, nil
	}
	run(t, at(t, s, addr, nil), d)
	until(t, "the webhook is set", func() bool { address, _ := s.Webhook(); return address != "" })
	_, secret := s.Webhook()
	var posting sync.WaitGroup
	for id := range 4 {
		posting.Go(func() {
			body := fmt.Sprintf(`{"update_id":%d,"message":{"message_id":%[1]d,"chat":{"id":1,"type":"private"},`+
				`"from":{"id":1},"text":"hello"}}`, id+1)
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr+"/telegram",
				strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set(telegram.SecretHeader, secret)
			response, err := http.DefaultClient.Do(r)
			if err != nil || response.StatusCode != 200 {
				t.Errorf("update %d: %v, %v", id, response, err)
				return
			}
			_ = response.Body.Close() // its status is all
		})
	}
	posting.Wait()
	if n := len(d.Got()); n != 4 {
		t.Errorf("%d updates came in", n)
	}
}

// TestASwitchBetweenWebhookAndPollsLosesNothing has one chat find no room while the others go on: an offset behind the
// newest update would confirm what that chat has said.
func TestASwitchBetweenWebhookAndPollsLosesNothing(t *testing.T) {
	s, d, addr := platform(t), &channeltest.Door{}, freeAddr(t)
	full := true
	d.Take = func(batch []channels.Incoming) ([]error, error) {
		if full && len(batch) > 0 && batch[0].Chat == "1" {
			return nil, &corebot.Busy{Err: corebot.ErrOverloaded, RetryAfter: time.Millisecond}
		}
		return nil, nil
	}
	var want []string
	say := func(person int64, text string) {
		said(s, person, text)
		want = append(want, text)
	}
	say(1, "of the full chat")
	say(2, "of another")
	_, stop := run(t, at(t, s, addr, nil), d)
	until(t, "the other chat goes on", func() bool { return slices.Equal(d.Texts(), []string{"of another"}) })
	stop()
	full = false
	say(2, "while nothing runs")
	_, stop = run(t, open(t, s), d)
	until(t, "the poll has it all", func() bool { return len(d.Texts()) == len(want) && s.Waiting() == 0 })
	if address, _ := s.Webhook(); address != "" {
		t.Errorf("the webhook %s is still set", address)
	}
	stop()
	say(1, "before the webhook")
	_, stop = run(t, at(t, s, addr, nil), d)
	say(1, "by the webhook")
	until(t, "the webhook has it all", func() bool { return len(d.Texts()) == len(want) && s.Waiting() == 0 })
	stop()
	s.Replay() // the platform forgets what was confirmed
	run(t, open(t, s), d)
	say(1, "at last")
	until(t, "all is there", func() bool { return len(d.Texts()) == len(want) && s.Waiting() == 0 })
	got := d.Texts()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it has %q and not %q", got, want)
	}
}

func TestAWebhookOfAnotherProgramIsLeftAlone(t *testing.T) {
	s, addr := platform(t), freeAddr(t)
	s.Hook("https://example.org/hook")
	err := failing(t, at(t, s, addr, nil))
	if address, _ := s.Webhook(); address != "https://example.org/hook" || !strings.Contains(fmt.Sprint(err), "own") ||
		!strings.Contains(corebot.HintOf(err), "deleteWebhook") {
		t.Errorf("it ended with %v, and the webhook is %s", err, address)
	}
}

func TestAWebhookMovesToAnotherAddress(t *testing.T) {
	s, d := platform(t), &channeltest.Door{}
	for i, addr := range []string{freeAddr(t), freeAddr(t)} {
		_, stop := run(t, at(t, s, addr, nil), d)
		said(s, 1, addr)
		until(t, "it comes in", func() bool { return len(d.Texts()) == i+1 })
		if address, _ := s.Webhook(); !strings.Contains(address, addr) {
			t.Errorf("the webhook is %s", address)
		}
		stop()
	}
}

func TestAWebhookThatIsTakenAwayIsNoticedAndSetAgain(t *testing.T) {
	s, d, addr := platform(t), &channeltest.Door{}, freeAddr(t)
	c := at(t, s, addr, nil)
	c.Watch(10 * time.Millisecond)
	ended, _ := run(t, c, d)
	until(t, "the webhook is set", func() bool { address, _ := s.Webhook(); return address != "" })
	s.Hook("")
	if err := <-ended; !strings.Contains(fmt.Sprint(err), "taken away") || corebot.HintOf(err) == "" {
		t.Errorf("it ended with %v", err)
	}
	run(t, c, d)
	said(s, 1, "hello")
	until(t, "it comes in", func() bool { return len(d.Texts()) == 1 })
}

func TestAPressThatIsPostedIsAnsweredWithTheUpdate(t *testing.T) {
	s, d, addr := platform(t), &channeltest.Door{}, freeAddr(t)
	d.Take = func(batch []channels.Incoming) ([]error, error) {
		if len(batch) == 1 && batch[0].SenderID == "66" {
			return []error{channels.ErrNotAdmitted}, nil
		}
		return nil, nil
	}
	id := s.Say(telegramtest.Said{Text: "what is pressed"})
	s.Press(telegramtest.Ann, telegramtest.Ann.ID, id, "/approve 7")
	s.Press(telegramtest.User{ID: 66, FirstName: "Eve"}, telegramtest.Ann.ID, id, "/approve 7")
	run(t, at(t, s, addr, nil), d)
	until(t, "both are answered", func() bool { return len(s.Answers()) == 2 })
	if got := s.Answers(); !slices.Contains(got, "") || !slices.Contains(got, "This was not accepted.") {
		t.Errorf("they were answered with %q", got)
	}
	if n := len(s.Calls("answerCallbackQuery")); n != 0 {
		t.Errorf("%d requests have answered them", n)
	}
}

func TestACheckSaysHowTheWebhookGoes(t *testing.T) {
	s, d, addr := platform(t), &channeltest.Door{}, freeAddr(t)
	c := at(t, s, addr, nil)
	check := func(words ...string) {
		t.Helper()
		says, err := c.Check(t.Context())
		for _, w := range words {
			if err != nil || !strings.Contains(says, w) {
				t.Errorf("it says %q, %v, and not %q", says, err, w)
			}
		}
	}
	check("`corebot serve` sets its webhook")
	_, stop := run(t, c, d)
	until(t, "the webhook is set", func() bool { address, _ := s.Webhook(); return address != "" })
	check("posts to its webhook", "0 updates wait")
	stop()
	said(s, 1, "nobody listens")
	until(t, "a post fails", func() bool {
		says, err := c.Check(t.Context())
		return err == nil && strings.Contains(says, "Connection refused")
	})
	check("1 updates wait", "the last delivery that failed, 20")
}

func TestABusyAddressIsNamed(t *testing.T) {
	s := platform(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nobody has connected
	err = failing(t, at(t, s, l.Addr().String(), nil))
	if !strings.Contains(corebot.HintOf(err), "channels.telegram.main.webhook_addr") {
		t.Errorf("it ended with %v; hint: %s", err, corebot.HintOf(err))
	}
}

// FuzzPostbox posts anything to a webhook, with the secret.
func FuzzPostbox(f *testing.F) {
	for _, seed := range []string{
		`{"update_id":1,"message":{"message_id":1,"chat":{"id":1,"type":"private"},"text":"hello"}}`,
		`{"update_id":1,"callback_query":{"id":"1","from":{"id":1},"data":"/stop","message":{"chat":{"id":1}}}}`,
		`{"update_id":9223372036854775807,"edited_message":{}}`, `{"update_id":1,"message":[]}`, `{}`, `null`, "",
	} {
		f.Add([]byte(seed))
	}
	s, d, addr := telegramtest.New(), &channeltest.Door{}, freeAddr(f)
	f.Cleanup(s.Close)
	c, err := telegram.New(telegram.Settings{
		Token: telegramtest.Token, APIURL: s.URL(), Poll: time.Second,
		Webhook: "http://" + addr + "/", WebhookAddr: addr,
	}, channels.Site{Account: account})
	if err != nil {
		f.Fatal(err)
	}
	go c.Run(f.Context(), d) //nolint:errcheck // it ends with the test
	secret := ""
	for began := time.Now(); secret == "" && time.Since(began) < patience; time.Sleep(time.Millisecond) {
		_, secret = s.Webhook()
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := http.NewRequest("POST", "http://"+addr+"/", strings.NewReader(string(body))) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(telegram.SecretHeader, secret)
		before := len(d.Got())
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // its status is all
		switch {
		case response.StatusCode != 200 && response.StatusCode != 400:
			t.Errorf("%q is answered %d", body, response.StatusCode)
		case response.StatusCode == 400 && len(d.Got()) != before:
			t.Errorf("%q is refused, and stored", body)
		}
	})
}
