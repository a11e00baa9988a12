//go:build matrixcrypto

package sealed

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// ownTables are beside those of the library: rooms that are encrypted, and events that wait for a key.
const ownTables = `
	CREATE TABLE IF NOT EXISTS corebot_room (room TEXT PRIMARY KEY, rule TEXT NOT NULL);
	CREATE TABLE IF NOT EXISTS corebot_waiting (
		room TEXT NOT NULL, event TEXT NOT NULL, whole TEXT NOT NULL, since INTEGER NOT NULL, told INTEGER NOT NULL,
		PRIMARY KEY (room, event)
	)`

// maxWaiting bounds the events that wait; of too many the oldest goes. A key is kept for keepKeys.
const (
	maxWaiting = 500
	keepKeys   = 90 * 24 * time.Hour
)

// store is the library's store of keys. The library logs some failures of it and goes on; here they are kept, and the
// keeper stops.
type store struct {
	*crypto.SQLCryptoStore
	failed atomic.Pointer[error]
}

func (s *store) broke(err error) error {
	if err != nil {
		err = fmt.Errorf("the file of keys: %w", err)
		s.failed.CompareAndSwap(nil, &err)
	}
	return err
}

func (s *store) err() error {
	if failed := s.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

func (s *store) PutAccount(ctx context.Context, a *crypto.OlmAccount) error {
	return s.broke(s.SQLCryptoStore.PutAccount(ctx, a))
}

func (s *store) AddSession(ctx context.Context, key id.SenderKey, of *crypto.OlmSession) error {
	return s.broke(s.SQLCryptoStore.AddSession(ctx, key, of))
}

func (s *store) UpdateSession(ctx context.Context, key id.SenderKey, of *crypto.OlmSession) error {
	return s.broke(s.SQLCryptoStore.UpdateSession(ctx, key, of))
}

func (s *store) PutOlmHash(ctx context.Context, hash [32]byte, at time.Time) error {
	return s.broke(s.SQLCryptoStore.PutOlmHash(ctx, hash, at))
}

func (s *store) AddOutboundGroupSession(ctx context.Context, of *crypto.OutboundGroupSession) error {
	return s.broke(s.SQLCryptoStore.AddOutboundGroupSession(ctx, of))
}

func (s *store) UpdateOutboundGroupSession(ctx context.Context, of *crypto.OutboundGroupSession) error {
	return s.broke(s.SQLCryptoStore.UpdateOutboundGroupSession(ctx, of))
}

func (s *store) RemoveOutboundGroupSession(ctx context.Context, room id.RoomID) error {
	return s.broke(s.SQLCryptoStore.RemoveOutboundGroupSession(ctx, room))
}

func (s *store) PutDevices(ctx context.Context, user id.UserID, devices map[id.DeviceID]*id.Device) error {
	return s.broke(s.SQLCryptoStore.PutDevices(ctx, user, devices))
}

// GetNewestSessionCreationTS keeps the library from mending a broken session in the middle of a transaction of
// another goroutine: the two would wait for each other.
func (s *store) GetNewestSessionCreationTS(context.Context, id.SenderKey) (time.Time, error) {
	return time.Now(), nil
}

func (s *store) GetGroupSession(ctx context.Context, room id.RoomID, of id.SessionID) (
	*crypto.InboundGroupSession, error,
) {
	found, err := s.SQLCryptoStore.GetGroupSession(ctx, room, of)
	if err != nil && !errors.Is(err, crypto.ErrGroupSessionWithheld) && ctx.Err() == nil {
		return nil, s.broke(err)
	}
	return found, err
}

func (s *store) ValidateMessageIndex(ctx context.Context, key id.SenderKey, of id.SessionID, at id.EventID, index uint,
	sent int64,
) (bool, error) {
	yes, err := s.SQLCryptoStore.ValidateMessageIndex(ctx, key, of, at, index, sent)
	if err != nil && ctx.Err() == nil {
		return false, s.broke(err)
	}
	return yes, err
}

// PutGroupSession keeps a key that is there: whoever is in the room has it too, and could say that it is his own. A key
// that somebody passes on proves nothing.
func (s *store) PutGroupSession(ctx context.Context, of *crypto.InboundGroupSession) error {
	if len(of.ForwardingChains) > 0 {
		return nil
	}
	var is int
	err := s.DB.QueryRow(ctx, `SELECT 1 FROM crypto_megolm_inbound_session
		WHERE account_id=$1 AND session_id=$2 AND session IS NOT NULL`, s.AccountID, of.ID()).Scan(&is)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.SQLCryptoStore.PutGroupSession(ctx, of)
	}
	return s.broke(err)
}

