package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// tolerance is how far a signature's time may be from ours, either way: how long an overheard request can be sent again, and how wrong
// a caller's clock may be.
const tolerance = 300 * time.Second

// The headers of Standard Webhooks (https://www.standardwebhooks.com).
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
	signatureScheme = "v1"
)

// signingKey makes and checks Standard Webhooks signatures: HMAC-SHA256 over id, timestamp and body, joined by dots.
type signingKey []byte

func (k signingKey) mac(id, timestamp string, body []byte) []byte {
	m := hmac.New(sha256.New, k)
	m.Write([]byte(id + "." + timestamp + "."))
	m.Write(body)
	return m.Sum(nil)
}

// sign sets the three headers of a request that we send.
func (k signingKey) sign(h http.Header, id string, now time.Time, body []byte) {
	id, timestamp := headerSafe(id), strconv.FormatInt(now.Unix(), 10)
	h.Set(headerID, id)
	h.Set(headerTimestamp, timestamp)
	h.Set(headerSignature, signatureScheme+","+base64.StdEncoding.EncodeToString(k.mac(id, timestamp, body)))
}

// headerSafe escapes an id that a header would not carry unchanged. Ids of visible ASCII without % stay as they are, so that no two
// become one.
func headerSafe(id string) string {
	if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == '%' }) {
		return url.PathEscape(id)
	}
	return id
}

// signature is what a request says of itself, before its body is known.
type signature struct {
	id, timestamp string
	candidates    string // separated by spaces: while a secret is being changed, senders sign with both
}

var errUnsigned = errors.New("neither a bearer token nor a signature was sent")

// readSignature reads the three headers and refuses a time that is out of tolerance.
func readSignature(h http.Header, now time.Time) (s signature, err error) {
	var there [3]bool
	s.id, there[0] = only(h, headerID)
	s.timestamp, there[1] = only(h, headerTimestamp)
	s.candidates, there[2] = only(h, headerSignature)
	if there == [3]bool{} {
		return s, errUnsigned
	}
	if there != [3]bool{true, true, true} {
		return s, errors.New("a signature needs webhook-id, webhook-timestamp and webhook-signature, each of them once")
	}
	seconds, err := strconv.ParseInt(s.timestamp, 10, 64)
	if err != nil {
		return s, errors.New("webhook-timestamp is not a number of seconds")
	}
	if off := now.Unix() - seconds; seconds < 0 || off > int64(tolerance/time.Second) || off < -int64(tolerance/time.Second) {
		return s, fmt.Errorf("webhook-timestamp is more than %d seconds away from the time here", tolerance/time.Second)
	}
	return s, nil
}

// signs says whether one of the candidates is the key's signature of the body. Candidates of other schemes are passed over. The spelling is compared,
// since base64 is read with line ends in it too: a signature has one.
func (s signature) signs(key signingKey, body []byte) bool {
	want := []byte(base64.StdEncoding.EncodeToString(key.mac(s.id, s.timestamp, body)))
	for candidate := range strings.SplitSeq(s.candidates, " ") {
		scheme, text, _ := strings.Cut(candidate, ",")
		if scheme == signatureScheme && hmac.Equal([]byte(text), want) {
			return true
		}
	}
	return false
}
