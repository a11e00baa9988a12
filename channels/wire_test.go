package channels_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// TestOnlyARequestThatWasSentWholeMayBeShown has a server hang up after a part of a request.
func TestOnlyARequestThatWasSentWholeMayBeShown(t *testing.T) {
	const size = 64 << 20 // far more than the buffers between two sockets, which grow to 36 MiB
	for name, c := range map[string]struct {
		reads int64 // bytes of the body, before the server hangs up
		class corebot.Class
		shown bool
	}{
		"nothing of the body": {0, corebot.Transient, false},
		"a part of it":        {1 << 20, corebot.Transient, false},
		"all of it":           {size, corebot.Transient, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.CopyN(io.Discard, r.Body, c.reads)
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}))
			defer s.Close()
			err := upload(t.Context(), t, s.URL, size)
			f := (*corebot.Failure)(nil)
			if !errors.As(err, &f) || f.Class != c.class || errors.Is(err, channels.ErrMayBeShown) != c.shown {
				t.Errorf("it ended with %v", err)
			}
		})
	}
	t.Run("nobody is there", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		s.Close()
		err := upload(t.Context(), t, s.URL, size)
		f := (*corebot.Failure)(nil)
		if !errors.As(err, &f) || f.Class != corebot.Cancelled || errors.Is(err, channels.ErrMayBeShown) {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("an answer without an end", func(t *testing.T) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.Copy(w, io.NewSectionReader(zeros{}, 0, 1<<40)) // until nobody reads any more
		}))
		defer s.Close()
		if err := upload(t.Context(), t, s.URL, 1); !errors.Is(err, channels.ErrMayBeShown) {
			t.Errorf("it ended with %v", err)
		}
	})
	t.Run("the time is over in the middle", func(t *testing.T) {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		defer s.CloseClientConnections()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := upload(ctx, t, s.URL, 64<<20); err == nil || errors.Is(err, channels.ErrMayBeShown) ||
			!strings.Contains(err.Error(), "only a part") {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestASendThatBrokeOffInItsSlotIsNotAmbiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, "", "")
		tries := 0
		p := &platform{send: func(ctx context.Context, _ channels.Outbound) error {
			if tries++; tries > 1 {
				return nil
			}
			<-ctx.Done()
			return &corebot.Failure{Err: fmt.Errorf("%w: %w", channels.ErrHalfSent, ctx.Err())}
		}}
		o.run(t, p)
		o.enqueue(t, "a", "1", "hello")
		pass(time.Hour)
		if n := o.counted(t, "corebot_outbox_ambiguous_total"); n != 0 || len(p.texts("a")) != 1 {
			t.Errorf("%v sends are ambiguous, and the chat shows %q", n, p.texts("a"))
		}
	})
}

// zeros are as many of them as somebody reads.
type zeros struct{}

func (zeros) ReadAt(b []byte, _ int64) (int, error) {
	clear(b)
	return len(b), nil
}

func upload(ctx context.Context, t *testing.T, address string, size int64) error {
	t.Helper()
	r, err := channels.Form(ctx, address, map[string]string{"caption": "a cat"}, channels.FilePart{
		Field: "photo", Name: "cat.png", Content: zeros{}, Size: size,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = channels.NewWire("the platform", "channels.test", "").Do(ctx, "an upload", r)
	return err
}
