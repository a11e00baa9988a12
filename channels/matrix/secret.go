package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/channels"
	"github.com/corebot/corebot/channels/matrix/sealed"
)

const (
	typeEncryption = "m.room.encryption"

	tellKeyless = "I have got a message here that I cannot read yet: its key has not reached me. If the key comes " +
		"within a day, I answer. If not, write it again."
	tellUnreadable = "I have got an encrypted message here that I cannot read. Write it again. If that does not " +
		"help, log in anew with your program for Matrix."
	tellPlain = "This room is encrypted, so I do not read messages here that are not: the homeserver could have " +
		"written them."

	keylessTell = 30 * time.Second // until the room is told of a message without a key; most keys come sooner
	keylessMost = 24 * time.Hour   // how long such a message waits
	mostReaders = 1000             // in an encrypted room in which Corebot writes
)

// keeperOf is what has the keys of an account; nil: encrypted rooms cannot be read.
func keeperOf(s Settings, site channels.Site) *sealed.Keeper {
	if !sealed.Built || site.Dir == "" {
		return nil
	}
	return sealed.New(sealed.Config{
		Path:       filepath.Join(site.Dir, "matrix."+site.Name+".keys"),
		Homeserver: strings.TrimRight(s.Homeserver, "/"), Token: s.Token, Log: site.Log,
	})
}

// about says what an account is, to whoever sets one up or looks for what is wrong.
func about() string {
	if sealed.Built {
		return "an account of Matrix, also in encrypted rooms"
	}
	return "an account of Matrix, in rooms without encryption"
}

// Note implements [channels.Noting]: what becomes of encrypted rooms.
func (c *Channel) Note() string {
	if sealed.Built {
		return "reads encrypted rooms"
	}
	return "encrypted rooms cannot be read: the program was built without the tag matrixcrypto"
}

// openKeys opens the keys of the account, if this program can use them.
func (c *Channel) openKeys(ctx context.Context, me self) error {
	if c.keeper == nil {
		return nil
	}
	if me.device == "" {
		return corebot.WithHint(errors.New("the homeserver does not say which device the access token is of"),
			"log in as docs/channels.md says, and use the token of that login")
	}
	err := c.keeper.Begin(ctx, sealed.Self{User: me.id, Device: me.device})
	if errors.Is(err, sealed.ErrOtherDevice) {
		return corebot.WithHint(err, "log the account in anew without a device_id, and use the new token: its device "+
			"begins with new keys")
	}
	return hidden(c, err)
}

// hidden is an error of the keeper without the token. Nothing was shown.
func hidden(c *Channel, err error) error {
	if err == nil {
		return nil
	}
	return &corebot.Failure{
		Class: corebot.Cancelled, RetryAfter: channels.Unsent, Err: c.client.wire.Hidden(err),
	}
}

// keys is what an answer says of keys. A program that cannot use them does not look at them.
type keys struct {
	ToDevice json.RawMessage `json:"to_device"`
	Devices  json.RawMessage `json:"device_lists"`
	Counts   json.RawMessage `json:"device_one_time_keys_count"`
}

// takeKeys stores the keys of an answer, before its messages are read.
func (c *Channel) takeKeys(ctx context.Context, a answer) error {
	if c.keeper == nil {
		return nil
	}
	var k sealed.Keys
	for _, part := range []struct {
		raw  json.RawMessage
		into any
	}{{a.ToDevice, &k.ToDevice}, {a.Devices, &k.Devices}, {a.Counts, &k.Counts}} {
		if len(part.raw) == 0 {
			continue
		}
		if err := lenient(part.raw, part.into); err != nil {
			return c.client.wire.Strange("sync", http.StatusOK, err)
		}
	}
	return hidden(c, c.keeper.Take(ctx, k))
}

