package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Dendrite's own way to make users
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corebot/corebot/internal/long"
)

// dendrite is a real homeserver: https://github.com/element-hq/dendrite, if its programs are on the PATH. Between it
// and the bot stands a proxy that loses some of its answers.
type dendrite struct {
	t       *testing.T
	dir     string
	addr    string
	proxy   *http.Server
	facade  string
	mu      sync.Mutex // of the process, of who says when, and of what is behind
	process *exec.Cmd
	ended   chan struct{} // is closed when the process has ended
	over    bool          // nothing is started any more
	deaths  int           // of the homeserver by itself
	token   string        // of the bot
	people  []string      // tokens
	rooms   []string
	said    atomic.Int64
	sends   atomic.Int64
	dropped atomic.Int64
	edits   map[int][]string     // the texts of edits, chat by chat, as of the last look
	heard   map[int][]string     // what people have said, in the order of the rooms
	when    map[string]time.Time // each text was said
	behind  map[string]bool      // texts that were said right before a kill
}

const dendriteSettings = `version: 2
global:
  server_name: localhost
  private_key: DIR/matrix_key.pem
  disable_federation: true
  jetstream: {storage_path: DIR/jetstream}
  cache: {max_size_estimated: 64mb}
client_api:
  registration_disabled: true
  registration_shared_secret: secret
  rate_limiting: {enabled: false}
app_service_api: {database: {connection_string: "file:DIR/appservice.db"}}
federation_api: {database: {connection_string: "file:DIR/federation.db"}}
key_server: {database: {connection_string: "file:DIR/keys.db"}}
media_api: {database: {connection_string: "file:DIR/media.db"}, base_path: DIR/media}
mscs: {database: {connection_string: "file:DIR/mscs.db"}}
relay_api: {database: {connection_string: "file:DIR/relay.db"}}
room_server: {database: {connection_string: "file:DIR/rooms.db"}}
sync_api: {database: {connection_string: "file:DIR/sync.db"}}
user_api:
  account_database: {connection_string: "file:DIR/accounts.db"}
  device_database: {connection_string: "file:DIR/devices.db"}
logging: [{type: std, level: error}]
`

func openDendrite(t *testing.T, chats int) networkPlatform {
	for _, program := range []string{"dendrite", "generate-keys"} {
		if _, err := exec.LookPath(program); err != nil || long.Or(true, false) {
			t.Skip("scripts/networks builds Dendrite, and runs this")
		}
	}
	d := &dendrite{
		t: t, dir: t.TempDir(), addr: freeAddr(t), edits: map[int][]string{}, heard: map[int][]string{},
		when: map[string]time.Time{}, behind: map[string]bool{},
	}
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(d.dir, "log")); t.Failed() {
			t.Logf("Dendrite, which died %d times by itself, says: %s %v", d.deaths, log[max(0, len(log)-4000):], err)
		}
	})
	settings := strings.ReplaceAll(dendriteSettings, "DIR", d.dir)
	d.must(os.WriteFile(filepath.Join(d.dir, "dendrite.yaml"), []byte(settings), 0o600))
	d.must(exec.CommandContext(t.Context(), "generate-keys", "--private-key",
		filepath.Join(d.dir, "matrix_key.pem")).Run())
	d.start()
	t.Cleanup(d.stop)
	d.serveProxy()
	var bot string
	bot, d.token = d.user("corebot")
	_, token := d.user("watch")
	var own struct {
		Room string `json:"room_id"`
	}
	d.call(token, http.MethodPost, "createRoom", map[string]any{}, &own)
	for chat := range chats {
		_, token := d.user(fmt.Sprint("person", chat))
		var made struct {
			Room string `json:"room_id"`
		}
		d.call(token, http.MethodPost, "createRoom", map[string]any{"is_direct": true, "invite": []string{bot}}, &made)
		d.call(d.token, http.MethodPost, "join/"+url.PathEscape(made.Room), map[string]any{}, nil)
		d.people, d.rooms = append(d.people, token), append(d.rooms, made.Room)
	}
	go d.watch(token, own.Room)
	return d
}

func (d *dendrite) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// start runs the homeserver until it answers.
func (d *dendrite) start() {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.must(d.launch())
}

