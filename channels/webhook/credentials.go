package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/internal/signedpost"
)

// minToken is the least that a token may have, in bytes.
const minToken = 16

// proof tells which credential a request came with, without being it: a hash. Hashes have one length, so that comparing
// them tells nothing of a credential, its length included.
type proof [sha256.Size]byte

func proofOf(kind, credential string) proof { return sha256.Sum256([]byte(kind + credential)) }

// credentials are what callers may come with. They never change: new ones replace them whole.
type credentials struct {
	token  *proof // nil: not set
	secret *proof // nil: not set
	key    signedpost.Key
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
		key, err := signedpost.ParseKey("webhook.secret", secret)
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
	if len(token) < minToken {
		err := fmt.Errorf("%w: webhook.token has %d bytes", corebot.ErrInvalid, len(token))
		return corebot.WithHint(err, "it must have at least 16; webhook.token can be made with: openssl rand -hex 32")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		err := fmt.Errorf("%w: webhook.token has a character that a header cannot carry", corebot.ErrInvalid)
		return corebot.WithHint(err, "use visible ASCII characters without spaces in webhook.token")
	}
	return nil
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
	value, ok := signedpost.Only(h, "Authorization")
	scheme, token, _ := strings.Cut(value, " ")
	return token, ok && token != "" && strings.EqualFold(scheme, "Bearer")
}

// authenticate says with which credential a request came. A bearer token is looked at first, and decides before the
// body is read. A signature needs the body, which read gives; it is read only if the headers are in order, and nothing
// looks into it before it is verified.
func (w *Webhook) authenticate(h http.Header, read func() ([]byte, *problem)) (proof, *problem) {
	c := w.credentials.Load()
	if p, ok := c.bearer(h); ok {
		return p, nil
	}
	s, err := signedpost.Read(h, time.Now())
	switch {
	case errors.Is(err, signedpost.ErrUnsigned) && h.Get("Authorization") != "":
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
	if !s.Signs(c.key, body) {
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
