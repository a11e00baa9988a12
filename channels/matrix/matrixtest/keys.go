package matrixtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Post is the part of a homeserver that passes on keys. A token is "USER DEVICE".
type Post struct {
	URL string

	t       testing.TB
	mu      sync.Mutex
	devices map[string]map[string]json.RawMessage // by user and device
	onetime map[string]map[string]json.RawMessage // by token and key
	inbox   map[string][]json.RawMessage          // by token
}

// NewPost starts one.
func NewPost(t testing.TB) *Post {
	p := &Post{
		t: t, devices: map[string]map[string]json.RawMessage{}, onetime: map[string]map[string]json.RawMessage{},
		inbox: map[string][]json.RawMessage{},
	}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.URL = s.URL
	return p
}

// ServeHTTP implements [http.Handler].
func (p *Post) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	user, device, _ := strings.Cut(token, " ")
	body, _ := io.ReadAll(r.Body)
	var answer any = map[string]any{}
	switch path := strings.TrimPrefix(r.URL.Path, "/_matrix/client/v3/"); {
	case path == "keys/upload":
		answer = p.upload(user, device, token, body)
	case path == "keys/query":
		answer = p.query(body)
	case path == "keys/claim":
		answer = p.claim(body)
	case strings.HasPrefix(path, "sendToDevice/"):
		p.pass(user, strings.Split(path, "/")[1], body)
	default:
		p.t.Errorf("a request for %s", path)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (p *Post) read(body []byte, into any) {
	if err := json.Unmarshal(body, into); err != nil {
		p.t.Error(err)
	}
}

func (p *Post) upload(user, device, token string, body []byte) any {
	var up struct {
		Device  json.RawMessage            `json:"device_keys"`
		Onetime map[string]json.RawMessage `json:"one_time_keys"`
	}
	p.read(body, &up)
	if len(up.Device) > 4 {
		if p.devices[user] == nil {
			p.devices[user] = map[string]json.RawMessage{}
		}
		p.devices[user][device] = up.Device
	}
	if p.onetime[token] == nil {
		p.onetime[token] = map[string]json.RawMessage{}
	}
	for name, key := range up.Onetime {
		p.onetime[token][name] = key
	}
	return map[string]any{"one_time_key_counts": map[string]int{"signed_curve25519": len(p.onetime[token])}}
}

func (p *Post) query(body []byte) any {
	var ask struct {
		Keys map[string][]string `json:"device_keys"`
	}
	p.read(body, &ask)
	found := map[string]map[string]json.RawMessage{}
	for user := range ask.Keys {
		found[user] = p.devices[user]
	}
	return map[string]any{"device_keys": found}
}

func (p *Post) claim(body []byte) any {
	var ask struct {
		Keys map[string]map[string]string `json:"one_time_keys"`
	}
	p.read(body, &ask)
	given := map[string]map[string]map[string]json.RawMessage{}
	for user, devices := range ask.Keys {
		given[user] = map[string]map[string]json.RawMessage{}
		for device := range devices {
			for name, key := range p.onetime[user+" "+device] {
				given[user][device] = map[string]json.RawMessage{name: key}
				delete(p.onetime[user+" "+device], name)
				break
			}
		}
	}
	return map[string]any{"one_time_keys": given}
}

func (p *Post) pass(from, kind string, body []byte) {
	var sent struct {
		Messages map[string]map[string]json.RawMessage `json:"messages"`
	}
	p.read(body, &sent)
	for user, devices := range sent.Messages {
		for device, content := range devices {
			whole, _ := json.Marshal(map[string]any{"type": kind, "sender": from, "content": content})
			p.inbox[user+" "+device] = append(p.inbox[user+" "+device], whole)
		}
	}
}

// Keys gives the messages that have come for a device, once.
func (p *Post) Keys(user, device string) (events []json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	events = p.inbox[user+" "+device]
	delete(p.inbox, user+" "+device)
	return events
}