// launch is start, with the lock.
func (d *dendrite) launch() error {
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the program writes to it
	//nolint:noctx // halt ends it
	d.process = exec.Command("dendrite", "-config", "dendrite.yaml", "-http-bind-address", d.addr)
	d.process.Dir, d.process.Stdout, d.process.Stderr = d.dir, log, log
	if err := d.process.Start(); err != nil {
		return err
	}
	d.ended = make(chan struct{})
	go func(p *exec.Cmd, ended chan struct{}) {
		_ = p.Wait()
		close(ended)
	}(d.process, d.ended)
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		answer, err := http.Get("http://" + d.addr + "/_matrix/client/versions") //nolint:noctx // bounded by the loop
		if err == nil {
			return answer.Body.Close()
		}
		if time.Since(began) > siegePatience {
			return fmt.Errorf("the homeserver does not answer: %w", err)
		}
	}
}

// stop kills the homeserver for good.
func (d *dendrite) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	d.halt()
}

// halt kills the homeserver, as a crash does. A text from right before it can come late. The caller has the lock.
func (d *dendrite) halt() {
	for text, at := range d.when {
		d.behind[text] = d.behind[text] || time.Since(at) < tardiness
	}
	_ = d.process.Process.Kill()
	<-d.ended
}

// watch starts the homeserver anew when it has died by itself, or works no more, as an operator's unit does. Dendrite
// 0.15.2 keeps a transaction of SQLite open when a request breaks off. From then on it refuses each event with a status
// of 500, or panics: "cannot start a transaction within a transaction".
func (d *dendrite) watch(token, room string) {
	for n, bad := 0, 0; ; n++ {
		time.Sleep(500 * time.Millisecond)
		d.mu.Lock()
		if d.over {
			d.mu.Unlock()
			return
		}
		dead := false
		select {
		case <-d.ended:
			dead = true
		default:
			path := fmt.Sprintf("/_matrix/client/v3/rooms/%s/send/m.room.message/watch%d", url.PathEscape(room), n)
			body := map[string]any{"msgtype": "m.text", "body": "."}
			bad++
			if _, err := d.ask(token, http.MethodPut, path, body, nil); err == nil {
				bad = 0
			}
		}
		if dead || bad >= 10 {
			d.deaths, bad = d.deaths+1, 0
			d.halt()
			if err := d.launch(); err != nil {
				d.t.Error(err)
				d.over = true
			}
		}
		d.mu.Unlock()
	}
}

// serveProxy loses the answer to one send in 23, and to one in 31 before the homeserver gets it.
func (d *dendrite) serveProxy() {
	target, err := url.Parse("http://" + d.addr)
	d.must(err)
	to := httputil.NewSingleHostReverseProxy(target)
	to.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	to.ErrorLog = nil
	d.facade = freeAddr(d.t)
	d.proxy = &http.Server{Addr: d.facade, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			// A request of a killed Corebot goes on: Dendrite breaks by requests that break off. See watch.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 2*time.Minute)
			defer cancel()
			r = r.WithContext(ctx)
			if !strings.Contains(r.URL.Path, "/send/") && !strings.Contains(r.URL.Path, "/redact/") {
				to.ServeHTTP(w, r)
				return
			}
			switch n := d.sends.Add(1); {
			case n%23 == 0:
				d.dropped.Add(1)
				to.ServeHTTP(nowhere{http.Header{}}, r)
				panic(http.ErrAbortHandler)
			case n%31 == 0:
				panic(http.ErrAbortHandler)
			}
			to.ServeHTTP(w, r)
		})}
	go func() { _ = d.proxy.ListenAndServe() }()
	d.t.Cleanup(func() { _ = d.proxy.Close() })
}

// nowhere is where lost answers go.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header       { return n.header }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

// user makes a user and gives its access token.
func (d *dendrite) user(name string) (id, token string) {
	d.t.Helper()
	var first struct {
		Nonce string `json:"nonce"`
	}
	const address = "/_synapse/admin/v1/register"
	d.request("", http.MethodGet, address, nil, &first)
	password := "the password of " + name
	sum := hmac.New(sha1.New, []byte("secret"))
	_, _ = fmt.Fprintf(sum, "%s\x00%s\x00%s\x00notadmin", first.Nonce, name, password)
	var made struct {
		ID    string `json:"user_id"`
		Token string `json:"access_token"`
	}
	d.request("", http.MethodPost, address, map[string]any{
		"nonce": first.Nonce, "username": name, "password": password, "admin": false,
		"mac": hex.EncodeToString(sum.Sum(nil)),
	}, &made)
	return made.ID, made.Token
}

func (d *dendrite) call(token, method, path string, body, into any) {
	d.t.Helper()
	d.request(token, method, "/_matrix/client/v3/"+path, body, into)
}

