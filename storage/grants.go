package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/policy"
)

// Grants stores who has which role. The owner of the home is admin without any grant; see [Options]. A grant holds in
// one chat or everywhere. If a principal has several, the grant of the chat comes before the grant everywhere, and the
// grant of a thread before both. Every change leaves an audit event in its own commit.
type Grants struct {
	db *DB
	by corebot.AuditEvent
}

// NewGrants returns the grants of a database, for changes by the operator.
func NewGrants(db *DB) *Grants { return &Grants{db, byOperator()} }

// As returns the grants for changes by somebody else, as [DeadLetters.As] does. Then only an admin everywhere can
// change the grant of an admin everywhere.
func (g *Grants) As(by corebot.AuditEvent) *Grants { return &Grants{g.db, by} }

var (
	upsertGrant = &query{`INSERT INTO grants (channel, account, sender, scope, role, granted_by, granted_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (channel, account, sender, scope) DO UPDATE
		SET role = excluded.role, granted_by = excluded.granted_by, granted_at = excluded.granted_at`}
	grantOfAny = &query{`SELECT scope FROM grants
		WHERE channel = ? AND account = ? AND sender = ? AND scope IN (?, ?, '') LIMIT 1`}
	deleteGrant      = &query{`DELETE FROM grants WHERE channel = ? AND account = ? AND sender = ? AND scope = ?`}
	adminsEverywhere = &query{`SELECT channel, account, sender FROM grants WHERE scope = '' AND role = 'admin'`}
	listGrants       = &query{`SELECT channel, account, sender, scope, role, granted_by, granted_at FROM grants
		WHERE (channel, account, sender, scope) > (?, ?, ?, ?) ORDER BY channel, account, sender, scope LIMIT ? + 0`}
)

// RoleOf is the role of a principal in a chat. The owner of the home is admin. Anybody else is normal unless the grants
// say admin. For the zero Key it is the role everywhere. A principal without an id holds no grant.
func (g *Grants) RoleOf(ctx context.Context, p corebot.Principal, k corebot.Key) (corebot.Role, error) {
	if p.ID == "" {
		return corebot.RoleNormal, nil
	}
	if g.db.isOwner(p) {
		return corebot.RoleAdmin, nil
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
	// ErrLastAdmin refuses to leave Corebot without an admin everywhere who can speak.
	ErrLastAdmin = fmt.Errorf("%w: this is the last admin", corebot.ErrInvalid)
	// ErrOutranked refuses to let an admin of some chats overrule one who is admin everywhere.
	ErrOutranked = fmt.Errorf("%w: only an admin everywhere may change the role of another", corebot.ErrInvalid)
	// ErrHomeOwner refuses to make the owner of the home normal at its terminal: no grant takes from him what the
	// kernel gives him.
	ErrHomeOwner = fmt.Errorf("%w: the owner of the home is admin at its terminal", corebot.ErrInvalid)
)

// notByGrant is [ErrHomeOwner] with what makes somebody else the owner.
func notByGrant() error {
	return corebot.WithHint(ErrHomeOwner, "who shall be admin there is who owns the home directory: chown changes it")
}

// Grant gives a principal a role, in one chat or everywhere. It replaces an earlier grant of the same place. Making the
// last admin normal, also only in a chat, is [ErrLastAdmin].
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
		if g.db.isOwner(p) {
			return notByGrant()
		}
		if err := g.mayDemoteTx(t, p); err != nil {
			return err
		}
	}
	if grant.By == "" {
		grant.By = maker(g.by)
	}
	t.granted = true
	if _, err := t.exec(upsertGrant, p.Channel, p.Account, p.ID, scope, string(grant.Role), grant.By,
		t.now); err != nil {
		return err
	}
	return g.noteTx(t, "role.grant", p, grant.Chat, map[string]any{"role": grant.Role, "by": grant.By})
}