// sweep deletes keys that are old, with what guards against messages that come again: without its key none is read.
func (s *store) sweep(ctx context.Context) error {
	return s.broke(s.DB.DoTxn(ctx, nil, func(ctx context.Context) error {
		_, err := s.DB.Exec(ctx, `DELETE FROM crypto_megolm_inbound_session WHERE received_at < $1`,
			time.Now().Add(-keepKeys).UTC())
		if err == nil {
			_, err = s.DB.Exec(ctx, `DELETE FROM crypto_message_index WHERE session_id NOT IN
				(SELECT session_id FROM crypto_megolm_inbound_session)`)
		}
		if err == nil {
			_, err = s.DB.Exec(ctx, `DELETE FROM crypto_megolm_outbound_session_shared WHERE session_id NOT IN
				(SELECT session_id FROM crypto_megolm_outbound_session)`)
		}
		return err
	}))
}

// Learn notes that a room is encrypted, and how.
func (k *Keeper) Learn(ctx context.Context, room string, rule []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return err
	}
	_, err := k.db.Exec(ctx, `INSERT INTO corebot_room (room, rule) VALUES ($1, $2) ON CONFLICT (room) DO NOTHING`,
		room, string(rule))
	return err
}

// Encrypted says whether a room is known to be encrypted.
func (k *Keeper) Encrypted(ctx context.Context, room string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return false, err
	}
	rule, err := k.rule(ctx, id.RoomID(room))
	return rule != nil, err
}

func (k *Keeper) rule(ctx context.Context, room id.RoomID) (*event.EncryptionEventContent, error) {
	var text string
	err := k.db.QueryRow(ctx, `SELECT rule FROM corebot_room WHERE room=$1`, room).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rule event.EncryptionEventContent
	_ = json.Unmarshal([]byte(text), &rule) // then it has no algorithm, and suits nobody
	return &rule, nil
}

// Wait keeps an event until its key comes.
func (k *Keeper) Wait(ctx context.Context, e Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return err
	}
	whole, err := json.Marshal(e)
	if err != nil {
		return err
	}
	k.young = time.Now()
	return k.db.DoTxn(ctx, nil, func(ctx context.Context) error {
		_, err := k.db.Exec(ctx, `INSERT INTO corebot_waiting (room, event, whole, since, told)
			VALUES ($1, $2, $3, $4, 0) ON CONFLICT (room, event) DO NOTHING`,
			e.Room, e.ID, string(whole), time.Now().UnixMilli())
		if err == nil {
			_, err = k.db.Exec(ctx, `DELETE FROM corebot_waiting WHERE rowid NOT IN
				(SELECT rowid FROM corebot_waiting ORDER BY since DESC, rowid DESC LIMIT $1)`, maxWaiting)
		}
		return err
	})
}

const (
	// tryAgain is how long what waits is left alone while no key has come. An event that began to wait lately is tried
	// [Soon].
	tryAgain = 30 * time.Second
	// holdFor is how long later messages of a sender wait behind one that cannot be read yet. Most keys come sooner. A
	// homeserver that could not say whose a device is mostly can when it is asked again.
	holdFor = 10 * time.Second
)

// Held says whether an earlier event of the same sender and room waits, so that this one has to wait behind it.
func (k *Keeper) Held(ctx context.Context, e Event) (is bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return false, err
	}
	err = k.db.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM corebot_waiting AS w
		WHERE w.room=$1 AND json_extract(w.whole, '$.Sender')=$2 AND w.since > $3 AND w.event <> $4
		AND NOT EXISTS (SELECT 1 FROM corebot_waiting AS own
			WHERE own.room=$1 AND own.event=$4 AND own.rowid < w.rowid))`,
		e.Room, e.Sender, time.Now().Add(-holdFor).UnixMilli(), e.ID).Scan(&is)
	return is, err
}

// Waits says whether something began to wait lately.
func (k *Keeper) Waits() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.young) < tryAgain
}

// Due lists the events that wait, oldest first, if they are worth another try.
func (k *Keeper) Due(ctx context.Context) (all []Waiting, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return nil, err
	}
	again := tryAgain
	if time.Since(k.young) < tryAgain {
		again = Soon
	}
	if !k.fresh && time.Since(k.tried) < again {
		return nil, nil
	}
	k.fresh, k.tried = false, time.Now()
	rows, err := k.db.Query(ctx, `SELECT whole, since, told FROM corebot_waiting ORDER BY since, rowid`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // only read
	for rows.Next() {
		var w Waiting
		var whole string
		var since int64
		if err := rows.Scan(&whole, &since, &w.Told); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(whole), &w.Event); err != nil {
			return nil, err
		}
		w.Since = time.UnixMilli(since)
		all = append(all, w)
	}
	return all, rows.Err()
}

// Told notes that the room knows of an event that waits.
func (k *Keeper) Told(ctx context.Context, e Event) error {
	return k.change(ctx, `UPDATE corebot_waiting SET told=1 WHERE room=$1 AND event=$2`, e.Room, e.ID)
}

// Drop ends the wait of an event.
func (k *Keeper) Drop(ctx context.Context, room, event string) error {
	return k.change(ctx, `DELETE FROM corebot_waiting WHERE room=$1 AND event=$2`, room, event)
}

func (k *Keeper) change(ctx context.Context, query string, args ...any) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return err
	}
	_, err := k.db.Exec(ctx, query, args...)
	return err
}