// unseal reads an event of a room. In a room without encryption it is as it came. The room is told the text tell
// instead. means says that there is something to read or to tell.
func (c *Channel) unseal(ctx context.Context, room string, e event, name string) (clear event, tell string, means bool,
	err error,
) {
	if c.keeper == nil {
		return e, "", true, nil
	}
	switch {
	case e.Type == typeEncryption && e.StateKey != nil && *e.StateKey == "":
		return e, "", false, hidden(c, c.keeper.Learn(ctx, room, e.Content))
	case e.StateKey != nil:
		return e, "", true, nil
	case e.Type == typeRedaction:
		for _, of := range []string{e.Redacts, contentOf(e.Content).Redacts} {
			if isEvent(of) {
				err = errors.Join(err, c.keeper.Drop(ctx, room, of))
			}
		}
		return e, "", true, hidden(c, err)
	case e.Type == typeMessage || e.Type == typeSticker:
		secret, err := c.keeper.Encrypted(ctx, room)
		if err != nil || !secret {
			return e, "", true, hidden(c, err)
		}
		return e, tellPlain, true, nil
	case e.Type != typeEncrypted:
		return e, "", true, nil
	}
	as := sealedOf(room, e, name)
	if held, err := c.keeper.Held(ctx, as); err != nil || held {
		if err == nil {
			err = c.keeper.Wait(ctx, as)
		}
		return e, "", false, hidden(c, err)
	}
	opened, err := c.keeper.Open(ctx, as)
	switch {
	case errors.Is(err, sealed.ErrNoKey):
		return e, "", false, hidden(c, c.keeper.Wait(ctx, as))
	case errors.Is(err, sealed.ErrUnreadable):
		c.site.Log.Warn().Err(err).Str("room", room).Str("event", e.ID).Msg("an encrypted message cannot be read")
		return e, tellUnreadable, true, nil
	case err != nil:
		return e, "", false, hidden(c, err)
	case opened.Type != typeMessage && opened.Type != typeSticker: // others are for the homeserver to check
		return e, "", false, nil
	}
	e.Type, e.Content = opened.Type, related(opened.Content, e.Content)
	return e, "", true, nil
}

// related is a decrypted content with the relation that stands beside its ciphertext. Programs can leave it out inside.
func related(clear, sealed json.RawMessage) json.RawMessage {
	var in, out map[string]json.RawMessage
	if json.Unmarshal(clear, &in) != nil || json.Unmarshal(sealed, &out) != nil || in == nil ||
		in["m.relates_to"] != nil || out["m.relates_to"] == nil {
		return clear
	}
	in["m.relates_to"] = out["m.relates_to"]
	both, err := json.Marshal(in)
	if err != nil {
		return clear
	}
	return both
}

func sealedOf(room string, e event, name string) sealed.Event {
	return sealed.Event{
		Room: room, ID: e.ID, Sender: e.Sender, Name: name, Sent: int64(e.Sent), Content: e.Content,
	}
}

// late gives the door the messages whose keys have come since, tells rooms of those that wait for long, and gives up
// those that have waited too long. The position of the sync does not move.
func (c *Channel) late(ctx context.Context, door channels.Door, me self, at place) (place, error) {
	if c.keeper == nil {
		return at, nil
	}
	due, err := c.keeper.Due(ctx)
	if err != nil {
		return at, hidden(c, err)
	}
	for _, w := range due {
		if held, err := c.keeper.Held(ctx, w.Event); err != nil {
			return at, hidden(c, err)
		} else if held {
			continue
		}
		e := event{ID: w.ID, Type: typeEncrypted, Sender: w.Sender, Sent: float64(w.Sent), Content: w.Content}
		_, err := c.keeper.Open(ctx, w.Event)
		waits, waited := errors.Is(err, sealed.ErrNoKey), time.Since(w.Since)
		switch {
		case waits && waited > keylessMost:
			c.site.Log.Warn().Str("room", w.Room).Str("event", w.ID).Msg(
				"the key of an encrypted message has not come within a day: it is not answered",
			)
			err = nil
		case waits && (w.Told || waited < keylessTell):
			continue
		case waits:
			at, err = c.tellLate(ctx, door, at, w)
			if err == nil {
				err = hidden(c, c.keeper.Told(ctx, w.Event))
			}
			if err != nil {
				return at, err
			}
			continue
		case err != nil && !errors.Is(err, sealed.ErrUnreadable):
			return at, hidden(c, err)
		default:
			var all []said
			all, err = c.read(ctx, me, w.Room, []event{e}, map[string]string{w.Sender: w.Name})
			if err == nil {
				at.cursor, err = c.give(ctx, door, at.cursor, all, at.cursor.Position)
			}
		}
		if err != nil {
			return at, err
		}
		if err := c.keeper.Drop(ctx, w.Room, w.ID); err != nil {
			return at, hidden(c, err)
		}
	}
	return at, nil
}

// tellLate tells a room that a message there has no key yet.
func (c *Channel) tellLate(ctx context.Context, door channels.Door, at place, w sealed.Waiting) (place, error) {
	in := channels.Incoming{
		ID: w.ID, Chat: w.Room, SenderID: w.Sender, SenderName: shortName(w.Name), Tell: tellKeyless,
	}
	var err error
	if in.Envelope.Group, err = c.isGroup(ctx, w.Room); err != nil {
		return at, err
	}
	at.cursor, err = c.give(ctx, door, at.cursor, []said{{in, w.ID}}, at.cursor.Position)
	return at, err
}

