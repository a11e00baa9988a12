//go:build !matrixcrypto

package sealed

import (
	"context"
	"encoding/json"
	"io"
)

// Built says whether this program can read encrypted rooms.
const Built = false

// Keeper is nothing in this program: [New] never makes one.
type Keeper struct{}

// New gives nil.
func New(Config) *Keeper { return nil }

func (*Keeper) Begin(context.Context, Self) error               { return nil }
func (*Keeper) Take(context.Context, Keys) error                { return nil }
func (*Keeper) Close() error                                    { return nil }
func (*Keeper) Learn(context.Context, string, []byte) error     { return nil }
func (*Keeper) Encrypted(context.Context, string) (bool, error) { return false, nil }
func (*Keeper) Due(context.Context) ([]Waiting, error)          { return nil, nil }
func (*Keeper) Wait(context.Context, Event) error               { return nil }
func (*Keeper) Held(context.Context, Event) (bool, error)       { return false, nil }
func (*Keeper) Waits() bool                                     { return false }
func (*Keeper) Told(context.Context, Event) error               { return nil }
func (*Keeper) Drop(context.Context, string, string) error      { return nil }

func (*Keeper) Open(context.Context, Event) (o Opened, err error) { return o, ErrNoKey }

func (*Keeper) Seal(context.Context, string, []string, string, any) (json.RawMessage, error) {
	return nil, ErrUnsuited
}

// FileKey is nothing in this program.
type FileKey struct{}

// SealFile makes no key.
func SealFile(io.Reader) (*FileKey, error) { return nil, ErrUnsuited }

// FileKeyOf reads no key.
func FileKeyOf(json.RawMessage) (*FileKey, error) { return nil, ErrUnsuited }

func (*FileKey) Seal(content io.Reader) io.Reader                  { return content }
func (*FileKey) Said(string) any                                   { return nil }
func (*FileKey) Open(content io.ReadCloser, _ error) io.ReadCloser { return content }
