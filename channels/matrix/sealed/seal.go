//go:build matrixcrypto

package sealed

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// Seal encrypts the content of an event for the people of a room. Each result is another, also of the same content.
func (k *Keeper) Seal(ctx context.Context, room string, people []string, kind string, content any) (
	json.RawMessage, error,
) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.ready(); err != nil {
		return nil, err
	}
	of := id.RoomID(room)
	rule, err := k.rule(ctx, of)
	if err != nil {
		return nil, err
	}
	if rule == nil || rule.Algorithm != id.AlgorithmMegolmV1 {
		return nil, ErrUnsuited
	}
	people = slices.Sorted(slices.Values(people))
	if made, is := k.shared[of]; !is || !slices.Equal(made, people) {
		if err := k.end(ctx, of); err != nil {
			return nil, err
		}
	}
	whole := context.WithoutCancel(ctx) // its requests are bounded by themselves
	sealed, err := k.mach.EncryptMegolmEvent(whole, of, event.NewEventType(kind), content)
	if crypto.IsShareError(err) {
		if err = k.share(whole, of, people); err == nil {
			sealed, err = k.mach.EncryptMegolmEvent(whole, of, event.NewEventType(kind), content)
		}
	}
	if broken := k.store.err(); broken != nil {
		return nil, broken
	}
	if err != nil {
		return nil, fmt.Errorf("encrypt for the room: %w", err)
	}
	return json.Marshal(sealed)
}

// share makes a session for a room and gives its key to each device of its people that they have published. Devices are
// not verified: whoever wants to be sure that nobody has added one looks at them with a program of his own.
func (k *Keeper) share(ctx context.Context, room id.RoomID, people []string) error {
	users := make([]id.UserID, len(people))
	for i, p := range people {
		users[i] = id.UserID(p)
	}
	if _, err := k.mach.FetchKeys(ctx, users, true); err != nil {
		return err
	}
	if err := k.mach.ShareGroupSession(ctx, room, users); err != nil {
		return err
	}
	k.shared[room] = people
	return nil
}

// end makes the next message of a room begin a new session.
func (k *Keeper) end(ctx context.Context, room id.RoomID) error {
	delete(k.shared, room)
	return k.store.RemoveOutboundGroupSession(ctx, room)
}

// renew ends the sessions of all rooms in which somebody is.
func (k *Keeper) renew(ctx context.Context, user id.UserID) error {
	for room, people := range k.shared {
		if slices.Contains(people, string(user)) {
			if err := k.end(ctx, room); err != nil {
				return err
			}
		}
	}
	return nil
}

// guard lets no request out once the file has failed, and bounds answers.
type guard struct {
	store *store
	next  http.RoundTripper
}

const maxAnswer = 16 << 20

// RoundTrip implements [http.RoundTripper].
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.store.err(); err != nil {
		return nil, err
	}
	answer, err := g.next.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	}
	return answer, err
}

// rooms tells the library of rooms.
type rooms struct{ k *Keeper }

// IsEncrypted implements [crypto.StateStore].
func (r *rooms) IsEncrypted(ctx context.Context, room id.RoomID) (bool, error) {
	rule, err := r.k.rule(ctx, room)
	return rule != nil, err
}

// GetEncryptionEvent implements [crypto.StateStore].
func (r *rooms) GetEncryptionEvent(ctx context.Context, room id.RoomID) (*event.EncryptionEventContent, error) {
	return r.k.rule(ctx, room)
}

// FindSharedRooms implements [crypto.StateStore].
func (r *rooms) FindSharedRooms(_ context.Context, user id.UserID) (shared []id.RoomID, err error) {
	for room, people := range r.k.shared {
		if slices.Contains(people, string(user)) {
			shared = append(shared, room)
		}
	}
	return shared, nil
}
