package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/corebot/corebot"
)

// words knows one wait, number 7, whose key is "right".
type words struct {
	given []corebot.Word
	err   error
}

func (w *words) CheckKey(_ context.Context, id int64, key string) error {
	if id != 7 || key != "right" {
		return corebot.ErrWrongKey
	}
	return nil
}

func (w *words) GiveByKey(_ context.Context, _ int64, _ string, word corebot.Word) (bool, error) {
	if w.err != nil {
		return false, w.err
	}
	w.given = append(w.given, word)
	return len(w.given) > 1, nil
}

// resume gives a word; a nil body is none.
func (f *fixture) resume(id, key string, body *string) response {
	f.t.Helper()
	r := f.request("POST", pathResume+id, nil)
	if body != nil {
		r = f.request("POST", pathResume+id, strings.NewReader(*body))
	}
	r.Header.Del("Authorization")
	if key != "" {
		r.Header.Set("Authorization", key)
	}
	return f.do(r)
}

func TestAWordIsTakenOnceFromWhoeverHasItsKey(t *testing.T) {
	within(t, func(t *testing.T) {
		all := new(words)
		f := start(t, Options{Words: all})
		body := `{"text":"green"}`
		for n, status := range []string{"accepted", "duplicate"} {
			got := f.resume("7", "Bearer right", &body)
			if got.status != http.StatusAccepted || !strings.Contains(got.body, `{"id":7,"status":"`+status+`"}`) {
				t.Errorf("time %d: %d %s", n, got.status, got.body)
			}
		}
		if got := f.resume("7", "bearer right", nil); got.status != http.StatusAccepted {
			t.Errorf("without a body: %d %s", got.status, got.body)
		}
		want := []corebot.Word{{Text: "green", Outside: true}, {Text: "green", Outside: true}, {Outside: true}}
		for i, w := range all.given {
			if w != want[i] {
				t.Errorf("word %d is %+v, want %+v", i, w, want[i])
			}
		}
		if f.door.count() > 0 {
			t.Error("a word came in as a message")
		}
	})
}

func TestAWrongKeyIsToldNothingOfWaits(t *testing.T) {
	within(t, func(t *testing.T) {
		all := new(words)
		f := start(t, Options{Words: all})
		for _, c := range [][2]string{
			{"7", ""},
			{"7", "Bearer "},
			{"7", "Bearer wrong"},
			{"7", "Basic right"},
			{"7", "Bearer " + testToken},
			{"8", "Bearer right"},
			{"x", "Bearer right"},
			{"", "Bearer right"},
			{"7/8", "Bearer right"},
			{"07%2f", "Bearer right"},
			{"7", "Bearer " + strings.Repeat("r", 300)},
		} {
			got := f.resume(c[0], c[1], nil)
			wantProblem(t, got, http.StatusUnauthorized, "key")
			if strings.Contains(got.body, "right") {
				t.Errorf("%v is told %s", c, got.body)
			}
		}
		if len(all.given) > 0 {
			t.Errorf("given was %+v", all.given)
		}
	})
}

func TestAWordThatCannotBeTakenIsRefused(t *testing.T) {
	within(t, func(t *testing.T) {
		all := new(words)
		f := start(t, Options{Words: all})
		for body, status := range map[string]int{
			`{`: 400, `{"text":"a"}{}`: 400, `{"text":"a","text":"b"}`: 400, `null`: 422, `"text"`: 422,
			`{"text":1}`: 422, `{"word":"a"}`: 422,
			`{"text":"` + strings.Repeat("x", maxWordBytes) + `"}`: 413,
		} {
			if got := f.resume("7", "Bearer right", &body); got.status != status {
				t.Errorf("%.40q: %d %s, want %d", body, got.status, got.body, status)
			}
		}
		plain := f.request("POST", pathResume+"7", strings.NewReader("green"))
		plain.Header.Set("Authorization", "Bearer right")
		plain.Header.Set("Content-Type", "text/plain")
		wantProblem(t, f.do(plain), http.StatusUnsupportedMediaType, "application/json")
		get := f.request("GET", pathResume+"7", nil)
		wantProblem(t, f.do(get), http.StatusMethodNotAllowed, "POST")
		query := f.request("POST", pathResume+"7?key=right", nil)
		query.Header.Set("Authorization", "Bearer right")
		wantProblem(t, f.do(query), http.StatusBadRequest, "no query parameters")
		for err, status := range map[error]int{
			&corebot.NoLongerWaits{Was: corebot.Pending{ID: 7, State: corebot.WaitExpired}}: http.StatusGone,
			corebot.ErrWrongKey: http.StatusUnauthorized,
			corebot.ErrTooLarge: http.StatusRequestEntityTooLarge,
			corebot.ErrClosed:   http.StatusServiceUnavailable,
			errors.New("odd"):   http.StatusInternalServerError,
		} {
			all.err = err
			if got := f.resume("7", "Bearer right", nil); got.status != status {
				t.Errorf("%v: %d %s", err, got.status, got.body)
			}
		}
		if len(all.given) > 0 {
			t.Errorf("given was %+v", all.given)
		}
	})
}

func TestWithoutWaitsThereIsNoSuchAddress(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		wantProblem(t, f.resume("7", "Bearer right", nil), http.StatusNotFound, "there are")
	})
}

// FuzzWord: whatever the body is, a word is the text of a strict document.
func FuzzWord(f *testing.F) {
	for _, body := range []string{`{"text":"a"}`, `{}`, `{"text":"\ud83d\ude00"}`, `{"text":1}`, `[`, "\xff"} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text, p := decodeWord(body)
		if p == nil && !utf8.ValidString(text) || p != nil && (text != "" && p.status == 400 || p.detail == "") {
			t.Fatalf("%q: %q, %+v", body, text, p)
		}
	})
}
