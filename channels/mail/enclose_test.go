package mail_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/channeltest"
	"github.com/corebot/corebot/channels/mail/mailtest"
)

// enclosed are the parts of a mail with files: the type and the text of the first, and the files as "NAME: BYTES".
func enclosed(t *testing.T, m mailtest.Mail) (first, text string, files []string) {
	t.Helper()
	got, err := netmail.ReadMessage(bytes.NewReader(m.Raw))
	if err != nil {
		t.Fatal(err)
	}
	media, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if err != nil || media != "multipart/mixed" {
		t.Fatalf("%s, %v", media, err)
	}
	for parts := multipart.NewReader(got.Body, params["boundary"]); ; {
		p, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return first, text, files
		}
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = p.Header.Get("Content-Type")
			body, _ := io.ReadAll(p)
			text = string(body)
			continue
		}
		if long := slices.ContainsFunc(strings.Split(string(m.Raw), "\r\n"), func(line string) bool {
			return len(line) > 998
		}); long {
			t.Error("a line is longer than a server takes")
		}
		if kind := p.Header.Get("Content-Type"); strings.HasPrefix(kind, "message/") {
			t.Errorf("%s is a mail in the mail", p.FileName())
		}
		content, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, p))
		if err != nil {
			t.Error(err)
		}
		files = append(files, p.FileName()+": "+string(content))
	}
}

func TestFilesOfAReplyAreInItsOneMail(t *testing.T) {
	s, files := platform(t), channeltest.NewFiles(t)
	c := openWith(t, settings(s), files)
	o := answer("here")
	big := strings.Repeat("0123456789", 100)
	large := files.Add(t, corebot.Part{Type: corebot.PartFile, Name: "large.bin"}, "x")
	files.Grow(t, large, 18_000_001)
	o.Parts = append(o.Parts,
		files.Add(t, corebot.Part{Type: corebot.PartImage, Name: "ü\r\nBcc: x.png", MediaType: "image/png"}, "\x89PNG"),
		files.Add(t, corebot.Part{Type: "file", Name: "a.eml", MediaType: "message/rfc822", Text: "<b>"}, big),
		large, corebot.Part{Type: corebot.PartFile, Name: "gone.txt", Hash: "ab"})
	if _, err := c.Send(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if len(s.Sent()) != 1 || bytes.Contains(s.Sent()[0].Raw, []byte("\nBcc:")) {
		t.Fatalf("%d mails are sent", len(s.Sent()))
	}
	first, text, got := enclosed(t, s.Sent()[0])
	if len(got) != 2 || !strings.HasSuffix(got[0], ".png: \x89PNG") || got[1] != "a.eml: "+big ||
		!strings.HasPrefix(first, "multipart/alternative") {
		t.Errorf("%s, %q", first, got)
	}
	for _, says := range []string{"here", `"large.bin"`, `"gone.txt"`, "a.eml: <b>", "a.eml: &lt;b&gt;"} {
		if !strings.Contains(strings.ReplaceAll(text, "=\r\n", ""), says) {
			t.Errorf("the text does not say %s: %s", says, text)
		}
	}
}

func TestAMailThatIsTooLargeWithItsFilesIsSentWithoutThem(t *testing.T) {
	s, files := platform(t), channeltest.NewFiles(t)
	s.Limit(5_000)
	o := answer("here")
	o.Parts = append(o.Parts, files.Add(t, corebot.Part{Type: corebot.PartFile, Name: "a.txt"},
		strings.Repeat("x", 10_000)))
	got, err := openWith(t, settings(s), files).Send(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	m := read(t, s.Sent()[0])
	if len(s.Sent()) != 1 || m.header.Get("Message-Id") != got.IDs[0] || !strings.Contains(m.text, "here") ||
		!strings.Contains(m.text, "message too big") {
		t.Errorf("%q", m.text)
	}
}

// shut are files that open when the test lets them.
type shut struct {
	channels.FileOpener
	wait   chan struct{}
	opened chan struct{}
}

func (f shut) Open(ctx context.Context, k corebot.Key, hash string) (*os.File, corebot.AttachedFile, error) {
	f.opened <- struct{}{}
	select {
	case <-f.wait:
	case <-ctx.Done():
	}
	return f.FileOpener.Open(ctx, k, hash)
}

// A mail with files is in memory whole, and many people can be sent one at once.
func TestFewMailsWithFilesAreMadeAtOnce(t *testing.T) {
	s, files := platform(t), channeltest.NewFiles(t)
	f := shut{files, make(chan struct{}), make(chan struct{}, 9)}
	c := openWith(t, settings(s), f)
	o := answer("here")
	o.Parts = append(o.Parts, files.Add(t, corebot.Part{Type: corebot.PartFile, Name: "a.txt"}, "x"))
	var sends sync.WaitGroup
	for range 2 {
		sends.Go(func() {
			if _, err := c.Send(t.Context(), o); err != nil {
				t.Error(err)
			}
		})
		<-f.opened
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	failed := (*corebot.Failure)(nil)
	if _, err := c.Send(ctx, o); !errors.As(err, &failed) || failed.Class != corebot.Cancelled {
		t.Errorf("a third: %v", err)
	}
	if len(f.opened) > 0 {
		t.Error("the file of a third mail was opened")
	}
	if _, err := c.Send(t.Context(), answer("a text waits for none")); err != nil {
		t.Error(err)
	}
	close(f.wait)
	sends.Wait()
}
