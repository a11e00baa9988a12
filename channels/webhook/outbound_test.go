package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

func TestRepliesAreReadByCursorAndStay(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for i := range 60 {
			f.send("c", fmt.Sprint(i), fmt.Sprintf("text <%d>", i))
			f.send("other", fmt.Sprint(i), "not yours")
		}
		for range 2 {
			cursor, next := "", 0
			for _, want := range []int{40, 20, 0} {
				page := f.outboundPage("&limit=40" + cursor)
				if page.ChatID != "c" || len(page.Messages) != want {
					t.Fatalf("a page of %d for chat %s, want %d", len(page.Messages), page.ChatID, want)
				}
				for _, m := range page.Messages {
					if m.ID != fmt.Sprint(next) || m.InReplyTo != "q-"+m.ID || m.Content != fmt.Sprintf("text <%d>",
						next) {
						t.Errorf("message %d is %+v", next, m)
					}
					if at, err := time.Parse("2006-01-02T15:04:05.000Z", m.CreatedAt); err != nil ||
						time.Since(at) > time.Minute {
						t.Errorf("createdAt is %q", m.CreatedAt)
					}
					next++
				}
				if want == 0 && "&after="+page.Cursor != cursor {
					t.Errorf("an empty page moved the cursor from %s to %s", cursor, page.Cursor)
				}
				cursor = "&after=" + page.Cursor
			}
		}
	})
}

func TestAnEmptyPageGivesTheCursorBack(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for query, want := range map[string]string{
			"":                `{"chatId":"c","messages":[],"cursor":"0"}`,
			"&after=007":      `{"chatId":"c","messages":[],"cursor":"007"}`,
			"&after=" + max63: `{"chatId":"c","messages":[],"cursor":"` + max63 + `"}`,
		} {
			if got := f.get(pathOutbound + "?chatId=c" + query); got.status != 200 || got.body != want {
				t.Errorf("%s: %d %s", query, got.status, got.body)
			}
		}
	})
}

const max63 = "9223372036854775807"

func TestUnusableQueriesAreRefused(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		for query, detail := range map[string]string{
			"":                                   "chatId",
			"chatId=":                            "chatId",
			"chatId=%00":                         "chatId",
			"chatId=%ff":                         "chatId",
			"chatId=" + strings.Repeat("x", 600): "chatId",
			"chatId=c&chatId=d":                  "chatId",
			"chatId=c&aftr=1":                    `no query parameter "aftr"`,
			"chatId=c&=":                         "no query parameter",
			"chatId=c&after=-1":                  "after",
			"chatId=c&after=+1":                  "after",
			"chatId=c&after=x":                   "after",
			"chatId=c&after=1.5":                 "after",
			"chatId=c&after=9223372036854775808": "after",
			"chatId=c&after=1&after=2":           "after",
			"chatId=c&limit=0":                   "limit",
			"chatId=c&limit=501":                 "limit",
			"chatId=c&limit=ten":                 "limit",
			"chatId=c&limit=":                    "limit",
			"chatId=c&wait=-1":                   "wait",
			"chatId=c&wait=61":                   "wait",
			"chatId=c&wait=1s":                   "wait",
			"chatId=c&wait=99999999999999999999": "wait",
			"chatId=%zz":                         "malformed",
			"chatId=c;after=1":                   "malformed",
		} {
			wantProblem(t, f.get(pathOutbound+"?"+query), 400, detail)
			if strings.Contains(query, "limit") || strings.Contains(query, "wait") {
				continue
			}
			wantProblem(t, f.get(pathStream+"?"+query), 400, detail)
		}
		wantProblem(t, f.get(pathStream+"?chatId=c&limit=5"), 400,
			`no query parameter "limit" here, only chatId, after`)
		r := f.request("GET", pathStream+"?chatId=c", nil)
		r.Header.Set("Last-Event-ID", "x")
		wantProblem(t, f.do(r), 400, "Last-Event-ID")
		wantProblem(t, f.do(f.request("GET", pathOutbound+"?chatId=c", strings.NewReader("a body"))), 400, "no body")
	})
}

func TestAnEmptyCursorIsTheBeginning(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		f.send("c", "old", "old")
		if page := f.outboundPage("&after="); len(page.Messages) != 1 {
			t.Errorf("the page has %+v", page)
		}
	})
}

func TestALongPollEndsWithTheFirstReplyOfItsChat(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		f.send("c", "old", "old")
		cursor := f.outboundPage("").Cursor
		got := make(chan response, 1)
		began := time.Now()
		go func() { got <- f.get(pathOutbound + "?chatId=c&wait=60&after=" + cursor) }()
		time.Sleep(10 * time.Second)
		f.send("other", "x", "x")
		synctest.Wait()
		if len(got) > 0 {
			t.Fatal("the reply of another chat ended the poll")
		}
		time.Sleep(10 * time.Second)
		f.send("c", "new", "new")
		page := decodePage(t, <-got)
		wantTook(t, began, 20*time.Second)
		if len(page.Messages) != 1 || page.Messages[0].ID != "new" {
			t.Errorf("got %+v", page)
		}
	})
}