// grantEffectTx handles [corebot.GrantRole]. A grant that breaks a rule about roles ends the call as denied. Any other
// fault of the grant is a refusal. So is making somebody normal who has no role there: the id is misspelt, or his role
// is one of other chats, and would stay.
func (g *Grants) grantEffectTx(t *tx, e corebot.GrantRole) error {
	if e.Role == corebot.RoleNormal && !g.db.isOwner(e.Principal) {
		p, scope := e.Principal, ""
		has, err := t.one(grantOfAny, []any{&scope}, p.Channel, p.Account, p.ID, scopeOf(e.Chat),
			scopeOf(wholeChat(e.Chat)))
		if err != nil {
			return err
		}
		if !has {
			return &corebot.Refused{Err: corebot.WithHint(fmt.Errorf("grant of %s: %w", p, corebot.ErrNotFound),
				"nothing has changed: see whether the senderId is spelt as the audit has it, and name the chat of a "+
					"role that holds in one chat only")}
		}
	}
	err := g.grantTx(t, corebot.Grant{Principal: e.Principal, Role: e.Role, Chat: e.Chat})
	switch {
	case errors.Is(err, ErrLastAdmin):
		return &corebot.Denied{Rule: "last-admin", Reason: "this is the last admin"}
	case errors.Is(err, ErrOutranked):
		return &corebot.Denied{Rule: "outranked", Reason: "only an admin everywhere may change the role of another"}
	case errors.Is(err, ErrHomeOwner):
		return &corebot.Denied{Rule: corebot.RuleHomeOwner, Reason: "the owner of the home is admin at its terminal"}
	case errors.Is(err, corebot.ErrInvalid):
		return &corebot.Refused{Err: err}
	}
	return err
}

// Revoke deletes a grant. A missing grant is [corebot.ErrNotFound]; the grant of the last admin is [ErrLastAdmin]. The
// owner of the home without a grant everywhere is [ErrHomeOwner].
func (g *Grants) Revoke(ctx context.Context, p corebot.Principal, chat corebot.Key) error {
	return g.db.write(ctx, "revoke", func(t *tx) error {
		if scopeOf(chat) == "" {
			if err := g.mayDemoteTx(t, p); err != nil {
				return err
			}
		}
		t.granted = true
		n, err := t.exec(deleteGrant, p.Channel, p.Account, p.ID, scopeOf(chat))
		switch {
		case err == nil && n == 0 && scopeOf(chat) == "" && g.db.isOwner(p):
			err = notByGrant()
		case err == nil && n == 0:
			err = fmt.Errorf("grant of %s: %w", p, corebot.ErrNotFound)
		}
		if err != nil {
			return err
		}
		return g.noteTx(t, "role.revoke", p, chat, nil)
	})
}

// mayDemoteTx refuses to demote the only admin everywhere. It also refuses to let somebody who is not an admin
// everywhere demote one who is. An admin who can never speak does not count as the last admin, and does not free
// another admin to go.
func (g *Grants) mayDemoteTx(t *tx, p corebot.Principal) error {
	admins, err := adminsTx(t)
	if err != nil || !slices.Contains(admins, p) {
		return err
	}
	isOther := func(q corebot.Principal) bool { return q != p && g.db.canSpeak(q) }
	switch {
	case g.db.canSpeak(p) && !slices.ContainsFunc(admins, isOther):
		return ErrLastAdmin
	case g.by.Entry != corebot.EntryOperator && !g.db.isOwner(g.by.Principal) &&
		!slices.Contains(admins, g.by.Principal):
		return ErrOutranked
	}
	return nil
}

// adminsTx returns the admins everywhere.
func adminsTx(t *tx) (all []corebot.Principal, err error) {
	err = t.each(adminsEverywhere, func(s scanner) error {
		var p corebot.Principal
		err := s.Scan(&p.Channel, &p.Account, &p.ID)
		all = append(all, p)
		return err
	})
	return all, err
}

// canSpeak says whether a channel can have this sender.
func (db *DB) canSpeak(p corebot.Principal) bool { return db.speaks == nil || db.speaks(p) }

