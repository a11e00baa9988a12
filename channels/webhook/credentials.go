package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/corebot/corebot"
)

// minCredential is the least that a token, or a secret once decoded, may have, in bytes.
const minCredential = 16

const secretPrefix = "whsec_"

// proof tells which credential a request came with, without being it: a hash. Hashes have one length, so that comparing them tells
// nothing of a credential, its length included.
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
		return nil, corebot.WithHint(err, "set webhook.token to a random text of at least 16 characters, or webhook.secret to whsec_ and base64, or disable the webhook")
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
	hint := name + " must be whsec_ and then base64 of at least 16 random bytes; make one with: echo whsec_$(openssl rand -base64 32)"
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
	value, ok := only(h, "Authorization")
	if !ok {
		return p, false
	}
	scheme, token, _ := strings.Cut(value, " ")
	p = proofOf("token ", token)
	return p, strings.EqualFold(scheme, "Bearer") && same(c.token, p)
}

// only is the value of a header that stands there once. Of two nobody knows which one a proxy has looked at.
func only(h http.Header, name string) (string, bool) {
	values := h[http.CanonicalHeaderKey(name)]
	if len(values) != 1 || values[0] == "" {
		return "", false
	}
	return values[0], true
}
