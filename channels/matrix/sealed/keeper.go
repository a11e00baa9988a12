//go:build matrixcrypto

package sealed

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.mau.fi/util/dbutil"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/crypto/olm"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
	_ "modernc.org/sqlite" // the driver of the file
)

// Built says whether this program can read encrypted rooms.
const Built = true

// Keeper has the keys of one account. Its methods can be called at the same time; they take turns.
type Keeper struct {
	config Config
	log    zerolog.Logger

	mu     sync.Mutex
	self   Self
	db     *dbutil.Database // nil: the file is not open
	store  *store
	mach   *crypto.OlmMachine
	shared map[id.RoomID][]string // whom the session of a room was made for, by this process
	fresh  bool                   // what waits is to be tried again
	tried  time.Time
	young  time.Time // when something last began to wait
	swept  time.Time
}

// New makes the keeper of an account. It opens nothing.
func New(c Config) *Keeper {
	return &Keeper{config: c, log: c.Log.With().Str("library", "mautrix").Logger().Level(zerolog.WarnLevel)}
}

// pickle encrypts fields of the file for the library's sake. It is no secret: the mode of the file guards it.
const pickle = "corebot"

// Begin opens the file and sees to it that the homeserver has the keys of the device. Another device begins with keys
// of its own.
func (k *Keeper) Begin(ctx context.Context, self Self) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.db != nil && k.self == self && k.store.err() == nil {
		return nil
	}
	k.close()
	k.self = self
	if err := k.open(ctx); err != nil {
		k.close()
		return fmt.Errorf("open the keys of encrypted rooms (%s): %w", k.config.Path, err)
	}
	if err := k.publish(ctx); err != nil {
		k.close()
		return fmt.Errorf("publish the keys of this device: %w", err)
	}
	return nil
}

// Close closes the file.
func (k *Keeper) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.close()
	return nil
}

func (k *Keeper) close() {
	if k.mach != nil {
		k.mach.Destroy()
	}
	if k.db != nil {
		_ = k.db.Close() // every change was committed
	}
	k.db, k.mach, k.store, k.shared = nil, nil, nil, nil
}

func (k *Keeper) open(ctx context.Context) error {
	f, err := os.OpenFile(k.config.Path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	name := (&url.URL{Scheme: "file", Opaque: url.PathEscape(k.config.Path)}).String()
	raw, err := sql.Open("sqlite", name+"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"+
		"&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_time_format=sqlite")
	if err != nil {
		return err
	}
	raw.SetMaxOpenConns(1) // the keeper's methods take turns
	if k.db, err = dbutil.NewWithDB(raw, "sqlite"); err != nil {
		return errors.Join(err, raw.Close())
	}
	k.db.DeadlockDetection = false
	k.store = &store{
		SQLCryptoStore: crypto.NewSQLCryptoStore(k.db, dbutil.NoopLogger, k.self.User+" "+k.self.Device,
			id.DeviceID(k.self.Device), []byte(pickle)),
	}
	if err := k.store.DB.Upgrade(ctx); err != nil {
		return err
	}
	if _, err := k.db.Exec(ctx, ownTables); err != nil {
		return err
	}
	client, err := mautrix.NewClient(k.config.Homeserver, id.UserID(k.self.User), k.config.Token)
	if err != nil {
		return err
	}
	client.DeviceID, client.Log = id.DeviceID(k.self.Device), k.log
	client.Client = &http.Client{
		Transport:     &guard{store: k.store, next: http.DefaultTransport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       askTime,
	}
	k.shared, k.fresh, k.young = map[id.RoomID][]string{}, true, time.Now()
	k.mach = crypto.NewOlmMachine(client, &k.log, k.store, &rooms{k})
	k.mach.DisableRatchetTracking = true
	k.mach.IgnorePostDecryptionParseErrors = true
	return k.mach.Load(ctx)
}

// publish gives the homeserver the keys of the device, once. Keys of the device that are there and not in the file
// cannot be replaced: people's programs refuse them.
func (k *Keeper) publish(ctx context.Context) error {
	user, device := id.UserID(k.self.User), id.DeviceID(k.self.Device)
	found, err := k.mach.Client.QueryKeys(ctx, &mautrix.ReqQueryKeys{
		DeviceKeys: mautrix.DeviceKeysRequest{user: {device}},
	})
	if err != nil && k.mach.GetAccount().Shared {
		k.log.Warn().Err(err).Msg("the homeserver does not say which keys it has of this device; it had them once")
		return nil
	}
	if err != nil {
		return err
	}
	there, is := found.DeviceKeys[user][device]
	switch {
	case is && there.Keys.GetEd25519(device) != k.mach.OwnIdentity().SigningKey:
		return ErrOtherDevice
	case !is && k.mach.GetAccount().Shared:
		return fmt.Errorf("%w: it has none", ErrOtherDevice)
	case !is:
		return k.mach.ShareKeys(ctx, -1)
	case !k.mach.GetAccount().Shared: // a crash came between the homeserver's answer and the file
		return k.mach.ShareKeys(ctx, 0)
	}
	return nil
}

// Take takes in the keys of an answer to a sync, and returns once they are on the disk.
func (k *Keeper) Take(ctx context.Context, keys Keys) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return err
	}
	for _, user := range append(keys.Devices.Changed, keys.Devices.Left...) {
		if err := k.renew(ctx, id.UserID(user)); err != nil {
			return err
		}
		k.fresh = true
	}
	if len(keys.ToDevice.Events) > 0 {
		whole := context.WithoutCancel(ctx) // half a transaction would leave the machine ahead of its file
		if err := k.db.DoTxn(whole, nil, func(ctx context.Context) error {
			k.fresh = true
			for _, raw := range keys.ToDevice.Events {
				k.hear(ctx, raw)
			}
			return k.store.err()
		}); err != nil {
			k.store.broke(err)
			return fmt.Errorf("take in keys: %w", err)
		}
	}
	if n, says := keys.Counts[string(id.KeyAlgorithmSignedCurve25519)], keys.Counts != nil; says && n < fewKeys {
		if err := k.mach.ShareKeys(ctx, -1); err != nil { // it asks how many there are
			k.log.Warn().Err(err).Msg("the homeserver got no new keys for others to begin with; it is tried again")
		}
	}
	if time.Since(k.swept) > sweepAfter {
		if err := k.store.sweep(ctx); err != nil {
			return err
		}
		k.swept = time.Now()
	}
	return k.store.err()
}