// noteTx writes the audit event of a change. A grant that holds everywhere has the channel of its principal.
func (g *Grants) noteTx(t *tx, event string, p corebot.Principal, chat corebot.Key, note map[string]any) error {
	about := chat
	if about == (corebot.Key{}) {
		about = corebot.Key{Channel: p.Channel, Account: p.Account}
	}
	all := map[string]any{"principal": p.String(), "chat": scopeOf(chat)}
	maps.Copy(all, note)
	return changeTx(t, g.by, event, about, all)
}

// wholeChat is the chat of a thread. For a chat it is the chat itself.
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

// Page gives the grants behind a cursor, in the order of their principals, at most limit of them, and the cursor behind
// them.
func (g *Grants) Page(ctx context.Context, after string, limit int) (out []corebot.Grant, next string, err error) {
	var channel, account, sender, scope string
	if err := behind(after, "grants", &channel, &account, &sender, &scope); err != nil {
		return nil, "", err
	}
	err = g.db.reader.each(ctx, listGrants, func(s scanner) error {
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
	}, channel, account, sender, scope, limit)
	return out, nextPage(out, limit, func(g corebot.Grant) string {
		return cursor("grants", g.Principal.Channel, g.Principal.Account, g.Principal.ID, scopeOf(g.Chat))
	}), err
}

// holder is the principal of a grant and its place. scope is the spelling of a chat's key; empty: everywhere.
type holder struct {
	corebot.Principal
	scope string
}

// roles caches all grants, because every turn asks for a role several times. Each change of a grant makes the cache be
// read again.
type roles struct {
	mu      sync.Mutex
	changes int                     // how many so far
	of      map[holder]corebot.Role // nil: must be read
}

// forget drops the cache. It is called before the caller of a change learns that the change is made.
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

// learn keeps the grants that were read, unless they have changed since the reading began.
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
	if !g.db.isReadOnly() { // beside a daemon nobody reports changes to this process
		g.db.roles.learn(of, changes)
	}
	return of, nil
}

// unlearn drops the caches of what a transaction has changed.
func (db *DB) unlearn(t *tx) {
	if t.granted {
		db.roles.forget()
	}
	if t.admitted {
		db.admissions.forget()
	}
}

// maxAdmissions bounds the chats of [admissions].
const maxAdmissions = 4_096

// admissions caches who may talk in a chat, because the front door asks for each message. Each change in any chat drops
// the whole cache. Beyond the bound it drops the half that was read first.
type admissions struct {
	mu          sync.Mutex
	changes     int // how many so far
	young, aged map[corebot.Key]corebot.Admission
}

// forget drops the cache, as [roles.forget] does.
func (a *admissions) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes++
	a.young, a.aged = nil, nil
}

func (a *admissions) known(k corebot.Key) (chat corebot.Admission, known bool, changes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if chat, known = a.young[k]; !known {
		chat, known = a.aged[k]
	}
	return chat, known, a.changes
}

// learn keeps what was read of a chat, unless something has changed since the reading began.
func (a *admissions) learn(k corebot.Key, chat corebot.Admission, changes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.changes != changes {
		return
	}
	if a.young == nil || len(a.young) >= maxAdmissions/2 {
		a.young, a.aged = map[corebot.Key]corebot.Admission{}, a.young
	}
	a.young[k] = chat
}

// The row of the thread comes before the row of its chat.
var selectAdmission = &query{`SELECT registered, access FROM chats
	WHERE agent = ? AND channel = ? AND account = ? AND chat = ? AND thread IN ('', ?) ORDER BY thread DESC`}

