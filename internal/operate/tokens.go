package operate

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/corebot/corebot"
)

// Tokens keeps the tokens of the HTTP API.
type Tokens interface {
	// Page gives the tokens in force behind a cursor, oldest first, and with all those that were revoked, too.
	Page(ctx context.Context, all bool, after string, limit int) (found []corebot.Token, next string, err error)
	// Add stores a token under the SHA-256 of its secret.
	Add(ctx context.Context, t corebot.Token, digest [sha256.Size]byte) (corebot.Token, error)
	// Revoke ends the token of a name.
	Revoke(ctx context.Context, name string) (corebot.Token, error)
}

// The operations on tokens.
var (
	ListTokens  = reads("tokens.list", (*Service).ListTokens)
	AddToken    = changes("tokens.add", (*Service).AddToken)
	RevokeToken = changes("tokens.revoke", (*Service).RevokeToken)
)

type (
	// TokenQuery asks for a part of the tokens in force, or with All of every token.
	TokenQuery struct {
		All bool `json:"all,omitempty"`
		Part
	}
	// NewToken is a token to be made.
	NewToken struct {
		Name   string          `json:"name"`
		Scopes []corebot.Scope `json:"scopes"`
		Sender string          `json:"sender,omitempty"` // with [corebot.ScopeSend]; see [corebot.Token]
		Chats  []string        `json:"chats,omitempty"`
		Days   int             `json:"days,omitempty"` // that it is in force; 0: for ever
	}
	// MadeToken is a token with its secret, which nobody can learn later.
	MadeToken struct {
		corebot.Token
		Secret string `json:"secret"`
	}
	// TokenName names a token in force.
	TokenName struct {
		Name string `json:"name"`
	}
)

// maxTokenDays bounds for how long a token can be made: ten years.
const maxTokenDays = 3660

// TokenPrefix begins every secret, so that people and scanners know what they have found.
const TokenPrefix = "corebot_"

// ListTokens lists the tokens of the HTTP API, oldest first.
func (s *Service) ListTokens(ctx context.Context, q TokenQuery) (Page[corebot.Token], error) {
	found, next, err := s.stores.Tokens.Page(ctx, q.All, q.After, q.size())
	return pageOf(found, next, func(t corebot.Token) corebot.Token { return t }), err
}

// AddToken makes a token. Only the digest of its secret is stored, so the result is all there will ever be of it.
func (s *Service) AddToken(ctx context.Context, n NewToken) (MadeToken, error) {
	if n.Days < 0 || n.Days > maxTokenDays {
		return MadeToken{}, fmt.Errorf("%w: a token cannot be in force for %d days, the limit is %d",
			corebot.ErrInvalid, n.Days, maxTokenDays)
	}
	token := corebot.Token{Name: n.Name, Scopes: n.Scopes, Sender: n.Sender, Chats: n.Chats}
	if n.Days > 0 {
		token.ExpiresAt = time.Now().AddDate(0, 0, n.Days)
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	secret := TokenPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	token, err := s.stores.Tokens.Add(ctx, token, sha256.Sum256([]byte(secret)))
	if err != nil {
		return MadeToken{}, err
	}
	return MadeToken{token, secret}, nil
}

// RevokeToken ends a token at once and for good.
func (s *Service) RevokeToken(ctx context.Context, n TokenName) (corebot.Token, error) {
	return s.stores.Tokens.Revoke(ctx, n.Name)
}