func TestALongPollEndsWithNothingWhenItsTimeIsUpOrCorebotStops(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		began := time.Now()
		if page := f.outboundPage("&wait=60"); len(page.Messages) != 0 || page.Cursor != "0" {
			t.Errorf("got %+v", page)
		}
		wantTook(t, began, time.Minute)
		got := make(chan response, 1)
		go func() { got <- f.get(pathOutbound + "?chatId=c&wait=60&after=7") }()
		synctest.Wait()
		began = time.Now()
		f.stop()
		if page := decodePage(t, <-got); len(page.Messages) != 0 || page.Cursor != "7" {
			t.Errorf("got %+v", page)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestALongPollEndsWhenItsCredentialIsReplaced(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{Token: testToken, Secret: testSecret})
		byToken, bySecret := make(chan response, 1), make(chan response, 1)
		go func() { byToken <- f.get(pathOutbound + "?chatId=c&wait=60") }()
		go func() { bySecret <- f.do(f.signed("GET", pathOutbound+"?chatId=c&wait=60", "", time.Now())) }()
		synctest.Wait()
		began := time.Now()
		if err := f.SetCredentials(nextToken, testSecret); err != nil {
			t.Fatal(err)
		}
		wantProblem(t, <-byToken, 401, "replaced")
		wantTook(t, began, 0)
		synctest.Wait()
		if len(bySecret) > 0 {
			t.Error("the other credential's poll ended too")
		}
	})
}

func TestLongPollsAndStreamsAreSoManyAndNoMore(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{MaxWaiting: 2})
		leave := f.follow("c", "")
		got := make(chan response, 1)
		go func() { got <- f.get(pathOutbound + "?chatId=c&wait=60") }()
		synctest.Wait()
		for _, path := range []string{pathOutbound + "?wait=1&chatId=c", pathStream + "?chatId=c"} {
			refused := f.get(path)
			wantProblem(t, refused, 503, "too many")
			if refused.header.Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", path)
			}
		}
		if page := f.outboundPage(""); len(page.Messages) != 0 {
			t.Errorf("a read that does not wait: %+v", page)
		}
		leave.Close()
		synctest.Wait()
		again := f.follow("c", "")
		again.Close()
		f.send("c", "1", "1")
		decodePage(t, <-got)
	})
}

func TestAPollOfACallerThatHasGoneIsForgotten(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{MaxWaiting: 1})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := f.client.Do(f.request("GET", pathOutbound+"?chatId=c&wait=60", nil).WithContext(ctx))
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if got := f.get(pathOutbound + "?chatId=c&wait=1"); got.status != http.StatusOK {
			t.Errorf("the next poll: %d %s", got.status, got.body)
		}
	})
}

func TestAPageIsBoundedInBytes(t *testing.T) {
	box := &sparse{content: strings.Repeat("x", 200_000)}
	for i := range 200 {
		box.cursors = append(box.cursors, int64(i)+1)
	}
	w := &Webhook{replies: channels.NewReplies(box)}
	for after := int64(0); after < 200; {
		page, err := w.page(t.Context(), corebot.Key{}, after, maxLimit)
		if err != nil || len(page) == 0 || len(page) > 25 || page[0].Cursor != after+1 {
			t.Fatalf("behind %d: %d replies of 200 kB, %v", after, len(page), err)
		}
		after = page[len(page)-1].Cursor
	}
}

func TestAReplyThatComesBehindTheFirstReadEndsTheLongPoll(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		f.replies = channels.NewReplies(&readThen{
			Mailbox: openMailbox(t),
			then:    func() { f.send("c", "1", "just now") },
		})
		began := time.Now()
		if page := f.outboundPage("&wait=20"); len(page.Messages) != 1 || page.Messages[0].Content != "just now" {
			t.Errorf("the poll gives %+v", page.Messages)
		}
		wantTook(t, began, 0)
	})
}

// readThen does something right behind the first read of a mailbox.
type readThen struct {
	channels.Mailbox
	then func()
}

func (r *readThen) After(ctx context.Context, k corebot.Key, cursor int64, limit int) ([]corebot.Posted, error) {
	page, err := r.Mailbox.After(ctx, k, cursor, limit)
	if then := r.then; then != nil {
		r.then = nil
		then()
	}
	return page, err
}

func TestAMailboxThatCannotBeReadIsAProblemWithoutItsReason(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		f.replies = channels.NewReplies(brokenMailbox{errors.New("secret of the disk")})
		for _, path := range []string{pathOutbound, pathStream} {
			got := f.get(path + "?chatId=c")
			wantProblem(t, got, 500, "log")
			if strings.Contains(got.body, "secret") {
				t.Errorf("the answer shows the error: %s", got.body)
			}
		}
		f.replies = channels.NewReplies(brokenMailbox{fmt.Errorf("read: %w", corebot.ErrClosed)})
		wantProblem(t, f.get(pathOutbound+"?chatId=c"), 503, "stopping")
	})
}

type brokenMailbox struct{ err error }

func (b brokenMailbox) Post(context.Context, corebot.Message) error { return b.err }
func (b brokenMailbox) After(context.Context, corebot.Key, int64, int) ([]corebot.Posted, error) {
	return nil, b.err
}
func (b brokenMailbox) Last(context.Context, corebot.Key) (int64, error) { return 0, b.err }

// sparse is a mailbox whose replies have these cursors.
type sparse struct {
	cursors []int64
	content string
	asked   int
}

func (s *sparse) Post(context.Context, corebot.Message) error { return nil }
func (s *sparse) After(_ context.Context, _ corebot.Key, cursor int64, limit int) (page []corebot.Posted, err error) {
	s.asked++
	for _, c := range s.cursors {
		if c > cursor && len(page) < limit {
			page = append(page, corebot.Posted{Cursor: c, Parts: corebot.TextPart(s.content)})
		}
	}
	return page, nil
}

func (s *sparse) Last(context.Context, corebot.Key) (int64, error) {
	if len(s.cursors) == 0 {
		return 0, nil
	}
	return s.cursors[len(s.cursors)-1], nil
}
