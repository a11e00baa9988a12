package storage

import (
	"context"
	"fmt"

	"github.com/corebot/corebot"
)

// Versions keep the newest changes of files, so that they can be undone.
type Versions struct {
	db     *DB
	limits corebot.VersionLimits
}

// NewVersions are the versions of a database.
func NewVersions(db *DB, limits corebot.VersionLimits) *Versions { return &Versions{db, limits} }

const versionKey = `agent = ?1 AND channel = ?2 AND account = ?3 AND chat = ?4 AND thread = ?5`

var (
	insertVersion = &query{`INSERT INTO file_versions (agent, channel, account, chat, thread, message_id, principal,
		path, moved_from, made, before, after, mode, lost, authored, changed_at, bytes, data)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`}
	trimVersions = &query{`DELETE FROM file_versions WHERE ` + versionKey + ` AND id <= (SELECT id FROM file_versions
		WHERE ` + versionKey + ` ORDER BY id DESC LIMIT 1 OFFSET ?6 + 0)`}
	versionBytes = &query{`SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM file_versions
		INDEXED BY file_versions_bytes`}
	oldestVersions = &query{`DELETE FROM file_versions
		WHERE id IN (SELECT id FROM file_versions ORDER BY id LIMIT ? + 0)`}
	dropVersion  = &query{`DELETE FROM file_versions WHERE id = ?`}
	newestChange = &query{`SELECT message_id FROM file_versions WHERE ` + versionKey + ` AND undone_by = 0
		ORDER BY id DESC LIMIT 1`}
	claimVersions = &query{`UPDATE file_versions SET undone_by = ?7 WHERE ` + versionKey + ` AND undone_by = 0
		AND message_id = ?6`}
	freeVersions   = &query{`UPDATE file_versions SET undone_by = 0 WHERE ` + versionKey + ` AND undone_by = ?6`}
	claimedVersion = &query{`SELECT id, message_id, principal, path, moved_from, made, before, after, mode, lost
		FROM file_versions WHERE ` + versionKey + ` AND undone_by = ?6 ORDER BY id DESC`}
	newestVersions = &query{`SELECT principal, path, moved_from, after, authored FROM file_versions
		WHERE ` + versionKey + ` AND undone_by = 0 ORDER BY id DESC LIMIT ?6 + 0`}
	versionData  = &query{`SELECT data FROM file_versions WHERE id = ?`}
	versionTable = aged{
		name: "file_versions",
		page: &query{`SELECT id, changed_at, changed_at < ? FROM file_versions WHERE id > ? ORDER BY id LIMIT ? + 0`},
		drop: &query{`DELETE FROM file_versions WHERE id BETWEEN ? AND ? AND changed_at < ?`},
	}
)

// trimmedAtOnce is how many of the oldest versions make room at a time.
const trimmedAtOnce = 16

// Keep stores a change that is about to be made, and gives its number. The oldest changes make room: those of the chat
// for the limit of their number, those of all chats for the limit of bytes.
func (v *Versions) Keep(ctx context.Context, c corebot.FileVersion) (id int64, err error) {
	err = v.db.write(ctx, "file_version.keep", func(t *tx) (err error) {
		k := c.Key
		id, err = t.insert(insertVersion, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, c.MessageID,
			c.Principal.String(), c.Path, c.From, c.Made, c.Before, c.After, int64(c.Mode), c.Lost, int64(c.Authored),
			t.now, len(c.Data), c.Data)
		if err != nil {
			return err
		}
		_, err = t.exec(trimVersions, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, v.limits.PerChat)
		for err == nil {
			var count, bytes int64
			if _, err = t.one(versionBytes, []any{&count, &bytes}); err != nil || bytes <= v.limits.Bytes {
				break
			}
			_, err = t.exec(oldestVersions, trimmedAtOnce)
		}
		return err
	})
	return id, err
}

// Drop forgets a change that was not made after all.
func (v *Versions) Drop(ctx context.Context, id int64) error {
	return v.db.write(ctx, "file_version.drop", func(t *tx) error {
		_, err := t.exec(dropVersion, id)
		return err
	})
}

// Claim gives the changes of a chat that an /undo is to undo, newest first, without their data. They are the changes of
// the newest message that has any. An /undo that was cut short gets the same ones again: life is its own.
func (v *Versions) Claim(ctx context.Context, k corebot.Key, life int64) (all []corebot.FileVersion, err error) {
	err = v.db.write(ctx, "file_version.claim", func(t *tx) (err error) {
		if all, err = claimedTx(t, k, life); err != nil || len(all) > 0 {
			return err
		}
		var message string
		found, err := t.one(newestChange, []any{&message}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
		if err != nil || !found {
			return err
		}
		_, err = t.exec(claimVersions, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, message, life)
		if err == nil {
			all, err = claimedTx(t, k, life)
		}
		return err
	})
	return all, err
}

func claimedTx(t *tx, k corebot.Key, life int64) (all []corebot.FileVersion, err error) {
	err = t.each(claimedVersion, func(s scanner) error {
		c := corebot.FileVersion{Key: k}
		var who string
		var mode int64
		err := s.Scan(&c.ID, &c.MessageID, &who, &c.Path, &c.From, &c.Made, &c.Before, &c.After, &mode, &c.Lost)
		c.Mode = uint32(mode) //nolint:gosec // rights have 9 bits
		if err == nil {
			c.Principal, err = corebot.ParsePrincipal(who)
		}
		all = append(all, c)
		return err
	}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, life)
	return all, err
}

// Newest are the changes of a chat that are kept and not undone, newest first: whose they are and what they make of
// which file. They have no data.
func (v *Versions) Newest(ctx context.Context, k corebot.Key) (all []corebot.FileVersion, err error) {
	err = v.db.reader.each(ctx, newestVersions, func(s scanner) error {
		c, who, authored := corebot.FileVersion{Key: k}, "", int64(0)
		err := s.Scan(&who, &c.Path, &c.From, &c.After, &authored)
		c.Authored = corebot.Authored(authored) //nolint:gosec // it is one of three
		if err == nil {
			c.Principal, err = corebot.ParsePrincipal(who)
		}
		all = append(all, c)
		return err
	}, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, v.limits.PerChat)
	return all, err
}

// Release gives back what an /undo has claimed and not undone.
func (v *Versions) Release(ctx context.Context, k corebot.Key, life int64) error {
	return v.db.write(ctx, "file_version.release", func(t *tx) error {
		_, err := t.exec(freeVersions, k.Agent, k.Channel, k.Account, k.Chat, k.Thread, life)
		return err
	})
}

// Data is the content before a change.
func (v *Versions) Data(ctx context.Context, id int64) (data []byte, err error) {
	found, err := v.db.reader.one(ctx, versionData, []any{&data}, id)
	if err == nil && !found {
		err = fmt.Errorf("the version %d: %w", id, corebot.ErrNotFound)
	}
	return data, err
}

// Usage is how many changes are kept, and how many bytes of contents.
func (v *Versions) Usage(ctx context.Context) (count, bytes int64, err error) {
	_, err = v.db.reader.one(ctx, versionBytes, []any{&count, &bytes})
	return count, bytes, err
}
