package telegram_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/telegram"
	"github.com/corebot/corebot/channels/telegram/telegramtest"
)

// withFiles is a platform that says of each file where it is, and serves one.
func withFiles(t *testing.T, s *telegramtest.Server, path string) string {
	t.Helper()
	at, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	front := http.NewServeMux()
	front.Handle("/", httputil.NewSingleHostReverseProxy(at))
	front.HandleFunc("/bot"+telegramtest.Token+"/getFile", func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) != `{"file_id":"large"}` {
			t.Errorf("the bot asks for %s", body)
		}
		_, _ = fmt.Fprintf(w, `{"ok":true,"result":{"file_id":"large","file_path":%q}}`, path)
	})
	front.HandleFunc("/file/bot"+telegramtest.Token+"/photos/a%20b.jpg", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "the bytes")
	})
	f := httptest.NewServer(front)
	t.Cleanup(f.Close)
	return f.URL
}

// fetched is what the bot gets of a photo.
func fetched(t *testing.T, path string) (string, error) {
	t.Helper()
	s, d := platform(t), &channeltest.Door{}
	came := make(chan channels.Incoming, 1)
	d.Take = func(batch []channels.Incoming) ([]error, error) {
		came <- batch[0]
		return nil, nil
	}
	c, err := telegram.New(telegram.Settings{
		Token: telegramtest.Token, APIURL: withFiles(t, s, path), Poll: 50 * time.Second,
	}, channels.Site{Account: account, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	s.Say(telegramtest.Said{More: map[string]any{
		"caption": "look", "photo": []map[string]any{{"file_id": "small"}, {"file_id": "large"}},
	}})
	run(t, c, d)
	in := <-came
	if len(in.Parts) != 2 || len(in.Files) != 1 || in.Files[0].Part != 0 {
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

func TestTheLargestSizeOfAPhotoIsFetched(t *testing.T) {
	if text, err := fetched(t, "photos/a b.jpg"); err != nil || text != "the bytes" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestAFileThatCannotBeFetchedIsAnErrorWithoutTheToken(t *testing.T) {
	for _, path := range []string{"photos/gone.jpg", "../getMe", "/etc/passwd", ""} {
		if text, err := fetched(t, path); err == nil || strings.Contains(err.Error(), telegramtest.Token) {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

func TestAFileThatIsAnsweredByAServerBeforeThePlatformMayBeShown(t *testing.T) {
	s, files := platform(t), channeltest.NewFiles(t)
	s.Know(telegramtest.Chat{ID: telegramtest.Ann.ID})
	c := withStore(t, s, files)
	p := files.Add(t, corebot.Part{Type: corebot.PartAudio, Name: "m.mp3", MediaType: "audio/mpeg"}, "ID3")
	s.Faults(func(telegramtest.Call) telegramtest.Fault { return telegramtest.Fault{Code: 504, Page: "<h1>"} })
	_, err := c.Send(t.Context(), channels.Outbound{
		ID: "r", Key: keyOf(telegramtest.Ann.ID, ""), Kind: corebot.KindReply, Parts: []corebot.Part{p},
	})
	if f := (*corebot.Failure)(nil); !errors.Is(err, channels.ErrMayBeShown) || !errors.As(err, &f) ||
		f.Class != corebot.RateLimited {
		t.Errorf("%v", err)
	}
}

func TestAFileIsShownAsWhatItIs(t *testing.T) {
	s, files := platform(t), channeltest.NewFiles(t)
	s.Know(telegramtest.Chat{ID: telegramtest.Ann.ID})
	c := withStore(t, s, files)
	large := files.Add(t, corebot.Part{Type: corebot.PartImage, Name: "l.png", MediaType: "image/png"}, "\x89PNG")
	files.Grow(t, large, 10_000_001)
	for i, p := range []corebot.Part{
		large,
		files.Add(t, corebot.Part{Type: corebot.PartImage, Name: "b.png", MediaType: "image/png"}, "not really"),
		files.Add(t, corebot.Part{Type: corebot.PartAudio, Name: "v.ogg", MediaType: "audio/ogg"}, "OggS\x00"),
		files.Add(t, corebot.Part{Type: corebot.PartAudio, Name: "m.mp3", MediaType: "audio/mpeg"}, "ID3"),
	} {
		if _, err := c.Send(t.Context(), channels.Outbound{
			ID: "r", IdempotencyKey: fmt.Sprint("r/", i), Key: keyOf(telegramtest.Ann.ID, ""), Kind: corebot.KindReply,
			Parts: []corebot.Part{p},
		}); err != nil {
			t.Error(err)
		}
	}
	var kinds []string
	for _, m := range s.Shown(telegramtest.Ann.ID) {
		kinds = append(kinds, m.Kind)
	}
	// a file that is no picture, whatever its type says, is tried as one, and then shown as a document
	if got := strings.Join(kinds, " "); got != "document document voice audio" || len(s.Calls("sendPhoto")) != 1 {
		t.Errorf("shown are %s, and %d photos were tried", got, len(s.Calls("sendPhoto")))
	}
}
