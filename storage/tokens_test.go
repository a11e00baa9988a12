package storage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corebot/corebot"
)

func tokenOf(name string) corebot.Token {
	return corebot.Token{Name: name, Scopes: []corebot.Scope{corebot.ScopeRead, corebot.ScopeOperate}}
}

func TestATokenIsKnownByTheDigestOfItsSecretAndIsEndedByItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, t.TempDir())
		all := NewTokens(db)
		secret := sha256.Sum256([]byte("one"))
		made, err := all.Add(t.Context(), tokenOf("grafana"), secret)
		must(t, err)
		found, err := all.ByDigest(t.Context(), secret)
		if err != nil || found.ID != made.ID || found.Name != "grafana" || !found.Has(corebot.ScopeOperate) ||
			!found.ExpiresAt.IsZero() || !found.InForce(time.Now()) {
			t.Errorf("the token is %+v: %v", found, err)
		}
		if _, err := all.ByDigest(t.Context(), sha256.Sum256([]byte("two"))); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("another secret: %v", err)
		}
		if _, err := all.Add(t.Context(), tokenOf("grafana"), sha256.Sum256([]byte("three"))); !errors.Is(err,
			corebot.ErrInvalid) {
			t.Errorf("a second token of the name: %v", err)
		}
		at := time.Now().Add(90 * time.Second)
		must(t, all.Used(t.Context(), made.ID, at))
		must(t, all.Used(t.Context(), made.ID, at.Add(-time.Hour))) // a clock that stepped back
		_, err = all.Revoke(t.Context(), "grafana")
		must(t, err)
		found, err = all.ByDigest(t.Context(), secret)
		if err != nil || found.InForce(time.Now()) || !found.UsedAt.Equal(at.Truncate(time.Minute)) {
			t.Errorf("the revoked token is %+v: %v", found, err)
		}
		if _, err := all.Revoke(t.Context(), "grafana"); !errors.Is(err, corebot.ErrNotFound) {
			t.Errorf("revoked twice: %v", err)
		}
		_, err = all.Add(t.Context(), tokenOf("grafana"), sha256.Sum256([]byte("four")))
		must(t, err)
	})
}

func TestTokensAreBoundedAndListedInPages(t *testing.T) {
	db := openTest(t, t.TempDir())
	all := NewTokens(db)
	for i := range corebot.MaxTokens {
		name := fmt.Sprint("t", i)
		_, err := all.Add(t.Context(), tokenOf(name), sha256.Sum256([]byte(name)))
		must(t, err)
	}
	if _, err := all.Add(t.Context(), tokenOf("more"), sha256.Sum256(nil)); !errors.Is(err, corebot.ErrTooLarge) {
		t.Errorf("one more token: %v", err)
	}
	_, err := all.Revoke(t.Context(), "t0")
	must(t, err)
	_, err = all.Add(t.Context(), tokenOf("more"), sha256.Sum256(nil))
	must(t, err)
	seen := map[string]int{}
	for after := ""; ; {
		page, next, err := all.Page(t.Context(), false, after, 7)
		must(t, err)
		for _, token := range page {
			seen[token.Name]++
		}
		if after = next; after == "" {
			break
		}
	}
	if len(seen) != corebot.MaxTokens || seen["t0"] != 0 || seen["more"] != 1 {
		t.Errorf("the pages have %d tokens: %v", len(seen), seen)
	}
	if every, _, err := all.Page(t.Context(), true, "", 1000); err != nil || len(every) != corebot.MaxTokens+1 {
		t.Errorf("with those that were revoked there are %d: %v", len(every), err)
	}
	for _, wrong := range []corebot.Token{
		{},
		{Name: "x"},
		{Scopes: []corebot.Scope{corebot.ScopeRead}},
		{Name: "x\n", Scopes: []corebot.Scope{"read"}},
		{Name: "x", Scopes: []corebot.Scope{"root"}},
	} {
		if _, err := all.Add(t.Context(), wrong, sha256.Sum256([]byte("w"))); !errors.Is(err, corebot.ErrInvalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
