package discord_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/discord"
	"github.com/corebot/corebot/channels/discord/discordtest"
)

// fetched is what the bot gets of a file that Ann sends, at a path of the platform.
func fetched(t *testing.T, address func(base string) string) (string, error) {
	t.Helper()
	s, d := platform(t), &channeltest.Door{}
	at, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	front := http.NewServeMux()
	front.Handle("/", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: at.Scheme, Host: at.Host}))
	front.HandleFunc("/attachments/1/2/a%20b.txt", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.URL.Query().Get("hm") != "sig" {
			t.Errorf("it is asked for %s with %q", r.URL, r.Header)
		}
		_, _ = io.WriteString(w, "the bytes")
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
	c := openAt(t, discord.Settings{Token: discordtest.Token, APIURL: f.URL + at.Path},
		channels.Site{Account: account, Log: zerolog.Nop()})
	chat := s.Know(discordtest.Ann)
	run(t, c, d)
	until(t, "the bot has connected", func() bool { return s.Connected() > 0 })
	s.Say(discordtest.Said{Channel: chat, Text: "look", More: map[string]any{"attachments": []any{
		map[string]any{"id": "1", "filename": "none.txt", "size": 1},
		map[string]any{"id": "2", "filename": "a b.txt", "size": 9, "url": address(f.URL)},
	}}})
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

func TestAFileIsFetchedFromThePlatformWithoutTheToken(t *testing.T) {
	text, err := fetched(t, func(base string) string { return base + "/attachments/1/2/a%20b.txt?ex=1&hm=sig" })
	if err != nil || text != "the bytes" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestAFileOfAnotherHostIsNotFetched(t *testing.T) {
	for _, address := range []string{
		"http://169.254.169.254/latest", "https://cdn.discordapp.com.evil.test/a", "http://cdn.discordapp.com/a",
		"https://cdn.discordapp.com:8443/a", "https://x@cdn.discordapp.com/a", "file:///etc/passwd", "//evil.test/a",
		"%",
	} {
		text, err := fetched(t, func(string) string { return address })
		if err == nil || !strings.Contains(fmt.Sprint(err), "not of Discord") {
			t.Errorf("%s: %q, %v", address, text, err)
		}
	}
}