func (d *dendrite) request(token, method, path string, body, into any) {
	d.t.Helper()
	_, err := d.ask(token, method, path, body, into)
	d.must(err)
}

// ask makes a request. later says that the homeserver has not answered, or has an error of its own: then it can help to
// ask again.
func (d *dendrite) ask(token, method, path string, body, into any) (later bool, err error) {
	d.t.Helper()
	text, err := json.Marshal(body)
	d.must(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+d.addr+path, bytes.NewReader(text))
	d.must(err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return true, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		return true, err
	}
	if answer.StatusCode != http.StatusOK {
		return answer.StatusCode >= 500, fmt.Errorf("%s %s: %d %s", method, path, answer.StatusCode, said)
	}
	if into != nil {
		d.must(json.Unmarshal(said, into))
	}
	return false, nil
}

func (d *dendrite) settings() string {
	return matrixSettings("http://"+d.facade, d.token)
}

func (d *dendrite) say(chat int, text string) {
	d.t.Helper()
	d.again(d.people[chat], http.MethodPut, fmt.Sprintf("rooms/%s/send/m.room.message/%d",
		url.PathEscape(d.rooms[chat]), d.said.Add(1)), map[string]any{"msgtype": "m.text", "body": text}, nil)
	d.spoke(text)
}

// spoke notes when somebody has said something.
func (d *dendrite) spoke(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.when[text] = time.Now()
}

// again calls the homeserver until it answers, as people's programs do: one that is being started breaks off, and has
// errors of its own. The same transaction is said once.
func (d *dendrite) again(token, method, path string, body, into any) {
	d.t.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		later, err := d.ask(token, method, "/_matrix/client/v3/"+path, body, into)
		if err == nil {
			return
		}
		if !later || time.Since(began) > siegePatience {
			d.t.Fatal(err)
		}
	}
}

// shown reads the whole history of a room, as a person sees it: without edits, whose texts stand in their places, and
// without what was taken back.
func (d *dendrite) shown(chat int) (texts []string) {
	from, edited, edits, heard := "", map[string]string{}, []string(nil), []string(nil)
	for {
		var page struct {
			Chunk []struct {
				Sender  string `json:"sender"`
				Type    string `json:"type"`
				ID      string `json:"event_id"`
				Content struct {
					Body    string `json:"body"`
					Relates struct {
						Type  string `json:"rel_type"`
						Event string `json:"event_id"`
					} `json:"m.relates_to"`
					New *struct {
						Body string `json:"body"`
					} `json:"m.new_content"`
				} `json:"content"`
			} `json:"chunk"`
			End string `json:"end"`
		}
		d.again(d.people[chat], http.MethodGet, fmt.Sprintf("rooms/%s/messages?dir=b&limit=100%s",
			url.PathEscape(d.rooms[chat]), from), nil, &page)
		for _, e := range page.Chunk {
			if e.Type != "m.room.message" || !strings.HasPrefix(e.Sender, "@corebot:") {
				if e.Type == "m.room.message" {
					heard = append([]string{e.Content.Body}, heard...)
				}
				continue
			}
			of, text := e.Content.Relates, e.Content.Body
			if of.Type == "m.replace" && e.Content.New != nil {
				edits = append(edits, e.Content.New.Body)
				if _, later := edited[of.Event]; !later {
					edited[of.Event] = e.Content.New.Body
				}
				continue
			}
			if last, is := edited[e.ID]; is && text != "" {
				text = last
			}
			if text != "" {
				texts = append([]string{text}, texts...)
			}
		}
		if page.End == "" || len(page.Chunk) == 0 {
			d.edits[chat], d.heard[chat] = edits, heard
			return texts
		}
		from = "&from=" + url.QueryEscape(page.End)
	}
}

// tardiness is how long Dendrite takes at most, on a busy machine, until it shows what somebody has said. An event that
// it has not shown when it is killed comes half a minute after its start: then its queue gives the event again.
const tardiness = 3 * time.Second

func (d *dendrite) order(chat int) []string { return d.heard[chat] }

func (d *dendrite) late(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.behind[text]
}

// away kills the homeserver in the middle of its work. It has forgotten all transactions when it comes back.
func (d *dendrite) away(meanwhile func()) {
	meanwhile()
	time.Sleep(50 * time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.halt()
	time.Sleep(300 * time.Millisecond)
	d.must(d.launch())
}

func (d *dendrite) lost() (n int, once bool) { return int(d.dropped.Load()), true }
func (d *dendrite) complaints() []string {
	return grown(slices.Concat(slices.Collect(maps.Values(d.edits))...))
}
