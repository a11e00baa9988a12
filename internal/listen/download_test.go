package listen

import (
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestAFileIsSavedAndNeverShown(t *testing.T) {
	content := "<script>alert(1)</script>"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Download{strings.NewReader(content), "Ü \"a\".html", "text/html", "abc"}.Send(Patient{w}, r)
	}))
	defer s.Close()
	get := func(header ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(header) > 0 {
			r.Header.Set(header[0], header[1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // of a test
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	resp, text := get()
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Etag": `"abc"`,
		"Content-Security-Policy": "default-src 'none'; sandbox", "X-File-Type": "text/html",
		"Content-Disposition": "attachment; filename*=utf-8''%C3%9C%20%22a%22.html",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if text != content {
		t.Errorf("the file is %q", text)
	}
	if resp, text := get("Range", "bytes=1-6"); resp.StatusCode != http.StatusPartialContent || text != "script" {
		t.Errorf("a part is %d, %q", resp.StatusCode, text)
	}
	if resp, text := get("Range", "bytes=0-1,3-4"); resp.StatusCode != http.StatusOK || text != content {
		t.Errorf("several parts are %d, %q", resp.StatusCode, text)
	}
	if resp, _ := get("If-None-Match", `"abc"`); resp.StatusCode != http.StatusNotModified {
		t.Errorf("a file that the caller has is %d", resp.StatusCode)
	}
}

// A sender chooses the name and the type of a file. Neither becomes a header of its own, or another name.
func TestNoNameOfAFileIsAHeader(t *testing.T) {
	for name, want := range map[string]string{
		"a\r\nSet-Cookie: x=1\r\n\r\n<script>": "a\r\nSet-Cookie: x=1\r\n\r\n<script>", // as one parameter
		`a"; filename="b.html`:                 `a"; filename="b.html`,
		"a\x00b":                               "a\x00b",
		"世界.txt":                               "世界.txt",
		"":                                     "file",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			Download{Content: strings.NewReader("x"), Name: name, Type: "text/html\r\nSet-Cookie: y=1"}.Send(w, r)
		}))
		resp, err := http.Get(s.URL)
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // only the headers count
		kind, params, err := mime.ParseMediaType(resp.Header.Get("Content-Disposition"))
		if err != nil || kind != "attachment" || len(params) != 1 || params["filename"] != want ||
			len(resp.Cookies()) > 0 {
			t.Errorf("the name %q makes %v: %v", name, resp.Header, err)
		}
	}
}

// slowFile gives a byte at a time, each after a while.
type slowFile struct{ *strings.Reader }

func (f slowFile) Read(b []byte) (int, error) {
	time.Sleep(60 * time.Millisecond)
	return f.Reader.Read(b[:1])
}

func TestADownloadHasNoDeadlineAsAWhole(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Download{Content: slowFile{strings.NewReader("abcdefgh")}}.Send(Patient{w}, r)
	}))
	s.Config.WriteTimeout = 100 * time.Millisecond
	s.Start()
	defer s.Close()
	resp, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // of a test
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "abcdefgh" {
		t.Errorf("it is %q: %v", text, err)
	}
}
