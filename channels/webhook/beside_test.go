package webhook

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
)

// besides is what the JSON of the reply has beside its text.
const besides = `"files":[{"name":"cat.png","type":"image/png","size":0,"url":"","why":"its content is not kept"}],` +
	`"notice":"approval","approval":{"id":7,"calls":[{"tool":"shell.exec","arguments":"{}"}],` +
	`"expiresAt":"2023-11-14T22:13:20Z"},"actions":[{"name":"approve","label":"Approve","command":"/approve 7"},` +
	`{"name":"deny","label":"Deny","command":"/deny 7"},` +
	`{"name":"deny-stop","label":"Deny and stop","command":"/deny 7 stop"}]}`

// request is a notice with an attachment.
func request() channels.Outbound {
	m := reply("c", "n", "look")
	m.Kind = corebot.KindNotice
	m.Parts = append(m.Parts, corebot.Part{
		Type: corebot.PartImage, Hash: "ff", Name: "cat.png", MediaType: "image/png",
	})
	about := corebot.ApprovalRequest{
		Approval: corebot.Approval{Request: 7, ExpiresAt: time.UnixMilli(1_700_000_000_000)},
		All:      []corebot.Approval{{Bound: corebot.Bound{Tool: "shell.exec", Args: []byte("{}")}}},
	}.NoticeOf()
	m.Notice = &about
	return m
}

func TestWhatAReplyHasBesideItsTextIsInItsJSON(t *testing.T) {
	within(t, func(t *testing.T) {
		f, other := withCallback(t, func(w http.ResponseWriter,
			_ *http.Request,
		) {
			w.WriteHeader(http.StatusNoContent)
		})
		if _, err := f.Send(t.Context(), request()); err != nil {
			t.Fatal(err)
		}
		f.send("c", "plain", "hello")
		page := f.get(pathOutbound + "?chatId=c").body
		if !strings.Contains(page, `"content":"look","createdAt":`) ||
			!strings.Contains(page, `"cursor":"1",`+besides) {
			t.Errorf("the page is %s", page)
		}
		if _, plain, _ := strings.Cut(page, `{"id":"plain"`); strings.Contains(plain, "files") ||
			strings.Contains(plain, "notice") || strings.Contains(plain, "actions") {
			t.Errorf("a reply that is a text is %s", plain)
		}
		if !strings.Contains(other.bodies[0], `"content":"look"`) || !strings.HasSuffix(other.bodies[0],
			`"kind":"notice",`+besides) {
			t.Errorf("the callback got %s", other.bodies[0])
		}
	})
}
