// Package signedpost signs requests as Standard Webhooks say (https://www.standardwebhooks.com), checks such
// signatures, and posts to an address of the operator's.
package signedpost

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

	"github.com/corebot/corebot"
)

// The headers of a signed request.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	secretPrefix = "whsec_"
	scheme       = "v1"

	// minKey is the shortest key, in bytes: 128 bits cannot be guessed.
	minKey = 16

	// tolerance is how far a signature's time may be from ours, either way. It bounds how long an overheard request can
	// be sent again, and how wrong a caller's clock may be.
	tolerance = 300 * time.Second
)

// Key makes and checks signatures: HMAC-SHA256 over id, timestamp and body, joined by dots.
type Key []byte

// ParseKey reads a secret: whsec_ and then base64 of at least 16 bytes. The error is [corebot.ErrInvalid] with a hint.
// It names the setting and quotes nothing of the secret.
func ParseKey(setting, secret string) (Key, error) {
	refuse := func(format string, args ...any) error {
		err := fmt.Errorf("%w: %s "+format, append([]any{corebot.ErrInvalid, setting}, args...)...)
		return corebot.WithHint(err, setting+" must be whsec_ and then base64 of at least 16 random bytes; "+
			"make one with: echo whsec_$(openssl rand -base64 24)")
	}
	text, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return nil, refuse("does not begin with whsec_")
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil { // not wrapped: it would quote the secret's place of failure
		return nil, refuse("is not base64 after whsec_")
	}
	if len(key) < minKey {
		return nil, refuse("is base64 of %d bytes", len(key))
	}
	return key, nil
}

func (k Key) mac(id, timestamp string, body []byte) []byte {
	m := hmac.New(sha256.New, k)
	m.Write([]byte(id + "." + timestamp + "."))
	m.Write(body)
	return m.Sum(nil)
}

// Sign sets the three headers of a request.
func (k Key) Sign(h http.Header, id string, now time.Time, body []byte) {
	id, timestamp := headerSafe(id), strconv.FormatInt(now.Unix(), 10)
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, timestamp)
	h.Set(HeaderSignature, scheme+","+base64.StdEncoding.EncodeToString(k.mac(id, timestamp, body)))
}

// headerSafe escapes an id that a header would not carry unchanged. Ids of visible ASCII without % stay as they are, so
// that no two become one.
func headerSafe(id string) string {
	if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' || r == '%' }) {
		return url.PathEscape(id)
	}
	return id
}

// Signature is what a request says of itself, before its body is known.
type Signature struct {
	id, timestamp string
	candidates    string // separated by spaces: while a secret is being changed, senders sign with both
}

// ErrUnsigned says that a request has none of the three headers.
var ErrUnsigned = errors.New("neither a bearer token nor a signature was sent")

// Read reads the three headers, and refuses a time that is more than five minutes away.
func Read(h http.Header, now time.Time) (s Signature, err error) {
	var there [3]bool
	s.id, there[0] = Only(h, HeaderID)
	s.timestamp, there[1] = Only(h, HeaderTimestamp)
	s.candidates, there[2] = Only(h, HeaderSignature)
	if there == [3]bool{} {
		return s, ErrUnsigned
	}
	if there != [3]bool{true, true, true} {
		return s, errors.New("a signature needs webhook-id, webhook-timestamp and webhook-signature, each of them once")
	}
	seconds, err := strconv.ParseInt(s.timestamp, 10, 64)
	if err != nil {
		return s, errors.New("webhook-timestamp is not a number of seconds")
	}
	if off := now.Unix() - seconds; seconds < 0 || off > int64(tolerance/time.Second) ||
		off < -int64(tolerance/time.Second) {
		return s, fmt.Errorf("webhook-timestamp is more than %d seconds away from the time here", tolerance/time.Second)
	}
	return s, nil
}

// Only is the value of a header that stands there once. Of two nobody knows which one a proxy has looked at.
func Only(h http.Header, name string) (string, bool) {
	values := h[http.CanonicalHeaderKey(name)]
	if len(values) != 1 || values[0] == "" {
		return "", false
	}
	return values[0], true
}

// Signs says whether one of the candidates is the key's signature of the body. Candidates of other schemes are passed
// over. The spelling is compared, since base64 is read with line ends in it too: a signature has one.
func (s Signature) Signs(key Key, body []byte) bool {
	want := []byte(base64.StdEncoding.EncodeToString(key.mac(s.id, s.timestamp, body)))
	for candidate := range strings.SplitSeq(s.candidates, " ") {
		named, text, _ := strings.Cut(candidate, ",")
		if named == scheme && hmac.Equal([]byte(text), want) {
			return true
		}
	}
	return false
}
