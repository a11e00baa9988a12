package egress_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/egress"
)

const limit = 64 << 10

// answering is a client and a server that answers so.
func answering(t *testing.T, o egress.Options, handler http.HandlerFunc) (*egress.Client, string) {
	t.Helper()
	s := serve(t, handler, false)
	o.MaxBody = limit
	return lenient(t, o, s.port), s.URL
}

func compressed(t *testing.T, name string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch name {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	case "deflate":
		w, _ = flate.NewWriter(&b, flate.BestSpeed)
	}
	_, err := w.Write(data)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCompressionIsUndone(t *testing.T) {
	for _, c := range []struct{ how, header string }{
		{"gzip", "gzip"},
		{"x-gzip", "X-GZIP"},
		{"zlib", "deflate"},
		{"deflate", "deflate"},
	} {
		client, address := answering(t, egress.Options{}, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip, deflate" {
				t.Errorf("asked for %q", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Encoding", c.header)
			_, _ = w.Write(compressed(t, c.how, []byte("hello, hello")))
		})
		if r, err := get(t, client, address); err != nil || string(r.Body) != "hello, hello" || r.Cut {
			t.Errorf("%s: %q, %v", c.how, r.Body, err)
		}
	}
	for _, header := range []string{"br", "zstd", "compress", "gzip, gzip", "gzip, br", "exotic"} {
		client, address := answering(t, egress.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", header)
			_, _ = w.Write(compressed(t, "gzip", []byte("hello")))
		})
		if r, err := get(t, client, address); err == nil {
			t.Errorf("%s: %+v", header, r)
		}
	}
	client, address := answering(t, egress.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte("this is no gzip"))
	})
	if r, err := get(t, client, address); err == nil {
		t.Errorf("text as gzip: %+v", r)
	}
}

// TestABombEndsAtTheLimit: a megabyte on the wire is a gigabyte of zeros.
func TestABombEndsAtTheLimit(t *testing.T) {
	megabyte := compressed(t, "gzip", make([]byte, 1<<20)) // and the next one after it: members of one stream
	for name, part := range map[string][]byte{"zeros": megabyte, "nothing, for ever": compressed(t, "gzip", nil)} {
		client, address := answering(t, egress.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			for range 1 << 10 {
				if _, err := w.Write(bytes.Repeat(part, 4)); err != nil {
					return
				}
			}
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := get(t, client, address)
		runtime.ReadMemStats(&after)
		if err != nil || !r.Cut || len(r.Body) > limit {
			t.Errorf("%s: %d bytes, cut %v, %v", name, len(r.Body), r.Cut, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%s: %d MiB were allocated", name, used>>20)
		}
	}
}

func TestABodyIsReadUpToTheLimit(t *testing.T) {
	for size, cut := range map[int]bool{0: false, limit - 1: false, limit: false, limit + 1: true, 10 * limit: true} {
		client, address := answering(t, egress.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", size))
		})
		if r, err := get(t, client, address); err != nil || len(r.Body) != min(size, limit) || r.Cut != cut {
			t.Errorf("%d: %d bytes, cut %v, %v", size, len(r.Body), r.Cut, err)
		}
	}
	client, address := answering(t, egress.Options{}, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil { // for ever
			if _, err := io.WriteString(w, strings.Repeat("x", 4<<10)); err != nil {
				return
			}
		}
	})
	if r, err := get(t, client, address); err != nil || len(r.Body) != limit || !r.Cut {
		t.Errorf("for ever: %d bytes, cut %v, %v", len(r.Body), r.Cut, err)
	}
}

// raw answers every connection with the bytes that write gives.
func raw(t *testing.T, write func(io.Writer)) (*egress.Client, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done }) //nolint:errcheck // the end of the test
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4<<10))
			write(c)
			_ = c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	return lenient(t, egress.Options{MaxBody: limit, Timeout: 5 * time.Second}, port),
		fmt.Sprintf("http://127.0.0.1:%d/", port)
}

func TestAnswersThatAreNoneEndWithAnError(t *testing.T) {
	forever := func(line string) func(io.Writer) {
		return func(w io.Writer) {
			for {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
		}
	}
	say := func(text string) func(io.Writer) { return func(w io.Writer) { _, _ = io.WriteString(w, text) } }
	both := func(text string, then func(io.Writer)) func(io.Writer) {
		return func(w io.Writer) { say(text)(w); then(w) }
	}
	for name, write := range map[string]func(io.Writer){
		"headers for ever":           both("HTTP/1.1 200 OK\r\n", forever("X-A: b\r\n")),
		"one header for ever":        both("HTTP/1.1 200 OK\r\nX-A: ", forever("bbbbbbbb")),
		"a megabyte of header":       both("HTTP/1.1 200 OK\r\n", say("X-A: "+strings.Repeat("b", 1<<20)+"\r\n\r\nx")),
		"a first line for ever":      forever("HTTP"),
		"100 Continue for ever":      forever("HTTP/1.1 100 Continue\r\n\r\n"),
		"103 Early Hints for ever":   forever("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
		"no HTTP":                    say("220 smtp.example ESMTP\r\n"),
		"nothing":                    say(""),
		"less than it says":          say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"),
		"a length that is no number": say("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nshort"),
		"two lengths":                say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nshort."),
		"a chunk that is cut":        say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nshort"),
		"a chunk size of nonsense":   say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nshort"),
		"chunk extensions for ever": both("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
			forever("aaaaaaaa")),
		"trailers for ever": both("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
			forever("X-A: b\r\n")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, address := raw(t, write)
			if r, err := get(t, client, address); err == nil || strings.Contains(err.Error(), "it took too long") {
				t.Errorf("%d %q, %v", r.Status, r.Body, err)
			}
		})
	}
}

func TestMoreThanItSaysIsNotRead(t *testing.T) {
	client, address := raw(t, func(w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nshort and more")
	})
	if r, err := get(t, client, address); err != nil || string(r.Body) != "short" {
		t.Errorf("%q, %v", r.Body, err)
	}
}

func TestWhatIsNotWantedIsNotRead(t *testing.T) {
	for header, want := range map[string]string{
		"image/png": "image/png", "Text/HTML; charset=x": "text/html",
		"text/html; charset": "text/html", "text/html;;;=": "text/html", "": "text/plain",
	} {
		client, address := answering(t, egress.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{header}
			if header == "" {
				w.Header()["Content-Type"] = nil
			}
			_, _ = io.WriteString(w, "some text")
		})
		asked := ""
		r, err := client.Get(t.Context(), egress.Request{
			URL:   address,
			Wants: func(kind string) bool { asked = kind; return kind == "text/html" },
		})
		if err != nil || r.MediaType != want || asked != want || (r.Body != nil) != (want == "text/html") {
			t.Errorf("%q: %+v, asked for %q, %v", header, r, asked, err)
		}
	}
}
