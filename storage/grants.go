package storage

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

// Grants keeps who has which role.
type Grants struct{ db *DB }

// NewGrants are the grants of a database.
func NewGrants(db *DB) *Grants { return &Grants{db} }

var (
	selectRoles = &query{`SELECT role FROM grants WHERE channel = ? AND account = ? AND sender = ? AND scope IN ('', ?)`}
	upsertGrant = &query{`INSERT INTO grants (channel, account, sender, scope, role, granted_by, granted_at) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (channel, account, sender, scope) DO UPDATE SET role = excluded.role, granted_by = excluded.granted_by, granted_at = excluded.granted_at`}
	deleteGrant = &query{`DELETE FROM grants WHERE channel = ? AND account = ? AND sender = ? AND scope = ?`}
	// Of the admins everywhere: is the principal one, and how many others are there?
	countAdmins = &query{`SELECT COUNT(*) FILTER (WHERE self), COUNT(*) FILTER (WHERE NOT self)
		FROM (SELECT channel = ? AND account = ? AND sender = ? AS self FROM grants WHERE scope = '' AND role = 'admin')`}
	listGrants = &query{`SELECT channel, account, sender, scope, role, granted_by, granted_at FROM grants ORDER BY channel, account, sender, scope`}
)

// RoleOf is the role of a principal in a chat, from the grants alone: normal unless something says admin. A principal without
// an id holds no grant.
func (g *Grants) RoleOf(ctx context.Context, p corebot.Principal, k corebot.Key) (corebot.Role, error) {
	role := corebot.RoleNormal
	if p.ID == "" {
		return role, nil
	}
	err := g.db.reader.each(ctx, selectRoles, func(s scanner) error {
		var granted string
		if err := s.Scan(&granted); err != nil {
			return err
		}
		if corebot.Role(granted) == corebot.RoleAdmin {
			role = corebot.RoleAdmin
		}
		return nil
	}, p.Channel, p.Account, p.ID, k.String())
	if err != nil {
		return corebot.RoleNormal, fmt.Errorf("read the role of %s: %w", p, err)
	}
	return role, nil
}

// ErrLastAdmin refuses to leave Corebot without an admin.
var ErrLastAdmin = fmt.Errorf("%w: this is the last admin", corebot.ErrInvalid)

// Grant gives a principal a role, in one chat or everywhere; granting again replaces it. Making the last admin normal is
// [ErrLastAdmin].
func (g *Grants) Grant(ctx context.Context, grant corebot.Grant) error {
	p := grant.Principal
	if p.ID == "" {
		return fmt.Errorf("%w: a sender without an id can hold no grant", corebot.ErrInvalid)
	}
	return g.db.write(ctx, "grant", func(t *tx) error {
		if grant.Role != corebot.RoleAdmin {
			if err := keepsAnAdminTx(t, p, grant.Chat); err != nil {
				return err
			}
		}
		_, err := t.exec(upsertGrant, p.Channel, p.Account, p.ID, scopeOf(grant.Chat), string(grant.Role), grant.By, t.now)
		return err
	})
}

// Revoke takes a grant away. One that is not there is [corebot.ErrNotFound]; the last admin's is [ErrLastAdmin].
func (g *Grants) Revoke(ctx context.Context, p corebot.Principal, chat corebot.Key) error {
	return g.db.write(ctx, "revoke", func(t *tx) error {
		if err := keepsAnAdminTx(t, p, chat); err != nil {
			return err
		}
		n, err := t.exec(deleteGrant, p.Channel, p.Account, p.ID, scopeOf(chat))
		if err == nil && n == 0 {
			err = fmt.Errorf("grant of %s: %w", p, corebot.ErrNotFound)
		}
		return err
	})
}

// keepsAnAdminTx refuses to take away the only grant that makes somebody admin everywhere.
func keepsAnAdminTx(t *tx, p corebot.Principal, chat corebot.Key) error {
	if scopeOf(chat) != "" {
		return nil
	}
	var own, others int64
	if _, err := t.one(countAdmins, []any{&own, &others}, p.Channel, p.Account, p.ID); err != nil {
		return err
	}
	if own > 0 && others == 0 {
		return ErrLastAdmin
	}
	return nil
}

func scopeOf(k corebot.Key) string {
	if k == (corebot.Key{}) {
		return ""
	}
	return k.String()
}

// List gives every grant.
func (g *Grants) List(ctx context.Context) ([]corebot.Grant, error) {
	var out []corebot.Grant
	err := g.db.reader.each(ctx, listGrants, func(s scanner) error {
		var grant corebot.Grant
		var scope, role string
		p := &grant.Principal
		err := s.Scan(&p.Channel, &p.Account, &p.ID, &scope, &role, &grant.By, &grant.AtMS)
		if err == nil && scope != "" {
			grant.Chat, err = corebot.ParseKey(scope)
		}
		grant.Role = corebot.Role(role)
		out = append(out, grant)
		return err
	})
	return out, err
}
