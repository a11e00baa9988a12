package operate

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
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

// Console keeps the logins to the console.
type Console interface {
	// AddLink stores a login address under the SHA-256 of its code, and gives the time when the address ends.
	AddLink(ctx context.Context, digest [sha256.Size]byte) (time.Time, error)
	// Page gives the sessions in force behind a cursor, oldest first, and with all those that have ended, too.
	Page(ctx context.Context, all bool, after string, limit int) (found []corebot.ConsoleSession, next string,
		err error)
	// Revoke ends a session at once.
	Revoke(ctx context.Context, id int64) error
}

// The operations on logins to the console.
var (
	AddLogin       = changes("console.login", (*Service).AddLogin)
	ListSessions   = reads("console.sessions", (*Service).ListSessions)
	RevokeSessions = changes("console.revoke", (*Service).RevokeSessions)
)

type (
	// Login is what logs a browser in to the console, once.
	Login struct {
		Code      string    `json:"code"` // nobody can learn it later
		ExpiresAt time.Time `json:"expiresAt"`
		// Address is where a browser goes with the code; only a Corebot that has a console knows it.
		Address string `json:"address,omitempty"`
	}
	// SessionQuery asks for a part of the sessions in force, or with All of every session.
	SessionQuery struct {
		All bool `json:"all,omitempty"`
		Part
	}
)

// loginCode has letters that people type without mistakes: 160 bits.
var loginCode = base32.NewEncoding("abcdefghijkmnpqrstuvwxyz23456789").WithPadding(base32.NoPadding)

// AddLogin makes a login address of the console. Only the digest of its code is stored.
func (s *Service) AddLogin(ctx context.Context, _ struct{}) (l Login, err error) {
	var random [20]byte
	_, _ = rand.Read(random[:]) // it never fails
	l.Code = loginCode.EncodeToString(random[:])
	if l.ExpiresAt, err = s.stores.Console.AddLink(ctx, sha256.Sum256([]byte(l.Code))); err != nil {
		return Login{}, err
	}
	if s.running != nil {
		l.Address = s.running.Login(l.Code)
	}
	return l, nil
}

// ListSessions lists the browsers that are logged in to the console, oldest first.
func (s *Service) ListSessions(ctx context.Context, q SessionQuery) (Page[corebot.ConsoleSession], error) {
	found, next, err := s.stores.Console.Page(ctx, q.All, q.After, q.size())
	return pageOf(found, next, func(c corebot.ConsoleSession) corebot.ConsoleSession { return c }), err
}

// RevokeSessions logs browsers out at once, one by one. It stops at the first failure; earlier changes stay.
func (s *Service) RevokeSessions(ctx context.Context, by ByRules) (Done, error) {
	return each(by.IDs, func(id int64) error { return s.stores.Console.Revoke(ctx, id) })
}
