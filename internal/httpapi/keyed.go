package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/corebot/corebot"
)

// keyHeader carries a key by which a program asks for a change once, however often it sends the request.
const keyHeader = "Idempotency-Key"

const maxKey = 200 // bytes

// keyed says whether a request can carry a key. A message has its id instead.
func (r route) keyed() bool { return r.method != http.MethodGet && r.scope != corebot.ScopeSend }

// keysInUse are the keys whose requests are under way.
type keysInUse struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]bool
}

// use says whether nobody else uses a key now. If so, the caller has it, and must free it.
func (k *keysInUse) use(key [sha256.Size]byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all[key] {
		return false
	}
	if k.all == nil {
		k.all = map[[sha256.Size]byte]bool{}
	}
	k.all[key] = true
	return true
}

func (k *keysInUse) free(key [sha256.Size]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, key)
}

// change is the change that a request with a key asks for. It reads the body, and puts it back.
func (c *call) change(key string) (k corebot.KeyedChange, err error) {
	r := c.request
	text, err := io.ReadAll(http.MaxBytesReader(c.writer, r.Body, maxBodyBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return k, fmt.Errorf("the body: %w: the limit is %d bytes", corebot.ErrTooLarge, maxBodyBytes)
	}
	if err != nil {
		return k, malformed("send the whole body", "the body: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	what := r.Method + " " + r.URL.RequestURI() + "\n"
	return corebot.KeyedChange{
		Token: c.token.ID, Key: sha256.Sum256([]byte(strconv.FormatInt(c.token.ID, 10) + " " + key)),
		Call: sha256.Sum256(append([]byte(what), text...)),
	}, nil
}

// keyOf is the key of a request; empty: it has none.
func keyOf(r *http.Request) (key string, err error) {
	given := r.Header[keyHeader]
	if len(given) == 0 {
		return "", nil
	}
	if key = given[0]; len(given) > 1 || key == "" || len(key) > maxKey {
		return "", malformed("send one of 1 to 200 bytes, such as a UUID", "there are %d %s, the first of %d bytes",
			len(given), keyHeader, len(key))
	}
	return key, nil
}

// serveKeyed carries out a change. With a key it is carried out once, and a repeat gets the same answer. A failure is
// not kept, and so a repeat tries again.
func (s *Server) serveKeyed(c *call, r route) {
	key, err := keyOf(c.request)
	var change corebot.KeyedChange
	if err == nil && key != "" {
		change, err = c.change(key)
	}
	if err != nil {
		s.fail(c.writer, c.request, err)
		return
	}
	var a corebot.KeptAnswer
	if key == "" {
		a, err = s.carryOut(c, r)
	} else {
		a, err = s.once(c, r, change)
	}
	if err != nil {
		s.fail(c.writer, c.request, err)
		return
	}
	send(c.writer, a.Status, "application/json", a.Body)
}

func (s *Server) carryOut(c *call, r route) (a corebot.KeptAnswer, err error) {
	result, err := r.serve(c)
	if err != nil {
		return a, err
	}
	return s.encoded(result)
}

// once carries out a change, unless its key says that it was carried out.
func (s *Server) once(c *call, r route, k corebot.KeyedChange) (a corebot.KeptAnswer, err error) {
	if !s.keys.use(k.Key) {
		return a, corebot.WithHint(fmt.Errorf("%w: a request with this %s is under way", corebot.ErrConflict,
			keyHeader), "send it again when that has ended")
	}
	defer s.keys.free(k.Key)
	ctx := c.request.Context()
	if a, err = s.opts.Tokens.Made(ctx, k); err == nil {
		c.writer.Header().Set("Idempotency-Replayed", "true")
		return a, nil
	} else if !errors.Is(err, corebot.ErrNotFound) {
		return a, err
	}
	c.request = c.request.WithContext(s.opts.Tokens.Keyed(ctx, k))
	if a, err = s.carryOut(c, r); err != nil {
		return a, err
	}
	if err := s.opts.Tokens.Keep(context.WithoutCancel(ctx), k, a); err != nil { // what was changed is on disk
		s.opts.Log.Warn().Err(err).Msg("the answer of a request with an idempotency key could not be kept")
	}
	return a, nil
}