// isSecret says whether a room is encrypted. A room that was so once stays so, whatever the homeserver says.
func (c *Channel) isSecret(ctx context.Context, room string) (bool, error) {
	if c.keeper == nil {
		return false, nil
	}
	me, err := c.me(ctx)
	if err != nil {
		return false, err
	}
	if err := c.openKeys(ctx, me); err != nil {
		return false, err
	}
	if is, err := c.keeper.Encrypted(ctx, room); err != nil || is {
		return is, hidden(c, err)
	}
	rule, err := call[json.RawMessage](ctx, &c.client, channels.Get("rooms", room, "state", typeEncryption, ""))
	switch {
	case refused(err, "M_NOT_FOUND"):
		return false, nil
	case err != nil:
		return false, channels.NotShown(err)
	}
	return true, hidden(c, c.keeper.Learn(ctx, room, rule))
}

// sendEvent gives an event to the homeserver, encrypted where the room is.
func (c *Channel) sendEvent(ctx context.Context, room, key string, content map[string]any) (id string, err error) {
	kind, body := typeMessage, any(content)
	secret, err := c.isSecret(ctx, room)
	if err != nil {
		return "", err
	}
	if secret {
		kind = typeEncrypted
		if body, err = c.seal(ctx, room, key, content); err != nil {
			return "", err
		}
	}
	sent, err := call[struct {
		ID string `json:"event_id"`
	}](ctx, &c.client, channels.Put(body, "rooms", room, "send", kind, key))
	return sent.ID, channels.Unsure(err)
}

// sealFile has a file for an encrypted room be uploaded encrypted, with a key of its own each time. In another room it
// is as it was, and key is nil.
func (c *Channel) sealFile(ctx context.Context, room string, u upload) (as upload, key *sealed.FileKey, err error) {
	secret, err := c.isSecret(ctx, room)
	if err != nil || !secret {
		return u, nil, err
	}
	if key, err = sealed.SealFile(u.open()); err != nil {
		return u, nil, hidden(c, fmt.Errorf("encrypt a file: %w", err))
	}
	return upload{size: u.size, open: func() io.Reader { return key.Seal(u.open()) }}, key, nil
}

// secretFile is the file that an encrypted message names. The homeserver could exchange a file that is not encrypted.
func (c *Channel) secretFile(said json.RawMessage) channels.Attached {
	var at struct {
		URL string `json:"url"`
	}
	if len(said) == 0 {
		return channels.Attached{Missing: "it is not kept: it is not encrypted, and its message is"}
	}
	_ = lenient(said, &at) // then it has no address
	server, id, is := mediaOf(at.URL)
	key, err := sealed.FileKeyOf(said)
	if err != nil || !is {
		c.site.Log.Warn().Err(err).Msg("a file of an encrypted room cannot be read")
		return channels.Attached{Missing: "it is not kept: it is encrypted in a way that Corebot does not know"}
	}
	return channels.Attached{Fetch: func(ctx context.Context) (io.ReadCloser, error) {
		content, err := c.client.open(ctx, server, id)
		if err != nil {
			return nil, err
		}
		return key.Open(content, channels.ErrForged), nil
	}}
}

// seal encrypts an event. The mark by which Corebot finds it again stands outside: it is the id of the transaction,
// which the homeserver has anyway. A retry is encrypted anew, in the same transaction.
func (c *Channel) seal(ctx context.Context, room, key string, content map[string]any) (any, error) {
	found, err := call[struct {
		Joined map[string]struct{} `json:"joined"`
	}](ctx, &c.client, channels.Get("rooms", room, "joined_members"))
	switch {
	case err != nil && !errors.Is(err, errLong):
		return nil, channels.NotShown(err)
	case err != nil || len(found.Joined) > mostReaders:
		return nil, &corebot.Failure{Class: corebot.Permanent, Err: fmt.Errorf(
			"the room is encrypted and has more than %d people", mostReaders)}
	}
	text, err := c.keeper.Seal(ctx, room, slices.Collect(maps.Keys(found.Joined)), typeMessage, content)
	if errors.Is(err, sealed.ErrUnsuited) {
		return nil, &corebot.Failure{Class: corebot.Permanent, Err: err}
	}
	var body map[string]any
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		return nil, hidden(c, err)
	}
	body[markKey] = key
	if relates, is := content["m.relates_to"]; is { // a homeserver and programs look for it outside
		body["m.relates_to"] = relates
	}
	return body, nil
}
