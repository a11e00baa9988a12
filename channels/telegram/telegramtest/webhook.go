package telegramtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"
)

// hook is a webhook that the bot has set. The zero hook is none.
type hook struct {
	end     context.CancelFunc // ends the posts
	secret  string
	most    int // updates that are posted at once
	allowed []string
	queues  map[string]queue
	fault   func(n int) PostFault
	posts   int

	failed  time.Time // when the last post failed
	message string
}

// queue is the updates of one kind in one chat.
type queue struct {
	busy     bool // one of them is being posted
	failures int
	next     time.Time // when the next is posted
}

// PostFault is what becomes of a post of an update. The zero PostFault is none.
type PostFault struct {
	Forget bool // the answer is lost: the update is posted again
	Twice  bool // the update is posted twice at once, and the first answer counts
}

// PostFaults orders what becomes of the posts from now on; n counts them from one.
func (s *Server) PostFaults(of func(n int) PostFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook.fault = of
}

// Webhook is the address to which updates are posted, and the secret that goes with them.
func (s *Server) Webhook() (address, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.webhook, s.hook.secret
}

// Connections is how many updates the bot lets be posted at once.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hook.most
}

// Posts is how many updates were posted, counted as often as they were.
func (s *Server) Posts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hook.posts
}

func (s *Server) webhookInfo() map[string]any {
	info := map[string]any{
		"url": s.webhook, "has_custom_certificate": false, "pending_update_count": len(s.updates),
	}
	if s.hook.end != nil {
		info["max_connections"], info["allowed_updates"] = s.hook.most, s.hook.allowed
	}
	if s.hook.message != "" {
		info["last_error_date"], info["last_error_message"] = s.hook.failed.Unix(), s.hook.message
	}
	return info
}

var secretToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

// setWebhook begins to post. As a server of one's own the platform posts to any address by plain HTTP, too.
func (s *Server) setWebhook(a args) (any, *Fault) {
	address := a.text("url")
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, bad("bad webhook: invalid webhook URL specified")
	}
	secret, most := a.text("secret_token"), int(a.int("max_connections"))
	if a["secret_token"] != nil && !secretToken.MatchString(secret) {
		return nil, bad("secret token contains unallowed characters")
	}
	if most < 1 || most > 100 {
		most = 40
	}
	var allowed []string
	if a["allowed_updates"] != nil && json.Unmarshal(a["allowed_updates"], &allowed) != nil {
		return nil, bad("can't parse allowed_updates JSON object")
	}
	if string(a["drop_pending_updates"]) == "true" {
		s.Complain("setWebhook drops updates that nobody has read")
	}
	if s.closed {
		return nil, bad("the server is about to end")
	}
	s.unhook()
	if s.waiting != nil { // a poll that waits ends with a conflict
		close(s.waiting)
		s.waiting = nil
	}
	ctx, end := context.WithCancel(context.Background())
	s.webhook = address
	s.hook = hook{
		end: end, secret: secret, most: most, allowed: allowed, queues: map[string]queue{}, fault: s.hook.fault,
		posts: s.hook.posts,
	}
	s.posts.Go(func() { s.post(ctx) })
	return true, nil
}

// unhook ends a webhook. The mutex is held.
func (s *Server) unhook() {
	if s.hook.end != nil {
		s.hook.end()
	}
	s.webhook = ""
	s.hook = hook{fault: s.hook.fault, posts: s.hook.posts}
}

// post posts updates until ctx ends.
func (s *Server) post(ctx context.Context) {
	places := make(chan struct{}, s.places())
	for ctx.Err() == nil {
		if !s.Wait(ctx) {
			return
		}
		s.mu.Lock()
		news := s.news
		u, name, wait, is := s.due(time.Now())
		s.mu.Unlock()
		if !is {
			timer := time.NewTimer(wait)
			select {
			case <-news:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			continue
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		s.posts.Go(func() {
			defer func() { <-places }()
			s.postOne(ctx, u, name)
		})
	}
}

func (s *Server) places() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.hook.most, 1)
}

// due is the next update to be posted, if there is one, and takes its queue. The mutex is held.
func (s *Server) due(now time.Time) (u update, name string, wait time.Duration, is bool) {
	wait = time.Second
	seen := map[string]bool{}
	for _, u := range s.updates {
		name := queueOf(u)
		q := s.hook.queues[name]
		if seen[name] || s.hook.queues == nil || len(s.hook.allowed) > 0 && !slices.Contains(s.hook.allowed, u.kind) {
			continue
		}
		seen[name] = true
		switch {
		case q.busy:
		case now.Before(q.next):
			wait = min(wait, q.next.Sub(now))
		default:
			q.busy = true
			s.hook.queues[name] = q
			return u, name, 0, true
		}
	}
	return update{}, "", wait, false
}

// queueOf names the updates between which the platform keeps the order.
func queueOf(u update) string {
	switch of := u.body["chat"].(type) {
	case Chat:
		return fmt.Sprint(u.kind, of.ID)
	default:
		return fmt.Sprint(u.kind, u.body["from"])
	}
}

// postOne posts an update, and confirms it if it was answered with 200.
func (s *Server) postOne(ctx context.Context, u update, name string) {
	s.mu.Lock()
	address, secret := s.webhook, s.hook.secret
	s.hook.posts++
	var fault PostFault
	if s.hook.fault != nil {
		fault = s.hook.fault(s.hook.posts)
	}
	body, _ := json.Marshal(map[string]any{"update_id": u.id, u.kind: u.body})
	s.mu.Unlock()
	if fault.Twice {
		s.posts.Go(func() { _, _ = postTo(ctx, address, secret, body) })
	}
	answer, err := postTo(ctx, address, secret, body)
	if err == nil && fault.Forget {
		err = said("Read timeout expired")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return // it is kept for the next webhook, or for a poll
	}
	q := s.hook.queues[name]
	q.busy = false
	if err != nil {
		s.hook.failed, s.hook.message = time.Now(), err.Error()
		q.failures++
		q.next = time.Now().Add(min(time.Duration(q.failures)*20*time.Millisecond, 200*time.Millisecond))
	} else {
		q = queue{}
		i := slices.IndexFunc(s.updates, func(o update) bool { return o.id == u.id })
		if i >= 0 {
			s.seen = append(s.seen, s.updates[i])
			s.updates = slices.Delete(s.updates, i, i+1)
		}
		s.reply(answer)
	}
	s.hook.queues[name] = q
	close(s.news)
	s.news = make(chan struct{})
}

// reply carries out the request that stands in the answer to an update. The mutex is held.
func (s *Server) reply(answer []byte) {
	if len(answer) == 0 {
		return
	}
	a := args{}
	if err := json.Unmarshal(answer, &a); err != nil || a.text("method") == "" {
		s.Complain("the answer to an update is no request: %q", answer)
		return
	}
	if a.text("method") != "answerCallbackQuery" {
		s.Complain("the answer to an update is %s", a.text("method"))
		return
	}
	if _, refused := s.answerCallback(a); refused != nil {
		s.Complain("the answer to an update is refused: %s", refused.Description)
	}
}

// said is an error in the platform's words.
type said string

func (s said) Error() string { return string(s) }

// postTo posts an update, and gives the body of the answer if it is 2xx.
func postTo(ctx context.Context, address, secret string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if secret != "" {
		r.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, said("Connection refused")
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode/100 != 2 {
		err = said("Wrong response from the webhook: " + response.Status)
	}
	return answer, err
}
