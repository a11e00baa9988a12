package signedpost

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

const testSecret = "whsec_Y29yZWJvdC1leGFtcGxlLXNlY3JldC0wMQ=="

// The signatures were made by the library of the Standard Webhooks project, version 0.0.1 for Go.
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	key, err := ParseKey("test", testSecret)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"id":"m1","chatId":"c","content":"häl.lo"}`: "v1,8ZWL73fgjfIxgX1aUlhDdDRHHh6PxCsYPWE/NOT/fRI=",
		"": "v1,0Bakx3cXcj5e0uXNQYjw8fF//HqmbvPpqHN1hDogE1Y=",
	} {
		at := time.Unix(1_700_000_000, 0)
		h := http.Header{}
		key.Sign(h, "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", at, []byte(body))
		if got := h.Get("webhook-signature"); got != want {
			t.Errorf("%q: signed %s, want %s", body, got, want)
		}
		h.Set("webhook-signature", "v1a,"+want[3:]+" v1,AAAA "+want+" v1,BBBB")
		s, err := Read(h, at)
		if err != nil || !s.Signs(key, []byte(body)) {
			t.Errorf("%q: a right signature among others is refused (%v)", body, err)
		}
	}
}

func TestIdsOfAnyTextTravelInAHeaderAndStayDifferent(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"m1/1/0", "msg_1", " m", "m ", "m", "%20m", "+m", "ä", "%C3%A4", "a.b", "\"", "😀"} {
		got := headerSafe(id)
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q are both %q", id, other, got)
		}
		seen[got] = id
		if strings.TrimSpace(got) != got || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q becomes %q", id, got)
		}
	}
	if headerSafe("m1/1/0") != "m1/1/0" {
		t.Error("an ordinary id is changed")
	}
}

// FuzzSignature: whatever the headers say, only the key's own signature is one.
func FuzzSignature(f *testing.F) {
	key, err := ParseKey("test", testSecret)
	if err != nil {
		f.Fatal(err)
	}
	h := http.Header{}
	now := time.Unix(1_700_000_000, 0)
	key.Sign(h, "msg", now, []byte("{}"))
	f.Add(h.Get(HeaderID), h.Get(HeaderTimestamp), h.Get(HeaderSignature), []byte("{}"))
	f.Add("msg", h.Get(HeaderTimestamp), strings.Replace(h.Get(HeaderSignature), "2W", "2\rW", 1), []byte("{}"))
	f.Add("", "", "", []byte{})
	f.Add("m", "1700000300", "v1,AAAA v1a,B v1,", []byte("x"))
	f.Add("m", "9223372036854775807", "v1", []byte("x"))
	f.Fuzz(func(t *testing.T, id, timestamp, candidates string, body []byte) {
		h := http.Header{HeaderID: {id}, HeaderTimestamp: {timestamp}, HeaderSignature: {candidates}}
		s, err := Read(h, now)
		if err != nil {
			return
		}
		seconds, err := strconv.ParseInt(timestamp, 10, 64)
		if err != nil || seconds < now.Unix()-300 || seconds > now.Unix()+300 {
			t.Fatalf("the time %q is let in", timestamp)
		}
		right := "v1," + base64.StdEncoding.EncodeToString(key.mac(id, timestamp, body))
		if got, want := s.Signs(key, body), contains(candidates, right); got != want {
			t.Fatalf("signs says %v, and the right one is there: %v", got, want)
		}
	})
}

func contains(candidates, one string) bool {
	for _, c := range strings.Split(candidates, " ") {
		if c == one {
			return true
		}
	}
	return false
}
