package slack_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/slack"
	"github.com/corebot/corebot/channels/slack/slacktest"
)

// fetched is what the app gets of a file that Ann sends.
func fetched(t *testing.T, body string, address func(base string) string) (string, error) {
	t.Helper()
	s, d := platform(t), &channeltest.Door{}
	at, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	front := http.NewServeMux()
	front.Handle("/", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: at.Scheme, Host: at.Host}))
	front.HandleFunc("/files-pri/T1-F1/a.txt", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+slacktest.Token {
			t.Error("the app does not say who it is")
		}
		_, _ = io.WriteString(w, body)
	})
	f := httptest.NewServer(front)
	t.Cleanup(f.Close)
	came := make(chan channels.Incoming, 9)
	d.Take = func(batch []channels.Incoming) ([]error, error) {
		for _, in := range batch {
			came <- in
		}
		return nil, nil
	}
	c, err := slack.New(slack.Settings{
		Token: slacktest.Token, AppToken: slacktest.AppToken, APIURL: f.URL + "/api",
	}, channels.Site{Account: account, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{s, t, c.(*slack.Channel), d, nil}
	r.start()
	r.until("the app is connected", func() bool { return s.Connected() && d.Position() != "" })
	s.Say(slacktest.Said{Channel: slacktest.Direct, Text: "look", Files: []any{
		map[string]any{"id": "F0", "name": "x", "mode": "external", "url_private": "https://docs.example.org/x"},
		map[string]any{"id": "F1", "name": "a.txt", "mimetype": "text/plain", "url_private": address(f.URL)},
	}})
	in := <-came
	if len(in.Parts) != 3 || len(in.Files) != 1 || in.Files[0].Part != 1 {
		t.Fatalf("%+v", in)
	}
	content, err := in.Files[0].Fetch(t.Context())
	if err != nil {
		return "", err
	}
	defer content.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(content)
	return string(text), err
}

func own(base string) string { return base + "/files-pri/T1-F1/a.txt" }

func TestAFileIsFetchedWithTheTokenOfTheApp(t *testing.T) {
	for _, body := range []string{"the bytes of the file", "short", ""} {
		if text, err := fetched(t, body, own); err != nil || text != body {
			t.Errorf("%q, %v", text, err)
		}
	}
}

func TestWhatIsNotTheFileIsNotTakenForIt(t *testing.T) {
	if text, err := fetched(t, "<!doctype html><title>Log in</title>", own); err == nil {
		t.Errorf("a page to log in: %q", text)
	}
	for _, address := range []string{
		"https://files.slack.com/x", "http://169.254.169.254/latest", "https://evil.test/files-pri/T1-F1/a.txt", "%",
	} { // of another server than that of the settings, which would get the token
		text, err := fetched(t, "x", func(string) string { return address })
		if err == nil || !strings.Contains(err.Error(), "not of Slack") {
			t.Errorf("%s: %q, %v", address, text, err)
		}
	}
}

// Nobody sees anything of a file before its last step. A message with a file must not use up its attempts while Slack
// answers nothing.
func TestAnUploadThatWasNotAnsweredHasShownNothing(t *testing.T) {
	s, files := platform(t), channeltest.NewFiles(t)
	c := openAt(t, s, channels.Site{Account: account, Log: zerolog.Nop(), Files: files})
	o := channels.Outbound{
		ID: "r1", IdempotencyKey: "r1/1/0-1", Kind: corebot.KindReply, Key: keyOf(slacktest.Room, ""),
		Parts: []corebot.Part{files.Add(t, corebot.Part{Type: corebot.PartFile, Name: "a.txt"}, "text")},
	}
	for step, fault := range map[string]slacktest.Fault{
		"files.getUploadURLExternal":   {DropAfter: true},
		"files.completeUploadExternal": {Status: 503, Page: "<h1>"},
	} {
		s.Faults(func(c slacktest.Call) slacktest.Fault {
			if c.Method == step {
				return fault
			}
			return slacktest.Fault{}
		})
		_, err := c.Send(t.Context(), o)
		f, last := (*corebot.Failure)(nil), step == "files.completeUploadExternal"
		if errors.Is(err, channels.ErrMayBeShown) != last || !errors.As(err, &f) || f.Class != corebot.RateLimited {
			t.Errorf("%s: it fails with %v", step, err)
		}
	}
	s.Faults(nil)
	if _, err := c.Send(t.Context(), o); err != nil || len(s.Uploads(slacktest.Room)) != 1 {
		t.Errorf("%v; the channel shows %q", err, s.Uploads(slacktest.Room))
	}
}
