package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
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

// minCredential is the least that a token, or a secret once decoded, may have, in bytes.
const minCredential = 16

const secretPrefix = "whsec_"

// proof tells which credential a request came with, without being it: a hash. Hashes have one length, so that comparing
// them tells nothing of a credential, its length included.
type proof [sha256.Size]byte

func proofOf(kind, credential string) proof { return sha256.Sum256([]byte(kind + credential)) }

// credentials are what callers may come with. They never change: new ones replace them whole.
type credentials struct {
	token  *proof // nil: not set
	secret *proof // nil: not set
	key    signingKey
}

func newCredentials(token, secret string) (*credentials, error) {
	if token == "" && secret == "" {
		err := fmt.Errorf("%w: neither webhook.token nor webhook.secret is set", corebot.ErrInvalid)
		return nil, corebot.WithHint(err, "set webhook.token to a random text of at least 16 characters, or "+
			"webhook.secret to whsec_ and base64, or disable the webhook")
	}
	c := new(credentials)
	if token != "" {
		if err := checkToken(token); err != nil {
			return nil, err
		}
		p := proofOf("token ", token)
		c.token = &p
	}
	if secret != "" {
		key, err := parseSecret("webhook.secret", secret)
		if err != nil {
			return nil, err
		}
		p := proofOf("secret ", string(key))
		c.secret, c.key = &p, key
	}
	return c, nil
}

// checkToken refuses what is easy to guess, and what no header can carry.
func checkToken(token string) error {
	if len(token) < minCredential {
		err := fmt.Errorf("%w: webhook.token has %d bytes", corebot.ErrInvalid, len(token))
		return corebot.WithHint(err, "it must have at least 16; webhook.token can be made with: openssl rand -hex 32")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		err := fmt.Errorf("%w: webhook.token has a character that a header cannot carry", corebot.ErrInvalid)
		return corebot.WithHint(err, "use visible ASCII characters without spaces in webhook.token")
	}
	return nil
}

// parseSecret reads a Standard Webhooks secret; name is the setting's, for the error.
func parseSecret(name, secret string) (signingKey, error) {
	hint := name + " must be whsec_ and then base64 of at least 16 random bytes; make one with: echo whsec_$(openssl " +
		"rand -base64 32)"
	text, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return nil, corebot.WithHint(fmt.Errorf("%w: %s does not begin with whsec_", corebot.ErrInvalid, name), hint)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil { // not wrapped: it would quote the secret's place of failure
		return nil, corebot.WithHint(fmt.Errorf("%w: %s is not base64 after whsec_", corebot.ErrInvalid, name), hint)
	}
	if len(key) < minCredential {
		return nil, corebot.WithHint(fmt.Errorf("%w: %s has %d bytes", corebot.ErrInvalid, name, len(key)), hint)
	}
	return key, nil
}

// hold says whether a proof is still one of these credentials.
func (c *credentials) hold(p proof) bool { return same(c.token, p) || same(c.secret, p) }

// sameAs says whether everything that these hold the others hold too.
func (c *credentials) sameAs(d *credentials) bool {
	return (c.token == nil || d.hold(*c.token)) && (c.secret == nil || d.hold(*c.secret))
}

func same(want *proof, got proof) bool {
	return want != nil && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// bearer reads a bearer token. ok says that it is the right one.
func (c *credentials) bearer(h http.Header) (p proof, ok bool) {
	token, ok := bearerOf(h)
	p = proofOf("token ", token)
	return p, ok && same(c.token, p)
}

// bearerOf is the bearer token of a request; ok is false if there is none.
func bearerOf(h http.Header) (token string, ok bool) {
	value, ok := only(h, "Authorization")
	scheme, token, _ := strings.Cut(value, " ")
	return token, ok && token != "" && strings.EqualFold(scheme, "Bearer")
}

// only is the value of a header that stands there once. Of two nobody knows which one a proxy has looked at.
func only(h http.Header, name string) (string, bool) {
	values := h[http.CanonicalHeaderKey(name)]
	if len(values) != 1 || values[0] == "" {
		return "", false
	}
	return values[0], true
}

// authenticate says with which credential a request came. A bearer token is looked at first, and decides before the
// body is read. A signature needs the body, which read gives; it is read only if the headers are in order, and nothing
// looks into it before it is verified.
func (w *Webhook) authenticate(h http.Header, read func() ([]byte, *problem)) (proof, *problem) {
	c := w.credentials.Load()
	if p, ok := c.bearer(h); ok {
		return p, nil
	}
	s, err := readSignature(h, time.Now())
	switch {
	case errors.Is(err, errUnsigned) && h.Get("Authorization") != "":
		return proof{}, refuse(http.StatusUnauthorized, "the bearer token is not the right one")
	case err != nil:
		return proof{}, refuse(http.StatusUnauthorized, "%v", err)
	case c.secret == nil:
		return proof{}, refuse(http.StatusUnauthorized, "signatures are not accepted here, only a bearer token")
	}
	body, p := read()
	if p != nil {
		return proof{}, p
	}
	if !s.signs(c.key, body) {
		return proof{}, refuse(http.StatusUnauthorized, "no signature in webhook-signature is that of this request")
	}
	return *c.secret, nil
}

// stillGood looks again at a proof after something that took time: credentials may have been replaced meanwhile.
func (w *Webhook) stillGood(p proof) *problem {
	if w.credentials.Load().hold(p) {
		return nil
	}
	return refuse(http.StatusUnauthorized, "the credential of this request has been replaced")
}

// tolerance is how far a signature's time may be from ours, either way. It bounds how long an overheard request can be
// sent again, and how wrong a caller's clock may be.
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

// headerSafe escapes an id that a header would not carry unchanged. Ids of visible ASCII without % stay as they are, so
// that no two become one.
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
	if off := now.Unix() - seconds; seconds < 0 || off > int64(tolerance/time.Second) ||
		off < -int64(tolerance/time.Second) {
		return s, fmt.Errorf("webhook-timestamp is more than %d seconds away from the time here", tolerance/time.Second)
	}
	return s, nil
}

// signs says whether one of the candidates is the key's signature of the body. Candidates of other schemes are passed
// over. The spelling is compared, since base64 is read with line ends in it too: a signature has one.
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
