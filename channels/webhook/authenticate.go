package webhook

import (
	"errors"
	"net/http"
	"time"
)

// authenticate says with which credential a request came. A bearer token is looked at first, and decides before the body is read. A
// signature needs the body, which read gives; it is read only if the headers are in order, and nothing looks into it before it is verified.
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
