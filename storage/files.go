package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/corebot/corebot"
)

// FileCharges keep whose turns made the folders of chats grow.
//
// The charges of a chat's folder add up to what the folder held when it was last looked at. Growth is charged to the
// caller. A deletion lowers the caller's charge first, and then the largest charge. So a sender who deletes files has
// his room back.
type FileCharges struct{ db *DB }

// NewFileCharges are the charges of a database.
func NewFileCharges(db *DB) *FileCharges { return &FileCharges{db} }

var (
	chargesOfChat = &query{`SELECT channel, account, sender, bytes, entries FROM file_charges WHERE chat = ?`}
	putCharge     = &query{`INSERT INTO file_charges (chat, channel, account, sender, bytes, entries)
		VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (chat, channel, account, sender)
		DO UPDATE SET bytes = excluded.bytes, entries = excluded.entries`}
	dropCharge = &query{`DELETE FROM file_charges WHERE chat = ? AND channel = ? AND account = ? AND sender = ?`}
	chargedTo  = &query{`SELECT COALESCE(SUM(bytes), 0), COALESCE(SUM(entries), 0) FROM file_charges
		WHERE channel = ? AND account = ? AND sender = ?`}
	chargedIn = &query{
		`SELECT bytes, entries FROM file_charges WHERE chat = ? AND channel = ? AND account = ? AND sender = ?`,
	}
	recordedOf   = &query{`SELECT COALESCE(SUM(bytes), 0), COALESCE(SUM(entries), 0) FROM file_charges WHERE chat = ?`}
	chatsCharged = &query{`SELECT chat FROM file_charges WHERE channel = ? AND account = ? AND sender = ?
		ORDER BY bytes DESC, entries DESC LIMIT ? + 0`}
	mostCharged = &query{`SELECT channel, account, sender, CASE WHEN sender = '' THEN chat ELSE '' END AS alone,
		  SUM(bytes), SUM(entries), COUNT(*) FROM file_charges WHERE channel <> ''
		  GROUP BY channel, account, sender, alone
		HAVING SUM(bytes) >= ? OR SUM(entries) >= ? ORDER BY SUM(bytes) DESC, SUM(entries) DESC LIMIT ? + 0`}
)

// Sum is what a principal is charged with in all chats; without an id, what the chat is charged with.
func (f *FileCharges) Sum(ctx context.Context, p corebot.Principal, k corebot.Key) (sum corebot.FileSum, err error) {
	q, args := chargedTo, []any{p.Channel, p.Account, p.ID}
	if p.ID == "" {
		q, args = chargedIn, append([]any{k.String()}, args...)
	}
	if _, err = f.db.reader.one(ctx, q, []any{&sum.Bytes, &sum.Entries}, args...); err != nil {
		err = fmt.Errorf("read what the files of %s take: %w", p, err)
	}
	return sum, err
}

// Recorded is what the folder of a chat held when it was last looked at, whoever is charged with it.
func (f *FileCharges) Recorded(ctx context.Context, k corebot.Key) (sum corebot.FileSum, err error) {
	if _, err = f.db.reader.one(ctx, recordedOf, []any{&sum.Bytes, &sum.Entries}, k.String()); err != nil {
		err = fmt.Errorf("read what the files of %s take: %w", k, err)
	}
	return sum, err
}

// Chats are those in which a principal is charged with files, where he is charged with most first, at most limit.
func (f *FileCharges) Chats(ctx context.Context, p corebot.Principal, limit int) (chats []corebot.Key, err error) {
	err = f.db.reader.each(ctx, chatsCharged, func(s scanner) error {
		var spelled string
		if err := s.Scan(&spelled); err != nil {
			return err
		}
		k, err := corebot.ParseKey(spelled)
		chats = append(chats, k)
		return err
	}, p.Channel, p.Account, p.ID, limit)
	if err != nil {
		err = fmt.Errorf("read where %s has files: %w", p, err)
	}
	return chats, err
}