// Admission returns what is set for a chat about who may talk there. The rule of its channel comes in addition.
func (c *Chats) Admission(ctx context.Context, k corebot.Key) (corebot.Admission, error) {
	chat, known, changes := c.db.admissions.known(k)
	if known {
		return chat, nil
	}
	err := c.db.reader.each(ctx, selectAdmission, func(s scanner) error {
		var registered bool
		var access string
		err := s.Scan(&registered, &access)
		chat.Registered = chat.Registered || registered
		if chat.Access == "" {
			chat.Access = corebot.ChatAccess(access)
		}
		return err
	}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
	if err == nil && !c.db.isReadOnly() { // see [Grants.roles]
		c.db.admissions.learn(k, chat, changes)
	}
	return chat, err
}

var (
	selectBootstrap = &query{
		`SELECT b.failures, b.locked_at, b.used, EXISTS (SELECT 1 FROM grants WHERE role = 'admin') FROM bootstrap b
			WHERE b.id = 1`,
	}
	updateBootstrap = &query{`UPDATE bootstrap SET failures = ?, locked_at = ?, used = ? WHERE id = 1`}
)

// firstAdminTx handles [corebot.BecomeFirstAdmin]. With the right key the call's principal becomes admin everywhere,
// and the chat is registered. The count of attempts is written in any case: a denial is committed.
func (db *DB) firstAdminTx(t *tx, asks *asking, e corebot.BecomeFirstAdmin) error {
	who := asks.event.Principal
	var state policy.BootstrapState
	attempt := policy.BootstrapAttempt{Key: e.Bootstrap, By: who, At: t.now}
	_, err := t.one(selectBootstrap, []any{&state.Failures, moment{&state.LockedAt}, &state.Used, &attempt.Admins})
	if err != nil {
		return err
	}
	decision, next := db.bootstrap.Decide(state, attempt)
	if next != state {
		if _, err := t.exec(updateBootstrap, int64(next.Failures), next.LockedAt, next.Used); err != nil {
			return err
		}
	}
	if !decision.Allow {
		return &corebot.Denied{Rule: decision.Rule, Reason: decision.Reason}
	}
	asks.event.Rule = decision.Rule
	first := corebot.Grant{Principal: who, Role: corebot.RoleAdmin, By: decision.Rule}
	if err := NewGrants(db).As(asks.event).grantTx(t, first); err != nil {
		return err
	}
	return NewChats(db).As(asks.event).registerTx(t, e.Chat, true, "")
}

// isOwner says whether a principal is the owner of the home, at its terminal or console. A principal without an id
// never is.
func (db *DB) isOwner(p corebot.Principal) bool {
	return p.ID != "" && (p == db.owner || p == db.owner.AtConsole())
}

var (
	selectOwner = &query{`SELECT owner FROM store WHERE id = 1`}
	updateOwner = &query{`UPDATE store SET owner = ? WHERE id = 1`}
)

// noteOwner writes an audit event when the owner of the home is another than the audit names. So the trail says since
// when whom the rule [corebot.RuleHomeOwner] makes admin, also after a backup was restored elsewhere. It runs before
// the writer begins.
func (db *DB) noteOwner() error {
	var noted, now string
	if db.isOwner(db.owner) {
		now = db.owner.String()
	}
	err := db.conn.each(selectOwner, func(s scanner) error { return s.Scan(&noted) })
	if err != nil || noted == now {
		return err
	}
	if _, err := db.conn.exec(begin); err != nil {
		return err
	}
	t := &tx{now: db.clock.now(), conn: db.conn, audit: db.state.audit}
	if err := db.noteOwnerTx(t, noted, now); err != nil {
		_, undone := db.conn.exec(rollback)
		return errors.Join(err, undone)
	}
	if _, err := db.conn.exec(commit); err != nil {
		return err
	}
	db.state.audit = t.audit
	return nil
}

func (db *DB) noteOwnerTx(t *tx, noted, now string) error {
	if _, err := t.exec(updateOwner, now); err != nil {
		return err
	}
	by := corebot.AuditEvent{Entry: corebot.EntryItself, Principal: db.owner, Rule: corebot.RuleHomeOwner}
	if now != "" {
		by.Role = corebot.RoleAdmin
	}
	about := corebot.Key{Channel: corebot.TerminalChannel, Account: corebot.TerminalAccount}
	return changeTx(t, by, "role.owner", about, map[string]any{"principal": now, "before": noted})
}
