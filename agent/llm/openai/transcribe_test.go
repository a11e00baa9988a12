package openai

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
)

func TestARecordingGoesToTheServiceAndItsWordsComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		status int
		words  string
		says   string
	}{
		"words":          {`{"text":" buy milk\n"}`, 200, "buy milk", ""},
		"silence":        {`{"text":""}`, 200, "", ""},
		"a refusal":      {`{"error":"sk-secret"}`, 401, "", "refused it (401)"},
		"a page":         {`<html>`, 200, "", "no transcript"},
		"something else": {`{"words":"x"}`, 200, "", "no transcript"},
		"a redirect":     {``, 302, "", "refused it (302)"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f, head, err := r.FormFile("file")
			if err != nil || r.URL.Path != "/v1/audio/transcriptions" || r.FormValue("model") != "whisper" ||
				r.Header.Get("Authorization") != "Bearer sk-secret" || head.Filename != "voice.ogg" {
				t.Errorf("%s: asked %s, %v, %+v", name, r.URL, err, head)
				return
			}
			if data, _ := io.ReadAll(f); string(data) != "OggS" {
				t.Errorf("%s: it sent %q", name, data)
			}
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(c.status)
			_, _ = fmt.Fprint(w, c.answer)
		}))
		heard := NewTranscriber(Transcription{
			BaseURL: s.URL + "/v1/", APIKey: "sk-secret", Model: "whisper", Timeout: 10 * time.Second, MaxBytes: 4,
			Open: func(context.Context, corebot.Key, string) (io.ReadCloser, int64, error) {
				return io.NopCloser(strings.NewReader("OggS")), 4, nil
			},
		})
		words, model, err := heard.Transcribe(t.Context(), corebot.Key{}, corebot.Part{MediaType: "audio/ogg"})
		switch {
		case c.says == "" && (err != nil || words != c.words || model != "whisper"):
			t.Errorf("%s: %q of %q, %v", name, words, model, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "sk-")):
			t.Errorf("%s: %v", name, err)
		}
		s.Close()
		if _, _, err := heard.Transcribe(t.Context(), corebot.Key{}, corebot.Part{}); err == nil ||
			!strings.Contains(err.Error(), "does not answer") {
			t.Errorf("%s, without a service: %v", name, err)
		}
		heard.opts.MaxBytes = 3
		if _, _, err := heard.Transcribe(t.Context(), corebot.Key{}, corebot.Part{}); err == nil ||
			!strings.Contains(err.Error(), "4 bytes, and at most 3") {
			t.Errorf("%s, too long: %v", name, err)
		}
	}
}
