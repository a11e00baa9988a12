package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/corebot/corebot"
)

// Grants keeps who has which role. A grant holds in one chat, or everywhere; where somebody has several, the one of the chat counts, and that
// of a thread before it. Every change leaves an audit event, in the commit that makes it.
type Grants struct {
	db *DB
	by corebot.AuditEvent
}

// NewGrants are the grants of a database, in the hands of the operator.
func NewGrants(db *DB) *Grants { return &Grants{db, byOperator()} }

// As gives the grants into other hands, as [DeadLetters.As] does: then nobody changes what was given to an admin everywhere, unless he is one
// himself.
func (g *Grants) As(by corebot.AuditEvent) *Grants { return &Grants{g.db, by} }

var (
	upsertGrant = &query{`INSERT INTO grants (channel, account, sender, scope, role, granted_by, granted_at) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (channel, account, sender, scope) DO UPDATE SET role = excluded.role, granted_by = excluded.granted_by, granted_at = excluded.granted_at`}
	deleteGrant = &query{`DELETE FROM grants WHERE channel = ? AND account = ? AND sender = ? AND scope = ?`}
	// Of the admins everywhere: is the principal one, and how many others are there?
	countAdmins = &query{`SELECT COUNT(*) FILTER (WHERE self), COUNT(*) FILTER (WHERE NOT self)
		FROM (SELECT channel = ? AND account = ? AND sender = ? AS self FROM grants WHERE scope = '' AND role = 'admin')`}
	listGrants = &query{`SELECT channel, account, sender, scope, role, granted_by, granted_at FROM grants ORDER BY channel, account, sender, scope`}
)

// RoleOf is the role of a principal in a chat, from the grants alone: normal unless they say admin. In the zero Key it is the role that holds
// everywhere. A principal without an id holds no grant.
func (g *Grants) RoleOf(ctx context.Context, p corebot.Principal, k corebot.Key) (corebot.Role, error) {
	if p.ID == "" {
		return corebot.RoleNormal, nil
	}
	of, err := g.roles(ctx)
	if err != nil {
		return corebot.RoleNormal, fmt.Errorf("read the role of %s: %w", p, err)
	}
	for _, scope := range []string{scopeOf(k), scopeOf(wholeChat(k)), ""} {
		if role, ok := of[holder{p, scope}]; ok {
			return role, nil
		}
	}
	return corebot.RoleNormal, nil
}

var (
	// ErrLastAdmin refuses to leave Corebot without an admin everywhere.
	ErrLastAdmin = fmt.Errorf("%w: this is the last admin", corebot.ErrInvalid)
	// ErrOutranked refuses to let an admin of some chats overrule one who is admin everywhere.
	ErrOutranked = fmt.Errorf("%w: only an admin everywhere may change the role of another", corebot.ErrInvalid)
)

// Grant gives a principal a role, in one chat or everywhere; granting again replaces it. Making the last admin normal, in a chat too, is
// [ErrLastAdmin].
func (g *Grants) Grant(ctx context.Context, grant corebot.Grant) error {
	return g.db.write(ctx, "grant", func(t *tx) error { return g.grantTx(t, grant) })
}

// grantTx checks its rules before it writes.
func (g *Grants) grantTx(t *tx, grant corebot.Grant) error {
	p, scope := grant.Principal, scopeOf(grant.Chat)
	if err := p.Validate(); err != nil {
		return fmt.Errorf("grant to %s: %w", p, err)
	}
	if _, err := corebot.ParseRole(string(grant.Role)); err != nil {
		return err
	}
	if grant.Role != corebot.RoleAdmin {
		if err := g.mayDemoteTx(t, p); err != nil {
			return err
		}
	}
	if grant.By == "" {
		grant.By = maker(g.by)
	}
	t.granted = true
	if _, err := t.exec(upsertGrant, p.Channel, p.Account, p.ID, scope, string(grant.Role), grant.By, t.now); err != nil {
		return err
	}
	return g.noteTx(t, "role.grant", p, grant.Chat, map[string]any{"role": grant.Role, "by": grant.By})
}

// grantEffectTx handles [corebot.GrantRole]. A rule about roles that the grant breaks ends the call as denied. Anything
// else that is wrong with the grant is a refusal.
func (g *Grants) grantEffectTx(t *tx, e corebot.GrantRole) error {
	err := g.grantTx(t, corebot.Grant{Principal: e.Principal, Role: e.Role, Chat: e.Chat})
	switch {
	case errors.Is(err, ErrLastAdmin):
		return &corebot.Denied{Rule: "last-admin", Reason: "this is the last admin"}
	case errors.Is(err, ErrOutranked):
		return &corebot.Denied{Rule: "outranked", Reason: "only an admin everywhere may change the role of another"}
	case errors.Is(err, corebot.ErrInvalid):
		return &corebot.Refused{Err: err}
	}
	return err
}

// Revoke takes a grant away. One that is not there is [corebot.ErrNotFound]; the last admin's is [ErrLastAdmin].
func (g *Grants) Revoke(ctx context.Context, p corebot.Principal, chat corebot.Key) error {
	return g.db.write(ctx, "revoke", func(t *tx) error {
		if scopeOf(chat) == "" {
			if err := g.mayDemoteTx(t, p); err != nil {
				return err
			}
		}
		t.granted = true
		n, err := t.exec(deleteGrant, p.Channel, p.Account, p.ID, scopeOf(chat))
		if err == nil && n == 0 {
			err = fmt.Errorf("grant of %s: %w", p, corebot.ErrNotFound)
		}
		if err != nil {
			return err
		}
		return g.noteTx(t, "role.revoke", p, chat, nil)
	})
}

// mayDemoteTx refuses to make the only admin everywhere less than that, and to let him be overruled by who is none.
func (g *Grants) mayDemoteTx(t *tx, p corebot.Principal) error {
	own, others, err := adminsTx(t, p)
	if err != nil || own == 0 {
		return err
	}
	if others == 0 {
		return ErrLastAdmin
	}
	if g.by.Entry == corebot.EntryOperator {
		return nil
	}
	if own, _, err = adminsTx(t, g.by.Principal); err == nil && own == 0 {
		err = ErrOutranked
	}
	return err
}

// adminsTx says whether a principal is admin everywhere, and how many others are.
func adminsTx(t *tx, p corebot.Principal) (own, others int64, err error) {
	_, err = t.one(countAdmins, []any{&own, &others}, p.Channel, p.Account, p.ID)
	return own, others, err
}

// noteTx leaves the audit event of a change. What holds everywhere has the channel of its principal.
func (g *Grants) noteTx(t *tx, event string, p corebot.Principal, chat corebot.Key, note map[string]any) error {
	about := chat
	if about == (corebot.Key{}) {
		about = corebot.Key{Channel: p.Channel, Account: p.Account}
	}
	all := map[string]any{"principal": p.String(), "chat": scopeOf(chat)}
	maps.Copy(all, note)
	return changeTx(t, g.by, event, about, all)
}

// wholeChat is the chat that a thread belongs to; of a chat, it is the chat.
func wholeChat(k corebot.Key) corebot.Key {
	k.Thread = ""
	return k
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
