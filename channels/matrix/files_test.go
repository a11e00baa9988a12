package matrix_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/matrix"
	"github.com/corebot/corebot/channels/matrix/matrixtest"
)

// sent is a file that somebody sends, as the account gets it from a homeserver that serves files below a path.
func sent(t *testing.T, below, address string) channels.Incoming {
	t.Helper()
	s, d := platform(t), &channeltest.Door{}
	at, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	front := http.NewServeMux()
	front.Handle("/", httputil.NewSingleHostReverseProxy(at))
	front.HandleFunc(below+"elsewhere.test/abc", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+matrixtest.Token {
			t.Error("the account does not say who it is")
		}
		_, _ = io.WriteString(w, "the bytes")
	})
	f := httptest.NewServer(front)
	t.Cleanup(f.Close)
	c, err := matrix.New(matrix.Settings{
		Homeserver: f.URL, Token: matrixtest.Token, Hourly: hourly, Poll: 30 * time.Second,
	},
		channels.Site{Account: account, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan channels.Incoming, 9)
	d.Take = func(batch []channels.Incoming) ([]error, error) {
		for _, in := range batch {
			came <- in
		}
		return nil, nil
	}
	s.Room(room)
	run(t, c, d)
	until(t, "the position is stored", func() bool { return d.Position() != "" })
	s.Say(matrixtest.Said{Room: room, Content: map[string]any{
		"msgtype": "m.file", "body": "a.txt", "url": address,
	}})
	return <-came
}

func TestAFileIsFetchedFromTheOwnHomeserverByEitherPath(t *testing.T) {
	for _, below := range []string{"/_matrix/client/v1/media/download/", "/_matrix/media/v3/download/"} {
		in := sent(t, below, "mxc://elsewhere.test/abc")
		if len(in.Parts) != 1 || len(in.Files) != 1 {
			t.Fatalf("%+v", in)
		}
		content, err := in.Files[0].Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(content); string(text) != "the bytes" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		_ = content.Close()
	}
}

// A message can name any address.
func TestAnAddressThatIsNoneOfMatrixIsNotAsked(t *testing.T) {
	for _, address := range []string{
		"http://169.254.169.254/x", "mxc://a", "mxc:///abc", "mxc://a/b/c", "mxc://a/..?x", "", "file:///etc/passwd",
		"mxc://../..", "mxc://a/..", "mxc://./x",
	} {
		if in := sent(t, "/x/", address); len(in.Files) > 0 || len(in.Parts) != 1 {
			t.Errorf("%s: %+v", address, in)
		}
	}
}

// Nobody sees anything of an upload: whatever became of it, the file is sent again, and counts as shown by nobody.
func TestAnUploadThatWasNotAnsweredHasShownNothing(t *testing.T) {
	s, files := platform(t), channeltest.NewFiles(t)
	s.Room(room)
	c := openAt(t, s, channels.Site{Account: account, Log: zerolog.Nop(), Files: files})
	s.Faults(func(c matrixtest.Call) matrixtest.Fault { return matrixtest.Fault{DropAfter: c.Name == "upload"} })
	o := channels.Outbound{
		ID: "r1", IdempotencyKey: "r1/1/0-1", Kind: corebot.KindReply,
		Key:   corebot.Key{Agent: "main", Channel: "matrix", Account: "main", Chat: room},
		Parts: []corebot.Part{files.Add(t, corebot.Part{Type: corebot.PartFile, Name: "a.txt"}, "text")},
	}
	f := (*corebot.Failure)(nil)
	_, err := c.Send(t.Context(), o)
	if errors.Is(err, channels.ErrMayBeShown) || !errors.As(err, &f) || f.Class != corebot.RateLimited {
		t.Errorf("it fails with %v", err)
	}
	s.Faults(nil)
	if _, err := c.Send(t.Context(), o); err != nil || len(s.Uploads(room)) != 1 {
		t.Errorf("%v; the room shows %q", err, s.Uploads(room))
	}
}
