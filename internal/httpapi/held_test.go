package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/live"
	"github.com/corebot/corebot/internal/operate"
)

// known are tokens that are all in force.
type known struct{ Tokens }

func (known) ByID(_ context.Context, id int64) (corebot.Token, error) {
	return corebot.Token{ID: id, CreatedAt: time.Now()}, nil
}

func (known) ByDigest(context.Context, [sha256.Size]byte) (corebot.Token, error) {
	return corebot.Token{ID: 1, Scopes: []corebot.Scope{corebot.ScopeSend}, Sender: "app", Chats: []string{"*"}}, nil
}

func (known) Used(context.Context, int64, time.Time) error { return nil }

func TestNoTokenHoldsAllThatTokensCanHoldOpen(t *testing.T) {
	s := &Server{opts: Options{Tokens: known{}}}
	hold := func(token int64) (*held, error) {
		c := &call{server: s, token: corebot.Token{ID: token}}
		return c.hold(t.Context())
	}
	var first *held
	fill := func(token int64, n int) {
		t.Helper()
		for i := range n {
			h, err := hold(token)
			if err != nil {
				t.Fatalf("token %d cannot hold %d: %v", token, i+1, err)
			}
			if first == nil {
				first = h
			}
		}
		if _, err := hold(token); !errors.Is(err, corebot.ErrOverloaded) || corebot.HintOf(err) == "" {
			t.Fatalf("behind the last of token %d: %v", token, err)
		}
	}
	fill(1, maxHeldByToken)
	fill(2, maxHeld-maxHeldByToken) // the rest of what all can hold
	if _, err := hold(3); !errors.Is(err, corebot.ErrOverloaded) {
		t.Errorf("a third token: %v", err)
	}
	first.close()
	if _, err := hold(3); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	s.Revoked(2)
	ended := 0
	for h := range s.holds.open {
		if context.Cause(h.ctx) != nil {
			ended++
		}
	}
	if want := maxHeld - maxHeldByToken; ended != want {
		t.Errorf("with its token %d end, want %d", ended, want)
	}
}

// slowTalk answers each message after a time.
type slowTalk struct {
	Talk
	operate.Lives
	after time.Duration
	said  time.Time
	wake  chan struct{}
}

func (s *slowTalk) Say(context.Context, corebot.Key, string, string, []corebot.Part, [][]byte) (bool, error) {
	s.said = time.Now()
	time.AfterFunc(s.after, func() { s.wake <- struct{}{} })
	return false, nil
}

func (s *slowTalk) Watch(corebot.Key) (wake <-chan struct{}, stop func()) { return s.wake, func() {} }

func (s *slowTalk) Last(context.Context, corebot.Key) (int64, error) { return 0, nil }

func (s *slowTalk) Answers(ctx context.Context, _ corebot.Key, id string, _ int64, _ int) (all []corebot.Posted,
	err error,
) {
	if time.Since(s.said) >= s.after {
		all = append(all, corebot.Posted{Cursor: 1, ID: "r", InReplyTo: id, Parts: corebot.TextPart("late, and there")})
	}
	return all, ctx.Err()
}

func (s *slowTalk) FindIn(ctx context.Context, k corebot.Key, _ string) ([]corebot.Life, error) {
	l := corebot.Life{Key: k, Direction: corebot.Inbound}
	if time.Since(s.said) >= s.after {
		l.End = corebot.EndAnswered
	}
	return []corebot.Life{l}, ctx.Err()
}

// lasting is a writer whose deadlines can be set, as those of a connection.
type lasting struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (l *lasting) SetReadDeadline(time.Time) error { return nil }

func (l *lasting) SetWriteDeadline(at time.Time) error {
	l.until = at
	return nil
}

// A request takes at most 30 seconds, and one that waits for an answer takes as long as its caller has said.
func TestACallerWaitsLongerThanOtherRequestsTake(t *testing.T) {
	for _, c := range []struct {
		after, leaves time.Duration
		status        int
		took          time.Duration
	}{
		{45 * time.Second, time.Hour, http.StatusOK, 45 * time.Second},
		{70 * time.Second, time.Hour, http.StatusAccepted, 60 * time.Second},
		{45 * time.Second, 40 * time.Second, http.StatusAccepted, 40 * time.Second}, // the caller has gone
	} {
		synctest.Test(t, func(t *testing.T) {
			talk := &slowTalk{after: c.after, wake: make(chan struct{}, 1)}
			s := &Server{opts: Options{
				Tokens: known{}, Talk: talk, Agents: []string{"main"}, Redact: func(s string) string { return s },
				Service: func(corebot.AuditEvent) *operate.Service { return operate.New(operate.Stores{Lives: talk}) },
				Log:     zerolog.Nop(),
			}}
			ctx, leave := context.WithTimeout(t.Context(), c.leaves)
			defer leave()
			r := httptest.NewRequestWithContext(ctx, "POST", "/api/agents/main/messages",
				strings.NewReader(`{"content": "x", "wait": 60}`))
			r.SetPathValue("agent", "main")
			r.Header = http.Header{"Authorization": {"Bearer x"}, "Content-Type": {"application/json"}}
			w, began := &lasting{ResponseRecorder: httptest.NewRecorder()}, time.Now()
			for _, route := range routes() {
				if route.path == "/api/agents/{agent}/messages" {
					s.guarded(route).ServeHTTP(w, r)
				}
			}
			if w.Code != c.status || time.Since(began) != c.took ||
				strings.Contains(w.Body.String(), "late, and there") != (c.status == http.StatusOK) {
				t.Errorf("after %v of %v it is %d: %s", time.Since(began), c.after, w.Code, w.Body)
			}
			if !w.until.After(began.Add(time.Minute)) {
				t.Errorf("the answer could be written until %v", w.until.Sub(began))
			}
		})
	}
}

// counted are answers that are looked for in a database.
type counted struct {
	Talk
	n int
}

func (c *counted) Answers(_ context.Context, _ corebot.Key, id string, _ int64, _ int) ([]corebot.Posted, error) {
	c.n++
	return []corebot.Posted{{ID: "r", InReplyTo: id, Parts: corebot.TextPart("said")}}, nil
}

func TestSocketsOfOneChatShareWhatTheyTell(t *testing.T) {
	talk := &counted{}
	s := &Server{opts: Options{Talk: talk}}
	end := live.Numbered{Seq: 7, Event: live.Event{MessageID: "m"}}
	for range 500 {
		k := &socket{call: &call{server: s}, ctx: t.Context()}
		if text, err := k.wholeAnswer(corebot.Key{Chat: "a"}, end); text != "said" || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
	}
	if talk.n != 1 {
		t.Errorf("the answer was looked for %d times", talk.n)
	}
	event := frameKey{"a", "text", 1, 2}
	first := s.frames.of(event)
	if s.frames.of(event) != first || s.frames.of(frameKey{"a", "text", 2, 2}) == first {
		t.Error("an event has another's frame, or two")
	}
	for i := range int64(5 * keptFrames) {
		s.frames.of(frameKey{"b", "text", i, i})
	}
	if len(s.frames.all) > keptFrames || s.frames.of(event) == first {
		t.Errorf("%d frames are kept", len(s.frames.all))
	}
}
