package webhook

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/internal/apptest"
)

func TestAMethodThatAnAddressDoesNotHaveIsRefusedWithThoseThatItHas(t *testing.T) {
	w, err := prepare(nil, Options{
		Token: testToken, Words: new(words), Guest: silent{}, Files: struct{ channels.FileOpener }{},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := newHandler(w, new(door), t.Context())
	var patterns []string
	for _, p := range h.places {
		for _, method := range p.methods {
			if method != http.MethodHead || !slices.Contains(p.methods, http.MethodGet) { // a mux has it with GET
				patterns = append(patterns, method+" "+p.path+strings.Repeat("{more}", min(1, len(p.below))))
			}
		}
	}
	apptest.WantMethods(t, h, true, patterns...)
	for _, p := range h.places {
		if !slices.Contains(p.methods, http.MethodPost) || p.path == pathGuest { // a guest knows its own types
			continue
		}
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
			key, path := testToken, p.path
			if p.below != "" {
				key, path = "right", path+"7"
			}
			a := apptest.Ask(h, "POST", path, "{}", "Content-Type", kind, "Authorization", "Bearer "+key)
			if a.Code != http.StatusUnsupportedMediaType {
				t.Errorf("%s with the type %q is %d: %s", p.path, kind, a.Code, a.Body)
			}
		}
	}
}

// A GET finds all that a HEAD before it has found. A HEAD of a stream ends.
func TestAHeadTakesNothing(t *testing.T) {
	within(t, func(t *testing.T) {
		f := start(t, Options{})
		f.send("c", "r1", "one")
		for _, path := range []string{pathOutbound + "?chatId=c", pathStream + "?chatId=c&after=0"} {
			began := time.Now()
			got := f.do(f.request("HEAD", path, nil))
			if got.status != http.StatusOK || got.body != "" {
				t.Errorf("HEAD %s is %d %q", path, got.status, got.body)
			}
			wantTook(t, began, 0)
			if page := f.outboundPage(""); len(page.Messages) != 1 || page.Messages[0].Content != "one" {
				t.Errorf("after HEAD %s the page is %+v", path, page)
			}
		}
		synctest.Wait()
		f.waits.mu.Lock()
		open := len(f.waits.open)
		f.waits.mu.Unlock()
		if open != 0 {
			t.Errorf("%d streams are open", open)
		}
	})
}