const (
	fewKeys    = 25
	askTime    = 20 * time.Second
	sweepAfter = 24 * time.Hour
)

// ready says why nothing can be done.
func (k *Keeper) ready() error {
	if k.db == nil {
		return errors.New("the keys of encrypted rooms are not open")
	}
	return k.store.err()
}

// hear takes in one message to the device. Requests for keys are left out: keys are shared with nobody who asks.
func (k *Keeper) hear(ctx context.Context, raw json.RawMessage) {
	var e event.Event
	if json.Unmarshal(raw, &e) != nil {
		return
	}
	e.Type.Class = event.ToDeviceEventType
	if e.Type != event.ToDeviceEncrypted && e.Type != event.ToDeviceRoomKeyWithheld {
		return
	}
	if e.Content.ParseRaw(e.Type) != nil {
		return
	}
	k.mach.HandleToDeviceEvent(ctx, &e)
}

// Open reads an encrypted event. Apart from the two errors of events, an error is one of the file.
func (k *Keeper) Open(ctx context.Context, e Event) (Opened, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return Opened{}, err
	}
	found := event.Event{
		ID: id.EventID(e.ID), RoomID: id.RoomID(e.Room), Sender: id.UserID(e.Sender), Timestamp: e.Sent,
		Type: event.EventEncrypted, Content: event.Content{VeryRaw: e.Content},
	}
	if err := found.Content.ParseRaw(found.Type); err != nil {
		return Opened{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	clear, err := k.mach.DecryptMegolmEvent(ctx, &found)
	switch {
	case k.store.err() != nil:
		return Opened{}, k.store.err()
	case ctx.Err() != nil:
		return Opened{}, ctx.Err()
	case errors.Is(err, crypto.ErrNoSessionFound), errors.Is(err, olm.ErrUnknownMessageIndex),
		errors.Is(err, crypto.ErrGroupSessionWithheld):
		return Opened{}, fmt.Errorf("%w: %w", ErrNoKey, err)
	case err != nil:
		return Opened{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	switch clear.Mautrix.TrustState {
	case id.TrustStateUnset, id.TrustStateCrossSignedUntrusted, id.TrustStateCrossSignedTOFU,
		id.TrustStateCrossSignedVerified, id.TrustStateVerified:
	case id.TrustStateUnknownDevice: // perhaps the homeserver could not be asked
		return Opened{}, fmt.Errorf("%w: no device of the sender has sent it, as far as is known", ErrNoKey)
	default:
		return Opened{}, fmt.Errorf("%w: its device is %s", ErrUnreadable, clear.Mautrix.TrustState)
	}
	if clear.Mautrix.ForwardedKeys {
		return Opened{}, fmt.Errorf("%w: its key came from somebody else", ErrUnreadable)
	}
	return Opened{Type: clear.Type.Type, Content: clear.Content.VeryRaw}, nil
}