// Most are those who are charged with at least so many bytes or so many entries; zero of either counts for nobody.
func (f *FileCharges) Most(ctx context.Context, least corebot.FileSum, limit int) ([]corebot.FileCharge, error) {
	var all []corebot.FileCharge
	const never = int64(1) << 62
	err := f.db.reader.each(ctx, mostCharged, func(s scanner) error {
		var c corebot.FileCharge
		p := &c.Principal
		err := s.Scan(&p.Channel, &p.Account, &p.ID, &c.Chat, &c.Bytes, &c.Entries, &c.Chats)
		all = append(all, c)
		return err
	}, cmp.Or(least.Bytes, never), cmp.Or(least.Entries, never), limit)
	if err != nil {
		err = fmt.Errorf("read whose files take most: %w", err)
	}
	return all, err
}

// Charge notes how much the folder of a chat held before a call of a principal, and how much after it. Files from
// before, which nobody was charged with, stay nobody's. Without a principal Charge notes only the sizes.
func (f *FileCharges) Charge(
	ctx context.Context, k corebot.Key, p corebot.Principal, before, after corebot.FileSum,
) error {
	return f.db.write(ctx, "file_charge", func(t *tx) error {
		chat := k.String()
		all, err := chargesTx(t, chat)
		if err != nil {
			return err
		}
		was := slices.Clone(all)
		all = settleCharges(all, corebot.Principal{}, before)
		all = settleCharges(all, p, after)
		for _, c := range all {
			if slices.Contains(was, c) {
				continue
			}
			q, args := putCharge, []any{chat, c.who.Channel, c.who.Account, c.who.ID, c.Bytes, c.Entries}
			if c.FileSum == (corebot.FileSum{}) {
				q, args = dropCharge, args[:4]
			}
			if _, err := t.exec(q, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// charge is one row of a chat.
type charge struct {
	who corebot.Principal
	corebot.FileSum
}

func chargesTx(t *tx, chat string) (all []charge, err error) {
	err = t.each(chargesOfChat, func(s scanner) error {
		var c charge
		err := s.Scan(&c.who.Channel, &c.who.Account, &c.who.ID, &c.Bytes, &c.Entries)
		all = append(all, c)
		return err
	}, chat)
	return all, err
}

// settleCharges has the charges of a folder add up to what it holds: who pays what it holds more, and is the first to
// pay less.
func settleCharges(all []charge, who corebot.Principal, holds corebot.FileSum) []charge {
	var sum corebot.FileSum
	for _, c := range all {
		sum = corebot.FileSum{Bytes: sum.Bytes + c.Bytes, Entries: sum.Entries + c.Entries}
	}
	more := holds.Minus(sum)
	if more == (corebot.FileSum{}) {
		return all
	}
	at := slices.IndexFunc(all, func(c charge) bool { return c.who == who })
	if at < 0 {
		at, all = len(all), append(all, charge{who: who})
	}
	for _, amount := range []struct {
		more int64
		of   func(*charge) *int64
	}{
		{more.Bytes, func(c *charge) *int64 { return &c.Bytes }},
		{more.Entries, func(c *charge) *int64 { return &c.Entries }},
	} {
		settleAmount(all, at, amount.more, amount.of)
	}
	return all
}

// settleAmount adds to the charge at a place, or takes away: from that one first, if it is somebody's, and then from
// the largest.
func settleAmount(all []charge, at int, more int64, of func(*charge) *int64) {
	if more > 0 || all[at].who != (corebot.Principal{}) {
		n := max(more, -*of(&all[at]))
		*of(&all[at]) += n
		more -= n
	}
	for more < 0 {
		most := of(&all[0])
		for i := range all {
			if n := of(&all[i]); *n > *most {
				most = n
			}
		}
		less := min(-more, *most)
		if less == 0 { // then a row says less than nothing
			return
		}
		*most -= less
		more += less
	}
}

// Attached are the references of messages to files. The bytes are elsewhere: see package filestore.
type Attached struct{ db *DB }

// NewAttached are the references of a database.
func NewAttached(db *DB) *Attached { return &Attached{db} }

const (
	maxFilesOfMessage = 64 // no channel takes more files with one
	attachedColumns   = `message_id, hash, name, media_type, size, fault, at`
	attachedChat      = `chat = ?1 AND channel = ?2 AND account = ?3 AND agent = ?4 AND thread = ?5`
)

var (
	referTo = &query{`INSERT INTO attached_files (chat, channel, account, agent, thread, message_id, hash, name,
		media_type, size, fault, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (chat, channel, account, agent, thread, hash, message_id, name)
		DO UPDATE SET fault = excluded.fault, at = excluded.at`}
	chatHasFile = &query{`SELECT 1 FROM attached_files WHERE ` + attachedChat + ` AND hash = ?6 AND fault = '' LIMIT 1`}
	chatsFiles  = &query{`SELECT COALESCE(SUM(size), 0) FROM (SELECT DISTINCT hash, size FROM attached_files
		WHERE ` + attachedChat + ` AND fault = '')`}
	fileOfChat = &query{`SELECT ` + attachedColumns + ` FROM attached_files WHERE ` + attachedChat + ` AND hash = ?6
		ORDER BY fault, id DESC LIMIT 1`}
	fileAnywhere = &query{`SELECT 1 FROM attached_files WHERE hash = ? AND fault = '' LIMIT 1`}
	filesOfAll   = &query{`SELECT DISTINCT hash, size FROM attached_files WHERE hash > ? AND fault = ''
		ORDER BY hash LIMIT ? + 0`}
	filesOfChat = &query{`SELECT DISTINCT hash FROM attached_files WHERE ` + attachedChat + ` AND hash > ?6
		ORDER BY hash LIMIT ?7 + 0`}
	forgetFiles = &query{`DELETE FROM attached_files WHERE id IN (SELECT id FROM attached_files WHERE ` + attachedChat +
		` LIMIT ?6 + 0)`}
	filesOfMessage = &query{`SELECT COUNT(*) FROM attached_files WHERE ` + attachedChat + ` AND message_id = ?6
		AND NOT (hash = ?7 AND name = ?8)`}
	hadMessage = &query{`SELECT 1 FROM message_life m JOIN lanes l ON l.id = m.lane_id WHERE m.message_id = ?1
		AND l.direction = 1 AND l.agent = ?2 AND l.channel = ?3 AND l.account = ?4 AND l.chat = ?5 AND l.thread = ?6`}
)

func chatArgs(k corebot.Key, more ...any) []any {
	return append([]any{k.Chat, k.Channel, k.Account, k.Agent, k.Thread}, more...)
}

// Refer stores a reference. A chat whose files would have more bytes than chatBytes gets a reference with a fault: the
// content is not kept for it. A file that the chat has already takes no more room. The same reference again replaces
// the first.
func (a *Attached) Refer(ctx context.Context, f corebot.AttachedFile, chatBytes int64) (corebot.AttachedFile, error) {
	err := a.db.write(ctx, "file.refer", func(t *tx) error {
		f.At = t.now
		others := int64(0) // of a message that is refused later, such as a conflict: it cannot leave more and more
		if _, err := t.one(filesOfMessage, []any{&others},
			chatArgs(f.Key, f.MessageID, f.Hash, f.Name)...); err != nil || others >= maxFilesOfMessage {
			f.Fault = "the message has too many files"
			return err
		}
		fault, err := faultTx(t, f, chatBytes)
		if err != nil {
			return err
		}
		_, err = t.exec(referTo, chatArgs(f.Key, f.MessageID, f.Hash, f.Name, f.MediaType, f.Size, fault, t.now)...)
		f.Fault = fault
		return err
	})
	return f, err
}

// faultTx says why a content is not kept for a chat; empty: it is.
func faultTx(t *tx, f corebot.AttachedFile, chatBytes int64) (string, error) {
	has, err := t.one(chatHasFile, []any{new(int)}, chatArgs(f.Key, f.Hash)...)
	if err != nil || has {
		return "", err
	}
	var sum int64
	if _, err := t.one(chatsFiles, []any{&sum}, chatArgs(f.Key)...); err != nil || f.Fault != "" {
		return f.Fault, err
	}
	if sum+f.Size > chatBytes {
		return fmt.Sprintf("the files of this chat take %d of %d bytes, and this one has %d", sum, chatBytes,
			f.Size), nil
	}
	return "", nil
}

// File is the newest reference of a chat to a content, one without a fault first. A content that the chat never had is
// [corebot.ErrNotFound], whatever other chats have.
func (a *Attached) File(ctx context.Context, k corebot.Key, hash string) (corebot.AttachedFile, error) {
	f := corebot.AttachedFile{Key: k}
	found, err := a.db.reader.one(ctx, fileOfChat, []any{
		&f.MessageID, &f.Hash, &f.Name, &f.MediaType, &f.Size, &f.Fault, moment{&f.At},
	}, chatArgs(k, hash)...)
	if err == nil && !found {
		err = fmt.Errorf("the file %.16s in %s: %w", hash, k, corebot.ErrNotFound)
	}
	return f, err
}

// Referred says whether any message refers to a content that is kept.
func (a *Attached) Referred(ctx context.Context, hash string) (bool, error) {
	return a.db.reader.one(ctx, fileAnywhere, []any{new(int)}, hash)
}

// Contents are hashes with sizes of contents that are kept, in order, behind a hash.
func (a *Attached) Contents(ctx context.Context, after string, limit int) (all []corebot.AttachedFile, err error) {
	err = a.db.reader.each(ctx, filesOfAll, func(s scanner) error {
		var f corebot.AttachedFile
		err := s.Scan(&f.Hash, &f.Size)
		all = append(all, f)
		return err
	}, after, limit)
	return all, err
}

// Had says whether a conversation has had an inbound message with an id.
func (a *Attached) Had(ctx context.Context, k corebot.Key, id string) (bool, error) {
	return a.db.reader.one(ctx, hadMessage, []any{new(int)}, id, k.Agent, k.Channel, k.Account, k.Chat, k.Thread)
}

// OfChat are the hashes of contents that a chat refers to, in order, behind a hash.
func (a *Attached) OfChat(ctx context.Context, k corebot.Key, after string, limit int) (all []string, err error) {
	err = a.db.reader.each(ctx, filesOfChat, func(s scanner) error {
		var hash string
		err := s.Scan(&hash)
		all = append(all, hash)
		return err
	}, chatArgs(k, after, limit)...)
	return all, err
}

// fileOver is true for an old reference f whose message has neither a life nor an entry of the history.
const fileOver = `f.at < ?1 AND NOT EXISTS (SELECT 1 FROM message_life m WHERE m.message_id = f.message_id)
	AND NOT EXISTS (SELECT 1 FROM chats c JOIN history h ON h.chat_id = c.id WHERE c.agent = f.agent
	  AND c.channel = f.channel AND c.account = f.account AND c.chat = f.chat AND c.thread = f.thread
	  AND h.message_id = f.message_id)`

var (
	newestFile = &query{`SELECT COALESCE(MAX(id), 0) FROM attached_files`}
	filePage   = &query{`SELECT f.id, f.at < ?1 AND NOT EXISTS (SELECT 1 FROM message_life m
		WHERE m.message_id = f.message_id) FROM attached_files f WHERE f.id > ?2 ORDER BY f.id LIMIT ?3 + 0`}
	dropFile = &query{`DELETE FROM attached_files AS f WHERE f.id = ?2 AND ` + fileOver}
)

// fileGrace is how long a reference without a message stays: its message may be about to be published.
const fileGrace = time.Hour

// sweepAttached deletes references of messages that nothing has any more. The history of a chat is looked through only
// for messages without a life.
func (r *Retention) sweepAttached(ctx context.Context, _ time.Time) error {
	before := r.db.clock.now().Add(-fileGrace)
	return r.attached.pass(ctx, r, newestFile, func(after int64) (rows int, last int64, err error) {
		var over []int64
		err = r.db.reader.each(ctx, filePage, func(s scanner) error {
			var this bool
			err := s.Scan(&last, &this)
			if rows++; this {
				over = append(over, last)
			}
			return err
		}, before, after, sweepRows)
		for len(over) > 0 && err == nil {
			batch := over[:min(len(over), filesAtOnce)]
			over = over[len(batch):]
			err = r.drop(ctx, "attached_files", func(t *tx) (gone int64, err error) {
				for _, id := range batch {
					n, err := t.exec(dropFile, before, id)
					if err != nil {
						return gone, err
					}
					gone += n
				}
				return gone, nil
			})
		}
		return rows, last, err
	})
}

// filesAtOnce is how many references one operation of the writer looks at.
const filesAtOnce = 20
