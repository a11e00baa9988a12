package storage

import (
	"context"
	"sync"

	"github.com/corebot/corebot"
)

// holder is whom a grant is for, and where: scope is the spelling of a chat's key, empty for everywhere.
type holder struct {
	corebot.Principal
	scope string
}

// roles are all grants, as they are read once and again after each change of them: several times in every turn somebody asks for one.
type roles struct {
	mu      sync.Mutex
	changes int                     // so far
	of      map[holder]corebot.Role // nil: to be read
}

// forget has the grants read anew. It is called before whoever changed them learns that they are changed.
func (r *roles) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	r.of = nil
}

func (r *roles) known() (of map[holder]corebot.Role, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of, r.changes
}

// learn keeps what was read since a number of changes, unless there was one meanwhile.
func (r *roles) learn(of map[holder]corebot.Role, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changes == changes {
		r.of = of
	}
}

var selectRoles = &query{`SELECT channel, account, sender, scope, role FROM grants`}

// roles gives all grants.
func (g *Grants) roles(ctx context.Context) (map[holder]corebot.Role, error) {
	of, changes := g.db.roles.known()
	if of != nil {
		return of, nil
	}
	of = map[holder]corebot.Role{}
	err := g.db.reader.each(ctx, selectRoles, func(s scanner) error {
		var h holder
		var role string
		err := s.Scan(&h.Channel, &h.Account, &h.ID, &h.scope, &role)
		of[h] = corebot.Role(role)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !g.db.readOnly() { // beside a daemon nobody would say that they have changed
		g.db.roles.learn(of, changes)
	}
	return of, nil
}
