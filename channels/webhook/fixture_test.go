package webhook

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm/llmtest"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
	"github.com/corebot/corebot/storage"
)

const (
	testToken  = "a-token-of-many-bytes"
	testSecret = "whsec_Y29yZWJvdC1leGFtcGxlLXNlY3JldC0wMQ=="
	nextToken  = "another-token-of-bytes"
)

// door is a front door that keeps what came in, once for each id of a chat.
type door struct {
	channels.Door // the webhook receives no batches

	accept func(channels.Incoming) error // asked first; nil lets all in

	mu sync.Mutex
	in []channels.Incoming
}

func (d *door) Accept(ctx context.Context, in channels.Incoming) (channels.Accepted, error) {
	if d.accept != nil {
		if err := d.accept(in); err != nil {
			return channels.Accepted{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return channels.Accepted{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, was := range d.in {
		if was.ID == in.ID && was.Chat == in.Chat {
			return channels.Accepted{ID: in.ID, Duplicate: true}, nil
		}
	}
	d.in = append(d.in, in)
	return channels.Accepted{ID: in.ID}, nil
}

func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.in)
}

// fixture is a webhook that runs on a network in memory, with a mailbox on disk.
type fixture struct {
	*Webhook
	t        *testing.T
	door     *door
	listener *llmtest.Listener
	client   *http.Client
	stop     func() // ends Run and waits for it
}

// start makes a fixture. Without credentials in o it has a token.
func start(t *testing.T, o Options) *fixture {
	t.Helper()
	return startAt(t, o, new(door))
}

func startAt(t *testing.T, o Options, d channels.Door) *fixture {
	t.Helper()
	if o.Token == "" && o.Secret == "" {
		o.Token = testToken
	}
	o.Log = zerolog.Nop()
	w, err := prepare(openMailbox(t), o)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Webhook: w, t: t, listener: llmtest.NewListener()}
	f.door, _ = d.(*door)
	if err := f.attach(f.listener); err != nil {
		t.Fatal(err)
	}
	transport := f.listener.Transport()
	f.client = &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx, d) }()
	f.stop = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		transport.CloseIdleConnections()
	})
	t.Cleanup(func() {
		f.stop()
		wantOnlyKnownStatuses(t, w)
	})
	return f
}

func openMailbox(t *testing.T) *storage.Mailbox {
	t.Helper()
	dir := t.TempDir()
	if err := apptest.Seed(dir); err != nil {
		t.Fatal(err)
	}
	db, err := storage.Open(context.Background(), dir, storage.Options{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = db.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return storage.NewMailbox(db)
}

// request makes a request with the token; a nil body is none.
func (f *fixture) request(method, path string, body io.Reader) *http.Request {
	f.t.Helper()
	r, err := http.NewRequest(method, "http://hook.test"+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// response is an answer, read to its end.
type response struct {
	status int
	header http.Header
	body   string
}

func (f *fixture) do(r *http.Request) response {
	f.t.Helper()
	got, err := f.client.Do(r)
	if err != nil {
		f.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer got.Body.Close()
	b, err := io.ReadAll(got.Body)
	if err != nil {
		f.t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return response{got.StatusCode, got.Header, string(b)}
}

func (f *fixture) post(body string) response {
	f.t.Helper()
	return f.do(f.request("POST", pathPost, strings.NewReader(body)))
}

func (f *fixture) get(path string) response {
	f.t.Helper()
	return f.do(f.request("GET", path, nil))
}

// page reads a page of replies, with what follows the chat in the query.
func (f *fixture) outboundPage(query string) outboundPage {
	f.t.Helper()
	return decodePage(f.t, f.get(pathOutbound+"?chatId=c"+query))
}

func decodePage(t *testing.T, got response) (page outboundPage) {
	t.Helper()
	if got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	if err := json.Unmarshal([]byte(got.body), &page); err != nil {
		t.Fatalf("%v: %s", err, got.body)
	}
	return page
}

func reply(chat, id, text string) channels.Outbound {
	return channels.Outbound{
		ID: id, IdempotencyKey: id, Kind: corebot.KindReply, InReplyTo: "q-" + id, Parts: corebot.TextPart(text),
		Key:       corebot.Key{Agent: corebot.DefaultAgent, Channel: Channel, Chat: chat},
		CreatedAt: time.UnixMilli(1_700_000_000_123),
	}
}

func (f *fixture) send(chat, id, text string) {
	f.t.Helper()
	if _, err := f.Send(context.Background(), reply(chat, id, text)); err != nil {
		f.t.Fatal(err)
	}
}

// wantProblem checks a refusal, and that it is one that programs can read.
func wantProblem(t *testing.T, got response, status int, detail string) {
	t.Helper()
	var d document
	if err := json.Unmarshal([]byte(got.body), &d); err != nil {
		t.Errorf("status %d, the answer is not JSON: %v: %s", got.status, err, got.body)
		return
	}
	if got.status != status || d.Status != status || !strings.Contains(d.Detail, detail) {
		t.Errorf("got %d %q, want %d %q", got.status, d.Detail, status, detail)
	}
	if got.header.Get("Content-Type") != "application/problem+json" || d.Type != "about:blank" ||
		d.Title != http.StatusText(status) {
		t.Errorf("the problem is %+v, of type %s", d, got.header.Get("Content-Type"))
	}
	for _, secret := range []string{testToken, nextToken, testSecret, "goroutine "} {
		if strings.Contains(got.body, secret) {
			t.Errorf("the answer shows %q", secret)
		}
	}
}

// dial opens a connection on which a test says what it wants.
func (f *fixture) dial() *peer {
	f.t.Helper()
	c, err := f.listener.DialContext(context.Background(), "", "")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return &peer{f.t, c, bufio.NewReader(c)}
}

type peer struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

// say writes in the background: the network has no buffers.
func (p *peer) say(s string) { go func() { _, _ = p.Write([]byte(s)) }() }

// hear reads the next response.
func (p *peer) hear() response {
	p.t.Helper()
	got, err := http.ReadResponse(p.r, nil)
	if err != nil {
		p.t.Fatalf("read a response: %v", err)
	}
	b, err := io.ReadAll(got.Body)
	if err != nil {
		p.t.Fatalf("read the body of a response: %v", err)
	}
	return response{got.StatusCode, got.Header, string(b)}
}

// wantClosed checks that nothing more comes, and that the connection is closed.
func (p *peer) wantClosed() {
	p.t.Helper()
	if b, err := io.ReadAll(p.r); err != nil || len(b) > 0 {
		p.t.Errorf("want a closed connection, got %q, %v", b, err)
	}
}

// within runs a test in virtual time.
func within(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// wantTook checks how much virtual time has passed.
func wantTook(t *testing.T, began time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(began); took < want || took > want+time.Second/10 {
		t.Errorf("it took %v, want %v", took, want)
	}
}

// sheet is a response that only a test sees.
type sheet struct {
	header http.Header
	body   strings.Builder
}

func (d *sheet) Header() http.Header                { return d.header }
func (d *sheet) Write(b []byte) (int, error)        { return d.body.Write(b) }
func (d *sheet) Flush()                             {}
func (d *sheet) WriteHeader(int)                    {}
func (d *sheet) SetWriteDeadline(_ time.Time) error { return nil }

func readOnce(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }
