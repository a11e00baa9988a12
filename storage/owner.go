package storage

import (
	"errors"

	"github.com/corebot/corebot"
)

// isOwner says whether a principal is the owner of the home at its terminal. A principal without an id never is.
func (db *DB) isOwner(p corebot.Principal) bool { return p.ID != "" && p == db.owner }

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
