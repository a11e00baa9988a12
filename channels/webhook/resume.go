package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/strictjson"
)

// Words gives words to turns that wait for them.
type Words interface {
	// CheckKey says whether a key is that of a wait. A wrong key and an unknown wait are [corebot.ErrWrongKey].
	CheckKey(ctx context.Context, id int64, key string) error
	// GiveByKey gives the word of a wait, for whoever has its key. The same word again is a duplicate. A wait that has
	// ended is [*corebot.NoLongerWaits].
	GiveByKey(ctx context.Context, id int64, key string, word corebot.Word) (duplicate bool, err error)
}

const (
	maxKeyBytes  = 256                 // of keys that are looked at
	maxWordBytes = 8 * corebot.MaxWord // of a body: a character of a word can take six bytes in JSON
)

// given is the answer to a word that is on disk.
type given struct {
	ID     int64  `json:"id"`
	Status string `json:"status"`
}

// resume takes a word. Its credential is the key of the wait, which is good for one word, and nothing else.
func (h *handler) resume(w http.ResponseWriter, r *http.Request) int {
	b := h.newBody(w, r)
	defer h.release(b)
	id, duplicate, p := h.word(r, b)
	switch {
	case p != nil:
		return p.write(w, !b.whole && hasBody(r))
	case duplicate:
		return answer(w, http.StatusAccepted, "application/json", given{id, "duplicate"})
	}
	return answer(w, http.StatusAccepted, "application/json", given{id, "accepted"})
}

func (h *handler) word(r *http.Request, b *body) (id int64, duplicate bool, p *problem) {
	key, ok := bearerOf(r.Header)
	if !ok || len(key) > maxKeyBytes {
		return 0, false, refuse(http.StatusUnauthorized, "the key of the wait must be the bearer token")
	}
	if _, err := parameters(r.URL.RawQuery, nil); err != nil {
		return 0, false, refuse(http.StatusBadRequest, "%v", err)
	}
	id, err := corebot.ParseWaitID(strings.TrimPrefix(r.URL.Path, pathResume))
	if err != nil {
		return 0, false, wrongKey()
	}
	switch err := h.opts.Words.CheckKey(r.Context(), id, key); {
	case errors.Is(err, corebot.ErrWrongKey):
		return id, false, wrongKey()
	case err != nil:
		return id, false, h.refusalOf(err)
	}
	b.max = min(b.max, maxWordBytes)
	raw, p := b.bytes()
	if p != nil {
		return id, false, p
	}
	word := corebot.Word{Outside: true}
	if len(raw) > 0 {
		if p := checkMedia(r.Header); p != nil {
			return id, false, p
		}
		if word.Text, p = decodeWord(raw); p != nil {
			return id, false, p
		}
	}
	// A caller that has sent its whole word may hang up, and have it stored all the same.
	duplicate, err = h.opts.Words.GiveByKey(context.WithoutCancel(r.Context()), id, key, word)
	switch over := (*corebot.NoLongerWaits)(nil); {
	case errors.Is(err, corebot.ErrWrongKey):
		return id, false, wrongKey()
	case errors.As(err, &over):
		return id, false, refuse(http.StatusGone, "%v", over)
	case err != nil:
		return id, false, h.refusalOf(err)
	}
	return id, duplicate, nil
}

// wrongKey tells nobody which waits there are.
func wrongKey() *problem {
	return refuse(http.StatusUnauthorized, "this is not the key of a wait of this number")
}

// decodeWord reads {"text": "..."}.
func decodeWord(raw []byte) (text string, p *problem) {
	x := &reader{json: strictjson.NewReader(raw, strictjson.Rules{})}
	err := x.object("the body", func(name string) error {
		if name == "text" {
			return x.text(name, &text)
		}
		x.blame("there is no field %s; the only field is text", quoted(name))
		return x.skip()
	})
	if err == nil {
		err = x.json.End()
	}
	if err != nil {
		return "", refuse(http.StatusBadRequest, "the body is malformed: %v", explain(err))
	}
	if x.wrong != "" {
		return "", refuse(http.StatusUnprocessableEntity, "%s", x.wrong)
	}
	return text, nil
}
