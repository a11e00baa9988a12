// Package sealed reads and writes what is said in encrypted rooms of Matrix. Only a program that was built with the
// tags matrixcrypto and goolm has it; in any other, [New] gives nothing. The cryptography is that of mautrix and its
// Olm in Go.
//
// It promises:
//
//   - Keys are on the disk before the position of a sync moves: [Keeper.Take] returns after their commit. One commit
//     takes in a message with a key and the key. So a crash loses no key.
//   - A state of encryption is on the disk before anything that it encrypted leaves the machine. After a failure of the
//     disk nothing leaves, until the file was read anew.
//   - A message is somebody's only if it came from a device that its sender has published. Otherwise the homeserver
//     could put words into his mouth.
//   - A room that was encrypted once stays so, whatever the homeserver says later.
//   - Each file has a key of its own, and its content counts only if its hash is the one of the event.
//   - The session of a room is made anew when somebody comes, goes or changes his devices, and after each start.
//   - A message whose key is missing waits on the disk, for a day at most. Later messages of its sender in that room
//     wait behind it for ten seconds at most, so that they stay in order. Nobody else's do.
//
// Limits: devices are not verified. There is no backup of keys, and keys are shared with no other device. The file is
// not encrypted. A device whose session with this one is broken stays so.
package sealed

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/rs/zerolog"
)

// Config is what a keeper is made of.
type Config struct {
	Path       string // of the file that has the keys
	Homeserver string
	Token      string
	Log        zerolog.Logger
}

// Self is the account and the device that the token stands for.
type Self struct{ User, Device string }

// Keys is what an answer to a sync says of keys.
type Keys struct {
	ToDevice struct {
		Events []json.RawMessage `json:"events"`
	} `json:"to_device"`
	Devices struct {
		Changed []string `json:"changed"`
		Left    []string `json:"left"`
	} `json:"device_lists"`
	// Counts says how many keys the homeserver still has for others to begin with; nil: it does not say.
	Counts map[string]int `json:"device_one_time_keys_count"`
}

// Event is an encrypted event.
type Event struct {
	Room, ID, Sender string
	Name             string // of the sender, for people
	Sent             int64
	Content          json.RawMessage
}

// Opened is what an encrypted event says.
type Opened struct {
	Type    string
	Content json.RawMessage
}

// Waiting is an event that waits for its key.
type Waiting struct {
	Event
	Since time.Time
	Told  bool // the room knows
}

// Soon is how long what waits is left alone while it may be read any moment.
const Soon = 5 * time.Second

var (
	// ErrNoKey says that an event cannot be read yet: its key is missing, or that of its sender's device.
	ErrNoKey = errors.New("the key of an encrypted message is missing")
	// ErrUnreadable says that an event can never be read.
	ErrUnreadable = errors.New("an encrypted message cannot be read")
	// ErrUnsuited says that nothing can be encrypted for a room.
	ErrUnsuited = errors.New("the room is encrypted in a way that this program does not know")
	// ErrOtherDevice says that the homeserver has other keys for the device than the file.
	ErrOtherDevice = errors.New("the homeserver has other keys for this device than the file of keys")
)
