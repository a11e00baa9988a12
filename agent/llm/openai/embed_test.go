package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func embedderAt(t *testing.T, answer func(w http.ResponseWriter, asked embedRequest, r *http.Request)) *Embedder {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked embedRequest
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &asked); err != nil || r.URL.Path != "/v1/embeddings" {
			t.Errorf("asked was %s %s: %v", r.URL.Path, body, err)
		}
		answer(w, asked, r)
	}))
	t.Cleanup(srv.Close)
	e, err := NewEmbedder(srv.URL+"/v1/", Options{
		Section: "llm.embeddings", Model: "m", APIKey: "sk-very-secret", Timeout: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func TestVectorsComeInTheOrderOfTheirTexts(t *testing.T) {
	e := embedderAt(t, func(w http.ResponseWriter, asked embedRequest, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-very-secret" || asked.Model != "m" || asked.Format != "float" ||
			len(asked.Input) != 2 {
			t.Errorf("asked was %+v with %v", asked, r.Header)
		}
		_, _ = w.Write([]byte(`{"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}],
			"usage":{"prompt_tokens":7,"total_tokens":7}}`))
	})
	v, used, err := e.Embed(t.Context(), []string{"a", "b"})
	if err != nil || v[0][0] != 1 || v[1][1] != 4 || used.InputTokens != 7 || used.Estimated {
		t.Errorf("got %v, %+v: %v", v, used, err)
	}
}

func TestTokensOfVectorsThatNobodyCountsAreEstimated(t *testing.T) {
	e := embedderAt(t, func(w http.ResponseWriter, _ embedRequest, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":[{"index":0,"embedding":[1]}]}`))
	})
	_, used, err := e.Embed(t.Context(), []string{"some words of a person"})
	if err != nil || used.InputTokens < 3 || used.EstimatedTokens != used.InputTokens {
		t.Errorf("got %+v: %v", used, err)
	}
}

func TestAnAnswerThatLacksVectorsIsAnError(t *testing.T) {
	for name, answer := range map[string]string{
		"too few":        `{"data":[{"index":0,"embedding":[1]}]}`,
		"none":           `{}`,
		"twice the same": `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`,
		"beyond":         `{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`,
		"before":         `{"data":[{"index":0,"embedding":[1]},{"index":-1,"embedding":[1]}]}`,
		"empty":          `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[]}]}`,
		"base64":         `{"data":[{"index":0,"embedding":"AACAPw=="},{"index":1,"embedding":"AACAPw=="}]}`,
		"no JSON":        `<html>`,
		"endless":        `{"data":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		e := embedderAt(t, func(w http.ResponseWriter, _ embedRequest, _ *http.Request) {
			_, _ = w.Write([]byte(answer))
		})
		_, _, err := e.Embed(t.Context(), []string{"a", "b"})
		if f := (*corebot.Failure)(nil); !errors.As(err, &f) || f.Class != corebot.Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARefusedTextIsToldFromAnEndpointThatFails(t *testing.T) {
	for status, want := range map[int]struct {
		invalid bool
		class   corebot.Class
	}{
		400: {true, corebot.Permanent}, 413: {true, corebot.Permanent}, 422: {true, corebot.Permanent},
		401: {false, corebot.Permanent}, 404: {false, corebot.Permanent}, 429: {false, corebot.RateLimited},
		500: {false, corebot.Transient}, 503: {false, corebot.Transient},
	} {
		e := embedderAt(t, func(w http.ResponseWriter, _ embedRequest, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			http.Error(w, `{"error":{"message":"no: sk-very-secret"}}`, status)
		})
		_, _, err := e.Embed(t.Context(), []string{"a"})
		f := (*corebot.Failure)(nil)
		if !errors.As(err, &f) || f.Class != want.class || errors.Is(err, corebot.ErrInvalid) != want.invalid {
			t.Errorf("%d: %v", status, err)
		}
		if f != nil && f.RetryAfter != 7*time.Second {
			t.Errorf("%d: try again after %v", status, f.RetryAfter)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the key is in %v", err)
		}
	}
}

func TestAnEndpointForVectorsThatHangsIsLeft(t *testing.T) {
	hold := make(chan struct{})
	e := embedderAt(t, func(http.ResponseWriter, embedRequest, *http.Request) { <-hold })
	defer close(hold)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := e.Embed(ctx, []string{"a"}); err == nil {
		t.Error("nothing failed")
	}
	if _, err := NewEmbedder("http://x", Options{Section: "llm.embeddings"}); err == nil ||
		!strings.Contains(corebot.HintOf(err), "llm.embeddings.model") {
		t.Errorf("without a model it is %v", err)
	}
}
